//! Whether an effect may be dispatched under its approval, and that the intent uses it up in the same write.

use crate::make::{self, RULES, T0, acquire, amended, asked, at, committed, keyed, refund};
use stepwell_core::approval::Used;
use stepwell_core::decide::{Approve, Approved, NotAdmitted, NotApproved, admit, approve, intend};
use stepwell_core::{
    Answer, Approval, ApprovalId, AskApproval, Budget, Checkpoint, Digest, EffectRecord, Outcome, Reviewer, Timestamp,
    Visit,
};

const HOUR: u64 = 3_600_000;

fn bob() -> Reviewer {
    Reviewer { name: "bob".into(), roles: vec!["finance".into()] }
}

/// A run that holds an approval given at 5 ms by version 1 of the code, and is worked on.
fn approved() -> Checkpoint {
    let run = asked(refund());
    let act = Approve { approval: the(&run).id.clone(), reviewer: bob(), allows: true, why: None };
    let Approved::New(amend, _) = approve(&run, &act, at(5)).unwrap() else { panic!("said before") };
    acquire(&amended(&run, at(5), *amend), at(6)).unwrap()
}

fn the(run: &Checkpoint) -> &Approval {
    run.progress.approvals.last().unwrap()
}

/// What is about to be called under that approval, with the parameters that were approved.
fn pay(run: &Checkpoint, name: &str) -> EffectRecord {
    let in_flight = Outcome::Unknown { since: at(7), evidence: "in flight".into() };
    let approval = Some(the(run).id.clone());
    EffectRecord { approval, parameters: Some(Digest::of(b"7, 900")), ..keyed(name, "order-7", in_flight) }
}

fn with(run: &Checkpoint, alter: impl FnOnce(&mut Approval)) -> Checkpoint {
    let mut run = run.clone();
    alter(run.progress.approvals.last_mut().unwrap());
    run
}

fn admitted(run: &Checkpoint, journal: &[EffectRecord], version: u32, now: Timestamp) -> Result<(), NotApproved> {
    let key = &journal.last().unwrap().key;
    match admit(run, journal, key, version, &Budget::none(), now) {
        Ok(()) => Ok(()),
        Err(NotAdmitted::NotApproved { approval, why }) => {
            assert_eq!(Some(&approval), journal.last().unwrap().approval.as_ref());
            Err(why)
        }
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn an_effect_is_admitted_only_as_it_was_approved() {
    let run = approved();
    let record = pay(&run, "refund");
    let until = Timestamp(at(5).0 + 24 * HOUR);
    let unasked = asked(refund());
    let other_parameters = EffectRecord { parameters: Some(Digest::of(b"7, 901")), ..record.clone() };
    let no_parameters = EffectRecord { parameters: None, ..record.clone() };
    let elsewhere = keyed("other", "order-7", Outcome::Failed(make::failure("-"))).key;
    let other = ApprovalId::derive(&make::run(), "deploy", &Digest::of(b"-"), Visit(9));
    let unknown = EffectRecord { approval: Some(other.clone()), ..record.clone() };
    let used =
        |by: &stepwell_core::EffectKey| with(&run, |approval| approval.used = Some(Used { by: by.clone(), at: at(6) }));
    let no = Answer { reviewer: bob(), allows: false, why: None, at: at(5) };
    let (same, late) = (used(&record.key), Timestamp(until.0 + 99 * HOUR));
    let cases = vec![
        ("as it was approved", run.clone(), record.clone(), 1, at(7), Ok(())),
        ("at the last moment", run.clone(), record.clone(), 1, Timestamp(until.0 - 1), Ok(())),
        ("too late", run.clone(), record.clone(), 1, until, Err(NotApproved::Expired(until))),
        ("by newer code", run.clone(), record.clone(), 2, at(7), Err(NotApproved::OtherVersion { given: 1, runs: 2 })),
        ("with other parameters", run.clone(), other_parameters.clone(), 1, at(7), Err(NotApproved::OtherParameters)),
        ("with none", run.clone(), no_parameters, 1, at(7), Err(NotApproved::OtherParameters)),
        ("under one that is not known", run.clone(), unknown, 1, at(7), Err(NotApproved::NoSuch)),
        ("before anybody has decided", unasked, record.clone(), 1, at(7), Err(NotApproved::Open)),
        (
            "rejected",
            with(&run, |approval| approval.answers = vec![no]),
            record.clone(),
            1,
            at(7),
            Err(NotApproved::Rejected("bob".into())),
        ),
        (
            "replaced",
            with(&run, |approval| approval.replaced_by = Some(other.clone())),
            record.clone(),
            1,
            at(7),
            Err(NotApproved::Replaced(other)),
        ),
        ("used by another", used(&elsewhere), record.clone(), 1, at(7), Err(NotApproved::Used(elsewhere))),
        ("again under its key", same.clone(), record.clone(), 1, at(7), Ok(())),
        ("again, when it could not be used any more, by newer code", same.clone(), record, 2, late, Ok(())),
        ("again with other parameters", same, other_parameters, 1, at(7), Err(NotApproved::OtherParameters)),
    ];
    for (name, run, record, version, now, expected) in cases {
        assert_eq!(admitted(&run, &[record], version, now), expected, "{name}");
    }
    // What asks for no approval needs none.
    assert_eq!(admitted(&run, &[EffectRecord { approval: None, ..pay(&run, "mail") }], 9, until), Ok(()));
}

/// The giver's authority is looked at again before the dispatch.
#[test]
fn an_answer_without_authority_admits_nothing() {
    let run = approved();
    let eve = Reviewer { name: "eve".into(), roles: vec!["sales".into()] };
    let forged = with(&run, |approval| approval.answers[0].reviewer = eve);
    assert_eq!(admitted(&forged, &[pay(&run, "refund")], 1, at(7)), Err(NotApproved::Open));
    let narrowed = with(&run, |approval| approval.by.clear());
    assert_eq!(admitted(&narrowed, &[pay(&run, "refund")], 1, at(7)), Err(NotApproved::Open));
    let late = with(&run, |approval| approval.answers[0].at = approval.expires_at);
    assert_eq!(admitted(&late, &[pay(&run, "refund")], 1, at(7)), Err(NotApproved::Open));
}

#[test]
fn of_two_effects_beside_each_other_one_is_made_under_an_approval() {
    let run = approved();
    let (first, second) = (pay(&run, "refund"), pay(&run, "again"));
    assert_eq!(admitted(&run, std::slice::from_ref(&first), 1, at(7)), Ok(()));
    // Its intent is not written yet.
    let both = [first.clone(), second.clone()];
    assert_eq!(admitted(&run, &both, 1, at(7)), Err(NotApproved::Used(first.key.clone())));
    // It was refused outside: it was made under the approval all the same.
    let refused = EffectRecord { outcome: Outcome::Failed(make::failure("no")), ..first.clone() };
    assert_eq!(admitted(&run, &[refused, second.clone()], 1, at(7)), Err(NotApproved::Used(first.key.clone())));
    // Another approval is another matter.
    let under_another = EffectRecord { approval: None, ..first };
    assert_eq!(admitted(&run, &[under_another, second], 1, at(7)), Ok(()));
}

#[test]
fn the_intent_uses_the_approval_up_in_the_same_write() {
    let run = approved();
    let record = pay(&run, "refund");
    let beside = EffectRecord { approval: None, ..pay(&run, "mail") };
    let intent = |run: &Checkpoint, now| {
        let commit = intend(run, vec![beside.clone(), record.clone()], at(20_000), RULES, now).unwrap();
        committed(run, now, commit)
    };
    let after = intent(&run, at(7));
    let used = Used { by: record.key.clone(), at: at(7) };
    assert_eq!(the(&after).used.as_ref(), Some(&used));
    assert_eq!(after.progress.journal[1], record);
    // Its worker dies: the next one repeats the call under its key, and nobody makes another.
    let next = acquire(&after, at(60_000)).unwrap();
    assert_eq!(admitted(&next, std::slice::from_ref(&record), 1, at(60_000)), Ok(()));
    let other = pay(&run, "another");
    let refused = admitted(&next, &[beside.clone(), other], 1, at(60_000));
    assert_eq!(refused, Err(NotApproved::Used(record.key.clone())));
    let again = intend(&next, vec![EffectRecord { attempts: 2, ..record }], at(80_000), RULES, at(60_000)).unwrap();
    assert_eq!(again.progress.approvals[0].used.as_ref(), Some(&used), "since its first intent");
}

/// An intent marks what it intends, and nothing that is settled.
#[test]
fn what_has_ended_uses_nothing() {
    let run = approved();
    let failed = EffectRecord { outcome: Outcome::Failed(make::failure("no")), ..pay(&run, "refund") };
    let commit = intend(&run, vec![failed], at(20_000), RULES, at(7)).unwrap();
    assert_eq!(commit.progress.approvals[0].used, None);
}

#[test]
fn a_budget_is_looked_at_too_and_after_the_approval() {
    let run = approved();
    let costs = [("cents".to_owned(), 900)].into_iter().collect();
    let record = EffectRecord { costs, ..pay(&run, "refund") };
    let says = |run: &Checkpoint, limit| {
        let budget = Budget::none().of_run("cents", limit);
        admit(run, std::slice::from_ref(&record), &record.key, 1, &budget, at(7))
    };
    assert_eq!(says(&run, 900), Ok(()));
    assert!(matches!(says(&run, 899), Err(NotAdmitted::OverBudget(over)) if over.spent == 900));
    let open = asked(AskApproval { quorum: 2, ..refund() });
    assert!(matches!(says(&open, 899), Err(NotAdmitted::NotApproved { why: NotApproved::Open, .. })));
    assert_eq!(the(&run).asked_at, T0);
}
