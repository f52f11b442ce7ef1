//! The workflow against the real little world, over HTTP. What takes an engine (approvals that expire, other runs, crashes) is tested
//! with one, where there is one.

use serde_json::json;

use super::*;
use crate::drive::{Drive, Stop};
use crate::outside::mail::MailBehaviour;
use crate::outside::shop::ShopBehaviour;
use crate::outside::{World, WorldOptions};

async fn started(order: &str) -> (World, Drive) {
    let world = World::start(WorldOptions::default()).await.unwrap();
    let input = json!({"order": order, "reason": "arrived broken"});
    let run = Drive::start(&crate::registry(&world.addresses()).unwrap(), Refunds::NAME, &input);
    (world, run)
}

fn refunded(stop: Stop) -> Refunded {
    let Stop::Completed(output) = stop else { panic!("not completed: {stop:?}") };
    serde_json::from_value(output).unwrap()
}

fn asks() -> Stop {
    Stop::Asks("refund".into(), "role finance or cfo@example.com".into())
}

#[tokio::test]
async fn a_small_refund_is_paid_once_and_the_customer_is_told() {
    let (world, mut run) = started("lamp-4500").await;
    let refunded = refunded(run.go().await);
    assert_eq!((refunded.order.as_str(), refunded.cents, refunded.refund.as_str()), ("lamp-4500", 4_500, "refund-1"));
    assert_eq!(run.steps(), ["LookUp", "Hold", "Pay", "Notify"]);
    assert_eq!(world.refunds().len(), 1);
    let mails = world.mails();
    assert_eq!(mails[0].mail.to, "lamp-4500@example.com");
    assert!(mails[0].mail.body.contains("45.00"), "{}", mails[0].mail.body);
}

#[tokio::test]
async fn above_the_limit_nothing_is_touched_before_somebody_has_approved_it() {
    let (world, mut run) = started("sofa-90000").await;
    assert_eq!(run.go().await, asks());
    assert_eq!((world.counts().shop.holds, world.counts().shop.requested), (0, 0));

    run.answer("finance", true);
    assert_eq!(refunded(run.go().await).cents, 90_000);
    assert_eq!(world.refunds().len(), 1);
}

#[tokio::test]
async fn a_rejection_and_an_answer_without_authority_pay_nothing() {
    let (world, mut run) = started("sofa-90000").await;
    assert_eq!(run.go().await, asks());
    run.answer("finance", false);
    assert_eq!(run.go().await, Stop::Failed("terminal: ada rejected the refund: not this one [rejected]".into()));

    let (_world, mut run) = started("sofa-90000").await;
    assert_eq!(run.go().await, asks());
    run.answer("sales", true);
    let Stop::Failed(why) = run.go().await else { panic!("it went on") };
    assert!(why.contains("nobody approved"), "{why}");
    assert_eq!(world.counts().shop.requested, 0);
}

#[tokio::test]
async fn a_refused_payment_lets_the_order_go_again() {
    let (world, mut run) = started("lamp-4500").await;
    world.set_shop(ShopBehaviour::Refuse);
    let Stop::Failed(why) = run.go().await else { panic!("the card is closed") };
    assert!(why.contains("the card is closed"), "{why}");
    assert!(world.is_held("lamp-4500"));
    assert_eq!(run.undo().await, Stop::Undone);
    assert!(!world.is_held("lamp-4500"));
    assert_eq!((world.refunds().len(), world.mails().len()), (0, 0));
}

#[tokio::test]
async fn a_lost_answer_is_asked_for_under_the_same_key_and_pays_once() {
    let (world, mut run) = started("lamp-4500").await;
    world.set_shop(ShopBehaviour::PayThenDrop { times: 1 });
    let Stop::Retries(why) = run.go().await else { panic!("the answer was dropped") };
    assert!(why.contains("effect refund may have happened"), "{why}");
    assert_eq!(refunded(run.go().await).refund, "refund-1");
    let counts = world.counts().shop;
    assert_eq!((counts.requested, counts.paid, counts.duplicates), (2, 1, 1));
}

#[tokio::test]
async fn an_order_that_is_not_there_ends_it() {
    let (_world, mut run) = started("nothing").await;
    let Stop::Failed(why) = run.go().await else { panic!("it went on") };
    assert!(why.contains("there is no order"), "{why}");
}

#[tokio::test]
async fn a_mail_that_cannot_be_sent_takes_no_paid_refund_back() {
    let (world, mut run) = started("lamp-4500").await;
    world.set_mail(MailBehaviour::Fail { times: 1, status: crate::outside::FailStatus::try_from(403).unwrap() });
    let Stop::Failed(why) = run.go().await else { panic!("the mail was refused") };
    assert!(why.contains("403"), "{why}");
    assert_eq!(world.refunds().len(), 1);
}
