//! Values: digests and references as texts, what a value weighs, and the limits as the docs state them.

use crate::make::{self, T0, held, inline, letter, signal_id, standing, waiting};
use serde_json::json;
use stepwell_core::invariants::{self, Broken};
use stepwell_core::{BlobRef, Digest, Json, MailboxSeq, ParkReason, Payload, RunId, Status, Wait, limits};

#[test]
fn a_failed_test_shows_values_as_they_are_stored() {
    assert_eq!(format!("{:?}", Json::of(&json!({"a": [1, "b"]})).unwrap()), r#"{"a":[1,"b"]}"#);
    let digest = Digest([0xab; 32]);
    assert_eq!((format!("{digest:?}"), digest.to_string()), ("ab".repeat(32), "ab".repeat(32)));
}

#[test]
fn a_reference_is_a_runs_own_or_it_is_not() {
    let (run, other) = (make::run(), RunId::new("another").unwrap());
    let mine = BlobRef::of(&run, b"value");
    assert!(mine.is_of(&run));
    assert!(!mine.is_of(&other));
    let disguised = BlobRef { sha256: Digest::of(b"other"), ..mine };
    assert!(!disguised.is_of(&run), "its key is that of other bytes");
}

#[test]
fn a_value_weighs_its_text_and_a_reference_what_it_takes_but_for_the_digits_of_its_size() {
    assert_eq!(inline(&json!({"a": 1})).weight(), r#"{"a":1}"#.len());
    let blob = BlobRef::of(&make::run(), b"seven b");
    let stored = serde_json::to_string(&blob).unwrap();
    assert_eq!(Payload::Blob(blob).weight(), stored.len() - "7".len());
}

#[test]
fn a_mailbox_is_bounded_in_what_it_holds_and_in_what_it_remembers() {
    let broken = |letters: usize, seen: usize| {
        let mut run = held(Status::Running);
        run.mailbox.letters = (0..letters).map(|n| letter(&format!("l{n}"), "go")).collect();
        run.mailbox.seen = (0..seen).map(|n| signal_id(&format!("s{n}"))).collect();
        invariants::check(&run).err().map(|Broken { number, .. }| number)
    };
    let (letters, seen) = (limits::MAILBOX_LETTERS_MAX, limits::SIGNALS_SEEN_MAX);
    assert_eq!(broken(letters, seen), None);
    assert_eq!(broken(letters + 1, 0), Some(7));
    assert_eq!(broken(0, seen + 1), Some(7));
}

/// It goes on when the run is resumed, so it has to be whole before.
#[test]
fn a_wait_that_was_cut_short_is_looked_at_as_any_other() {
    let Status::Waiting(whole) = waiting(&["go"], None) else { panic!("it waits") };
    let number = |wait: Wait| {
        let mut run = standing(Status::Parked { reason: ParkReason::Paused { what: "by ann".into() }, at: T0 });
        run.progress.spent.cut_wait = Some(Box::new(wait));
        invariants::check(&run).err().map(|broken| broken.number)
    };
    assert_eq!(number(whole.clone()), None);
    assert_eq!(number(Wait { on: vec![], ..whole.clone() }), Some(4));
    assert_eq!(number(Wait { seen: MailboxSeq(1), ..whole }), Some(5));
}

/// Who stores or sends to a run reckons with these; a change is a change for them.
#[test]
fn limits_in_bytes() {
    assert_eq!(limits::INLINE_BYTES_MAX, 4_096);
    assert_eq!(limits::BACK_BYTES_MAX, 4_096);
    assert_eq!(limits::MAILBOX_BYTES_MAX, 65_536);
    assert_eq!(limits::CHECKPOINT_BYTES_MAX, 389_120);
    assert_eq!(limits::VALUE_BYTES_MAX, 8_388_608);
    assert_eq!(limits::BLOB_BYTES_MAX, 268_435_456);
}
