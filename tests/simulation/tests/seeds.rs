//! Seeds that have shown something, and the simulator's own word: a seed gives the same world again, and engines that are broken on
//! purpose are noticed.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a surprise in a test should stop it")]

use std::time::Duration;

use stepwell_simulation::{Played, Settings, play};
use stepwell_testkit::broken::Broken;

fn goes_well(seed: u64) -> Played {
    let played = play(seed, &Settings { traced: true, ..Settings::default() });
    assert_eq!(played.wrong, [], "seed {seed}");
    played
}

/// That these words stand in the story of a seed, in this order: what a seed shows changes with every change of the world, and then
/// another one has to be found that shows it.
fn shows(played: &Played, words: &[&str]) {
    let mut left = words.iter();
    let mut next = left.next();
    for event in &played.events {
        if next.is_some_and(|words| event.what.contains(words)) {
            next = left.next();
        }
    }
    assert_eq!(next, None, "the story no longer shows this");
}

/// A refund was refused, so the record says "failed"; a person resumed the run, and it was called again, and happened. A word like
/// "failed" is about the calls before it: a checker that did not know took this for a guess.
#[test]
fn a_refusal_that_a_person_has_mended_is_no_guess() {
    let played = goes_well(200);
    shows(&played, &["could not be taken back: refused", "resumed (by ann: mended)", "acts: refund"]);
}

/// A run is paused between an effect's intent and its call, which then comes too late: the intent is taken back, since nothing was called.
/// A checker that did not know took this for a loss.
#[test]
fn an_intent_that_was_never_called_is_no_loss() {
    shows(&goes_well(5_006), &[": intended", "parked: paused by ann"]);
}

/// A message for a long timer outlives its run by a quarter of an hour, and makes no other.
#[test]
fn a_late_message_of_an_ended_run_makes_no_other() {
    let played = goes_well(1_429);
    let ended = played.events.iter().find(|event| event.who == "world" && event.what.contains("every run has ended"));
    assert!(played.took > ended.unwrap().at + Duration::from_mins(12), "no message was left");
}

/// A queue that doubles, several sweepers, and a run that is held for long.
#[test]
fn messages_stay_bounded_where_many_are_doubled() {
    let most = goes_well(1_363).most_messages;
    assert!(most > 30, "only {most} messages at once");
}

/// A person signed a seat off as uncertain while its order was being cancelled. It had never been taken, and was given back all the same,
/// which is right for what may have happened. A checker that did not know took this for a defect.
#[test]
fn what_was_signed_off_as_uncertain_is_taken_back() {
    shows(&goes_well(100_327), &["resolved (sign-off by ann", "acts: unseat"]);
    // Here its worker had died before it called, so that the outside never heard the key.
    shows(&goes_well(9_465), &["resolved (sign-off by ann", ": undoing"]);
}

#[test]
fn some_worlds_go_well() {
    for seed in 0..120 {
        assert_eq!(play(seed, &Settings::default()).wrong, [], "seed {seed}");
    }
}

#[test]
fn a_seed_gives_the_same_world_again() {
    let settings = Settings { traced: true, ..Settings::default() };
    for seed in [3, 4, 200] {
        let (first, second) = (play(seed, &settings), play(seed, &settings));
        assert!(first.events.len() > 50, "seed {seed} has a story");
        for (one, other) in first.events.iter().zip(&second.events) {
            assert_eq!(one, other, "seed {seed}");
        }
        assert_eq!(first, second, "seed {seed}");
    }
    assert_ne!(play(3, &settings).events, play(4, &settings).events, "and another one another");
}

/// The first of some seeds that shows its invariant broken.
fn is_caught(broken: Broken, seeds: u64) {
    let settings = Settings { broken: Some(broken), ..Settings::default() };
    let shows = |seed: u64| play(seed, &settings).wrong.iter().any(|wrong| wrong.invariant == Some(broken.invariant()));
    assert!((0..seeds).any(shows), "{broken} went unnoticed in {seeds} seeds");
}

#[test]
fn broken_engines_are_noticed() {
    for broken in Broken::ALL {
        is_caught(broken, 150);
    }
}
