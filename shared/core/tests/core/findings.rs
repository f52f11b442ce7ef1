//! What an audit says: each finding under its invariant, in words that a person can act on.

use std::collections::BTreeSet;

use crate::make::{T0, signal, signal_id};
use stepwell_core::audit::{Counter, Finding, Referrer, WakeSource};
use stepwell_core::{EffectKey, LogId, Phase, Revision};

const KEY: &str = "0123456789abcdef0123456789abcdef";

/// Each finding, its invariant, what it says, and a part of what it tells to do.
fn table() -> Vec<(Finding, u8, &'static str, &'static str)> {
    let (key, name) = (|| EffectKey::parse(KEY).unwrap(), || String::from("pay"));
    let blob = || String::from("r/b");
    let forgotten = |source| Finding::Forgotten { source, since: T0 };
    vec![
        (Finding::Unreadable { what: "bad".into() }, 9, "it cannot be read: bad", "newer release"),
        (Finding::NoWakeSource { phase: Phase::Running }, 10, "it is running, and nothing wakes it", "resume it"),
        (
            forgotten(WakeSource::Person),
            1,
            "it is parked, and its end was asked for at 2023-11-14T22:20:00.000Z; nothing is in the way of that, and it has not ended",
            "ask for its end again",
        ),
        (
            forgotten(WakeSource::Timer),
            1,
            "it has something to do since 2023-11-14T22:20:00.000Z, and no timer has brought a worker",
            "sweeper",
        ),
        (Finding::LateMark { mark: T0 }, 10, "the watchdog looks at it only at 2023-11-14T22:20:00.000Z", "resume it"),
        (
            Finding::UnreadSignal { id: signal_id("s"), name: signal("go") },
            6,
            "it waits for signal go, and has not looked at s",
            "resume it",
        ),
        (
            Finding::SignalTwice { id: signal_id("s") },
            6,
            "signal s was consumed and lies in its mailbox again",
            "edited by hand",
        ),
        (
            Finding::UnaskedEffect { key: key(), name: name(), since: T0 },
            4,
            "effect pay (key 0123456789abcdef0123456789abcdef) may have happened since 2023-11-14T22:20:00.000Z, and the run waits for something else",
            "`resolve`",
        ),
        (
            Finding::OpenAtEnd { key: key(), name: name() },
            4,
            "it has ended, but effect pay (key 0123456789abcdef0123456789abcdef) may have happened and nobody has signed it off",
            "find out by hand",
        ),
        (Finding::WrongEnd { what: "-" }, 4, "its end is wrong: -", "find out by hand"),
        (
            Finding::EffectTwice { key: key(), name: name() },
            3,
            "effect pay (key 0123456789abcdef0123456789abcdef) has two records that do not agree",
            "how often",
        ),
        (
            Finding::GroundlessUndo { key: key(), name: name() },
            4,
            "effect pay (key 0123456789abcdef0123456789abcdef) has not happened and is to be taken back",
            "pause the run",
        ),
        (
            Finding::HistoryGap { from: Revision(3), to: Revision(6) },
            2,
            "its history has no entries of revisions 3 to 5",
            "backup",
        ),
        (Finding::MissingBlob { key: blob(), of: Referrer::State }, 9, "blob r/b of its state is missing", "backup"),
        (
            Finding::AlteredBlob { key: blob(), of: Referrer::Effect, found: "other bytes".into() },
            9,
            "blob r/b of an effect's result was altered: other bytes",
            "backup",
        ),
        (
            Finding::ShortLog { log: LogId(2), counted: 5, found: 4 },
            9,
            "log 2 has 4 entries in a row, and 5 count",
            "backup",
        ),
    ]
}

#[test]
fn each_says_what_is_wrong_under_which_invariant_and_what_to_do() {
    let mut codes = BTreeSet::new();
    for (finding, invariant, words, remedy) in table() {
        assert_eq!((finding.invariant(), finding.to_string().as_str()), (invariant, words));
        assert!(finding.remedy().contains(remedy), "{words}: {}", finding.remedy());
        codes.insert(finding.code());
    }
    for other in [
        Finding::Contradiction { rule: 1, what: "-" },
        Finding::Counter { counter: Counter::Fence, found: 7, allowed: (8, 8) },
    ] {
        assert!(other.remedy().contains("edited by hand"));
        codes.insert(other.code());
    }
    assert_eq!(codes.len(), 17, "each has its own code: {codes:?}");
}

#[test]
fn a_counter_is_named_with_what_would_fit() {
    let of = |counter, allowed| {
        let finding = Finding::Counter { counter, found: 7, allowed };
        (finding.invariant(), finding.to_string())
    };
    for (counter, invariant, name) in [
        (Counter::Ticket, 1, "ticket"),
        (Counter::Acquires, 1, "acquires since the last commit"),
        (Counter::Fence, 2, "fence"),
        (Counter::History, 2, "last revision in the history"),
        (Counter::Visits, 5, "number of steps ended"),
        (Counter::Mailbox, 6, "number of signals accepted"),
    ] {
        assert_eq!(of(counter, (8, 9)), (invariant, format!("its {name} is 7: 8 to 9 would fit the rest")));
        assert_eq!(of(counter, (8, 8)), (invariant, format!("its {name} is 7: 8 would fit the rest")));
    }
}

#[test]
fn a_contradiction_is_a_matter_of_the_invariant_that_its_rule_keeps() {
    let of = |rule| Finding::Contradiction { rule, what: "-" }.invariant();
    assert_eq!([1, 2, 3, 4, 5, 6, 7, 8, 9].map(of), [2, 1, 2, 10, 6, 10, 6, 9, 9]);
}

#[test]
fn what_others_have_written_refers_to_nothing() {
    let (run, others) = (
        [Referrer::State, Referrer::Output, Referrer::Effect, Referrer::Approval, Referrer::Undo, Referrer::Log],
        [Referrer::Input, Referrer::Signal],
    );
    assert!(run.into_iter().all(Referrer::is_of_run));
    assert!(!others.into_iter().any(Referrer::is_of_run));
    let words: BTreeSet<_> = run.into_iter().chain(others).map(Referrer::as_str).collect();
    assert_eq!(words.len(), 8, "{words:?}");
    assert!(words.contains("its input") && words.contains("a signal"));
}

#[test]
fn what_wakes_a_run_is_one_word() {
    let words = WakeSource::ALL.map(|source| source.to_string());
    assert_eq!(words, ["lease", "message", "timer", "signal", "person", "deploy"]);
}
