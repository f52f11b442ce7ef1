//! History: the tail keeps to its bounds, segments cover every revision once and in order, and what a checkpoint says it
//! weighs is what it weighs.

use core::time::Duration;

use crate::make::{
    self, RULES, T0, acquire, at, committed, effect, end, failure, keyed, moment, place, started, succeeded, unknown,
};
use proptest::prelude::*;
use serde_json::json;
use stepwell_core::budget::Span;
use stepwell_core::checkpoint::{Lease, Trouble, Usage};
use stepwell_core::decide::{Resume, StepEnd, StepOutcome, Then, Turn, commit, resume, turn};
use stepwell_core::history::{EffectLine, Entry, EntryKind, LineOutcome, More, Segment};
use stepwell_core::limits::{TAIL_BYTES_MAX, TAIL_ENTRIES_MAX};
use stepwell_core::stored::{Unknown, decode, encode};
use stepwell_core::write::Write;
use stepwell_core::{
    Amounts, BlobRef, Budget, Certificate, CertifiedEffect, Checkpoint, Class, Digest, EffectRecord, Failure,
    FailureKind, Json, Letter, MailboxSeq, Outcome, OverBudget, ParkReason, Payload, Place, RetryPolicy, Revision,
    Status, Timestamp, Wait, WorkerId,
};

/// A run with all the history that it has written.
struct Told {
    run: Checkpoint,
    now: Timestamp,
    segments: Vec<Segment>,
}

impl Told {
    fn new() -> Self {
        Self { run: acquire(&started(), T0).unwrap(), now: T0, segments: Vec::new() }
    }

    /// Ends an attempt of a step, and goes on as far as the run can.
    fn tell(&mut self, end: StepEnd, passed: Duration) {
        self.now = self.now.plus(passed);
        let decided = match turn(&self.run, &Budget::none(), RULES, self.now).unwrap() {
            Turn::Step => commit(&self.run, end, RULES, moment(self.now), true).unwrap(),
            Turn::Write(decision) => *decision,
        };
        self.segments.extend(decided.commit.segment.clone());
        self.run = committed(&self.run, self.now, decided.commit);
        check_tail(&self.run.progress.tail);
        if decided.then == Then::Continue {
            return;
        }
        if let Status::Parked { .. } = self.run.progress.status {
            let (amend, _) = resume(&self.run, &Resume { by: "ann".into(), why: None }, self.now).unwrap();
            self.segments.extend(amend.segment.clone());
            self.run = make::write(&self.run, self.now, Write::Amend(Box::new(amend))).unwrap();
            check_tail(&self.run.progress.tail);
        }
        self.now = self.run.wakes_at().unwrap_or(self.now);
        self.run = acquire(&self.run, self.now).unwrap();
    }

    /// Every revision is in exactly one segment or in the tail, in order, at the time it was committed.
    fn check(&self) {
        let (mut next, mut last) = (Revision(1), T0);
        for segment in self.segments.iter().chain([&self.run.progress.tail]) {
            assert_eq!(segment.from, next);
            assert_eq!(segment.entries.first().map_or(0, |entry| entry.at), 0);
            for entry in &segment.entries {
                let at = segment.at.plus(Duration::from_millis(entry.at));
                assert!(at >= last, "{at} after {last}");
                (next, last) = (next.next(), at);
            }
        }
        assert_eq!(next, self.run.progress.revision.next());
    }
}

/// Never more than its bounds; a single entry that is larger by itself stands alone.
fn check_tail(tail: &Segment) {
    let bytes = serde_json::to_vec(tail).unwrap().len();
    assert!(tail.entries.len() <= TAIL_ENTRIES_MAX, "{} entries", tail.entries.len());
    assert!(bytes <= TAIL_BYTES_MAX || tail.entries.len() == 1, "{bytes} bytes in {tail:?}");
}

#[test]
fn a_chain_of_a_hundred_steps_writes_few_segments() {
    let mut told = Told::new();
    for step in ["Research", "Draft", "Decide", "Send"].into_iter().cycle().take(100) {
        let end = StepEnd { step: step.into(), ..end(StepOutcome::Goto { place: place(step) }) };
        told.tell(end, Duration::from_millis(137));
    }
    told.check();
    assert_eq!(told.run.progress.revision, Revision(100));
    assert!(told.segments.len() <= 8, "{} segments", told.segments.len());
}

#[test]
fn a_single_entry_that_is_too_large_stands_alone() {
    let mut told = Told::new();
    let goto = || end(StepOutcome::Goto { place: place("Send") });
    let large = || StepEnd { effects: (0..40).map(|n| succeeded(&format!("mail-{n}"))).collect(), ..goto() };
    for end in [goto(), large(), large(), goto()] {
        told.tell(end, Duration::from_millis(1));
    }
    told.check();
    assert_eq!(told.segments.iter().map(|segment| segment.entries.len()).collect::<Vec<_>>(), [1, 1, 1]);
}

#[test]
fn the_tail_of_a_clock_that_goes_back_stays_in_order() {
    let mut told = Told::new();
    told.tell(end(StepOutcome::Goto { place: place("Send") }), Duration::from_millis(500));
    told.now = T0;
    told.tell(end(StepOutcome::Goto { place: place("Send") }), Duration::ZERO);
    told.check();
    assert_eq!(told.run.progress.tail.entries[1].at, 0);
}

#[test]
fn an_entry_is_stored_as_a_short_array() {
    let plain = Entry { step: "Draft".into(), kind: EntryKind::Stepped, at: 120, took: 20, more: More::default() };
    let effects = vec![
        EffectLine::from(&succeeded("mail")),
        EffectLine { outcome: LineOutcome::Failed, class: Class::Read, name: "look".into(), attempts: 2 },
        EffectLine::from(&unknown("pay", Class::Idempotent(Some(60_000)))),
    ];
    let more = More { failed_attempts: 2, effects, note: Some("by \"ann\"".into()), back: None };
    let full = Entry { kind: EntryKind::Cancelled, more, ..plain.clone() };
    for (entry, golden) in [
        (plain, r#"["Draft","s",120,20]"#),
        (
            full,
            concat!(
                r#"["Draft","x",120,20,{"a":2,"e":[{"n":"mail","c":{"i":null},"o":"s","a":1},"#,
                r#"{"n":"look","c":"r","o":"f","a":2},{"n":"pay","c":{"i":60000},"o":"u","a":1}],"#,
                r#""n":"by \"ann\""}]"#
            ),
        ),
    ] {
        assert_eq!(serde_json::to_string(&entry).unwrap(), golden);
        assert_eq!(serde_json::from_str::<Entry>(golden).unwrap(), entry);
    }
    for (kind, letter) in [
        (EntryKind::Stepped, "s"),
        (EntryKind::Waited, "w"),
        (EntryKind::LookedUp, "l"),
        (EntryKind::Intended, "i"),
        (EntryKind::Retried, "r"),
        (EntryKind::Parked, "p"),
        (EntryKind::Resumed, "u"),
        (EntryKind::Resolved, "e"),
        (EntryKind::Answered, "a"),
        (EntryKind::Undoing, "b"),
        (EntryKind::Undone, "d"),
        (EntryKind::LetStand, "t"),
        (EntryKind::Edited, "m"),
        (EntryKind::Moved, "g"),
        (EntryKind::Reopened, "o"),
        (EntryKind::Completed, "c"),
        (EntryKind::Failed, "f"),
        (EntryKind::Cancelled, "x"),
    ] {
        assert_eq!(serde_json::to_value(kind).unwrap(), letter, "{}", kind.as_str());
    }
    let short = serde_json::from_str::<Entry>(r#"["Draft","s",1]"#).unwrap_err().to_string();
    assert!(short.contains("a history entry of 4 or 5 elements"), "{short}");
}

/// Text of all sorts: JSON writes some characters longer than they are.
fn text(most: usize) -> impl Strategy<Value = String> {
    proptest::collection::vec(
        prop_oneof![4 => any::<char>(), 4 => "[a-z\"\\\\\n]".prop_map(|s| s.chars().next().unwrap())],
        0..most,
    )
    .prop_map(|chars| chars.into_iter().collect())
}

fn payload() -> impl Strategy<Value = Payload> {
    prop_oneof![
        text(300).prop_map(|text| Payload::Inline(Json::of(&text).unwrap())),
        any::<u64>().prop_map(|size| Payload::Blob(BlobRef { size, ..BlobRef::of(&make::run(), &size.to_be_bytes()) })),
    ]
}

fn some_failure() -> impl Strategy<Value = Failure> {
    (text(60), proptest::option::of("[a-z-]{1,20}")).prop_map(|(message, code)| {
        let failure = Failure::new(FailureKind::Timeout, message);
        Failure { code, ..failure }
    })
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        payload().prop_map(Outcome::Succeeded),
        some_failure().prop_map(Outcome::Failed),
        text(60).prop_map(|evidence| Outcome::Unknown { since: T0, evidence }),
    ]
}

fn class() -> impl Strategy<Value = Class> {
    prop_oneof![
        Just(Class::Read),
        proptest::option::of(any::<u64>()).prop_map(Class::Idempotent),
        Just(Class::Reconcilable),
        Just(Class::Once),
    ]
}

fn record() -> impl Strategy<Value = EffectRecord> {
    let parameters = proptest::option::of(any::<[u8; 32]>().prop_map(Digest));
    let until = proptest::option::of(any::<u64>().prop_map(Timestamp));
    (text(20), class(), outcome(), any::<u32>(), parameters, until, any::<bool>()).prop_map(
        |(name, class, outcome, attempts, parameters, until, run)| {
            let made = if run { keyed(&name, "k", outcome) } else { effect(&name, class, outcome) };
            let (costs, undo) = (Amounts::from([(name.clone(), 7)]), Json::of(&name).ok().filter(|_| run));
            EffectRecord { class, attempts, parameters, until, costs, undo, signed_off: run.then_some(name), ..made }
        },
    )
}

fn records(most: usize) -> impl Strategy<Value = Vec<EffectRecord>> {
    proptest::collection::vec(record(), 0..most)
}

fn reason() -> impl Strategy<Value = ParkReason> {
    prop_oneof![
        any::<u32>().prop_map(|acquires| ParkReason::Poison { acquires }),
        text(90).prop_map(|missing| ParkReason::Incompatible { missing }),
        any::<u64>().prop_map(|limit| ParkReason::StepLimit { limit }),
        text(90).prop_map(|what| ParkReason::Data { what }),
        text(90).prop_map(|what| ParkReason::UnknownOutcome { what }),
        text(90).prop_map(|what| ParkReason::Undo { what }),
        (text(20), any::<u64>()).prop_map(|(counter, limit)| {
            ParkReason::Budget(OverBudget { span: Span::Step, counter, limit, spent: limit })
        }),
    ]
}

fn status() -> impl Strategy<Value = Status> {
    let names = proptest::collection::vec("[a-z][a-z0-9:._-]{0,60}", 0..16);
    let time = || any::<u64>().prop_map(Timestamp);
    prop_oneof![
        Just(Status::Created),
        Just(Status::Running),
        time().prop_map(|at| Status::Retrying { at }),
        (names, proptest::option::of(time()), any::<u64>()).prop_map(|(on, until, seen)| {
            let on = on.iter().map(|name| make::signal(name)).collect();
            Status::Waiting(Wait { on, approval: None, until, budget_ends: None, seen: MailboxSeq(seen) })
        }),
        (reason(), time()).prop_map(|(reason, at)| Status::Parked { reason, at }),
        (payload(), time()).prop_map(|(output, at)| Status::Completed { output, at }),
        (some_failure(), time()).prop_map(|(failure, at)| Status::Failed { failure, at }),
        (records(8), text(30)).prop_map(|(uncertain, step)| {
            let uncertain = uncertain.iter().map(CertifiedEffect::from).collect();
            let lost_attempt = Some(T0);
            let certificate = Certificate { confirmed: 7, uncertain, step, lost_attempt, ..Certificate::default() };
            Status::Cancelled { certificate, at: T0 }
        }),
    ]
}

fn letters() -> impl Strategy<Value = Vec<Letter>> {
    let letter = ("[a-z0-9]{1,64}", "[a-z]{1,64}", payload())
        .prop_map(|(id, name, payload)| Letter { payload, ..make::letter(&id, &name) });
    proptest::collection::vec(letter, 0..12)
}

fn usage() -> impl Strategy<Value = Usage> {
    any::<[u64; 4]>().prop_map(|[writes, bytes, effects_made, step_ms]| Usage {
        writes,
        bytes,
        effects_made,
        step_ms,
        ..Usage::default()
    })
}

prop_compose! {
    fn checkpoint()(
        status in status(),
        (journal, ledger) in (records(12), records(12)),
        (letters, seen) in (letters(), proptest::collection::vec("[a-z0-9]{1,64}", 0..20)),
        (cursor, state) in (text(40), payload()),
        fresh: bool,
        trouble in proptest::option::of(some_failure()),
        (leased, cancelled) in (any::<bool>(), proptest::option::of(text(80))),
        usage in usage(),
        notes in proptest::collection::vec(proptest::option::of(text(40)), 0..16),
        numbers: [u64; 4],
    ) -> Checkpoint {
        let mut run = started();
        let progress = &mut run.progress;
        (progress.status, progress.journal, progress.ledger, progress.usage) = (status, journal, ledger, usage);
        progress.place = if fresh {
            Place::Fresh { input: state, at: leased.then(|| Json::of(&cursor).unwrap()) }
        } else {
            Place::At { cursor: Json::of(&cursor).unwrap(), state }
        };
        progress.trouble = trouble.map(|last| Trouble { failed: 3, incompatible: 0, since: T0, last });
        progress.tail.entries = notes.into_iter().map(|note| {
            let more = More { note, ..More::default() };
            Entry { step: "Draft".into(), kind: EntryKind::Stepped, at: numbers[0], took: 5, more }
        }).collect();
        (progress.ticket.0, progress.visit.0, progress.spilled) = (numbers[1], numbers[2], numbers[3]);
        run.mailbox.letters = letters;
        run.mailbox.seen = seen.iter().map(|id| make::signal_id(id)).collect();
        let owner = WorkerId::new("worker-7f3a").unwrap();
        run.hold.lease = leased.then(|| Lease { owner, since: T0, until: at(30_000) });
        run.cancel = cancelled.map(|why| stepwell_core::CancelRequest { why: Some(why), ..make::cancel() });
        run
    }
}

/// A step of any outcome that the run can go on from, with a name and a note of any length.
fn any_end() -> impl Strategy<Value = StepEnd> {
    let policy = RetryPolicy::default().every(Duration::from_secs(1)).max_attempts(u32::MAX);
    let outcomes = prop_oneof![
        6 => Just(StepOutcome::Goto { place: place("Send") }),
        1 => Just(StepOutcome::Wait { place: place("Send"), on: vec![], until: Some(Timestamp(T0.0 + 1)), ask: None }),
        1 => (1_u64..100).prop_map(|days| {
            let until = Some(at(days * 86_400_000));
            StepOutcome::Wait { place: place("Send"), on: vec![make::signal("go")], until, ask: None }
        }),
        2 => text(60).prop_map(move |message| StepOutcome::Retry {
            failure: failure(&message),
            policy: policy.clone(),
            at_least: None,
        }),
        1 => reason().prop_map(|reason| StepOutcome::Park { reason }),
    ];
    (outcomes, "[A-Za-z]{1,30}", 0_u64..100_000, proptest::option::of(text(90)), records(5)).prop_map(
        |(outcome, step, took, note, effects)| {
            let took = Duration::from_millis(took);
            StepEnd { step, took, note, effects, ..end(outcome) }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn history_covers_every_revision_once_and_in_order(
        ends in proptest::collection::vec((any_end(), 0_u64..100_000_000), 1..60),
    ) {
        let mut told = Told::new();
        for (end, passed) in ends {
            told.tell(end, Duration::from_millis(passed));
        }
        told.check();
    }

    #[test]
    fn a_checkpoint_weighs_what_it_takes(run in checkpoint()) {
        let stored = encode(&run, &Unknown::new()).unwrap();
        prop_assert_eq!(run.weight(), stored.len());
        prop_assert_eq!(run.progress.weight(), serde_json::to_vec(&run.progress).unwrap().len());
        let (read, unknown) = decode(&stored).unwrap();
        prop_assert_eq!(read, run);
        prop_assert!(unknown.is_empty());
    }
}

#[test]
fn attributes_that_this_code_does_not_know_are_not_weighed() {
    let mut unknown = Unknown::new();
    unknown.insert("q".into(), json!([1, 2]));
    let run = started();
    assert_eq!(encode(&run, &unknown).unwrap().len(), run.weight() + r#","q":[1,2]"#.len());
}

#[test]
fn what_is_no_entry_is_refused_with_what_one_is() {
    for (text, why) in [
        ("7", "expected a history entry: [step, kind, at, took, {more}]"),
        (r#"["Draft"]"#, "invalid length 1, expected a history entry of 4 or 5 elements"),
    ] {
        let error = serde_json::from_str::<Entry>(text).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn a_tail_is_filled_to_its_last_byte() {
    let held = acquire(&started(), T0).unwrap();
    let filled = |note: usize| {
        let mut held = held.clone();
        let more = More { note: Some("x".repeat(note)), ..More::default() };
        let entry = Entry { step: "Draft".into(), kind: EntryKind::Stepped, at: 0, took: 0, more };
        held.progress.tail = Segment { from: Revision(1), at: T0, entries: vec![entry] };
        let goto = end(StepOutcome::Goto { place: place("Send") });
        let decided = commit(&held, goto, RULES, moment(T0), true).unwrap().commit;
        decided.segment.is_none().then(|| decided.progress.tail.weight())
    };
    assert_eq!((0..TAIL_BYTES_MAX).filter_map(filled).max(), Some(TAIL_BYTES_MAX));
}
