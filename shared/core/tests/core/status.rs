//! Words for how a run stands, as people type and read them.

use std::collections::BTreeSet;

use stepwell_core::budget::Span;
use stepwell_core::{OverBudget, ParkReason, Phase};

#[test]
fn a_phase_is_read_by_its_word() {
    let words: BTreeSet<&str> = Phase::ALL.map(Phase::as_str).into();
    assert_eq!(words.len(), Phase::ALL.len());
    for phase in Phase::ALL {
        assert_eq!(Phase::parse(phase.as_str()), Some(phase));
    }
    for wrong in ["", "Parked", "parked ", "ended"] {
        assert_eq!(Phase::parse(wrong), None, "{wrong:?}");
    }
}

#[test]
fn each_reason_to_park_has_its_code() {
    let what = || String::from("-");
    for (reason, code) in [
        (ParkReason::Poison { acquires: 5 }, "poison"),
        (ParkReason::Incompatible { missing: what() }, "incompatible"),
        (ParkReason::StepLimit { limit: 9 }, "step-limit"),
        (ParkReason::Data { what: what() }, "data"),
        (ParkReason::UnknownOutcome { what: what() }, "unknown-outcome"),
        (ParkReason::Budget(OverBudget { span: Span::Run, counter: what(), limit: 9, spent: 10 }), "budget"),
        (ParkReason::Undo { what: what() }, "undo"),
        (ParkReason::Paused { what: what() }, "paused"),
    ] {
        assert_eq!(reason.code(), code);
        assert!(!reason.to_string().is_empty(), "{code}");
    }
}
