//! The protocol's promises, held against a tiny world in which anything may go wrong between any two actions. Then the
//! rules that keep them are left out one at a time, to see that the same search finds what each is for.

use crate::make::dice::{Dice, rolls};
use crate::world::{LeftOut, Settings, World};
use proptest::prelude::*;

/// Lets all this happen, then stops the faults and waits for the end.
fn live(settings: Settings, rolls: &[u64]) -> Result<(), String> {
    let seed = rolls.iter().fold(settings.workers as u64, |seed, roll| seed.wrapping_mul(31).wrapping_add(*roll));
    let mut world = World::new(settings, Dice(seed));
    for roll in rolls {
        world.act(Dice(*roll))?;
    }
    world.settle(seed)
}

fn some_rolls() -> impl Strategy<Value = Vec<u64>> {
    prop_oneof![prop::collection::vec(any::<u64>(), 0..40), prop::collection::vec(any::<u64>(), 40..200)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn with_the_sweeper_every_run_ends(workers in 2_usize..=3, rolls in some_rolls()) {
        let settings = Settings { workers, sweeper: true, left_out: LeftOut::Nothing };
        live(settings, &rolls).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn without_it_every_run_ends_whose_senders_live(workers in 2_usize..=3, rolls in some_rolls()) {
        let settings = Settings { workers, sweeper: false, left_out: LeftOut::Nothing };
        live(settings, &rolls).map_err(TestCaseError::fail)?;
    }
}

/// Few: a run that is stuck early is soon woken by a signal again, if the faults go on.
const ROLLS: usize = 20;
const SEEDS: u64 = 5_000;

/// Searches with a rule left out, and answers what is wrong in the first world that has something wrong. With the rule,
/// nothing is wrong in any of them up to there.
fn search(left_out: LeftOut) -> String {
    let world = |left_out, seed| live(Settings { workers: 2, sweeper: false, left_out }, &rolls(seed, ROLLS));
    for seed in 0..SEEDS {
        assert_eq!(world(LeftOut::Nothing, seed), Ok(()), "seed {seed}");
        if let Err(wrong) = world(left_out, seed) {
            return wrong;
        }
    }
    panic!("{left_out:?}: nothing is wrong in {SEEDS} worlds")
}

#[test]
fn without_the_rule_on_crashed_hand_offs_a_run_is_stuck() {
    let wrong = search(LeftOut::HandOff);
    assert!(wrong.starts_with("stuck"), "{wrong}");
}

#[test]
fn without_the_rule_on_live_leases_a_run_is_stuck() {
    let wrong = search(LeftOut::Lease);
    assert!(wrong.starts_with("stuck"), "{wrong}");
}

#[test]
fn without_the_condition_on_the_mailbox_a_wake_up_is_lost() {
    let wrong = search(LeftOut::Mailbox);
    assert!(wrong.starts_with("stuck") && wrong.contains("Waiting"), "{wrong}");
}

#[test]
fn without_the_rule_on_fenced_workers_a_run_is_stuck() {
    let wrong = search(LeftOut::Fenced);
    assert!(wrong.starts_with("stuck"), "{wrong}");
}
