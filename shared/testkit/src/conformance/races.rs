//! Many at once: whatever the order, what comes out is what some order gives.

use std::collections::BTreeSet;
use std::sync::Arc;

use stepwell_core::write::{Acquire, Write, WriteRequest, apply};
use stepwell_core::{Checkpoint, Fence, MailboxSeq, Revision, Status, Ticket};
use stepwell_ports::{StoreError, Written};
use tokio::sync::Barrier;

use super::bed::{Bed, boxed, json, run, signal_id, start_with};

/// Sends all of them at once; the answers in the order of the requests. A backend that is busy is asked again, as a caller
/// would.
async fn at_once(bed: &Bed<'_>, requests: &[WriteRequest]) -> Vec<Written> {
    let gate = Arc::new(Barrier::new(requests.len()));
    let begin = |request: &WriteRequest| {
        let (store, gate, request) = (bed.store.clone(), gate.clone(), request.clone());
        tokio::spawn(async move {
            gate.wait().await;
            for _ in 0..100 {
                match store.write(&request).await {
                    Ok(written) => return written,
                    Err(StoreError::Throttled(_)) => tokio::task::yield_now().await,
                    Err(error) => panic!("{request:?}: {error}"),
                }
            }
            panic!("busy a hundred times: {request:?}");
        })
    };
    let sent: Vec<_> = requests.iter().map(begin).collect();
    let mut answers = Vec::new();
    for answer in sent {
        answers.push(answer.await.expect("a write that answers"));
    }
    answers
}

/// The only answer that says "applied"; it is what the definition says, and what is stored.
async fn the_winner(bed: &Bed<'_>, before: Option<&Checkpoint>, requests: &[WriteRequest]) -> Checkpoint {
    let answers = at_once(bed, requests).await;
    let won = |written: &Written| matches!(written, Written::Applied(_));
    let winners: Vec<usize> = (0..answers.len()).filter(|number| won(&answers[*number])).collect();
    assert_eq!(winners.len(), 1, "of {} one is applied, not {winners:?}", requests.len());
    let request = &requests[winners[0]];
    let expected = apply(before, request).expect("a winner that the definition accepts");
    assert_eq!(answers[winners[0]], Written::Applied(Box::new(expected.clone())));
    for (number, answer) in answers.iter().enumerate().filter(|(_, answer)| !won(answer)) {
        let refused_by = Written::Refused(Some(Box::new(expected.clone())));
        assert_eq!(*answer, refused_by, "request {number} was refused by the winner's checkpoint");
    }
    assert_eq!(bed.load(&request.run).await.as_ref(), Some(&expected));
    expected
}

pub(super) async fn of_many_starts_one_wins(bed: &Bed<'_>) {
    let request = |number: usize| bed.request(&run("r"), start_with("brief", json(&number.to_string())));
    let requests: Vec<_> = (0..8).map(request).collect();
    the_winner(bed, None, &requests).await;
}

pub(super) async fn of_many_acquires_one_wins(bed: &Bed<'_>) {
    let mut before = bed.started("r").await;
    for round in 1..=5 {
        let ticket = before.progress.ticket;
        let acquire = |number| Write::Acquire(Acquire { ticket, lease: bed.lease(&format!("worker-{number}")) });
        let requests: Vec<_> = (0..8).map(|number| bed.request(&run("r"), acquire(number))).collect();
        let held = the_winner(bed, Some(&before), &requests).await;
        assert_eq!(held.hold.fence, Fence(round));
        before = bed.handed_off(&held, Status::Running).await;
    }
}

pub(super) async fn of_many_commits_one_wins(bed: &Bed<'_>) {
    let mut held = bed.held("r").await;
    for round in 1..=5 {
        let requests: Vec<_> = (0..8).map(|_| bed.request(&run("r"), boxed(bed.carry_on(&held)))).collect();
        held = the_winner(bed, Some(&held), &requests).await;
        assert_eq!(held.progress.revision, Revision(round));
    }
}

pub(super) async fn many_signals_all_arrive_once(bed: &Bed<'_>) {
    bed.started("r").await;
    let request = |number: usize| bed.request(&run("r"), bed.signal(&format!("s{number}"), "chat"));
    let requests: Vec<_> = (0..32).map(request).collect();
    let answers = at_once(bed, &requests).await;
    let mut seqs = BTreeSet::new();
    for (number, answer) in answers.into_iter().enumerate() {
        let Written::Applied(after) = answer else { panic!("signal s{number} was refused: {answer:?}") };
        seqs.insert(after.mailbox.seq);
        let last = after.mailbox.letters.last().map(|letter| letter.id.clone());
        assert_eq!(last, Some(signal_id(&format!("s{number}"))), "the answer is the checkpoint right after it");
    }
    assert_eq!(seqs.len(), 32, "each has a place of its own");
    let stored = bed.load(&run("r")).await.unwrap();
    let ids: BTreeSet<_> = stored.mailbox.letters.iter().map(|letter| letter.id.clone()).collect();
    assert_eq!((stored.mailbox.seq, stored.mailbox.letters.len(), ids.len()), (MailboxSeq(32), 32, 32));
}

pub(super) async fn one_signal_sent_many_times_at_once_arrives_once(bed: &Bed<'_>) {
    let started = bed.started("r").await;
    let requests: Vec<_> = (0..8).map(|_| bed.request(&run("r"), bed.signal("s", "chat"))).collect();
    let after = the_winner(bed, Some(&started), &requests).await;
    assert_eq!((after.mailbox.seq, after.mailbox.letters.len()), (MailboxSeq(1), 1));
}

pub(super) async fn one_request_sent_many_times_at_once_is_applied_once(bed: &Bed<'_>) {
    let start = bed.request(&run("r"), start_with("brief", json("1")));
    let started = all_applied(bed, None, &start).await;
    let acquire = bed.request(&run("r"), bed.acquire(Ticket(1)));
    let held = all_applied(bed, Some(&started), &acquire).await;
    let commit = bed.request(&run("r"), boxed(bed.carry_on(&held)));
    let held = all_applied(bed, Some(&held), &commit).await;
    let hand_off = bed.request(&run("r"), boxed(bed.hand_off(&held, Status::Running)));
    all_applied(bed, Some(&held), &hand_off).await;
}

/// Eight copies of one request: each is answered "applied", with the effect of one.
async fn all_applied(bed: &Bed<'_>, before: Option<&Checkpoint>, request: &WriteRequest) -> Checkpoint {
    let expected = apply(before, request).expect("this case is wrong: the definition refuses the write");
    for answer in at_once(bed, &vec![request.clone(); 8]).await {
        assert_eq!(answer, Written::Applied(Box::new(expected.clone())));
    }
    assert_eq!(bed.load(&request.run).await.as_ref(), Some(&expected));
    expected
}

pub(super) async fn signals_and_commits_at_once_lose_nothing(bed: &Bed<'_>) {
    let mut held = bed.held("r").await;
    let mut consumed = Vec::new();
    for round in 0..10 {
        let mut commit = bed.carry_on(&held);
        commit.consumed = held.mailbox.letters.iter().map(|letter| letter.id.clone()).collect();
        consumed.extend(commit.consumed.clone());
        let mut requests = vec![bed.request(&run("r"), boxed(commit))];
        for number in 0..4 {
            requests.push(bed.request(&run("r"), bed.signal(&format!("s{round}-{number}"), "chat")));
        }
        for answer in at_once(bed, &requests).await {
            assert!(matches!(answer, Written::Applied(_)), "neither is in the other's way: {answer:?}");
        }
        held = bed.load(&run("r")).await.unwrap();
        assert_eq!(held.progress.revision, Revision(round + 1));
    }
    consumed.extend(held.mailbox.letters.iter().map(|letter| letter.id.clone()));
    let all: BTreeSet<_> = consumed.iter().cloned().collect();
    assert_eq!((consumed.len(), all.len()), (40, 40), "each signal is consumed once or still there");
    assert_eq!(held.mailbox.seq, MailboxSeq(40));
}

pub(super) async fn a_cancellation_and_an_end_are_ordered(bed: &Bed<'_>) {
    for round in 0..10 {
        let held = bed.held(&format!("r{round}")).await;
        let end = bed.request(&held.run, boxed(bed.hand_off(&held, bed.completed())));
        let cancel = bed.request(&held.run, bed.cancel("ann"));
        the_winner(bed, Some(&held), &[end, cancel]).await;
    }
}
