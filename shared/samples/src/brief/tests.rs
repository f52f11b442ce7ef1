//! The workflow against the real little world, over HTTP.

use serde_json::{Value, json};

use super::*;
use crate::drive::{Drive, Stop};
use crate::outside::mail::MailBehaviour;
use crate::outside::tests::soon;
use crate::outside::vendors::VendorBehaviour;
use crate::outside::{World, WorldOptions};

async fn started(vendors: &[&str]) -> (World, Drive) {
    let world = World::start(WorldOptions::default()).await.unwrap();
    let outside = world.addresses();
    let input = json!({"goal": "choose a tool", "vendors": vendors, "to": "board@example.com"});
    let run = Drive::start(&crate::registry(&outside).unwrap(), CompetitiveBrief::NAME, &input);
    (world, run)
}

/// Up to the point where somebody has to say yes or no.
async fn drafted() -> (World, Drive) {
    let (world, mut run) = started(&["tarnwick"]).await;
    assert_eq!(run.go().await, Stop::Waits(vec!["approval".into()]));
    (world, run)
}

fn approval() -> Value {
    json!({"approved": true, "by": "pm"})
}

fn sent(stop: Stop) -> Sent {
    let Stop::Completed(output) = stop else { panic!("not completed: {stop:?}") };
    serde_json::from_value(output).unwrap()
}

#[tokio::test]
async fn it_reads_each_vendor_in_a_step_of_its_own_waits_and_sends_what_was_approved() {
    let (world, mut run) = started(&["velloria", "tarnwick"]).await;
    assert_eq!(run.go().await, Stop::Waits(vec!["approval".into()]));
    assert_eq!(run.steps(), ["Research", "Research", "Draft"]);
    assert_eq!(world.mails(), []);

    run.signal("approval", &approval());
    let sent = sent(run.go().await);
    assert_eq!(run.steps()[3..], ["Decide", "Send"]);
    assert_eq!(run.effects_of_the_run(), ["email"]);

    let mails = world.mails();
    let [delivered] = &mails[..] else { panic!("{mails:?}") };
    let mail = &delivered.mail;
    assert_eq!((mail.to.as_str(), mail.subject.as_str()), ("board@example.com", "Competitive brief: choose a tool"));
    let (first, second) = (mail.body.find("Velloria Flow"), mail.body.find("Tarnwick Server"));
    assert!(first.unwrap() < second.unwrap(), "{}", mail.body);
    let counts = world.counts();
    assert_eq!((counts.vendors["velloria"].requested, counts.vendors["tarnwick"].requested), (1, 1));

    assert_eq!((sent.to.as_str(), sent.duplicate, sent.vendors), ("board@example.com", false, 2));
    assert_eq!(sent.words, mail.body.split_whitespace().count());
    assert_eq!(sent.writer, TemplateWriter.name());
    assert_eq!(json!(sent.mail), json!(delivered.id));
}

#[tokio::test]
async fn a_rejection_ends_it_with_the_name_and_the_reason_and_sends_nothing() {
    let (world, mut run) = drafted().await;
    run.signal("approval", &json!({"approved": false, "by": "pm", "reason": "too long"}));
    assert_eq!(run.go().await, Stop::Failed("terminal: pm rejected the brief: too long [rejected]".into()));
    assert_eq!(world.counts().mail.requested, 0);

    let (_world, mut run) = drafted().await;
    run.signal("approval", &json!({"approved": false, "by": "pm"}));
    let Stop::Failed(why) = run.go().await else { panic!("it went on") };
    assert!(why.contains("no reason given"), "{why}");
}

#[tokio::test]
async fn woken_without_a_decision_it_waits_on() {
    let (_world, mut run) = drafted().await;
    assert_eq!(run.go().await, Stop::Waits(vec!["approval".into()]));
}

#[tokio::test]
async fn a_sender_lost_after_the_mail_was_accepted_is_followed_by_one_that_delivers_nothing_more() {
    let (world, mut run) = drafted().await;
    run.signal("approval", &approval());
    world.set_mail(MailBehaviour::AcceptThenHold { times: 1 });
    tokio::select! {
        stop = run.go() => panic!("the mail API holds the answer, yet: {stop:?}"),
        () = soon(world.mail_accepted()) => {}
    }
    let sent = sent(run.go().await);
    assert!(sent.duplicate);
    let counts = world.counts().mail;
    assert_eq!((counts.requested, counts.delivered, counts.duplicates), (2, 1, 1));
}

#[tokio::test]
async fn a_lost_answer_is_said_to_be_open_and_asked_for_under_the_same_key() {
    let (world, mut run) = drafted().await;
    run.signal("approval", &approval());
    world.set_mail(MailBehaviour::AcceptThenDrop { times: 1 });
    let Stop::Retries(why) = run.go().await else { panic!("the answer was dropped") };
    assert!(why.contains("effect email may have happened"), "{why}");
    assert!(sent(run.go().await).duplicate);
    assert_eq!(world.counts().mail.delivered, 1);
}

#[tokio::test]
async fn a_page_that_is_not_ready_is_asked_for_again_and_the_ones_before_are_not() {
    let (world, mut run) = started(&["velloria", "tarnwick"]).await;
    world.set_vendor("tarnwick", VendorBehaviour::Fail { times: 1 }).unwrap();
    let Stop::Retries(why) = run.go().await else { panic!("the page failed") };
    assert!(why.contains("effect fetch was not done") && why.contains("503"), "{why}");
    assert_eq!(run.go().await, Stop::Waits(vec!["approval".into()]));
    let counts = world.counts().vendors;
    assert_eq!((counts["velloria"].requested, counts["tarnwick"].requested), (1, 2));
}

#[tokio::test]
async fn a_vendor_that_does_not_exist_ends_it() {
    let (_world, mut run) = started(&["nobody"]).await;
    let Stop::Failed(why) = run.go().await else { panic!("it went on") };
    assert!(why.starts_with("refused: effect fetch was refused: the page of nobody"), "{why}");
}

#[tokio::test]
async fn without_vendors_there_is_nothing_to_write_from() {
    let (_world, mut run) = started(&[]).await;
    let Stop::Failed(why) = run.go().await else { panic!("it went on") };
    assert!(why.contains("there are no findings"), "{why}");
    assert_eq!(run.steps(), [""; 0]);
}
