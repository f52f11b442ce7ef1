//! The workflow against the real little world, over HTTP. What parks a run takes an engine, and is tested with the program.

use serde_json::json;

use super::*;
use crate::drive::{Drive, Stop};
use crate::outside::carrier::{ANSWER_LOST, ROAD_CLOSED, ROAD_OPENS_AFTER};
use crate::outside::{World, WorldOptions};

async fn started(town: &str) -> (World, Drive) {
    let world = World::start(WorldOptions::default()).await.unwrap();
    let input = json!({"order": "lamp-4500", "town": town, "grams": 1_200});
    let run = Drive::start(&crate::registry(&world.addresses()).unwrap(), Parcels::NAME, &input);
    (world, run)
}

#[tokio::test]
async fn a_van_is_booked_and_the_customer_is_told() {
    let (world, mut run) = started("Tarnwick").await;
    let Stop::Completed(output) = run.go().await else { panic!("it did not complete") };
    assert_eq!(output, json!({"order": "lamp-4500", "pickup": "pickup-1", "mail": "mail-1"}));
    assert_eq!(run.steps(), ["LookUp", "Book", "Tell"]);
    assert_eq!((world.pickups().len(), world.counts().carrier.requested), (1, 1));
    assert_eq!(world.mails()[0].mail.to, "lamp-4500@example.com");
}

#[tokio::test]
async fn a_closed_road_is_asked_for_again_until_it_is_open() {
    let (world, mut run) = started(ROAD_CLOSED).await;
    for _ in 0..ROAD_OPENS_AFTER {
        let Stop::Retries(why) = run.go().await else { panic!("it went on") };
        assert!(why.contains("the road to Fernpass is closed"), "{why}");
    }
    assert_eq!(world.pickups(), []);
    assert!(matches!(run.go().await, Stop::Completed(_)));
    assert_eq!(world.pickups().len(), 1);
}

#[tokio::test]
async fn a_lost_answer_has_booked_a_van_all_the_same() {
    let (world, _) = started(ANSWER_LOST).await;
    let parcels = Parcels::new(&world.addresses()).unwrap();
    let parcel = Parcel { order: "vase-3000".into(), town: ANSWER_LOST.into(), grams: 1, customer: None, pickup: None };
    assert!(parcels.book(&parcel).await.is_err(), "the answer is cut off");
    assert_eq!(world.pickups()[0].order, "vase-3000");
    assert_eq!(parcels.book(&parcel).await.unwrap().pickup, "pickup-2");
    let counts = world.counts().carrier;
    assert_eq!((counts.requested, counts.booked), (2, 2));
}
