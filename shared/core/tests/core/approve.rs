//! A person answers an approval: who may, what each answer comes to, and whether the run goes on.

use core::time::Duration;

use crate::make::{
    self, RULES, T0, acquire, amended, asked, at, committed, end, failure, held, moment, place, refund, signal,
    standing, unknown, with_cancel, write,
};
use stepwell_core::approval::Used;
use stepwell_core::decide::{Approve, ApproveRefused, Approved, Send, StepOutcome, approve, commit};
use stepwell_core::history::EntryKind;
use stepwell_core::limits::APPROVALS_KEPT_MAX;
use stepwell_core::write::{Refusal, Write};
use stepwell_core::{
    Answer, Approval, ApprovalId, AskApproval, Authority, Certificate, Checkpoint, Class, Digest, EffectRecord,
    OverBudget, ParkReason, Phase, Reviewer, Standing, Status, Timestamp,
};

const HOUR: u64 = 3_600_000;

fn reviewer(name: &str, role: Option<&str>) -> Reviewer {
    Reviewer { name: name.into(), roles: role.into_iter().map(str::to_owned).collect() }
}

/// Somebody of the finance department, who may decide.
fn bob() -> Reviewer {
    reviewer("bob", Some("finance"))
}

fn cid() -> Reviewer {
    reviewer("cid", Some("finance"))
}

fn act(run: &Checkpoint, reviewer: Reviewer, allows: bool) -> Approve {
    let approval = run.progress.approvals.last().map(|approval| approval.id.clone()).unwrap();
    Approve { approval, reviewer, allows, why: Some("known customer".into()) }
}

fn says(run: &Checkpoint, reviewer: Reviewer, allows: bool, now: Timestamp) -> Result<Approved, ApproveRefused> {
    approve(run, &act(run, reviewer, allows), now)
}

/// The run after an answer that has to be new, and the message that it sends.
fn said(run: &Checkpoint, reviewer: Reviewer, allows: bool, now: Timestamp) -> (Checkpoint, Option<Send>) {
    let Approved::New(amend, send) = says(run, reviewer, allows, now).unwrap() else { panic!("said before") };
    (amended(run, now, *amend), send)
}

fn the(run: &Checkpoint) -> &Approval {
    run.progress.approvals.last().unwrap()
}

/// The last approval altered.
fn with(run: &Checkpoint, alter: impl FnOnce(&mut Approval)) -> Checkpoint {
    let mut run = run.clone();
    alter(run.progress.approvals.last_mut().unwrap());
    run
}

#[test]
fn who_may_decide_is_a_person_by_name_or_anybody_of_a_role() {
    let run = asked(refund());
    for (who, may) in [
        (reviewer("bob", Some("finance")), true),
        (reviewer("ann", None), true),
        // A role of a person's name is no person, and a person of a role's name has no role.
        (reviewer("eve", Some("ann")), false),
        (reviewer("finance", None), false),
        (reviewer("eve", Some("sales")), false),
        (reviewer("", None), false),
    ] {
        let answer = says(&run, who.clone(), true, at(5));
        if may {
            assert!(matches!(answer, Ok(Approved::New(..))), "{who:?}: {answer:?}");
        } else {
            let by = "role finance or ann".to_owned();
            let expected = ApproveRefused::NoAuthority { id: the(&run).id.clone(), who: who.name.clone(), by };
            assert_eq!(answer, Err(expected), "{who:?}");
        }
    }
}

#[test]
fn others_may_decide_once_nobody_has_for_long_enough() {
    let run = asked(refund());
    let chief = reviewer("dee", Some("cfo"));
    let escalates = Timestamp(the(&run).asked_at.0 + 4 * HOUR);
    let early = says(&run, chief.clone(), true, Timestamp(escalates.0 - 1)).unwrap_err();
    assert!(matches!(&early, ApproveRefused::NoAuthority { by, .. } if by == "role finance or ann"), "{early}");
    let (after, send) = said(&run, chief.clone(), true, escalates);
    assert!(send.is_some() && matches!(the(&after).standing(escalates), Standing::Approved { .. }));
    said(&run, bob(), true, escalates);
    let late = says(&run, reviewer("eve", None), true, escalates).unwrap_err().to_string();
    assert!(late.ends_with("it is for role finance or ann or role cfo"), "{late}");

    // An answer that came before its giver might decide counts for nothing, however it got there.
    let answer = Answer { reviewer: chief, allows: true, why: None, at: Timestamp(escalates.0 - 1) };
    let forged = with(&run, |approval| approval.answers.push(answer));
    assert_eq!(the(&forged).standing(escalates), Standing::Open);
}

#[test]
fn every_refusal_and_nothing_is_written() {
    let run = asked(refund());
    let id = the(&run).id.clone();
    let expiry = the(&run).expires_at;
    let answer = |who: Reviewer, allows| Answer { reviewer: who, allows, why: None, at: at(1) };
    let (yes, no) = (answer(bob(), true), answer(bob(), false));
    let other = ApprovalId::derive(&make::run(), "other", &Digest::of(b"-"), stepwell_core::Visit(1));
    let used = Used { by: make::succeeded("refund").key, at: at(2) };
    let answered = |answers: &[&Answer]| {
        let answers = answers.iter().map(|answer| (*answer).clone()).collect();
        with(&run, |approval| approval.answers = answers)
    };
    let decided = |first: &Answer| ApproveRefused::Decided { id: id.clone(), first: first.clone() };
    let unused = the(&answered(&[&yes])).clone();
    let Standing::Approved { until, .. } = unused.standing(at(5)) else { panic!("{unused:?}") };
    let cases = [
        ("too late", run.clone(), ann(), true, expiry, ApproveRefused::Expired { id: id.clone(), at: expiry }),
        (
            "replaced",
            with(&run, |approval| approval.replaced_by = Some(other.clone())),
            ann(),
            true,
            at(5),
            ApproveRefused::Replaced { id: id.clone(), by: other.clone() },
        ),
        ("otherwise by the same person", answered(&[&yes]), bob(), false, at(5), decided(&yes)),
        ("taken back by the same person", answered(&[&no]), bob(), true, at(5), decided(&no)),
        ("rejected by another", answered(&[&no]), cid(), true, at(5), decided(&no)),
        ("rejected by another, again", answered(&[&no]), cid(), false, at(5), decided(&no)),
        ("approved by another", answered(&[&yes]), cid(), false, at(5), decided(&yes)),
        ("approved by another, and not used in time", answered(&[&yes]), cid(), false, until, decided(&yes)),
        ("the same, long after it could be answered", answered(&[&yes]), cid(), false, expiry, decided(&yes)),
        ("used", with(&answered(&[&yes]), |approval| approval.used = Some(used)), cid(), false, at(5), decided(&yes)),
    ];
    for (name, run, who, allows, now, expected) in cases {
        assert_eq!(says(&run, who, allows, now).unwrap_err(), expected, "{name}");
    }
    let strange = Approve { approval: other.clone(), ..act(&run, bob(), true) };
    assert_eq!(approve(&run, &strange, at(5)).unwrap_err(), ApproveRefused::NoSuch(other));
}

fn ann() -> Reviewer {
    reviewer("ann", None)
}

/// The run is over: there is nothing that an answer could allow. Its authority is not even looked at.
#[test]
fn a_run_that_has_ended_takes_no_answer() {
    for status in [
        Status::Completed { output: make::inline(&serde_json::json!(1)), at: T0 },
        Status::Failed { failure: failure("no"), at: T0 },
        Status::Cancelled { certificate: Certificate::default(), at: T0 },
    ] {
        let phase = status.phase();
        let mut run = asked(refund());
        run.progress.status = status;
        assert_eq!(says(&run, reviewer("eve", None), true, at(5)).unwrap_err(), ApproveRefused::Ended(phase));
    }
    let said = ApproveRefused::Ended(Phase::Completed).to_string();
    assert_eq!(said, "the run is completed: nothing is left to be approved");
}

#[test]
fn the_same_answer_again_changes_nothing_whenever_it_comes() {
    for allows in [true, false] {
        let (run, _) = said(&asked(refund()), bob(), allows, at(5));
        for now in [at(5), at(6), at(100 * HOUR)] {
            assert_eq!(says(&run, bob(), allows, now), Ok(Approved::Again), "{allows} at {now}");
        }
    }
}

#[test]
fn a_quorum_of_two_is_two_people() {
    let run = asked(AskApproval { quorum: 2, ..refund() });
    let (once, send) = said(&run, bob(), true, at(5));
    assert_eq!((send, the(&once).standing(at(6))), (None, Standing::Open));
    assert!(matches!(once.progress.status, Status::Waiting(_)), "one of two wakes nobody");
    assert_eq!(says(&once, bob(), true, at(6)), Ok(Approved::Again));

    let (twice, send) = said(&once, cid(), true, at(7));
    let until = Timestamp(at(7).0 + 24 * HOUR);
    assert_eq!(the(&twice).standing(at(8)), Standing::Approved { at: at(7), until });
    assert!(send.is_some());

    // One rejection rejects, before or after one has allowed it.
    let (rejected, send) = said(&once, cid(), false, at(7));
    let Standing::Rejected(answer) = the(&rejected).standing(at(8)) else { panic!("{rejected:?}") };
    assert_eq!((answer.reviewer, send.is_some()), (cid(), true));
    let (rejected, send) = said(&run, bob(), false, at(5));
    assert!(send.is_some() && matches!(the(&rejected).standing(at(6)), Standing::Rejected(_)));
    let late = ApproveRefused::Expired { id: the(&once).id.clone(), at: the(&once).expires_at };
    assert_eq!(says(&once, cid(), true, at(80 * HOUR)), Err(late), "one of two had decided nothing");
    let none = asked(AskApproval { quorum: 0, ..refund() });
    assert_eq!(the(&none).standing(at(5)), Standing::Open, "nobody is never enough");
}

#[test]
fn a_run_that_waits_for_it_goes_on_and_any_other_stays_where_it_is() {
    let asks = asked(refund());
    let Status::Waiting(wait) = asks.progress.status.clone() else { panic!("{asks:?}") };
    assert_eq!((wait.approval.as_ref(), wait.until), (Some(&the(&asks).id), Some(the(&asks).expires_at)));
    for allows in [true, false] {
        let (run, send) = said(&asks, bob(), allows, at(5));
        let ticket = asks.progress.ticket.next();
        assert_eq!(send, Some(Send { ticket, delay: Duration::ZERO }));
        assert_eq!((&run.progress.status, run.progress.ticket), (&Status::Running, ticket));
        assert_eq!(run.progress.place, asks.progress.place);
        acquire(&run, at(5)).unwrap();
    }
    let over = OverBudget { span: stepwell_core::budget::Span::Run, counter: "cents".into(), limit: 1, spent: 2 };
    let other_wait = stepwell_core::Wait { approval: None, on: vec![signal("go")], ..wait };
    for status in [
        Status::Running,
        Status::Created,
        Status::Retrying { at: at(HOUR) },
        Status::Waiting(other_wait),
        Status::Parked { reason: ParkReason::Budget(over), at: T0 },
        Status::Parked { reason: ParkReason::Poison { acquires: 5 }, at: T0 },
    ] {
        let mut run = asks.clone();
        run.progress.status = status.clone();
        let (after, send) = said(&run, bob(), true, at(5));
        assert_eq!((send, &after.progress.status), (None, &status), "{status:?}");
        assert_eq!(after.progress.ticket, run.progress.ticket, "{status:?}");
        assert!(matches!(the(&after).standing(at(6)), Standing::Approved { .. }), "it counts all the same: {status:?}");
    }
}

#[test]
fn an_answer_is_recorded_with_who_what_and_on_which_parameters() {
    for (allows, word) in [(true, "approved"), (false, "rejected")] {
        let before = asked(refund());
        let (run, _) = said(&before, bob(), allows, at(5));
        let answer = Answer { reviewer: bob(), allows, why: Some("known customer".into()), at: at(5) };
        assert_eq!(the(&run).answers, [answer]);
        let entry = run.progress.tail.entries.last().unwrap();
        let note = format!("{word} refund (parameters 8e653fa2a357c572, version 1) by bob (finance): known customer");
        assert_eq!((entry.kind, entry.more.note.as_deref()), (EntryKind::Answered, Some(note.as_str())));
        assert_eq!(run.progress.revision, before.progress.revision.next());
        let entry = before.progress.tail.entries.last().unwrap();
        let note = format!("approval {} of refund is asked of role finance or ann", the(&before).id);
        assert_eq!((entry.kind, entry.more.note.as_ref()), (EntryKind::Waited, Some(&note)));
    }
}

#[test]
fn an_answer_is_written_only_if_the_run_is_as_it_was_and_nobody_works_on_it() {
    let run = asked(refund());
    let amend = |run: &Checkpoint, who: Reviewer| {
        let Approved::New(amend, _) = says(run, who, true, at(5)).unwrap() else { panic!("said before") };
        Write::Amend(amend)
    };
    let mut worked_on = run.clone();
    worked_on.hold.lease = held(Status::Running).hold.lease;
    assert_eq!(write(&worked_on, at(5), amend(&worked_on, bob())), Err(Refusal::Leased));
    let answered = write(&run, at(5), amend(&run, bob())).unwrap();
    assert_eq!(write(&answered, at(5), amend(&run, cid())), Err(Refusal::Revision), "two at once");
    // Nothing comes of an answer to a run that is being cancelled.
    assert_eq!(says(&with_cancel(&run), bob(), true, at(5)), Err(ApproveRefused::Ended(Phase::Cancelling)));
}

/// The run after it has asked again, at its next step.
fn asks_again(run: &Checkpoint, ask: AskApproval, version: u32, now: Timestamp) -> Checkpoint {
    let mut held = held(Status::Running);
    held.progress = run.progress.clone();
    held.progress.status = Status::Running;
    let wait = StepOutcome::Wait { place: place("Refund"), on: vec![], until: None, ask: Some(Box::new(ask)) };
    let end = stepwell_core::decide::StepEnd { version, ..end(wait) };
    committed(&held, now, commit(&held, end, RULES, moment(now), false).unwrap().commit)
}

#[test]
fn asking_for_the_same_again_goes_on_and_for_anything_else_replaces_it() {
    let first = asked(refund());
    let same = asks_again(&first, refund(), 1, at(9));
    assert_eq!(same.progress.approvals, first.progress.approvals, "what is open stays as it is");
    let (answered, _) = said(&first, bob(), true, at(5));
    let decided = asks_again(&answered, refund(), 1, at(9));
    assert_eq!(decided.progress.approvals, answered.progress.approvals);
    assert_eq!(decided.progress.status, Status::Running, "it is there already: no wait at all");

    let other = AskApproval { fingerprint: Digest::of(b"8, 900"), ..refund() };
    for (name, run, ask, version) in [
        ("other parameters", &first, other.clone(), 1),
        ("other parameters of one that was given", &answered, other, 1),
        ("other code", &first, refund(), 2),
    ] {
        let again = asks_again(run, ask, version, at(9));
        let [old, new] = again.progress.approvals.as_slice() else { panic!("{name}: {again:?}") };
        assert_ne!(old.id, new.id, "{name}");
        assert_eq!(old.standing(at(9)), Standing::Replaced(new.id.clone()), "{name}");
        assert_eq!((new.standing(at(9)), new.version, new.answers.len()), (Standing::Open, version, 0), "{name}");
        let act = Approve { approval: old.id.clone(), ..act(&again, ann(), true) };
        let refused = approve(&again, &act, at(9)).unwrap_err();
        assert_eq!(refused, ApproveRefused::Replaced { id: old.id.clone(), by: new.id.clone() }, "{name}");
    }
    // Another action is another matter. What is settled is not replaced, but asked for anew.
    let deploy = asks_again(&first, AskApproval { action: "deploy".into(), ..refund() }, 1, at(9));
    assert!(deploy.progress.approvals.iter().all(|approval| approval.standing(at(9)) == Standing::Open));
    let (rejected, _) = said(&first, bob(), false, at(5));
    for (name, run, now) in [("rejected", &rejected, at(9)), ("expired", &first, at(80 * HOUR))] {
        let again = asks_again(run, refund(), 1, now);
        let [old, new] = again.progress.approvals.as_slice() else { panic!("{name}: {again:?}") };
        assert_eq!((old.replaced_by.as_ref(), new.standing(now)), (None, Standing::Open), "{name}");
        assert_ne!(old.id, new.id, "{name}");
    }
}

#[test]
fn a_wait_for_an_approval_ends_when_it_expires_or_before() {
    let asks = |until| {
        let held = held(Status::Running);
        let wait = StepOutcome::Wait { place: place("Refund"), on: vec![], until, ask: Some(Box::new(refund())) };
        committed(&held, T0, commit(&held, end(wait), RULES, moment(T0), false).unwrap().commit).progress
    };
    let expiry = at(72 * HOUR);
    for (until, ends) in [(None, expiry), (Some(at(80 * HOUR)), expiry), (Some(at(HOUR)), at(HOUR))] {
        let Status::Waiting(wait) = asks(until).status else { panic!("no wait") };
        assert_eq!(wait.until, Some(ends), "{until:?}");
    }
    let run = Checkpoint { progress: asks(None), ..standing(Status::Running) };
    let late = acquire(&Checkpoint { hold: stepwell_core::Hold::default(), ..run }, expiry).unwrap();
    let turn = stepwell_core::decide::turn(&late, &stepwell_core::Budget::none(), RULES, expiry).unwrap();
    assert_eq!(turn, stepwell_core::decide::Turn::Step, "the step finds that it has expired");
    assert_eq!(the(&late).standing(expiry), Standing::Expired { at: expiry });
}

#[test]
fn a_checkpoint_keeps_what_is_open_and_the_last_that_were_settled() {
    let mut run = asked(AskApproval { action: "kept".into(), ..refund() });
    let many = APPROVALS_KEPT_MAX + 4;
    for number in 0..many {
        let ask = AskApproval { fingerprint: Digest::of(number.to_string().as_bytes()), ..refund() };
        run = asks_again(&run, ask, 1, at(number as u64));
    }
    let standing: Vec<_> = run.progress.approvals.iter().map(|approval| approval.standing(at(99)).as_str()).collect();
    let mut expected = vec!["open"];
    expected.extend(std::iter::repeat_n("replaced", APPROVALS_KEPT_MAX));
    expected.push("open");
    assert_eq!(standing, expected);
    let kept = &run.progress.approvals[1];
    assert_eq!(kept.fingerprint, Digest::of(b"3"), "the oldest have gone");
    assert_eq!(run.progress.approvals[0].action, "kept");
}

#[test]
fn an_id_is_read_back_as_it_was_printed_and_nothing_else_is_one() {
    let id = ApprovalId::parse("0123456789abcdef").unwrap();
    assert_eq!((id.as_str(), id.to_string().as_str()), ("0123456789abcdef", "0123456789abcdef"));
    assert_eq!(format!("{id:?}"), "ApprovalId(0123456789abcdef)");
    for wrong in
        ["", "0123456789abcde", "0123456789abcdef0", "0123456789ABCDEF", "0123456789abcdeg", "0123 56789abcdef"]
    {
        assert_eq!(ApprovalId::parse(wrong), None, "{wrong:?}");
    }
}

#[test]
fn who_is_named_is_a_person_who_decides_now_or_later() {
    let mut run = asked(refund());
    let names = |run: &Checkpoint| ["ann", "finance", "cfo", "dan"].map(|person| the(run).names(person));
    assert_eq!(names(&run), [true, false, false, false]);
    run = with(&run, |approval| {
        approval.escalation.as_mut().unwrap().to.push(Authority::Person("dan".into()));
    });
    assert_eq!(names(&run), [true, false, false, true]);
}

/// A call that may have happened is asked about, and made again, under the approval that it has used.
#[test]
fn an_approval_that_an_open_effect_has_used_is_kept_and_others_go() {
    let mut run = asked(AskApproval { action: "pay".into(), ..refund() });
    let used = the(&run).id.clone();
    let open = EffectRecord { approval: Some(used.clone()), ..unknown("pay", Class::Once) };
    run = with(&run, |approval| approval.used = Some(Used { by: open.key.clone(), at: at(1) }));
    run.progress.ledger = vec![open];
    for number in 0..APPROVALS_KEPT_MAX + 4 {
        let ask = AskApproval { fingerprint: Digest::of(number.to_string().as_bytes()), ..refund() };
        run = asks_again(&run, ask, 1, at(number as u64));
    }
    assert_eq!(run.progress.approvals[0].id, used);
    assert_eq!(run.progress.approvals.len(), APPROVALS_KEPT_MAX + 2, "those settled, that one, and the last");
}
