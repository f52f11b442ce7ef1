//! Signals: kept once, in order, within bounds, and never lost to a commit.

use stepwell_core::limits::{MAILBOX_BYTES_MAX, MAILBOX_LETTERS_MAX, SIGNALS_SEEN_MAX};
use stepwell_core::write::Refusal;
use stepwell_core::{BlobRef, MailboxSeq, Payload, SignalId, Status};

use super::bed::{Bed, boxed, json_of, run, signal_id};

pub(super) async fn a_signal_is_kept_and_makes_the_run_due(bed: &Bed<'_>) {
    let created = bed.started("r").await;
    bed.advance(stepwell_core::limits::WATCHDOG_MARK);
    // It may come before the run waits for it, or has even begun.
    let after = bed.applied(&created.run, bed.signal("s1", "approve")).await;
    assert_eq!((after.mailbox.seq, after.mailbox.letters.len()), (MailboxSeq(1), 1));
    assert_eq!(after.due_at, Some(bed.now().next_mark()));
    assert_eq!(after.hold, created.hold, "a signal is nobody's lease");
    let after = bed.applied(&created.run, bed.signal("s2", "approve")).await;
    let ids: Vec<&str> = after.mailbox.letters.iter().map(|letter| letter.id.as_str()).collect();
    assert_eq!(ids, ["s1", "s2"], "oldest first");
    let parked = bed.standing("parked", bed.parked()).await;
    bed.applied(&parked.run, bed.signal("s1", "approve")).await;
}

pub(super) async fn a_repeated_signal_is_refused_for_as_long_as_it_is_remembered(bed: &Bed<'_>) {
    let mut held = bed.held("r").await;
    let run = held.run.clone();
    for number in 0..=SIGNALS_SEEN_MAX {
        let id = format!("s{number}");
        held = bed.applied(&run, bed.signal(&id, "chat")).await;
        bed.refused(&run, bed.signal(&id, "chat"), Refusal::Duplicate).await;
        // The id alone decides, not what it says.
        bed.refused(&run, bed.signal(&id, "other"), Refusal::Duplicate).await;
        let mut commit = bed.carry_on(&held);
        commit.consumed = vec![signal_id(&id)];
        held = bed.applied(&run, boxed(commit)).await;
        assert!(held.mailbox.letters.is_empty());
        bed.refused(&run, bed.signal(&id, "chat"), Refusal::Duplicate).await;
    }
    assert_eq!(held.mailbox.seen.len(), SIGNALS_SEEN_MAX);
    bed.refused(&run, bed.signal("s1", "chat"), Refusal::Duplicate).await;
    // Another run has its own mailbox.
    let other = bed.started("other").await;
    bed.applied(&other.run, bed.signal("s1", "chat")).await;
    // The very first was forgotten, and is new again.
    bed.applied(&run, bed.signal("s0", "chat")).await;
    // A repetition is known to be one even after the end.
    let held = bed.load(&run).await.unwrap();
    bed.handed_off(&held, bed.completed()).await;
    bed.refused(&run, bed.signal("s1", "chat"), Refusal::Duplicate).await;
}

pub(super) async fn a_full_mailbox_refuses_by_count(bed: &Bed<'_>) {
    let mut held = bed.held("r").await;
    for number in 0..MAILBOX_LETTERS_MAX {
        held = bed.applied(&held.run, bed.signal(&format!("s{number}"), "chat")).await;
    }
    bed.refused(&held.run, bed.signal("more", "chat"), Refusal::MailboxFull).await;
    // A repetition is answered as one, full or not.
    bed.refused(&held.run, bed.signal("s7", "chat"), Refusal::Duplicate).await;
    let mut commit = bed.carry_on(&held);
    commit.consumed = vec![signal_id("s7")];
    bed.applied(&held.run, boxed(commit)).await;
    let full = bed.applied(&held.run, bed.signal("more", "chat")).await;
    assert_eq!(full.mailbox.seq, MailboxSeq(MAILBOX_LETTERS_MAX as u64 + 1));
    bed.refused(&held.run, bed.signal("again", "chat"), Refusal::MailboxFull).await;
}

pub(super) async fn a_full_mailbox_refuses_by_bytes(bed: &Bed<'_>) {
    let held = bed.held("r").await;
    let of = |id: &str, bytes: usize| bed.signal_of(id, "chat", Payload::Inline(json_of(bytes)));
    let half = MAILBOX_BYTES_MAX / 2;
    bed.applied(&held.run, of("half", half)).await;
    bed.refused(&held.run, of("over", half + 1), Refusal::MailboxFull).await;
    bed.refused(&held.run, of("alone-over", MAILBOX_BYTES_MAX + 1), Refusal::MailboxFull).await;
    let full = bed.applied(&held.run, of("other-half", half)).await;
    bed.refused(&held.run, of("two", 2), Refusal::MailboxFull).await;
    let mut commit = bed.carry_on(&full);
    commit.consumed = vec![signal_id("half")];
    bed.applied(&held.run, boxed(commit)).await;
    bed.applied(&held.run, of("two", 2)).await;
}

pub(super) async fn a_signal_by_reference_weighs_its_reference(bed: &Bed<'_>) {
    let started = bed.started("r").await;
    let bytes = vec![b'7'; 2 * MAILBOX_BYTES_MAX];
    let blob = bed.backend.blobs.put(&started.run, &bytes).await.unwrap();
    let signal = bed.signal_of("s1", "report", Payload::Blob(blob.clone()));
    let after = bed.applied(&started.run, signal).await;
    assert_eq!(after.mailbox.letters[0].payload, Payload::Blob(blob));
    // The store does not look whether it is there: that is the reader's to find out.
    let missing = Payload::Blob(BlobRef::of(&started.run, b"never stored"));
    bed.applied(&started.run, bed.signal_of("s2", "report", missing)).await;
}

pub(super) async fn an_ended_run_takes_no_signal(bed: &Bed<'_>) {
    let held = bed.held("r").await;
    let held = bed.applied(&held.run, bed.signal("s1", "chat")).await;
    let ended = bed.handed_off(&held, bed.completed()).await;
    assert_eq!(ended.mailbox.letters.len(), 1, "what was not consumed is still listed");
    bed.refused(&held.run, bed.signal("s2", "chat"), Refusal::Ended).await;
    bed.refused(&held.run, bed.signal("s1", "chat"), Refusal::Duplicate).await;
}

pub(super) async fn a_signal_survives_a_commit_that_did_not_know_of_it(bed: &Bed<'_>) {
    let held = bed.held("r").await;
    let held = bed.applied(&held.run, bed.signal("known", "chat")).await;
    let mut commit = bed.carry_on(&held);
    commit.consumed = vec![signal_id("known")];
    bed.applied(&held.run, bed.signal("unknown", "chat")).await;
    let after = bed.applied(&held.run, boxed(commit)).await;
    let ids: Vec<&SignalId> = after.mailbox.letters.iter().map(|letter| &letter.id).collect();
    assert_eq!(ids, [&signal_id("unknown")]);
    assert_eq!(after.mailbox.seq, MailboxSeq(2));
    assert_eq!(after.mailbox.seen, [signal_id("known")]);
}

pub(super) async fn consumption_keeps_the_other_letters(bed: &Bed<'_>) {
    let run = run("r");
    bed.held("r").await;
    for number in 0..12 {
        bed.applied(&run, bed.signal(&format!("s{number}"), if number % 2 == 0 { "even" } else { "odd" })).await;
    }
    let held = bed.load(&run).await.unwrap();
    let mut commit = bed.hand_off(&held, Status::Running);
    // From the middle, the end and the front, in an order of its own.
    commit.consumed = ["s5", "s11", "s0", "s10"].map(signal_id).to_vec();
    let after = bed.applied(&run, boxed(commit)).await;
    let ids: Vec<&str> = after.mailbox.letters.iter().map(|letter| letter.id.as_str()).collect();
    assert_eq!(ids, ["s1", "s2", "s3", "s4", "s6", "s7", "s8", "s9"]);
    assert_eq!(after.mailbox.seen, ["s5", "s11", "s0", "s10"].map(signal_id));
    bed.applied(&run, bed.signal("s12", "even")).await;
}
