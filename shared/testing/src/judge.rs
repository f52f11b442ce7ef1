//! What of a world is as its author was promised, and what is a surprise.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use stepwell_core::decide::Resolution;
use stepwell_core::{Class, EffectKey, ParkReason, WorkflowName};

use crate::calls::{Called, Seen};
use crate::crash::Played;
use crate::fault::{Fault, Point};
use crate::person::Rest;
use crate::report::{EffectRow, FaultRow, Question, Report, Surprise, count};

/// How many parts of a result are named that differ.
const POINTERS_MAX: usize = 10;

/// How many characters are kept of each value.
const VALUE_MAX: usize = 200;

/// Judges world after world against the one without faults.
pub(crate) struct Judge<'a> {
    workflow: &'a WorkflowName,
    base: &'a Played,
    ignored: &'a [String],
    every: usize,
    worlds: u64,
    faults: BTreeMap<Fault, FaultRow>,
    effects: BTreeMap<String, Tally>,
    questions: Vec<Question>,
    surprises: Vec<Surprise>,
    slow: u64,
    /// Worlds that took too much real time.
    too_slow: u64,
    /// Worlds in which nothing went wrong, as the run had taken another way.
    another_way: u64,
}

/// What has become of one effect in all worlds.
struct Tally {
    class: Class,
    without_faults: u64,
    worlds: u64,
    more_often: u64,
    most: u64,
    left_unknown: u64,
    asked: u64,
    questions: u64,
    broken: u64,
}

/// The calls of one effect in one world.
#[derive(Clone, Copy, Default)]
struct OfName {
    keys: u64,
    calls: u64,
    /// Under one key.
    most: u64,
}

impl<'a> Judge<'a> {
    pub(crate) fn new(workflow: &'a WorkflowName, base: &'a Played, ignored: &'a [String], every: usize) -> Self {
        let mut judge = Self {
            workflow,
            base,
            ignored,
            every,
            worlds: 0,
            faults: BTreeMap::new(),
            effects: BTreeMap::new(),
            questions: Vec::new(),
            surprises: Vec::new(),
            slow: base.slow,
            too_slow: 0,
            another_way: 0,
        };
        for (name, class) in names(base) {
            let calls = of_name(&base.seen, &name).calls;
            judge.tally(&name, class).without_faults = calls;
        }
        judge
    }

    fn tally(&mut self, name: &str, class: Class) -> &mut Tally {
        self.effects.entry(name.to_owned()).or_insert(Tally {
            class,
            without_faults: 0,
            worlds: 0,
            more_often: 0,
            most: 0,
            left_unknown: 0,
            asked: 0,
            questions: 0,
            broken: 0,
        })
    }

    /// One more world.
    pub(crate) fn add(&mut self, point: Point, played: &Played) {
        // The run took another way before it came there: nothing has gone wrong.
        if point.call.is_some() && (played.calls.len() as u64) < point.number {
            self.another_way += 1;
            return;
        }
        // Says something of this machine, and nothing of the workflow.
        if matches!(played.rest, Rest::TooSlow(_)) {
            self.too_slow += 1;
            return;
        }
        self.worlds += 1;
        self.slow += played.slow;
        let (ends_alike, asks) = (self.ends_alike(played), asks_a_person(played));
        let mut wrong = Vec::new();
        if !ends_alike && !asks && !decided_by_a_person(played) {
            let (here, there) = (describe(&played.rest), describe(&self.base.rest));
            let differs = differs(&played.rest, &self.base.rest, self.ignored);
            wrong.push(format!("it {here}; without faults it {there}{differs}"));
        }
        if ends_alike && let Err(problem) = &played.check {
            wrong.push(format!("the check of the outside fails: {problem}"));
        }
        for (name, class) in names(played) {
            let broken = self.broken(&name, class, played);
            self.count(&name, class, played, asks, !broken.is_empty());
            wrong.extend(broken);
        }
        if let (Rest::Parked(reason), false) = (&played.rest, ends_alike) {
            self.ask(point, reason);
        }
        let row = self.faults.entry(point.fault).or_insert_with(|| FaultRow::new(point.fault));
        row.worlds += 1;
        row.ended_alike += u64::from(ends_alike);
        row.asked_a_person += u64::from(asks && !ends_alike);
        row.surprises += u64::from(!wrong.is_empty());
        self.surprises.extend(wrong.into_iter().map(|what| Surprise { at: point.to_string(), what }));
    }

    fn count(&mut self, name: &str, class: Class, played: &Played, asks: bool, broken: bool) {
        let (here, base) = (of_name(&played.seen, name), of_name(&self.base.seen, name));
        let unknown = played.unknown.iter().any(|record| record.name == name);
        let asked = played.seen.values().filter(|called| called.name == name).any(|called| called.asks > 0);
        let tally = self.tally(name, class);
        tally.worlds += u64::from(here.calls > 0);
        tally.more_often += u64::from(here.calls > base.calls);
        tally.most = tally.most.max(here.calls);
        tally.left_unknown += u64::from(unknown);
        tally.questions += u64::from(unknown && asks);
        tally.asked += u64::from(asked);
        tally.broken += u64::from(broken);
    }

    fn ask(&mut self, point: Point, reason: &ParkReason) {
        let (reason, point) = (one_line(&reason.to_string()), point.to_string());
        match self.questions.iter_mut().find(|question| question.reason == reason) {
            Some(question) => question.at.push(point),
            None => self.questions.push(Question { reason, at: vec![point] }),
        }
    }

    /// What this effect's class does not allow.
    fn broken(&self, name: &str, class: Class, played: &Played) -> Vec<String> {
        let mut wrong = Vec::new();
        let base = of_name(&self.base.seen, name);
        let here = of_name(&played.seen, name);
        if class.acts() && base.keys > 0 && here.keys > base.keys {
            wrong.push(format!(
                "effect {name} was called under {} keys, without faults under {}: a key has to be the same in every attempt",
                here.keys, base.keys
            ));
        }
        for (key, called) in played.seen.iter().filter(|(_, called)| called.name == name) {
            if class.acts() && called.parameters.len() > 1 {
                wrong.push(format!("effect {name} was called with other parameters under one key, {key}"));
            }
            // What fails without faults, and is known not to have happened, is called again without faults too.
            let allowed = base.most.max(1) + tries_allowed(played, key);
            let allowed = match class {
                // The outside may rightly say that what was cut off has not happened.
                Class::Reconcilable => allowed + called.dropped(),
                Class::Read | Class::Idempotent(_) | Class::Once => allowed,
            };
            match class {
                Class::Reconcilable | Class::Once if called.calls > allowed => {
                    let (calls, class) = (called.calls, class.as_str());
                    wrong.push(format!("effect {name}, {class}, was called {calls} times under one key, {key}"));
                }
                Class::Idempotent(Some(window)) if spread(called) > Duration::from_millis(window) => {
                    let (spread, window) = (spread(called), Duration::from_millis(window));
                    wrong.push(format!(
                        "effect {name} was called again {spread:?} after its first call, and is deduped for {window:?}"
                    ));
                }
                Class::Read | Class::Idempotent(_) | Class::Reconcilable | Class::Once => {}
            }
        }
        wrong
    }

    fn ends_alike(&self, played: &Played) -> bool {
        match (&self.base.rest, &played.rest) {
            (Rest::Completed(base), Rest::Completed(here)) => {
                without(base.clone(), self.ignored) == without(here.clone(), self.ignored)
            }
            // What is known of an unknown outcome may be said in other words.
            (Rest::Parked(ParkReason::UnknownOutcome { .. }), Rest::Parked(ParkReason::UnknownOutcome { .. })) => {
                names_unknown(self.base) == names_unknown(played)
            }
            (base, here) => base == here,
        }
    }

    pub(crate) fn report(self) -> Report {
        let Self {
            workflow,
            base,
            every,
            worlds,
            faults,
            effects,
            questions,
            surprises,
            slow,
            too_slow,
            another_way,
            ..
        } = self;
        let mut notes = Vec::new();
        if every > 1 {
            notes.push(format!(
                "something went wrong at one of every {every} calls of the worker; more would take longer"
            ));
        }
        if slow > 0 {
            notes.push(format!(
                "{slow} calls to the outside took so long that the worlds' clocks went on without them; see `patience`"
            ));
        }
        if too_slow > 0 {
            let worlds = count(too_slow, "world");
            notes
                .push(format!("{worlds} had not come to rest after a minute of real time, too slow here: not counted"));
        }
        if another_way > 0 {
            let worlds = count(another_way, "world");
            notes.push(format!("in {worlds} the run took another way before anything went wrong: not counted"));
        }
        Report {
            workflow: workflow.to_string(),
            without_faults: format!("it {}", describe(&base.rest)),
            port_calls: base.calls.len() as u64,
            messages: base.messages,
            worlds,
            faults: faults.into_values().collect(),
            effects: effects.into_iter().map(|(name, tally)| tally.row(name)).collect(),
            questions,
            surprises,
            notes,
        }
    }
}

impl Tally {
    fn row(self, name: String) -> EffectRow {
        let Self { class, without_faults, worlds, more_often, most, left_unknown, .. } = self;
        let (promise, asked) = (self.promise(), self.asked);
        EffectRow {
            effect: name,
            class: class_name(class),
            without_faults,
            worlds,
            more_often,
            most,
            asked,
            left_unknown,
            promise,
        }
    }

    /// Whether that is what its class promises, in words.
    fn promise(&self) -> String {
        let mut words = match self.class {
            Class::Read => "may be asked again: it changes nothing".to_owned(),
            Class::Idempotent(None) => "may repeat under the same key".to_owned(),
            Class::Idempotent(Some(window)) => format!("may repeat under the same key for {}", span(window)),
            Class::Reconcilable => "asked about, not repeated".to_owned(),
            Class::Once => "never repeated".to_owned(),
        };
        if self.questions > 0 {
            words = format!("{words}; {} ended in a question to a person", count(self.questions, "world"));
        }
        if self.broken > 0 { format!("NOT KEPT in {}: {words}", count(self.broken, "world")) } else { words }
    }
}

fn class_name(class: Class) -> String {
    match class {
        Class::Idempotent(Some(window)) => format!("idempotent for {}", span(window)),
        Class::Read | Class::Idempotent(None) | Class::Reconcilable | Class::Once => class.as_str().to_owned(),
    }
}

fn span(milliseconds: u64) -> String {
    match milliseconds / 1_000 {
        seconds if seconds > 0 && seconds.is_multiple_of(3_600) => format!("{} h", seconds / 3_600),
        seconds if seconds > 0 && seconds.is_multiple_of(60) => format!("{} min", seconds / 60),
        seconds if seconds > 0 => format!("{seconds} s"),
        _ => format!("{milliseconds} ms"),
    }
}

/// Whether the run is parked with a question that its effects' classes announce.
fn asks_a_person(played: &Played) -> bool {
    let announced = |class: Class| match class {
        Class::Reconcilable | Class::Once | Class::Idempotent(Some(_)) => true,
        Class::Read | Class::Idempotent(None) => false,
    };
    matches!(played.rest, Rest::Parked(ParkReason::UnknownOutcome { .. }))
        && played.unknown.iter().any(|record| announced(record.class))
}

/// Whether somebody has said a word of which the run may end otherwise.
fn decided_by_a_person(played: &Played) -> bool {
    played.said.iter().any(|(_, said)| matches!(said, Resolution::Failed(_) | Resolution::SignOff))
}

/// How often a person has said that a call did not happen.
fn tries_allowed(played: &Played, key: &EffectKey) -> u64 {
    let said = played.said.iter().filter(|(of, said)| of == key && *said == Resolution::TryAgain);
    said.count() as u64
}

/// Between the first and the last call.
fn spread(called: &Called) -> Duration {
    called.first.zip(called.last).map_or(Duration::ZERO, |(first, last)| last.since(first))
}

/// The effects of a world, those included that were about to be called when their worker died.
fn names(played: &Played) -> BTreeMap<String, Class> {
    let called = played.seen.values().map(|called| (called.name.clone(), called.class));
    called.chain(played.unknown.iter().map(|record| (record.name.clone(), record.class))).collect()
}

fn names_unknown(played: &Played) -> BTreeSet<&str> {
    played.unknown.iter().map(|record| record.name.as_str()).collect()
}

fn of_name(seen: &Seen, name: &str) -> OfName {
    let called = seen.values().filter(|called| called.name == name && called.calls > 0);
    called.fold(OfName::default(), |sum, called| OfName {
        keys: sum.keys + 1,
        calls: sum.calls + called.calls,
        most: sum.most.max(called.calls),
    })
}

/// The value, without what may differ.
fn without(mut value: Value, ignored: &[String]) -> Value {
    for pointer in ignored {
        // A member goes, so that it may be there in one world and not in another.
        let (of, name) = pointer.rsplit_once('/').unwrap_or_default();
        if let Some(members) = value.pointer_mut(of).and_then(Value::as_object_mut).filter(|_| pointer.starts_with('/'))
        {
            members.remove(&name.replace("~1", "/").replace("~0", "~"));
        } else if let Some(part) = value.pointer_mut(pointer) {
            *part = Value::Null;
        }
    }
    value
}

/// How a run has come to rest, on one line whatever its author has written.
fn describe(rest: &Rest) -> String {
    let words = match rest {
        Rest::Completed(output) => format!("completes with {}", cut(&output.to_string())),
        Rest::Failed(failure) => format!("fails: {}", cut(&failure.to_string())),
        Rest::Cancelled => "is cancelled".into(),
        Rest::Parked(reason) => format!("is parked: {}", cut(&reason.to_string())),
        Rest::Waits { step, waits_for } => format!("waits before step {step} for {waits_for}, which nobody gives"),
        Rest::Restless(why) | Rest::TooSlow(why) => why.clone(),
    };
    one_line(&words)
}

/// Where two results differ, as JSON pointers, with what stands there.
fn differs(here: &Rest, there: &Rest, ignored: &[String]) -> String {
    let (Rest::Completed(here), Rest::Completed(there)) = (here, there) else { return String::new() };
    let (here, there) = (without(here.clone(), ignored), without(there.clone(), ignored));
    let mut found = Vec::new();
    pointers(&here, &there, String::new(), &mut found);
    // The whole of both has just been said.
    if found.iter().all(|(pointer, ..)| pointer.is_empty()) {
        return String::new();
    }
    let said = |part: Option<&Value>| part.map_or_else(|| "nothing".to_owned(), |part| cut(&part.to_string()));
    let mut words: Vec<_> = found
        .iter()
        .take(POINTERS_MAX)
        .map(|(pointer, here, there)| format!("{} is {}, without faults {}", cut(pointer), said(*here), said(*there)))
        .collect();
    if found.len() > POINTERS_MAX {
        words.push("and more".into());
    }
    one_line(&format!("; what differs: {}", words.join("; ")))
}

type Differs<'a> = (String, Option<&'a Value>, Option<&'a Value>);

/// The innermost parts that differ: one more than are shown, at most.
fn pointers<'a>(here: &'a Value, there: &'a Value, at: String, found: &mut Vec<Differs<'a>>) {
    if here == there || found.len() > POINTERS_MAX {
        return;
    }
    match (here, there) {
        (Value::Object(here), Value::Object(there)) => {
            let names: BTreeSet<&String> = here.keys().chain(there.keys()).collect();
            for name in names {
                if found.len() > POINTERS_MAX {
                    return;
                }
                let at = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
                match (here.get(name), there.get(name)) {
                    (Some(here), Some(there)) => pointers(here, there, at, found),
                    (here, there) => found.push((at, here, there)),
                }
            }
        }
        (Value::Array(here), Value::Array(there)) if here.len() == there.len() => {
            for (index, (here, there)) in here.iter().zip(there).enumerate() {
                pointers(here, there, format!("{at}/{index}"), found);
            }
        }
        _ => found.push((at, Some(here), Some(there))),
    }
}

/// The beginning of a long text, and how long it is.
fn cut(text: &str) -> String {
    match text.char_indices().nth(VALUE_MAX) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text.to_owned(),
    }
}

fn one_line(text: &str) -> String {
    let shown =
        |letter: char| if letter.is_control() { letter.escape_default().to_string() } else { letter.to_string() };
    text.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a surprise in a test should stop it")]

    use serde_json::json;

    use super::*;

    fn played(rest: Rest) -> Played {
        Played {
            rest,
            took: Duration::ZERO,
            calls: Vec::new(),
            in_vain: Vec::new(),
            messages: 1,
            seen: Seen::new(),
            unknown: Vec::new(),
            said: Vec::new(),
            unsent: Vec::new(),
            check: Ok(()),
            slow: 0,
        }
    }

    #[test]
    fn a_world_that_this_machine_is_too_slow_for_is_a_note_and_no_surprise() {
        let (workflow, base) = (WorkflowName::new("w").unwrap(), played(Rest::Completed(json!(1))));
        let mut judge = Judge::new(&workflow, &base, &[], 1);
        judge.add(Point::NOTHING, &played(Rest::TooSlow("is still running".into())));
        judge.add(Point::NOTHING, &played(Rest::Restless("is still waiting".into())));
        let report = judge.report();
        assert_eq!((report.worlds, report.surprises.len()), (1, 1), "{report}");
        assert!(report.surprises[0].what.contains("is still waiting"), "{report}");
        assert!(report.notes[0].starts_with("1 world had not come to rest after a minute"), "{report}");
    }

    #[test]
    fn a_member_that_is_ignored_may_be_missing() {
        let of = |value| without(value, &["/a~1b/c".to_owned(), "none".to_owned()]);
        assert_eq!(of(json!({"a/b": {"c": 1}, "": 2})), of(json!({"a/b": {}, "": 2})));
        assert_ne!(of(json!({"a/b": {"c": 1}, "": 2})), of(json!({"a/b": {}, "": 3})));
    }
}
