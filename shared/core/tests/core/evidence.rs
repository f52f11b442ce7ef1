//! Late evidence: what a worker that has lost its run has still learned of an effect is read once, where it belongs, by whoever decides.

use crate::make::steps::{decided, done, fail, goto, lost, named, parks, retry, stack, take_back, then, undoable};
use crate::make::{
    self, RULES, T0, acquire, at, at_work, certificate, committed, end, keyed, moment, parked_for, succeeded, turned,
    unknown, with_cancel,
};
use stepwell_core::decide::{StepEnd, StepOutcome, Then, Turn, commit, turn};
use stepwell_core::mailbox::{EVIDENCE, take_evidence};
use stepwell_core::write::Write;
use stepwell_core::{
    Budget, Checkpoint, Class, EffectKey, EffectRecord, Json, Letter, Payload, Phase, RetryPolicy, Scope, Visit,
};

/// A letter of a worker that has lost the run and still heard how this ended.
fn hears(run: &Checkpoint, record: &EffectRecord) -> Checkpoint {
    let payload = Payload::Inline(Json::of(record).unwrap());
    let letter = Letter { payload, ..make::letter(&format!("evidence-{}", record.name), EVIDENCE) };
    make::write(run, T0, Write::Signal(Box::new(letter))).unwrap()
}

fn unread(run: &Checkpoint) -> usize {
    run.mailbox.letters.iter().filter(|letter| letter.name.as_str() == EVIDENCE).count()
}

/// Its step ends so again and again, and nobody reads its letters, until the run is not handed off at once any more.
fn unprepared(mut held: Checkpoint, outcome: &StepOutcome) -> Checkpoint {
    for _ in 0..3 {
        let decision = decided(&held, outcome.clone(), held.progress.journal.clone());
        let after = committed(&held, at(9), decision.commit);
        match decision.then {
            Then::HandOff(Some(send)) if send.delay.is_zero() => held = acquire(&after, at(9)).unwrap(),
            Then::HandOff(_) | Then::Ended | Then::Continue => return after,
        }
        // What is decided without the step ends it, too.
        if let Turn::Write(decision) = turn(&held, &Budget::none(), RULES, at(9)).unwrap() {
            return committed(&held, at(9), decision.commit);
        }
    }
    panic!("it goes round and round: {:?}", held.progress.status)
}

#[test]
fn evidence_that_a_step_which_cannot_be_prepared_does_not_read_is_read_for_it() {
    let fax = || unknown("fax", Class::Once);
    let known = || EffectRecord { outcome: done(), ..fax() };
    let open = |journal: Vec<EffectRecord>| {
        let mut run = at_work();
        run.progress.journal = journal;
        run
    };
    for outcome in [retry(RetryPolicy::none()), fail()] {
        let over = unprepared(hears(&open(vec![fax()]), &known()), &outcome);
        assert_eq!((over.progress.status.phase(), unread(&over)), (Phase::Failed, 0), "{outcome:?}");
        assert_eq!((&over.progress.journal, over.progress.usage.effects_confirmed), (&vec![known()], 1), "{outcome:?}");

        // It settles one of two.
        let two = || vec![fax(), unknown("wire", Class::Once)];
        let parked = unprepared(hears(&open(two()), &known()), &outcome);
        assert!(parked_for(&parked).contains("effect wire"), "{outcome:?}");
        assert_eq!((&parked.progress.journal[0], unread(&parked)), (&known(), 0), "{outcome:?}");

        // It says nothing new.
        let parked = unprepared(hears(&open(vec![fax()]), &fax()), &outcome);
        assert!(parked_for(&parked).contains("effect fax"), "{outcome:?}");
        assert_eq!(unread(&parked), 0, "{outcome:?}");

        // A run that is to be cancelled, whose step would ask about another one.
        let asks = || vec![fax(), unknown("pay", Class::Reconcilable)];
        let parked = unprepared(with_cancel(&hears(&open(asks()), &known())), &outcome);
        assert!(parked_for(&parked).contains("effect pay"), "{outcome:?}");
        assert_eq!((&parked.progress.journal[0], unread(&parked)), (&known(), 0), "{outcome:?}");
    }
}

#[test]
fn late_evidence_settles_a_record_where_it_stands() {
    let before = then(&at_work(), goto(), vec![undoable("reserve", done())]);
    let with = |journal: Vec<EffectRecord>, told: &EffectRecord| {
        let mut run = hears(&before, told);
        run.progress.journal = journal;
        with_cancel(&run)
    };
    let after = |held: &Checkpoint| committed(held, at(9), turned(held, at(9)).commit);
    // What came after the point of no return can be taken back, and is.
    let sent = EffectRecord { no_return: true, class: Class::Once, ..keyed("send", "s", lost()) };
    let known = EffectRecord { outcome: done(), ..sent.clone() };
    let undoing = after(&with(vec![sent.clone(), undoable("label", done())], &known));
    assert_eq!((stack(&undoing), undoing.progress.status.phase()), (vec!["label"], Phase::Running));
    // In the order in which they were made.
    let wire = EffectRecord { class: Class::Once, ..undoable("wire", lost()) };
    let known = EffectRecord { outcome: done(), ..wire.clone() };
    let undoing = after(&with(vec![wire.clone(), undoable("label", done())], &known));
    assert_eq!(stack(&undoing), ["reserve", "wire", "label"]);
    // Another one is open still.
    let fax = EffectRecord { class: Class::Once, ..keyed("fax", "f", lost()) };
    let parked = after(&with(vec![fax, wire, undoable("label", done())], &known));
    assert_eq!(named(&parked.progress.journal), ["fax", "wire", "label"]);
    assert_eq!(parked.progress.journal[1], known);
}

#[test]
fn evidence_of_a_visit_that_ends_in_taking_back_is_consumed_and_counts_once() {
    let post = succeeded("post");
    let before = hears(&then(&at_work(), goto(), vec![undoable("reserve", done())]), &post);
    let id = before.mailbox.letters.iter().find(|letter| letter.name.as_str() == EVIDENCE).unwrap().id.clone();
    for (name, held, outcome) in [
        ("failed", before.clone(), fail()),
        ("cancelled between two attempts", with_cancel(&before), retry(RetryPolicy::default())),
        ("cancelled, then failed", with_cancel(&before), fail()),
        ("cancelled, parked", with_cancel(&before), parks()),
        ("cancelled, ended", with_cancel(&before), goto()),
    ] {
        let end = StepEnd { effects: vec![post.clone()], consumed: vec![id.clone()], ..end(outcome) };
        let decision = commit(&held, end, RULES, moment(at(9)), true).unwrap();
        let undoing = committed(&held, at(9), decision.commit);
        assert_eq!((stack(&undoing), unread(&undoing)), (vec!["reserve"], 0), "{name}");
        // The next step finds no letter, so it does not record it once more.
        assert_eq!(take_back(undoing).progress.usage.effects_confirmed, 2, "{name}");
    }
}

#[test]
fn evidence_of_a_call_without_a_record_counts_in_a_cancelled_run() {
    let run = at_work();
    let of = |visit| {
        let key = EffectKey::derive(&run.run, &run.workflow, "post", Scope::Visit(visit));
        EffectRecord { key, ..succeeded("post") }
    };
    let post = of(run.progress.visit);
    let held = with_cancel(&hears(&run, &post));
    let ended = committed(&held, at(9), turned(&held, at(9)).commit);
    assert_eq!((certificate(&ended).confirmed, unread(&ended)), (1, 0));
    // One of a visit that has ended was settled there, and counted.
    let earlier = with_cancel(&hears(&run, &of(Visit(run.progress.visit.0 - 1))));
    let ended = committed(&earlier, at(9), turned(&earlier, at(9)).commit);
    assert_eq!((certificate(&ended).confirmed, unread(&ended)), (0, 0));
    // One of the run may be settled beside the checkpoint, where no decision looks.
    for (spilled, confirmed) in [(0, 1), (1, 0)] {
        let mut held = with_cancel(&hears(&run, &keyed("book", "b", done())));
        held.progress.spilled = spilled;
        let ended = committed(&held, at(9), turned(&held, at(9)).commit);
        assert_eq!((certificate(&ended).confirmed, unread(&ended)), (confirmed, 0), "{spilled} spilled");
    }
    // One that is known is not counted again, wherever it stands.
    let mut in_journal = held.clone();
    in_journal.progress.journal = vec![post];
    let ended = committed(&in_journal, at(9), turned(&in_journal, at(9)).commit);
    assert_eq!(certificate(&ended).confirmed, 1);
    let mail = keyed("mail", "m", done());
    let in_ledger = with_cancel(&hears(&then(&at_work(), goto(), vec![mail.clone()]), &mail));
    let ended = committed(&in_ledger, at(9), turned(&in_ledger, at(9)).commit);
    assert_eq!(certificate(&ended).confirmed, 1);
}

/// Two workers may have heard different things, one of them of a call that was made again since.
#[test]
fn evidence_does_not_change_what_is_settled() {
    let settled = succeeded("mail");
    let told = EffectRecord { outcome: done(), attempts: 7, ..settled.clone() };
    assert_ne!(settled, told);
    let letters = hears(&at_work(), &told).mailbox.letters;
    let mut journal = vec![settled.clone()];
    let read = take_evidence(&letters, &mut journal, &[], |_| true);
    assert_eq!((journal, read.len()), (vec![settled], 1), "it is read, and changes nothing");
}
