//! The audit: each thing that can be wrong is found, under its number, and a run that is well has no finding.

use crate::make;
use std::collections::BTreeSet;
use std::time::Duration;

use crate::make::*;
use serde_json::json;
use stepwell_core::audit::{
    BadBlob, Beside, Counter, Finding, Holds, LogFound, Recorded, Referrer, WakeSource, audit, holds, wake_source,
};
use stepwell_core::decide::{self, Pause, Repair, Resume, StepOutcome};
use stepwell_core::history::{Entry, EntryKind, More, Segment};
use stepwell_core::mailbox::{EVIDENCE, PAUSE};
use stepwell_core::status::Failure;
use stepwell_core::write::Write;
use stepwell_core::{
    BlobRef, Certificate, Checkpoint, Class, Digest, FailureKind, Json, LogId, Outcome, ParkReason, Payload, Place,
    RetryPolicy, Revision, Status, Ticket, Timestamp, Undo, Visit,
};

const GRACE: Duration = Duration::from_mins(30);

fn found(run: &Checkpoint, now: Timestamp) -> Vec<Finding> {
    audit(run, &Beside::default(), now, GRACE)
}

/// The one finding of this run at [`T0`], as a code and the invariant that it breaks.
#[track_caller]
fn only(run: &Checkpoint) -> (&'static str, u8) {
    only_at(run, T0)
}

#[track_caller]
fn only_at(run: &Checkpoint, now: Timestamp) -> (&'static str, u8) {
    one(&found(run, now))
}

#[track_caller]
fn one(found: &[Finding]) -> (&'static str, u8) {
    let [finding] = found else { panic!("one finding: {found:?}") };
    assert!(!finding.to_string().is_empty() && !finding.remedy().is_empty());
    (finding.code(), finding.invariant())
}

fn ended(status: Status) -> Checkpoint {
    standing(status)
}

fn completed() -> Checkpoint {
    ended(Status::Completed { output: inline(&json!(1)), at: T0 })
}

fn failed() -> Checkpoint {
    ended(Status::Failed { failure: failure("no"), at: T0 })
}

fn cancelled() -> Checkpoint {
    let mut run = ended(Status::Cancelled { certificate: Certificate::default(), at: T0 });
    run.cancel = Some(cancel());
    run
}

fn retrying(at: Timestamp) -> Checkpoint {
    standing(Status::Retrying { at })
}

fn parked(reason: ParkReason) -> Checkpoint {
    standing(Status::Parked { reason, at: T0 })
}

fn undo_of(name: &str) -> Undo {
    let record = keyed(name, "k", Outcome::Succeeded(inline(&json!(1))));
    let step = Json::of("TakeBack").unwrap();
    Undo { key: record.key, name: name.into(), class: record.class, attempts: 1, step, behind: Vec::new() }
}

fn refused_effect(name: &str) -> stepwell_core::EffectRecord {
    keyed(name, "k", Outcome::Failed(Failure::new(FailureKind::Refused, "no")))
}

#[test]
fn what_wakes_a_run_is_named_with_its_time() {
    let hour = at(3_600_000);
    let lease_end = T0.plus(RULES.lease);
    let incompatible = ParkReason::Incompatible { missing: "step X".into() };
    let cut_short = |mut run: Checkpoint| {
        run.due_at = None;
        run
    };
    let table = vec![
        ("new", started(), Some((WakeSource::Message, Some(MARK)))),
        ("held", held(Status::Running), Some((WakeSource::Lease, Some(lease_end)))),
        ("between steps", standing(Status::Running), Some((WakeSource::Message, Some(MARK)))),
        ("tried again later", retrying(hour), Some((WakeSource::Timer, Some(hour)))),
        ("to be tried again now", retrying(T0), Some((WakeSource::Message, Some(MARK)))),
        ("waits for a time", standing(waiting(&[], Some(hour))), Some((WakeSource::Timer, Some(hour)))),
        ("waits for a signal", standing(waiting(&["go"], None)), Some((WakeSource::Signal, None))),
        ("or a time", standing(waiting(&["go"], Some(hour))), Some((WakeSource::Signal, Some(hour)))),
        (
            "it has come",
            with_letter(&standing(waiting(&["go"], None)), "s", "go"),
            Some((WakeSource::Message, Some(MARK))),
        ),
        ("cancelled", with_cancel(&standing(waiting(&["go"], None))), Some((WakeSource::Message, Some(MARK)))),
        ("approval", asked(refund()), Some((WakeSource::Person, Some(T0.plus(refund().within))))),
        ("parked", parked(ParkReason::Poison { acquires: 5 }), Some((WakeSource::Person, None))),
        ("unknown here", parked(incompatible), Some((WakeSource::Deploy, None))),
        ("completed", completed(), None),
        ("failed", failed(), None),
        ("cancelled and ended", cancelled(), None),
        ("no mark", cut_short(standing(Status::Running)), None),
        ("no mark beside its time", cut_short(retrying(hour)), None),
        ("nothing to wait for", cut_short(standing(waiting(&[], None))), None),
    ];
    let mut named = BTreeSet::new();
    for (what, run, source) in table {
        assert_eq!(wake_source(&run, T0), source, "{what}");
        named.extend(source.map(|(source, _)| source));
    }
    assert!(named.into_iter().eq(WakeSource::ALL), "each is there");
}

#[test]
fn a_run_that_is_well_has_no_finding_however_long_nothing_happens_that_need_not() {
    let held_once = || acquire(&standing(Status::Running), T0).unwrap();
    let act = Resume { by: "ann".into(), why: None };
    let paused = {
        let pause = Pause { by: "ann".into(), why: None };
        let mut letter = letter("p", PAUSE);
        letter.payload = pause.payload().unwrap();
        let asked = write(&standing(waiting(&["go"], None)), T0, Write::Signal(Box::new(letter))).unwrap();
        amended(&asked, T0, decide::pause(&asked, T0).unwrap().unwrap())
    };
    let resumed = {
        let (amend, _) = decide::resume(&paused, &act, T0).unwrap();
        amended(&paused, T0, amend)
    };
    let given_up = {
        let repair = Repair { at: paused.progress.revision, by: "ann".into(), why: "old".into() };
        amended(&paused, T0, decide::discard(&paused, &repair, T0).unwrap())
    };
    let mut with_unknown = parked(ParkReason::UnknownOutcome { what: "it may have happened".into() });
    with_unknown.progress.journal = vec![unknown("pay", Class::Once)];
    let mut around = standing(waiting(&["go"], None));
    around.progress.ledger = vec![unknown("pay", Class::Once)];
    let evidence = with_letter(&with_unknown, "e", EVIDENCE);
    let long = [
        ("waits for a signal", standing(waiting(&["go"], None))),
        ("has a signal that it does not wait for", {
            let mut run = with_letter(&standing(waiting(&["go"], None)), "s", "other");
            let Status::Waiting(wait) = &mut run.progress.status else { panic!() };
            wait.seen = run.mailbox.seq;
            run
        }),
        ("parked", parked(ParkReason::StepLimit { limit: 1 })),
        ("paused", paused),
        ("given up", given_up),
        ("parked for an unknown outcome", with_unknown),
        ("and has evidence that it has read", evidence),
        ("goes on around an unknown outcome", around),
        ("completed", completed()),
        ("failed", failed()),
        ("cancelled", taken_up(&with_cancel(&standing(Status::Running)), T0)),
    ];
    for (what, run) in long {
        for later in [0, 3_600_000, 365 * 86_400_000] {
            assert_eq!(found(&run, at(later)), [], "{what}, {later} ms later");
        }
    }
    let retry = StepOutcome::Retry { failure: failure("no"), policy: RetryPolicy::default(), at_least: None };
    let retried = {
        let held = held_once();
        let decision = decide::commit(&held, end(retry), RULES, moment(T0), false).unwrap();
        committed(&held, T0, decision.commit)
    };
    // Somebody comes within a mark and what sweeps need.
    let soon = [
        ("new", started()),
        ("held", held_once()),
        ("between two steps", handed_off(&held_once(), T0)),
        ("tried again", retried),
        ("resumed", resumed),
        ("asked for its end", with_cancel(&standing(waiting(&["go"], None)))),
        ("has a signal that it waits for", with_letter(&standing(waiting(&["go"], None)), "s", "go")),
        ("waits for an approval", asked(refund())),
    ];
    for (what, run) in soon {
        for later in [0, 60_000, 30 * 60_000] {
            assert_eq!(found(&run, at(later)), [], "{what}, {later} ms later");
        }
    }
}

#[test]
fn a_run_that_a_sweep_should_have_brought_to_a_worker_is_forgotten() {
    let run = standing(Status::Running);
    let end = MARK.plus(GRACE);
    assert_eq!(found(&run, end), []);
    let finding = Finding::Forgotten { source: WakeSource::Message, since: MARK };
    assert_eq!(found(&run, end.plus(Duration::from_millis(1))), [finding]);
    assert_eq!(only_at(&run, end.plus(Duration::from_millis(1))), ("forgotten", 1));

    // A timer is late from the mark after it on, whatever an earlier signal has set.
    let hour = at(3_600_000);
    let mut timer = retrying(hour);
    timer.due_at = Some(MARK);
    let late = hour.next_mark().plus(GRACE);
    assert_eq!(found(&timer, late), []);
    assert_eq!(only_at(&timer, late.plus(Duration::from_millis(1))), ("forgotten", 1));
    let slept = standing(waiting(&["go"], Some(hour)));
    assert_eq!(found(&slept, late), []);
    assert_eq!(only_at(&slept, late.plus(Duration::from_millis(1))), ("forgotten", 1));

    // What it was sent since is not to wait for that timer, nor is its end.
    let day = at(86_400_000);
    let sent = with_letter(&standing(waiting(&["go"], Some(day))), "s", "go");
    let to_end = with_cancel(&retrying(day));
    for run in [sent, to_end] {
        assert_eq!(found(&run, end), []);
        assert_eq!(only_at(&run, end.plus(Duration::from_millis(1))), ("forgotten", 1));
    }
    // A signal that did not wake it has set a mark, and the time has come since.
    let mut passed_over = standing(waiting(&["go"], Some(hour)));
    passed_over.due_at = Some(MARK);
    assert_eq!(found(&passed_over, late), []);
    assert_eq!(only_at(&passed_over, late.plus(Duration::from_millis(1))), ("forgotten", 1));

    // One that was held until lately was not forgotten before.
    let mut died = held(Status::Running);
    died.hold.lease = Some(lease(T0, end));
    assert_eq!(found(&died, end), []);
    assert_eq!(found(&died, end.plus(GRACE)), []);
    assert_eq!(only_at(&died, end.plus(GRACE).plus(Duration::from_millis(1))), ("forgotten", 1));
}

/// No worker touches a parked run, so an end that was asked for and not written would never come.
#[test]
fn a_parked_run_whose_end_was_asked_for_is_forgotten_unless_a_person_has_something_to_settle() {
    let mut run = parked(ParkReason::Paused { what: "by ann".into() });
    run.cancel = Some(make::cancel());
    let (in_time, late) = (T0.plus(GRACE), T0.plus(GRACE).plus(Duration::from_millis(1)));
    assert_eq!(found(&run, in_time), []);
    assert_eq!(only_at(&run, late), ("forgotten", 1));
    run.progress.journal = vec![make::unknown("letter", Class::Once)];
    assert!(found(&run, late).iter().all(|finding| finding.code() != "forgotten"));
}

#[test]
fn a_live_run_without_a_wake_source_is_found() {
    let mut run = standing(Status::Running);
    run.due_at = None;
    let codes: Vec<_> = found(&run, T0).iter().map(|finding| (finding.code(), finding.invariant())).collect();
    assert_eq!(codes, [("contradiction", 10), ("no-wake-source", 10)]);
    // A parked run needs no mark.
    let mut run = parked(ParkReason::Poison { acquires: 5 });
    run.due_at = None;
    assert_eq!(found(&run, T0), []);
}

#[test]
fn a_mark_that_is_later_than_the_run_allows_is_found() {
    let late = |mut run: Checkpoint, mark| {
        run.due_at = Some(mark);
        run
    };
    let hour = at(3_600_000);
    let last = |at: Timestamp| at.next_mark().plus(GRACE);
    let ms = Duration::from_millis(1);
    for (run, at) in [
        (standing(Status::Running), T0),
        (retrying(hour), hour),
        (standing(waiting(&[], Some(hour))), hour),
        (with_letter(&standing(waiting(&["go"], Some(hour))), "s", "go"), T0),
        (held(Status::Running), T0),
    ] {
        assert_eq!(found(&late(run.clone(), last(at)), T0), [], "{:?}", run.progress.status);
        assert_eq!(only(&late(run, last(at).plus(ms))), ("late-mark", 10));
    }
}

#[test]
fn a_checkpoint_that_contradicts_itself_is_found_by_its_rule() {
    let mut leased = completed();
    leased.hold.lease = Some(lease(T0, MARK));
    leased.hold.fence.0 = 1;
    assert_eq!(only(&leased), ("contradiction", 2));
    assert!(found(&leased, T0)[0].to_string().contains("rule 1: only a live run is leased"));
    let mut steps = standing(Status::Running);
    steps.progress.visit = Visit(9);
    assert_eq!(only(&steps), ("contradiction", 2));
    let mut seen = standing(waiting(&["go"], None));
    let Status::Waiting(wait) = &mut seen.progress.status else { panic!() };
    wait.seen.0 = 1;
    assert_eq!(only(&seen), ("contradiction", 6));
}

#[test]
fn a_signal_that_a_wait_has_passed_over_is_found() {
    let looked_past = |name: &str| {
        let mut run = with_letter(&standing(waiting(&["go"], None)), "s", name);
        let Status::Waiting(wait) = &mut run.progress.status else { panic!() };
        wait.seen = run.mailbox.seq;
        run
    };
    let late = T0.plus(GRACE).plus(Duration::from_millis(1));
    assert_eq!(only_at(&looked_past("go"), late), ("unread-signal", 6));
    assert_eq!(only_at(&looked_past(PAUSE), late), ("unread-signal", 6));
    assert_eq!(found(&looked_past("go"), T0.plus(GRACE)), [], "not at once");
    assert_eq!(found(&looked_past("other"), late), []);
    let mut worked_on = looked_past("go");
    worked_on.hold.lease = Some(lease(T0, late.plus(GRACE)));
    worked_on.hold.fence.0 = 1;
    worked_on.due_at = Some(MARK);
    assert_eq!(found(&worked_on, late), []);
}

#[test]
fn a_mailbox_that_does_not_add_up_is_found() {
    let mut twice = with_letter(&standing(waiting(&["go"], None)), "s", "go");
    twice.mailbox.seen.push(signal_id("s"));
    twice.mailbox.seq.0 = 2;
    assert_eq!(only(&twice), ("signal-twice", 6));
    let mut uncounted = standing(waiting(&["go"], None));
    uncounted.mailbox.seen = vec![signal_id("a"), signal_id("b"), signal_id("a")];
    uncounted.mailbox.seq.0 = 1;
    uncounted.due_at = Some(MARK);
    let allowed = (2, u64::MAX);
    assert_eq!(found(&uncounted, T0), [Finding::Counter { counter: Counter::Mailbox, found: 1, allowed }]);
    uncounted.mailbox.seq.0 = 2;
    assert_eq!(found(&uncounted, T0), []);
}

#[test]
fn an_effect_that_may_have_happened_is_not_left_behind() {
    // A run that waits for something else does not ask.
    let mut waits = standing(waiting(&["go"], None));
    waits.progress.journal = vec![unknown("pay", Class::Reconcilable)];
    let late = T0.plus(GRACE).plus(Duration::from_millis(1));
    assert_eq!(found(&waits, T0.plus(GRACE)), []);
    assert_eq!(only_at(&waits, late), ("unasked-effect", 4));
    waits.progress.journal[0].until = Some(late);
    assert_eq!(found(&waits, late), [], "its call may still land");
    // One that is tried again does, and a read has changed nothing.
    let mut retries = retrying(at(86_400_000));
    retries.progress.journal = vec![unknown("pay", Class::Reconcilable)];
    assert_eq!(found(&retries, late), []);
    waits.progress.journal = vec![unknown("look", Class::Read)];
    assert_eq!(found(&waits, late), []);

    for run in [completed(), failed(), cancelled()] {
        let mut open = run.clone();
        open.progress.ledger = vec![unknown("pay", Class::Once)];
        assert_eq!(only(&open), ("open-at-end", 4));
        open.progress.ledger[0].signed_off = Some("ann".into());
        assert_eq!(found(&open, T0), []);
        // What the last visit knows counts.
        let mut settled = run;
        settled.progress.ledger = vec![keyed("pay", "k", unknown("pay", Class::Once).outcome)];
        settled.progress.journal = vec![keyed("pay", "k", Outcome::Succeeded(inline(&json!(1))))];
        assert_eq!(found(&settled, T0), []);
    }
}

#[test]
fn an_end_that_is_none_is_found() {
    let undoing = |cause| {
        let (step, undone, stands, never_sent) = ("Draft".into(), Vec::new(), Vec::new(), Vec::new());
        let undoing = stepwell_core::Undoing { cause, step, undone, stands, never_sent, lost_attempt: None };
        Some(Box::new(undoing))
    };
    let because = || stepwell_core::Cause::Failed(failure("no"));
    let mut completes = completed();
    completes.progress.undoing = undoing(because());
    let mut fails = failed();
    (fails.progress.undoing, fails.progress.undo) = (undoing(because()), vec![undo_of("pay")]);
    let mut unasked = cancelled();
    unasked.cancel = None;
    let mut too_early = cancelled();
    too_early.progress.undo = vec![undo_of("pay")];
    let mut miscounted = cancelled();
    miscounted.progress.usage.effects_confirmed = 1;
    let mut unsigned = cancelled();
    let Status::Cancelled { certificate, .. } = &mut unsigned.progress.status else { panic!() };
    certificate.uncertain = vec![(&unknown("pay", Class::Once)).into()];
    for run in [completes, fails, unasked, too_early, miscounted, unsigned] {
        assert_eq!(only(&run), ("wrong-end", 4), "{:?}", run.progress.status);
    }
    // One that was given up lets stand what it has done.
    let mut given_up = failed();
    given_up.progress.undo = vec![undo_of("pay")];
    assert_eq!(found(&given_up, T0), []);
}

#[test]
fn effects_whose_records_do_not_agree_are_found() {
    let one_key = |digest: &[u8]| {
        let parameters = Some(Digest::of(digest));
        stepwell_core::EffectRecord { parameters, ..keyed("pay", "k", Outcome::Succeeded(inline(&json!(1)))) }
    };
    let mut twice = standing(Status::Running);
    twice.progress.ledger = vec![one_key(b"1"), one_key(b"1")];
    assert_eq!(only(&twice), ("effect-twice", 3));
    let mut differs = standing(Status::Running);
    (differs.progress.ledger, differs.progress.journal) = (vec![one_key(b"1")], vec![one_key(b"2")]);
    assert_eq!(only(&differs), ("effect-twice", 3));
    differs.progress.journal = vec![one_key(b"1")];
    assert_eq!(found(&differs, T0), [], "asked for again");

    let mut groundless = standing(Status::Running);
    (groundless.progress.ledger, groundless.progress.undo) = (vec![refused_effect("pay")], vec![undo_of("pay")]);
    assert_eq!(only(&groundless), ("groundless-undo", 4));
    groundless.progress.journal = vec![keyed("pay", "k", Outcome::Succeeded(inline(&json!(1))))];
    assert_eq!(found(&groundless, T0), [], "it was called again");
}

#[test]
fn counters_that_do_not_fit_each_other_are_found() {
    let counter = |run: &Checkpoint| match found(run, T0).as_slice() {
        [Finding::Counter { counter, .. }] => *counter,
        other => panic!("{other:?}"),
    };
    let mut run = standing(Status::Running);
    assert_eq!(found(&run, T0), []);
    run.progress.ticket = Ticket(6);
    assert_eq!(counter(&run), Counter::Ticket);
    let mut run = standing(Status::Running);
    run.hold.acquires = 1;
    assert_eq!(counter(&run), Counter::Acquires);
    let mut run = held(Status::Running);
    (run.hold.fence.0, run.hold.acquires) = (0, 0);
    assert_eq!(counter(&run), Counter::Fence);
}

fn entry(kind: EntryKind) -> Entry {
    Entry { step: "Draft".into(), kind, at: 0, took: 1, more: More::default() }
}

fn segment(from: u64, kinds: &[EntryKind]) -> Segment {
    Segment { from: Revision(from), at: T0, entries: kinds.iter().copied().map(entry).collect() }
}

/// A run of seven revisions, whose last three are in its tail.
fn with_history() -> (Checkpoint, Vec<Segment>) {
    use EntryKind::{Intended, LookedUp, Stepped, Waited};
    let mut run = standing(Status::Running);
    (run.progress.revision, run.progress.visit) = (Revision(7), Visit(5));
    run.progress.tail = segment(5, &[Stepped, Waited, LookedUp]);
    (run, vec![segment(1, &[Stepped, Intended]), segment(3, &[Stepped, Stepped])])
}

fn recorded(run: &Checkpoint, segments: &[Segment]) -> Vec<Finding> {
    let mut history = Recorded::default();
    for segment in segments {
        history.add(segment, run.progress.tail.from);
    }
    audit(run, &Beside { history: Some(history), ..Beside::default() }, T0, GRACE)
}

#[test]
fn a_history_with_an_entry_for_each_revision_is_well() {
    let (run, segments) = with_history();
    assert_eq!(recorded(&run, &segments), []);
    // A commit that was never made has left its tail behind, and so has one that was made since.
    let beyond = segment(5, &[EntryKind::Stepped; 9]);
    assert_eq!(recorded(&run, &[&segments[..], &[beyond]].concat()), []);
    let later = segment(20, &[EntryKind::Stepped]);
    assert_eq!(recorded(&run, &[&segments[..], &[later]].concat()), []);
    assert_eq!(recorded(&started(), &[]), []);
}

#[test]
fn a_history_with_a_gap_is_found_wherever_it_is() {
    let (run, segments) = with_history();
    let gap = |from, to| Finding::HistoryGap { from: Revision(from), to: Revision(to) };
    assert_eq!(recorded(&run, &segments[..1]), [gap(3, 5)]);
    assert_eq!(recorded(&run, &segments[1..]), [gap(1, 3)]);
    assert_eq!(recorded(&run, &[]), [gap(1, 5)]);
    assert_eq!(gap(1, 5).to_string(), "its history has no entries of revisions 1 to 4");
    assert_eq!(one(&[gap(1, 5)]), ("history-gap", 2));
    let mut behind = run.clone();
    behind.progress.tail.entries.pop();
    let allowed = (7, 7);
    let [counter, ..] = &recorded(&behind, &segments)[..] else { panic!("nothing was found") };
    assert_eq!(*counter, Finding::Counter { counter: Counter::History, found: 6, allowed });
}

#[test]
fn steps_that_ended_and_are_not_in_the_history_are_found() {
    let (mut run, segments) = with_history();
    run.progress.visit = Visit(6);
    let finding = Finding::Counter { counter: Counter::Visits, found: 6, allowed: (5, 5) };
    assert_eq!(recorded(&run, &segments), [finding]);
    assert_eq!(one(&recorded(&run, &segments)), ("counter", 5));
    // With some entries a step may have ended, or not.
    run.progress.tail.entries[2].kind = EntryKind::Parked;
    assert_eq!(recorded(&run, &segments), []);
}

#[test]
fn what_is_missing_beside_the_checkpoint_is_found() {
    let blob = BlobRef::of(&run(), b"large");
    let bad = |found: Option<&str>| BadBlob { blob: blob.clone(), of: Referrer::State, found: found.map(Into::into) };
    let beside = |blobs, logs| audit(&standing(Status::Running), &Beside { history: None, blobs, logs }, T0, GRACE);
    assert_eq!(one(&beside(vec![bad(None)], vec![])), ("missing-blob", 9));
    assert_eq!(one(&beside(vec![bad(Some("3 bytes"))], vec![])), ("altered-blob", 9));
    let log = |found| LogFound { log: LogId(1), counted: 5, found };
    assert_eq!(one(&beside(vec![], vec![log(4)])), ("short-log", 9));
    assert_eq!(beside(vec![], vec![log(5)]), []);
    assert_eq!(one(&[Finding::Unreadable { what: "bad checksum".into() }]), ("unreadable", 9));
}

#[test]
fn every_value_that_a_run_may_come_to_read_is_looked_at() {
    let (mut run, blob) = (with_letter(&asked(refund()), "s", "go"), |name: &[u8]| BlobRef::of(&run(), name));
    run.progress.place = Place::At { cursor: Json::of("Draft").unwrap(), state: Payload::Blob(blob(b"state")) };
    run.progress.journal = vec![succeeded("a")];
    run.progress.ledger = vec![keyed("b", "k", Outcome::Succeeded(Payload::Blob(blob(b"result"))))];
    run.progress.undo = vec![undo_of("b")];
    let mut of: Vec<Referrer> = holds(&run).into_iter().map(|(of, _)| of).collect();
    of.extend(holds(&started()).into_iter().map(|(of, _)| of));
    of.extend(holds(&completed()).into_iter().map(|(of, _)| of));
    let of: BTreeSet<Referrer> = of.into_iter().collect();
    let all = [
        Referrer::Input,
        Referrer::State,
        Referrer::Output,
        Referrer::Effect,
        Referrer::Approval,
        Referrer::Signal,
        Referrer::Undo,
    ];
    assert!(of.into_iter().eq(all), "a log is found through a state");
    // Late evidence is a record of the engine's own, whose result may lie in a blob.
    let told = with_letter(&standing(Status::Running), "e", EVIDENCE);
    assert!(holds(&told).iter().any(|(of, holds)| *of == Referrer::Effect && matches!(holds, Holds::Text(_))));
}
