//! A person repairs a parked or failed run: edits what it knows, moves it, gives it up, or lets it try again. What it has done stays on
//! record, is counted once, and is never called again.

use core::time::Duration;

use crate::make::steps::{done, fail, goto, parks, retry, stack, take_back, then, undoable};
use crate::make::{
    self, RULES, T0, acquire, amended, asked, at, at_work, committed, end, failure, held, inline, keyed, lease, letter,
    place, refund, standing, succeeded, unknown, waiting, with_cancel, with_letter,
};
use serde_json::json;
use stepwell_core::checkpoint::Place;
use stepwell_core::decide::repair::{check, known};
use stepwell_core::decide::{
    Approve, Approved, Pause, Repair, RepairRefused, Resolution, Resume, StepOutcome, Turn, approve, turn,
};
use stepwell_core::decide::{discard, edit, move_to, pause, resume, retry as reopen};
use stepwell_core::history::{Back, EntryKind};
use stepwell_core::limits::LEDGER_RECORDS_MAX;
use stepwell_core::mailbox::{EVIDENCE, PAUSE};
use stepwell_core::write::{Amend, Refusal, Write};
use stepwell_core::{
    ApprovalId, Budget, Checkpoint, Class, EffectRecord, FailureKind, Json, Letter, Outcome, ParkReason, Payload,
    Phase, RetryPolicy, Reviewer, Revision, Status, Timestamp, Visit, Wait,
};

fn by_ann(run: &Checkpoint) -> Repair {
    Repair { at: run.progress.revision, by: "ann".into(), why: "the address was wrong".into() }
}

fn parked(reason: ParkReason) -> Checkpoint {
    standing(Status::Parked { reason, at: T0 })
}

fn paused() -> Checkpoint {
    parked(ParkReason::Paused { what: "by bob".into() })
}

fn missing() -> Checkpoint {
    parked(ParkReason::Data { what: "blob k is missing".into() })
}

/// The run after its step has ended so with these effects, held by nobody.
fn after(outcome: StepOutcome, effects: Vec<EffectRecord>) -> Checkpoint {
    then(&at_work(), outcome, effects)
}

fn edited(run: &Checkpoint, value: &serde_json::Value) -> Checkpoint {
    amended(run, at(20), edit(run, inline(value), None, &by_ann(run), at(20)).unwrap())
}

fn cursor(step: &str) -> Json {
    Json::of(step).unwrap()
}

fn moved(run: &Checkpoint, step: &str) -> Checkpoint {
    amended(run, at(20), move_to(run, cursor(step), &by_ann(run), at(20)).unwrap())
}

fn discarded(run: &Checkpoint) -> Checkpoint {
    amended(run, at(20), discard(run, &by_ann(run), at(20)).unwrap())
}

fn reopened(run: &Checkpoint) -> Checkpoint {
    let (amend, send) = reopen(run, "ann", Some("they are back"), at(20)).unwrap();
    let after = amended(run, at(20), amend);
    assert_eq!((send.ticket, send.delay.as_millis()), (run.progress.ticket.next(), 0));
    assert_eq!(after.progress.ticket, send.ticket);
    after
}

fn resumed(run: &Checkpoint) -> Checkpoint {
    let (amend, _) = resume(run, &Resume { by: "bob".into(), why: None }, at(21)).unwrap();
    amended(run, at(21), amend)
}

/// The run held by a worker whose step may run now.
fn taken(run: &Checkpoint, now: Timestamp) -> Checkpoint {
    let held = acquire(run, now).unwrap();
    assert_eq!(turn(&held, &Budget::none(), RULES, now).unwrap(), Turn::Step, "{:?}", held.progress.status);
    held
}

fn counts(run: &Checkpoint) -> (u64, u64) {
    (run.progress.usage.effects_confirmed, run.progress.usage.effects_failed)
}

fn last(run: &Checkpoint) -> (EntryKind, String, &str) {
    let entry = run.progress.tail.entries.last().unwrap();
    (entry.kind, entry.step.clone(), entry.more.note.as_deref().unwrap_or_default())
}

fn refused() -> Outcome {
    Outcome::Failed(failure("sold out"))
}

/// A letter of a worker that has lost the run and still heard how this ended.
fn hears(run: &Checkpoint, record: &EffectRecord) -> Checkpoint {
    let payload = Payload::Inline(Json::of(record).unwrap());
    let letter = Letter { payload, ..letter(&format!("evidence-{}", record.name), EVIDENCE) };
    make::write(run, T0, Write::Signal(Box::new(letter))).unwrap()
}

type Act = fn(&Checkpoint, &Repair) -> Result<Amend, RepairRefused>;

const ACTS: [(&str, Act); 3] = [
    ("edit", |run, act| edit(run, inline(&json!(2)), None, act, at(20))),
    ("move", |run, act| move_to(run, cursor("Ship"), act, at(20))),
    ("discard", |run, act| discard(run, act, at(20))),
];

#[test]
fn only_a_run_that_stands_still_is_repaired() {
    let live = [
        standing(Status::Created),
        standing(Status::Running),
        held(Status::Running),
        standing(waiting(&["go"], None)),
        standing(Status::Retrying { at: at(9) }),
        standing(Status::Completed { output: inline(&json!(1)), at: T0 }),
        standing(Status::Cancelled { certificate: stepwell_core::Certificate::default(), at: T0 }),
    ];
    for (run, (name, act)) in live.iter().flat_map(|run| ACTS.map(|act| (run, act))) {
        let phase = run.progress.status.phase();
        assert_eq!(act(run, &by_ann(run)), Err(RepairRefused::Phase(phase)), "{name} of one that is {phase}");
        assert_eq!(reopen(run, "ann", None, at(20)), Err(RepairRefused::NotFailed(phase)));
        let said = RepairRefused::Phase(phase).to_string();
        assert_eq!(said.ends_with("; pause it first"), !phase.is_ended(), "{said}");
        assert!(!said.ends_with("; pause it first") || said.contains(phase.as_str()), "{said}");
    }
    assert_eq!(reopen(&paused(), "ann", None, at(20)), Err(RepairRefused::NotFailed(Phase::Parked)));
    assert_eq!(check(&paused(), Revision(4)), Ok(()));
}

#[test]
fn one_that_has_moved_on_is_looked_at_again_first() {
    for ((name, act), stated) in ACTS.into_iter().flat_map(|act| [0, 3, 5].map(|stated| (act, Revision(stated)))) {
        let stale = Repair { at: stated, ..by_ann(&missing()) };
        let found = Revision(4);
        assert_eq!(act(&missing(), &stale), Err(RepairRefused::Stale { found, stated }), "{name}");
        // What comes between the look and the write refuses the write.
        let amend = act(&missing(), &by_ann(&missing())).unwrap();
        let other = edited(&missing(), &json!(7));
        assert_eq!(make::write(&other, at(21), Write::Amend(Box::new(amend))), Err(Refusal::Revision), "{name}");
    }
}

#[test]
fn one_that_is_to_end_or_takes_back_is_not_repaired() {
    let cancelled = with_cancel(&missing());
    let seat = undoable("seat", done());
    let undoing = then(&after(fail(), vec![seat.clone()]), parks(), vec![]);
    assert_eq!(undoing.progress.status.phase(), Phase::Parked);
    let taken_back = take_back(after(fail(), vec![seat]));
    assert_eq!(taken_back.progress.status.phase(), Phase::Failed);
    for run in [cancelled, undoing, taken_back.clone()] {
        for (name, act) in ACTS {
            assert_eq!(act(&run, &by_ann(&run)), Err(RepairRefused::Ending), "{name}");
        }
    }
    assert_eq!(reopen(&taken_back, "ann", None, at(20)), Err(RepairRefused::Ending));
}

#[test]
fn an_edit_changes_what_the_run_knows_and_nothing_else() {
    let mut run = with_letter(&missing(), "s1", "go");
    run.progress.journal = vec![succeeded("fetch"), unknown("fax", Class::Once)];
    run.progress.ledger = vec![keyed("pay", "order-7", done())];
    run.hold.tried_since = Some(T0);
    let patch = Json::of(&json!([{"op": "replace", "path": "/n", "value": 1}])).unwrap();
    let amend = edit(&run, inline(&json!({"n": 2})), Some(patch.clone()), &by_ann(&run), at(20)).unwrap();
    let after = amended(&run, at(20), amend);
    assert_eq!(last(&after), (EntryKind::Edited, "Draft".into(), "by ann: the address was wrong"));
    let entry = after.progress.tail.entries.last().unwrap();
    assert_eq!(entry.back(), Back::Patch(&patch));
    assert_eq!(known(&after), &inline(&json!({"n": 2})));

    let mut expected = run.clone();
    let Place::At { state, .. } = &mut expected.progress.place else { panic!("{run:?}") };
    *state = inline(&json!({"n": 2}));
    expected.progress.revision = Revision(5);
    expected.progress.tail = after.progress.tail.clone();
    expected.hold.write = after.hold.write;
    // The letter's mark was for a run that lives.
    expected.due_at = None;
    assert_eq!(after, expected);

    // Without a way back the history says that there is none.
    assert_eq!(edited(&run, &json!(3)).progress.tail.entries.last().unwrap().back(), Back::NotKept);
}

#[test]
fn before_its_first_step_its_input_is_edited() {
    let run = make::started();
    let letter = Letter { payload: Pause { by: "ann".into(), why: None }.payload().unwrap(), ..letter("p1", PAUSE) };
    let asked = make::write(&run, T0, Write::Signal(Box::new(letter))).unwrap();
    let run = amended(&asked, T0, pause(&asked, T0).unwrap().unwrap());
    let after = edited(&run, &json!({"goal": "draw"}));
    assert_eq!(after.progress.place, Place::Fresh { input: inline(&json!({"goal": "draw"})), at: None });
    assert_eq!(last(&after).1, "begin");
    assert_eq!(after.input_digest, run.input_digest, "a second start with the same key is the same start");
    assert_eq!(move_to(&after, cursor("Ship"), &by_ann(&after), at(21)), Err(RepairRefused::NotBegun));
    assert!(matches!(taken(&resumed(&after), at(22)).progress.place, Place::Fresh { .. }));
}

#[test]
fn an_edit_keeps_a_wait_and_a_move_leaves_it_behind() {
    let run = standing(waiting(&["go"], Some(at(60_000))));
    let letter = Letter { payload: Pause { by: "bob".into(), why: None }.payload().unwrap(), ..letter("p1", PAUSE) };
    let asked = make::write(&run, T0, Write::Signal(Box::new(letter))).unwrap();
    let run = amended(&asked, T0, pause(&asked, T0).unwrap().unwrap());
    assert_eq!(resumed(&edited(&run, &json!(2))).progress.status.phase(), Phase::Waiting);
    let on = resumed(&moved(&run, "Ship"));
    assert_eq!((on.progress.status.phase(), on.progress.spent.cut_wait.as_ref()), (Phase::Running, None));
    assert_eq!(taken(&on, at(22)).progress.place.step(), "Ship");
}

#[test]
fn a_failed_run_that_is_edited_or_moved_is_parked_first() {
    for (name, act) in &ACTS[..2] {
        let run = after(fail(), vec![succeeded("fetch"), keyed("pay", "order-7", refused())]);
        assert_eq!((run.progress.status.phase(), counts(&run)), (Phase::Failed, (1, 1)));
        let again = amended(&run, at(20), act(&run, &by_ann(&run)).unwrap());
        let Status::Parked { reason: reason @ ParkReason::Paused { .. }, at: since } = &again.progress.status else {
            panic!("{name}: {:?}", again.progress.status)
        };
        let said = reason.to_string();
        assert!(
            said.starts_with("paused to be repaired, ") && said.contains("by ann: the address was wrong"),
            "{said}"
        );
        assert_eq!((*since, again.due_at, again.progress.trouble.as_ref()), (at(20), None, None), "{name}");
        // What was counted at its end is counted when its step has ended.
        assert_eq!((counts(&again), &again.progress.journal), ((0, 0), &run.progress.journal), "{name}");
        let over = then(&taken(&resumed(&again), at(22)), goto(), again.progress.journal.clone());
        assert_eq!(counts(&over), (1, 1), "{name}");
    }
    // It can be parked, moved and edited again.
    let run = moved(&moved(&edited(&after(fail(), vec![]), &json!(2)), "Ship"), "Draft");
    assert_eq!((run.progress.visit, run.progress.status.phase()), (Visit(3), Phase::Parked));
}

#[test]
fn a_move_leaves_the_visit_behind_and_what_it_has_done_is_counted_once() {
    let seat = undoable("seat", done());
    let run = after(parks(), vec![succeeded("fetch"), seat.clone(), keyed("pay", "order-7", refused())]);
    let there = moved(&run, "Ship");
    assert_eq!(there.progress.place, place("Ship"));
    let (kind, step, note) = last(&there);
    assert_eq!((kind, step.as_str()), (EntryKind::Moved, "Draft"));
    assert_eq!(note, "from Draft to Ship, by ann: the address was wrong");
    assert_eq!(there.progress.tail.entries.last().unwrap().back(), Back::Same);
    assert_eq!(there.progress.status, run.progress.status, "it stays parked");
    assert_eq!((there.progress.visit, counts(&there)), (Visit(2), (0, 0)));
    assert_eq!(there.progress.journal, run.progress.journal);

    // However the next step ends, its effects are counted and folded once.
    let ends: [(StepOutcome, Phase, (u64, u64)); 2] = [
        (goto(), Phase::Running, (2, 1)),
        (StepOutcome::Complete { output: inline(&json!(1)) }, Phase::Completed, (2, 1)),
    ];
    for (outcome, phase, expected) in ends {
        let held = taken(&resumed(&there), at(22));
        let over = then(&held, outcome, held.progress.journal.clone());
        assert_eq!((over.progress.status.phase(), counts(&over)), (phase, expected));
        assert_eq!((stack(&over), over.progress.ledger.len()), (vec!["seat"], 2), "{phase}");
        assert_eq!(over.progress.journal, []);
    }
    let held = taken(&resumed(&there), at(22));
    let ended = take_back(then(&held, fail(), held.progress.journal.clone()));
    assert_eq!(ended.progress.undoing.unwrap().undone.len(), 1, "it is taken back once");

    // Moved on and on, it is still counted once.
    let far = moved(&moved(&there, "Draft"), "Ship");
    let held = taken(&resumed(&far), at(22));
    assert_eq!(counts(&then(&held, goto(), held.progress.journal.clone())), (2, 1));
}

#[test]
fn nothing_is_left_behind_or_given_up_that_may_have_happened() {
    let open = unknown("fax", Class::Once);
    let post = unknown("post", Class::Idempotent(None));
    let mut in_ledger = missing();
    in_ledger.progress.ledger = vec![open.clone()];
    for (run, record) in [
        (after(parks(), vec![succeeded("fetch"), open.clone()]), &open),
        (after(parks(), vec![post.clone()]), &post),
        (in_ledger, &open),
    ] {
        let unsettled = RepairRefused::Unsettled { key: record.key.clone(), name: record.name.clone() };
        for (name, act) in &ACTS[1..] {
            assert_eq!(act(&run, &by_ann(&run)), Err(unsettled.clone()), "{name}");
        }
        // The run's own step will ask: its state may be edited for that.
        assert!(edit(&run, inline(&json!(2)), None, &by_ann(&run), at(20)).is_ok());
        // A person's word is enough.
        for word in [Resolution::SignOff, Resolution::Failed("never arrived".into())] {
            let (told, woken) = make::told(&run, &record.name, word, at(19));
            for (name, act) in &ACTS[1..] {
                assert!(!woken && act(&told, &by_ann(&told)).is_ok(), "{name}");
            }
        }
    }
    // A read that may have happened has changed nothing.
    let run = after(parks(), vec![unknown("look", Class::Read)]);
    assert_eq!(moved(&run, "Ship").progress.visit, Visit(2));
    assert_eq!(discarded(&run).progress.status.phase(), Phase::Failed);
}

#[test]
fn unread_evidence_settles_what_is_left_behind() {
    let open = unknown("fax", Class::Once);
    let known = EffectRecord { outcome: done(), ..open.clone() };
    let run = hears(&after(parks(), vec![open.clone()]), &known);
    let there = moved(&run, "Ship");
    assert_eq!((&there.progress.journal, there.mailbox.pauses().count()), (&vec![known.clone()], 0));
    assert!(there.mailbox.letters.iter().all(|letter| letter.name.as_str() != EVIDENCE), "it is read");
    let held = taken(&resumed(&there), at(22));
    assert_eq!(counts(&then(&held, goto(), held.progress.journal.clone())), (1, 0));

    let ended = discarded(&run);
    assert_eq!((&ended.progress.journal, counts(&ended)), (&vec![known.clone()], (1, 0)));
    assert!(ended.mailbox.letters.iter().all(|letter| letter.name.as_str() != EVIDENCE));

    // It may be all that is known of an effect.
    let run =
        hears(&after(parks(), vec![]), &EffectRecord { key: keyed("pay", "order-7", done()).key, ..known.clone() });
    assert_eq!(counts(&discarded(&run)), (0, 0), "it is no effect of this visit");
    let paid = keyed("pay", "order-7", done());
    let run = hears(&after(parks(), vec![]), &paid);
    assert_eq!((counts(&discarded(&run)), &moved(&run, "Ship").progress.journal), ((1, 0), &vec![paid]));
}

#[test]
fn a_move_needs_no_room_in_the_ledger() {
    let mut run = after(parks(), (0..5).map(|n| keyed("mail", &n.to_string(), done())).collect());
    run.progress.ledger = (0..LEDGER_RECORDS_MAX).map(|n| keyed("book", &n.to_string(), done())).collect();
    let there = moved(&run, "Ship");
    assert_eq!((there.progress.ledger.len(), there.progress.journal.len()), (LEDGER_RECORDS_MAX, 5));
    let held = taken(&resumed(&there), at(22));
    let decision = make::steps::decided(&held, goto(), held.progress.journal.clone());
    assert_eq!((decision.commit.spill.len(), decision.commit.progress.spilled), (5, 5));
    assert_eq!(counts(&make::committed(&held, at(9), decision.commit)), (5, 0));
}

#[test]
fn an_attempt_that_left_no_record_is_spoken_of_and_then_forgotten() {
    let mut run = missing();
    run.hold.tried_since = Some(T0);
    let said = format!("an attempt of Draft since {T0} may have called the outside and left no record");
    let there = moved(&run, "Ship");
    assert!(last(&there).2.ends_with(&said), "{}", last(&there).2);
    assert_eq!(there.hold.tried_since, None);
    assert_eq!(taken(&resumed(&there), at(22)).crashed_since(), None, "the next step's own attempt is its first");
    let ended = discarded(&run);
    assert!(last(&ended).2.ends_with(&said), "{}", last(&ended).2);
    assert_eq!(ended.hold.tried_since, Some(T0), "tried again, it stays open");
}

#[test]
fn a_run_that_is_given_up_has_failed_and_what_it_has_done_stands() {
    let run = then(&after(goto(), vec![undoable("seat", done())]), parks(), vec![succeeded("fetch")]);
    let ended = discarded(&run);
    let Status::Failed { failure, at: when } = &ended.progress.status else { panic!("{ended:?}") };
    assert_eq!((failure.kind, *when), (FailureKind::Discarded, at(20)));
    assert_eq!(failure.message, "discarded by ann: the address was wrong; what it has done stands: seat");
    assert_eq!((last(&ended).0, last(&ended).2), (EntryKind::Failed, failure.message.as_str()));
    assert_eq!((counts(&ended), stack(&ended), ended.due_at), ((2, 0), vec!["seat"], None));
    assert_eq!((ended.progress.undoing.as_ref(), ended.hold.lease.as_ref()), (None, None));
    // So is what the visit that it stands in has done.
    let amid = discarded(&after(parks(), vec![undoable("seat", done())]));
    assert!(last(&amid).2.ends_with("; what it has done stands: seat"), "{}", last(&amid).2);
    // Once is enough.
    assert_eq!(discard(&ended, &by_ann(&ended), at(21)), Err(RepairRefused::Phase(Phase::Failed)));

    // It can be tried again, and what stands is taken back if it fails then.
    let again = reopened(&ended);
    assert_eq!((counts(&again), stack(&again)), ((1, 0), vec!["seat"]));
    let held = taken(&again, at(22));
    let failed = take_back(then(&held, fail(), held.progress.journal.clone()));
    assert_eq!(failed.progress.undoing.unwrap().undone.len(), 1);
}

#[test]
fn a_failed_run_that_is_tried_again_counts_nothing_twice() {
    let effects = vec![succeeded("fetch"), keyed("pay", "order-7", refused()), unknown("look", Class::Read)];
    let run = after(goto(), vec![keyed("book", "order-7", done()), keyed("hold", "order-7", refused())]);
    let mut run = then(&run, retry(RetryPolicy::none()), effects.clone());
    for _ in 0..3 {
        assert_eq!((run.progress.status.phase(), counts(&run)), (Phase::Failed, (2, 2)));
        let again = reopened(&run);
        assert_eq!(last(&again), (EntryKind::Reopened, run.progress.place.step(), "by ann: they are back"));
        assert_eq!((again.progress.status.clone(), again.progress.trouble.as_ref()), (Status::Running, None));
        assert_eq!((counts(&again), &again.progress.journal), ((1, 1), &effects), "the visit is not over after all");
        assert_eq!((again.progress.visit, &again.progress.place), (run.progress.visit, &run.progress.place));
        assert!(again.due_at.is_some() && again.is_due(at(20)));
        run = then(&taken(&again, at(22)), retry(RetryPolicy::none()), effects.clone());
    }
    let over = then(&taken(&reopened(&run), at(22)), goto(), effects);
    assert_eq!((counts(&over), over.progress.ledger.len()), ((2, 2), 3));
}

#[test]
fn a_failed_run_has_its_policy_from_the_beginning_again() {
    let policy = || RetryPolicy::default().max_attempts(2);
    let run = after(retry(policy()), vec![]);
    assert_eq!(run.progress.status.phase(), Phase::Retrying);
    let held = acquire(&run, at(600_000)).unwrap();
    let failed = make::committed(
        &held,
        at(600_000),
        stepwell_core::decide::commit(&held, end(retry(policy())), RULES, make::moment(at(600_000)), true)
            .unwrap()
            .commit,
    );
    assert_eq!(failed.progress.status.phase(), Phase::Failed);
    let (amend, _) = reopen(&failed, "ann", None, at(600_001)).unwrap();
    let again = acquire(&amended(&failed, at(600_001), amend), at(600_002)).unwrap();
    assert_eq!(then(&again, retry(policy()), vec![]).progress.status.phase(), Phase::Retrying);
}

#[test]
fn nobody_but_a_person_brings_a_failed_run_back() {
    let run = after(fail(), vec![]);
    assert_eq!(acquire(&run, at(20)), Err(Refusal::Ended));
    assert_eq!(make::write(&run, at(20), Write::Signal(Box::new(letter("s9", "go")))), Err(Refusal::Ended));
    assert_eq!(make::write(&run, at(20), Write::Cancel(make::cancel())), Err(Refusal::Ended));
    // Brought back, it lives like any other.
    let again = reopened(&run);
    assert_eq!(with_letter(&again, "s9", "go").mailbox.letters.len(), run.mailbox.letters.len() + 1);
    assert_eq!(make::taken_up(&with_cancel(&again), at(22)).progress.status.phase(), Phase::Cancelled);
}

#[test]
fn an_effect_of_the_failed_step_is_answered_from_its_record() {
    let effects = vec![keyed("pay", "order-7", done()), keyed("mail", "order-7", refused())];
    let run = after(fail(), effects.clone());
    assert_eq!(taken(&reopened(&run), at(22)).progress.journal, effects);
    assert_eq!(taken(&resumed(&moved(&run, "Ship")), at(22)).progress.journal, effects);
}

#[test]
fn an_edit_answers_what_a_spent_budget_asks() {
    use stepwell_core::budget::{OverBudget, Span};
    // What would have been spent was wrong: it is mended, and nothing more is allowed.
    let over = OverBudget { span: Span::Run, counter: "cents".into(), limit: 100, spent: 900 };
    let mut run = standing(Status::Parked { reason: ParkReason::Budget(over), at: T0 });
    let asked = resumed(&run);
    assert_eq!(asked.progress.spent.more_for_run.get("cents"), Some(&900), "as it stands, resuming allows it");
    let make_wait = make::waiting(&["go"], None);
    let Status::Waiting(wait) = make_wait else { panic!("{make_wait:?}") };
    run.progress.spent.cut_wait = Some(Box::new(wait));
    let edited =
        amended(&run, at(20), edit(&run, make::inline(&json!({"n": 2})), None, &by_ann(&run), at(20)).unwrap());
    assert!(matches!(&edited.progress.status, Status::Parked { reason: ParkReason::Paused { .. }, .. }));
    let after = resumed(&edited);
    assert_eq!(after.progress.spent.more_for_run.get("cents"), None);
    assert_eq!(after.progress.status.phase(), Phase::Waiting, "and a wait that was cut short goes on");
}

/// Its step must not run before what it waits for has come.
#[test]
fn a_run_that_was_given_up_while_its_wait_was_cut_short_waits_on() {
    let mut run = asked(refund());
    run.hold.lease = Some(lease(T0, at(30_000)));
    let Turn::Write(decision) = turn(&run, &Budget::none().lasting(Duration::ZERO), RULES, at(1)).unwrap() else {
        panic!("it steps")
    };
    let parked = committed(&run, at(1), decision.commit);
    let Status::Waiting(before) = &run.progress.status else { panic!("{run:?}") };
    let again = reopened(&discarded(&parked));
    // Somebody has to look what has come meanwhile.
    let expected = Wait { budget_ends: Some(at(20)), ..before.clone() };
    assert_eq!(again.progress.status, Status::Waiting(expected));
    assert!(again.is_due(at(20)));

    let approval = parked.progress.approvals[0].id.clone();
    let reviewer = Reviewer { name: "ann".into(), roles: vec![] };
    let act = Approve { approval, reviewer, allows: true, why: None };
    let Approved::New(amend, None) = approve(&parked, &act, at(2)).unwrap() else { panic!("it is woken") };
    let answered = amended(&parked, at(2), *amend);
    assert_eq!(reopened(&discarded(&answered)).progress.status, Status::Running, "it was answered");
    // An answer to another one ends no wait.
    let mut other = answered.clone();
    let mut asked = parked.progress.approvals[0].clone();
    asked.id = ApprovalId::parse("0123456789abcdef").unwrap();
    other.progress.spent.cut_wait.as_mut().unwrap().approval = Some(asked.id.clone());
    other.progress.approvals.push(asked);
    assert_eq!(reopened(&discarded(&other)).progress.status.phase(), Phase::Waiting);
}
