//! The queue: at least once, after the delay, until it is deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use stepwell_core::limits::MESSAGE_DELAY_MAX;
use stepwell_core::{Message, Ticket};
use stepwell_ports::{Delivery, Envelope, QueueError, Receipt};

use super::bed::{Bed, TICK, run};

/// How long a delivery is hidden here.
const VISIBILITY: Duration = Duration::from_secs(30);

fn message(ticket: u64) -> Message {
    Message { run: run("r"), ticket: Ticket(ticket) }
}

async fn send(bed: &Bed<'_>, ticket: u64, delay: Duration) {
    let envelope = Envelope { message: message(ticket), delay };
    bed.backend.queue.send(&[envelope]).await.unwrap_or_else(|error| panic!("send {ticket}: {error}"));
}

/// What is visible now, at most ten.
async fn receive(bed: &Bed<'_>) -> Vec<Delivery> {
    // A queue on its own time may need a moment to show what was sent.
    let wait = if bed.factory.caps().queue_time { Duration::ZERO } else { Duration::from_secs(1) };
    let got = bed.backend.queue.receive(10, VISIBILITY, wait).await;
    got.unwrap_or_else(|error| panic!("receive: {error}"))
}

async fn receive_one(bed: &Bed<'_>) -> Delivery {
    let mut got = receive(bed).await;
    assert_eq!(got.len(), 1, "one message is visible: {got:?}");
    got.remove(0)
}

async fn delete(bed: &Bed<'_>, receipts: &[&Receipt]) {
    let receipts: Vec<Receipt> = receipts.iter().map(|receipt| (*receipt).clone()).collect();
    bed.backend.queue.delete(&receipts).await.unwrap_or_else(|error| panic!("delete: {error}"));
}

async fn extend(bed: &Bed<'_>, receipt: &Receipt, visibility: Duration) {
    bed.backend.queue.extend(receipt, visibility).await.unwrap_or_else(|error| panic!("extend: {error}"));
}

async fn is_empty(bed: &Bed<'_>, when: &str) {
    assert_eq!(receive(bed).await, [], "nothing is visible {when}");
}

pub(super) async fn a_message_is_received_until_it_is_deleted(bed: &Bed<'_>) {
    is_empty(bed, "at first").await;
    send(bed, 7, Duration::ZERO).await;
    let first = receive_one(bed).await;
    assert_eq!((&first.message, first.receives), (&message(7), 1));
    is_empty(bed, "while it is hidden").await;
    extend(bed, &first.receipt, Duration::ZERO).await;
    let second = receive_one(bed).await;
    assert_eq!((&second.message, second.receives), (&message(7), 2));
    assert_ne!(first.receipt, second.receipt, "each delivery has its own receipt");
    delete(bed, &[&second.receipt]).await;
    is_empty(bed, "after the deletion").await;
    // The same message again is another one.
    send(bed, 7, Duration::ZERO).await;
    assert_eq!(receive_one(bed).await.receives, 1);
}

pub(super) async fn a_batch_arrives_whole(bed: &Bed<'_>) {
    let envelope = |ticket| Envelope { message: message(ticket), delay: Duration::ZERO };
    bed.backend.queue.send(&[]).await.expect("sending nothing is no error");
    bed.backend.queue.send(&(0..50).map(envelope).collect::<Vec<_>>()).await.expect("a batch");
    let mut tickets = BTreeMap::new();
    let mut receipts = BTreeSet::new();
    loop {
        let batch = receive(bed).await;
        assert!(batch.len() <= 10, "at most ten were asked for");
        if batch.is_empty() {
            break;
        }
        for delivery in batch {
            *tickets.entry(delivery.message.ticket.0).or_insert(0) += 1;
            receipts.insert(delivery.receipt.0);
        }
    }
    assert_eq!(tickets, (0..50).map(|ticket| (ticket, 1)).collect(), "each once");
    assert_eq!(receipts.len(), 50);
    let receipts: Vec<Receipt> = receipts.into_iter().map(Receipt).collect();
    bed.backend.queue.delete(&receipts).await.expect("deleting a batch");
    bed.backend.queue.delete(&[]).await.expect("deleting nothing is no error");
}

pub(super) async fn a_delay_over_the_limit_is_invalid_and_nothing_is_sent(bed: &Bed<'_>) {
    let envelope = |ticket, delay| Envelope { message: message(ticket), delay };
    let over = MESSAGE_DELAY_MAX + Duration::from_millis(1);
    let answer = bed.backend.queue.send(&[envelope(1, Duration::ZERO), envelope(2, over)]).await;
    assert!(matches!(answer, Err(QueueError::Invalid(_))), "over the limit, yet the answer is {answer:?}");
    is_empty(bed, "when sending was refused").await;
    send(bed, 3, MESSAGE_DELAY_MAX).await;
    is_empty(bed, "before the longest delay").await;
}

pub(super) async fn a_delivery_that_is_gone_is_passed_over(bed: &Bed<'_>) {
    send(bed, 1, Duration::ZERO).await;
    let delivery = receive_one(bed).await;
    delete(bed, &[&delivery.receipt]).await;
    delete(bed, &[&delivery.receipt, &delivery.receipt]).await;
    extend(bed, &delivery.receipt, Duration::ZERO).await;
    is_empty(bed, "of what was deleted").await;
    // One that is gone does not keep the others of its batch.
    send(bed, 2, Duration::ZERO).await;
    let other = receive_one(bed).await;
    delete(bed, &[&delivery.receipt, &other.receipt]).await;
    extend(bed, &other.receipt, Duration::ZERO).await;
    is_empty(bed, "of either").await;
}

pub(super) async fn a_delivery_of_no_visibility_comes_again_at_once(bed: &Bed<'_>) {
    send(bed, 1, Duration::ZERO).await;
    for receives in 1..=3 {
        let delivery = receive_one(bed).await;
        assert_eq!(delivery.receives, receives);
        extend(bed, &delivery.receipt, Duration::ZERO).await;
    }
}

pub(super) async fn a_buried_message_is_gone(bed: &Bed<'_>) {
    send(bed, 1, Duration::ZERO).await;
    let delivery = receive_one(bed).await;
    bed.backend.queue.bury(&delivery, "there is no such run").await.expect("burying");
    extend(bed, &delivery.receipt, Duration::ZERO).await;
    is_empty(bed, "after the burial").await;
}

pub(super) async fn a_delayed_message_is_not_early_and_not_lost(bed: &Bed<'_>) {
    let delays = [Duration::from_millis(250), Duration::from_secs(9), MESSAGE_DELAY_MAX];
    for (ticket, delay) in delays.into_iter().enumerate() {
        send(bed, ticket as u64, delay).await;
    }
    let begun = bed.now();
    for (ticket, delay) in delays.into_iter().enumerate() {
        bed.advance(begun.plus(delay).since(bed.now()).saturating_sub(TICK));
        is_empty(bed, &format!("before {delay:?}")).await;
        bed.advance(TICK);
        let delivery = receive_one(bed).await;
        assert_eq!(delivery.message, message(ticket as u64));
        delete(bed, &[&delivery.receipt]).await;
    }
}

pub(super) async fn a_message_is_hidden_until_its_visibility_has_run_out(bed: &Bed<'_>) {
    send(bed, 1, Duration::ZERO).await;
    for receives in 1..=4 {
        assert_eq!(receive_one(bed).await.receives, receives);
        bed.advance(VISIBILITY.saturating_sub(TICK));
        is_empty(bed, "before its visibility has run out").await;
        bed.advance(TICK);
    }
}

pub(super) async fn an_extended_message_stays_hidden(bed: &Bed<'_>) {
    send(bed, 1, Duration::ZERO).await;
    let delivery = receive_one(bed).await;
    for _ in 0..3 {
        bed.advance(VISIBILITY.saturating_sub(TICK));
        extend(bed, &delivery.receipt, VISIBILITY).await;
    }
    bed.advance(VISIBILITY.saturating_sub(TICK));
    is_empty(bed, "while it is extended").await;
    // An extension counts from now: it can be shorter than what was left.
    extend(bed, &delivery.receipt, TICK * 2).await;
    is_empty(bed, "before the shorter time").await;
    // What is a day from now is not made shorter by what was asked for at first.
    extend(bed, &delivery.receipt, Duration::from_hours(12)).await;
    bed.advance(Duration::from_hours(12).saturating_sub(TICK));
    is_empty(bed, "for half a day").await;
    bed.advance(TICK);
    assert_eq!(receive_one(bed).await.receives, 2);
}

/// A worker that was too slow deletes its message, which is somebody else's by now. Were that one to die, the run would
/// have no message left.
pub(super) async fn an_old_receipt_deletes_no_later_delivery(bed: &Bed<'_>) {
    send(bed, 1, Duration::ZERO).await;
    let old = receive_one(bed).await;
    bed.advance(VISIBILITY);
    let new = receive_one(bed).await;
    delete(bed, &[&old.receipt]).await;
    bed.advance(VISIBILITY);
    let third = receive_one(bed).await;
    assert_eq!((&third.message, third.receives), (&message(1), 3));
    delete(bed, &[&new.receipt, &third.receipt]).await;
    bed.advance(VISIBILITY);
    is_empty(bed, "after the deletion by the right receipt").await;
}

pub(super) async fn an_old_receipt_hides_no_later_delivery(bed: &Bed<'_>) {
    send(bed, 1, Duration::ZERO).await;
    let old = receive_one(bed).await;
    bed.advance(VISIBILITY);
    receive_one(bed).await;
    extend(bed, &old.receipt, Duration::from_hours(12)).await;
    bed.advance(VISIBILITY);
    assert_eq!(receive_one(bed).await.receives, 3);
}

/// Begins to receive, and returns once it sleeps on the clock.
async fn receiving(bed: &Bed<'_>, wait: Duration) -> tokio::task::JoinHandle<Result<Vec<Delivery>, QueueError>> {
    let (queue, before) = (bed.backend.queue.clone(), bed.clock.sleepers());
    let waiting = tokio::spawn(async move { queue.receive(10, VISIBILITY, wait).await });
    while bed.clock.sleepers() == before {
        assert!(!waiting.is_finished(), "it has not waited at all: {:?}", waiting.await);
        tokio::task::yield_now().await;
    }
    waiting
}

pub(super) async fn receiving_waits_for_a_message(bed: &Bed<'_>) {
    let wait = Duration::from_secs(20);
    let (waiting, begun) = (receiving(bed, wait).await, bed.now());
    send(bed, 1, Duration::ZERO).await;
    // A backend that looks again every now and then is as good as one that is told.
    while !waiting.is_finished() && bed.now().since(begun) < wait.saturating_sub(TICK * 50) {
        bed.advance(TICK * 50);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let got = waiting.await.unwrap().unwrap();
    assert_eq!(got.into_iter().map(|delivery| delivery.message).collect::<Vec<_>>(), [message(1)]);
}

pub(super) async fn receiving_waits_for_a_delay(bed: &Bed<'_>) {
    send(bed, 1, Duration::from_secs(5)).await;
    let waiting = receiving(bed, Duration::from_secs(20)).await;
    bed.advance(Duration::from_secs(5));
    let got = waiting.await.unwrap().unwrap();
    assert_eq!(got.into_iter().map(|delivery| delivery.message).collect::<Vec<_>>(), [message(1)]);
}

pub(super) async fn receiving_ends_with_nothing(bed: &Bed<'_>) {
    send(bed, 1, Duration::from_secs(21)).await;
    let waiting = receiving(bed, Duration::from_secs(20)).await;
    bed.advance(Duration::from_secs(20));
    assert_eq!(waiting.await.unwrap(), Ok(Vec::new()));
}

pub(super) async fn a_buried_message_is_kept_with_its_reason(bed: &Bed<'_>) {
    send(bed, 1, Duration::ZERO).await;
    let delivery = receive_one(bed).await;
    assert_eq!(bed.factory.dead_letters().await, []);
    bed.backend.queue.bury(&delivery, "there is no \"such\" run").await.expect("burying");
    assert_eq!(bed.factory.dead_letters().await, [(message(1), "there is no \"such\" run".to_owned())]);
}
