//! A world that a test drives by hand.

use stepwell::prelude::*;
use stepwell_testing::{Rest, World};

use crate::right::{READY, Trade};

#[tokio::test(start_paused = true)]
async fn a_run_is_started_spoken_to_and_looked_at() {
    let world = World::with(Trade::new()).unwrap();
    let begun = world.now();
    let run = world.start::<Trade>("order-7").await.unwrap();
    world.jump(hours(1)).await;
    world.signal(&run, READY, "ann".into()).await.unwrap();
    let Rest::Completed(output) = world.rest(&run).await.unwrap() else { panic!("it has not completed") };
    assert_eq!(output[3], "ann");
    assert!(world.now().since(begun) < hours(2), "{}", world.now());
}

#[tokio::test(start_paused = true)]
async fn days_pass_in_an_instant() {
    let world = World::with(Trade::new()).unwrap();
    let begun = world.now();
    let run = world.start::<Trade>("order-7").await.unwrap();
    let Rest::Completed(output) = world.rest(&run).await.unwrap() else { panic!("it has not completed") };
    assert_eq!(output[3], "nobody");
    let took = world.now().since(begun);
    assert!(took >= days(3) && took < days(3) + hours(1), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_is_refused() {
    let world = World::with(Trade::new()).unwrap();
    assert!(world.start::<Trade>(7).await.is_err());
    let run = world.start::<Trade>("order-7").await.unwrap();
    assert!(world.signal(&run, Signal::<u8>::new("ready"), 7).await.is_err());
}
