//! The way back: every entry of the history says truly whether it has replaced what the run knows, and how to get back.

use crate::make::steps::{done, fail, parks, retry, undoable};
use crate::make::{
    self, RULES, T0, acquire, amended, at, at_work, committed, end, inline, moment, unknown, with_cancel,
};
use serde_json::json;
use stepwell_core::checkpoint::Place;
use stepwell_core::decide::repair::known;
use stepwell_core::decide::{Repair, StepEnd, StepOutcome, commit, discard, edit, move_to, retry as reopen};
use stepwell_core::history::{Back, Entry, EntryKind, More};
use stepwell_core::limits::TAIL_BYTES_MAX;
use stepwell_core::{Checkpoint, Class, EffectRecord, Json, Phase, RetryPolicy};

const KINDS: [EntryKind; 18] = [
    EntryKind::Stepped,
    EntryKind::Waited,
    EntryKind::LookedUp,
    EntryKind::Intended,
    EntryKind::Retried,
    EntryKind::Parked,
    EntryKind::Resumed,
    EntryKind::Resolved,
    EntryKind::Answered,
    EntryKind::Undoing,
    EntryKind::Undone,
    EntryKind::LetStand,
    EntryKind::Edited,
    EntryKind::Moved,
    EntryKind::Reopened,
    EntryKind::Completed,
    EntryKind::Failed,
    EntryKind::Cancelled,
];

fn way() -> Json {
    Json::of(&json!([{"op": "replace", "path": "/n", "value": 1}])).unwrap()
}

fn to(step: &str) -> Place {
    Place::At { cursor: Json::of(step).unwrap(), state: inline(&json!({"n": 2})) }
}

/// The run after its step has ended so, and the entry that says so.
fn ended(held: &Checkpoint, outcome: StepOutcome, effects: Vec<EffectRecord>, keeps: bool) -> (Checkpoint, Entry) {
    let end = StepEnd { effects, back: keeps.then(way), ..end(outcome) };
    let decision = commit(held, end, RULES, moment(T0), false).unwrap();
    let after = committed(held, T0, decision.commit);
    let entry = after.progress.tail.entries.last().unwrap().clone();
    (after, entry)
}

/// Whatever ends a step, the entry never says "the same" of a state that was replaced, nor the reverse.
#[test]
fn every_entry_of_a_step_says_whether_it_has_replaced_the_state() {
    let wait = || StepOutcome::Wait { place: to("Ship"), on: vec![make::signal("b")], until: None, ask: None };
    let outcomes = || {
        [
            StepOutcome::Goto { place: to("Ship") },
            wait(),
            StepOutcome::Undone { place: to("Ship") },
            StepOutcome::Complete { output: inline(&json!("done")) },
            fail(),
            retry(RetryPolicy::default()),
            retry(RetryPolicy::none()),
            parks(),
        ]
    };
    let undoing = {
        let seat = || undoable("seat", done());
        let (run, _) = ended(&at_work(), fail(), vec![seat(), EffectRecord { name: "room".into(), ..seat() }], false);
        acquire(&run, at(1)).unwrap()
    };
    let lives = [("at work", at_work()), ("cancelled", with_cancel(&at_work())), ("undoing", undoing)];
    let effects = [vec![], vec![undoable("seat", done())], vec![unknown("fax", Class::Once)]];
    let mut seen = Vec::new();
    for ((life, held), effects) in lives.iter().flat_map(|life| effects.iter().map(move |effects| (life, effects))) {
        for (outcome, keeps) in outcomes().into_iter().flat_map(|outcome| [(outcome.clone(), true), (outcome, false)]) {
            let is_undone = matches!(outcome, StepOutcome::Undone { .. });
            if is_undone != (*life == "undoing") {
                continue;
            }
            let what = format!("{life}, {outcome:?}, keeps: {keeps}");
            let (after, entry) = ended(held, outcome, effects.clone(), keeps);
            let is_replaced = known(&after) != known(held);
            let kept = way();
            let expected = match (is_replaced, keeps) {
                (false, _) => Back::Same,
                (true, true) => Back::Patch(&kept),
                (true, false) => Back::NotKept,
            };
            assert_eq!(entry.back(), expected, "{what}: {entry:?}");
            seen.push((entry.kind, is_replaced));
            let text = Json::of(&entry).unwrap();
            assert_eq!(text.parse::<Entry>().unwrap(), entry, "{what}: as it is stored");
        }
    }
    // The end and the park of a cancelled run come with a new state, and without one.
    for kind in [EntryKind::Cancelled, EntryKind::Parked, EntryKind::Undoing] {
        assert!(seen.contains(&(kind, true)) && seen.contains(&(kind, false)), "{kind:?}: {seen:?}");
    }
}

#[test]
fn what_a_person_does_leaves_the_state_but_for_an_edit() {
    let (run, _) = ended(&at_work(), fail(), vec![], true);
    let act = |run: &Checkpoint| Repair { at: run.progress.revision, by: "ann".into(), why: "so".into() };
    let back = |run: &Checkpoint| {
        let entry = run.progress.tail.entries.last().unwrap();
        (entry.kind, entry.back() == Back::Same)
    };
    let moved = amended(&run, at(1), move_to(&run, Json::of("Ship").unwrap(), &act(&run), at(1)).unwrap());
    assert_eq!(back(&moved), (EntryKind::Moved, true));
    let given_up = amended(&moved, at(2), discard(&moved, &act(&moved), at(2)).unwrap());
    assert_eq!(back(&given_up), (EntryKind::Failed, true));
    let (amend, _) = reopen(&given_up, "ann", None, at(3)).unwrap();
    assert_eq!(back(&amended(&given_up, at(3), amend)), (EntryKind::Reopened, true));
    let edited = edit(&moved, inline(&json!(1)), Some(way()), &act(&moved), at(2)).unwrap();
    let edited = amended(&moved, at(2), edited);
    assert_eq!(edited.progress.tail.entries.last().unwrap().back(), Back::Patch(&way()));
    assert_eq!(edited.progress.status.phase(), Phase::Parked);
}

#[test]
fn a_way_back_is_stored_as_it_is_and_left_out_where_there_is_none() {
    for kind in KINDS {
        let entry = |back| Entry { step: "s".into(), kind, at: 0, took: 0, more: More { back, ..More::default() } };
        let text = |entry: &Entry| Json::of(entry).unwrap().text().to_owned();
        let plain = entry(None);
        assert!(!text(&plain).contains('{'), "{kind:?} costs nothing where nothing is kept");
        assert_eq!(plain.back(), if kind.replaces() { Back::NotKept } else { Back::Same }, "{kind:?}");
        let none = entry(Json::from_text("null".into()).ok());
        assert_eq!((none.back(), text(&none).ends_with(r#"{"b":null}]"#)), (Back::NotKept, true), "{kind:?}");
        let kept = entry(Some(way()));
        for entry in [plain, none, kept.clone()] {
            assert_eq!(Json::of(&entry).unwrap().parse::<Entry>().unwrap(), entry);
        }
        assert_eq!(kept.back(), Back::Patch(&way()), "{kind:?}");
        // A state that did not change has an empty way back.
        assert_eq!(entry(Some(Json::of(&json!([])).unwrap())).back(), Back::Patch(&Json::of(&json!([])).unwrap()));
    }
    let words: std::collections::BTreeSet<_> = KINDS.iter().map(|kind| kind.as_str()).collect();
    assert_eq!(words.len(), KINDS.len());
    for (kind, word, code) in
        [(EntryKind::Edited, "edited", "m"), (EntryKind::Moved, "moved", "g"), (EntryKind::Reopened, "reopened", "o")]
    {
        assert_eq!((kind.as_str(), Json::of(&kind).unwrap().text()), (word, format!("\"{code}\"").as_str()));
    }
}

#[test]
fn a_way_back_longer_than_a_tail_rides_alone() {
    let long = Json::of(&"x".repeat(TAIL_BYTES_MAX * 4)).unwrap();
    let mut run = at_work();
    for _ in 0..4 {
        let end = StepEnd { back: Some(long.clone()), ..end(StepOutcome::Goto { place: to("Ship") }) };
        let decision = commit(&run, end, RULES, moment(T0), true).unwrap();
        let before = run.progress.tail.clone();
        assert_eq!(decision.commit.segment, Some(before).filter(|tail| !tail.entries.is_empty()));
        run = committed(&run, T0, decision.commit);
        assert_eq!(run.progress.tail.entries.len(), 1);
    }
}
