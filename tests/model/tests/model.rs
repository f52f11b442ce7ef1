//! The search proves what it says, and finds what is wrong when something is.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;

use stepwell_model::{LeftOut, Settings, search};

#[test]
fn the_tiny_world_is_searched_to_the_end_and_nothing_is_wrong() {
    let found = search(&Settings::TINY);
    assert!(found.complete && found.states > 20, "{found:?}");
    assert_eq!(found.wrong, None);
}

#[test]
fn each_rule_that_is_left_out_is_missed_in_a_few_steps() {
    for rule in LeftOut::ALL {
        let wrong = search(&rule.world()).wrong.unwrap_or_else(|| panic!("{} is not missed", rule.name()));
        assert_eq!(wrong.invariant, rule.invariant(), "{}: {}", rule.name(), wrong.what);
        assert!((1..=12).contains(&wrong.trace.len()), "{}: {:#?}", rule.name(), wrong.trace);
    }
}

/// The other worlds are larger, and much like those that the program searches.
#[test]
fn with_the_rule_no_run_is_stuck_in_the_same_world() {
    for rule in LeftOut::ALL.into_iter().filter(|rule| rule.invariant() == 1) {
        let found = search(&Settings { left_out: None, ..rule.world() });
        assert!(found.complete, "{}: {} states", rule.name(), found.states);
        assert_eq!(found.wrong, None, "{}", rule.name());
    }
}

#[test]
fn every_invariant_about_states_has_a_rule_that_is_left_out() {
    let named: BTreeSet<u8> = LeftOut::ALL.into_iter().map(LeftOut::invariant).collect();
    assert_eq!(named, (1..=10).collect());
}

#[test]
fn a_search_that_stops_at_its_bound_is_not_complete() {
    let found = search(&Settings { states_max: 10, ..Settings::TINY });
    assert!(!found.complete && found.wrong.is_none(), "{found:?}");
}

#[test]
fn the_same_world_is_searched_in_the_same_way() {
    let world = LeftOut::FencedLeaves.world();
    assert_eq!(search(&world), search(&world));
}
