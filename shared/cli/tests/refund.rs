//! The sample `refund` on the embedded backend, as a user runs it: the program, its worker, and the shop over HTTP.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a surprise in a test should stop it")]

mod common;

use common::{Service, Stepwell};
use serde_json::{Value, json};
use stepwell_samples::outside::FailStatus;
use stepwell_samples::outside::mail::MailBehaviour;
use stepwell_samples::outside::shop::ShopBehaviour;
use stepwell_samples::outside::{World, WorldOptions};
use tokio::runtime::Runtime;

/// The outside, a folder of runs, and a worker between them.
struct Set {
    stepwell: Stepwell,
    world: World,
    _worker: Service,
    _runtime: Runtime,
}

impl Set {
    fn start() -> Self {
        let runtime = Runtime::new().unwrap();
        let world = runtime.block_on(World::start(WorldOptions::default())).unwrap();
        let stepwell = Stepwell::new();
        let outside = world.addresses();
        let worker = stepwell.worker(&["--mail-url", &outside.mail_url, "--shop-url", &outside.shop_url]);
        Self { stepwell, world, _worker: worker, _runtime: runtime }
    }

    fn refund(&self, order: &str) -> String {
        self.stepwell.start(&["refund", "--input", &json!({"order": order, "reason": "arrived broken"}).to_string()])
    }

    /// Waits until it is asked, and answers what for.
    fn asked(&self, run: &str) -> Value {
        self.stepwell.wait_for(run, "waiting");
        let asked = self.stepwell.json(&["approvals", run]);
        asked[0].clone()
    }

    fn paid(&self, order: &str) -> usize {
        self.world.refunds().iter().filter(|paid| paid.order == order).count()
    }
}

#[test]
fn it_pays_once_per_order_whichever_run_asks() {
    let set = Set::start();
    let runs: Vec<String> = (0..3).map(|_| set.refund("lamp-4500")).collect();
    let outputs: Vec<Value> = runs
        .iter()
        .map(|run| set.stepwell.wait_for(run, "completed")["detail"]["completed"]["output"].clone())
        .collect();
    assert!(outputs.iter().all(|output| output["refund"] == "refund-1" && output["cents"] == 4_500), "{outputs:?}");
    assert_eq!((set.paid("lamp-4500"), set.world.counts().shop.requested), (1, 1));

    // One that fails after it has got another's refund takes nothing back that keeps the order from being shipped.
    let refuse = MailBehaviour::Fail { times: 1, status: FailStatus::try_from(422).unwrap() };
    set.world.set_mail(refuse);
    let run = set.refund("lamp-4500");
    set.stepwell.wait_for(&run, "failed");
    assert!(set.world.is_held("lamp-4500"));
    assert_eq!((set.paid("lamp-4500"), set.world.counts().shop.releases), (1, 0));
}

#[test]
fn another_reason_is_no_other_refund() {
    let set = Set::start();
    for reason in ["arrived broken", "came too late"] {
        let input = json!({"order": "desk-40000", "reason": reason}).to_string();
        let run = set.stepwell.start(&["refund", "--input", &input]);
        let id = set.asked(&run)["id"].as_str().unwrap().to_owned();
        set.stepwell.json(&["approve", &run, &id, "--by", "ada", "--role", "finance"]);
        set.stepwell.wait_for(&run, "completed");
    }
    assert_eq!(set.paid("desk-40000"), 1);
}

#[test]
fn above_the_limit_it_asks_and_the_answer_is_on_record() {
    let set = Set::start();
    let run = set.refund("sofa-90000");
    let asked = set.asked(&run);
    let parameters = json!({
        "order": "sofa-90000", "cents": 90_000, "customer": "sofa-90000@example.com"
    });
    assert_eq!((&asked["action"], &asked["parameters"]), (&json!("refund"), &parameters));
    let id = asked["id"].as_str().unwrap();
    assert_eq!(set.world.counts().shop.holds, 0);

    let stranger = set.stepwell.run(&["approve", &run, id, "--by", "eve", "--role", "sales"]);
    stranger.failed(3, &["eve may not decide", "role finance"]);
    assert_eq!(
        set.stepwell.json(&["approve", &run, id, "--by", "ada", "--role", "finance", "--why", "seen"])["new"],
        true
    );
    let shown = set.stepwell.wait_for(&run, "completed");
    let approval = &shown["approvals"][0];
    assert_eq!((&approval["status"], &approval["answers"][0]["by"]), (&json!("used"), &json!("ada")), "{shown}");
    assert_eq!(approval["used"]["key"], shown["effects"][1]["key"], "{shown}");
    assert_eq!(set.paid("sofa-90000"), 1);
}

#[test]
fn a_refund_that_the_shop_refuses_is_undone_and_another_run_may_try_it_again() {
    let set = Set::start();
    set.world.set_shop(ShopBehaviour::Refuse);
    let run = set.refund("vase-3000");
    let shown = set.stepwell.wait_for(&run, "failed");
    assert_eq!(shown["undoing"]["undone"][0]["name"], "hold", "{shown}");
    assert!(!set.world.is_held("vase-3000"));

    set.world.set_shop(ShopBehaviour::Normal);
    let again = set.refund("vase-3000");
    set.stepwell.wait_for(&again, "completed");
    assert_eq!(set.paid("vase-3000"), 1);
}

#[test]
fn a_refund_beyond_its_budget_is_not_paid_whoever_approves_it() {
    let set = Set::start();
    let run = set.refund("yacht-500000");
    let id = set.asked(&run)["id"].as_str().unwrap().to_owned();
    set.stepwell.json(&["approve", &run, &id, "--by", "ada", "--role", "finance"]);
    let shown = set.stepwell.wait_for(&run, "parked");
    assert!(shown.to_string().contains("budget of 100000 cents"), "{shown}");
    assert_eq!(set.paid("yacht-500000"), 0);

    set.stepwell.json(&["cancel", &run, "--why", "too much"]);
    let shown = set.stepwell.wait_for(&run, "cancelled");
    let certificate = &shown["detail"]["cancelled"];
    assert_eq!(certificate["undone"][0]["name"], "hold", "{shown}");
    assert!(!set.world.is_held("yacht-500000"));
}

#[test]
fn who_allows_more_is_told_how_much_and_an_answer_does_not_move_a_parked_run() {
    let set = Set::start();
    let run = set.refund("boat-400000");
    let id = set.asked(&run)["id"].as_str().unwrap().to_owned();
    let approve = ["approve", &run, &id, "--by", "ada", "--role", "finance"];
    set.stepwell.json(&approve);
    set.stepwell.wait_for(&run, "parked");
    let again = set.stepwell.run(&approve).stdout;
    let parked =
        format!("nothing was changed; the run is parked, and finds this once it goes on: `stepwell show {run}`");
    assert!(again.contains(&parked) && !again.contains("the run goes on"), "{again}");

    let resumed = set.stepwell.run(&["resume", &run, "--by", "ada"]).stdout;
    let allowed = "; 400000 more cents are allowed, 500000 in all in the run\n";
    assert!(resumed.ends_with(allowed), "{resumed}");
    set.stepwell.wait_for(&run, "completed");
    assert_eq!(set.paid("boat-400000"), 1);
}
