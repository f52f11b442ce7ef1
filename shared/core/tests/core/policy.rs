//! Retry policies: delays, caps, extremes, jitter, deadline, codes, and waits that the failure itself asks for.

use core::time::Duration;

use proptest::prelude::*;
use stepwell_core::RetryPolicy;
use stepwell_core::policy::{GiveUp, Retry};
use stepwell_core::time::millis;

const S: Duration = Duration::from_secs(1);

fn plain() -> RetryPolicy {
    RetryPolicy::default().without_jitter()
}

fn after(policy: &RetryPolicy, failed: u32, elapsed: Duration) -> Retry {
    policy.after(failed, elapsed, None, None, 0)
}

#[test]
fn delays_double_up_to_the_longest() {
    let delays: Vec<u64> = (1..=11).map(|failed| plain().delay(failed, 0).as_secs()).collect();
    assert_eq!(delays, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
    let tripled = RetryPolicy { factor: 3, ..plain() }.first_delay(Duration::from_millis(500));
    let delays: Vec<u64> = (0..=4).map(|failed| millis(tripled.delay(failed, 0))).collect();
    assert_eq!(delays, [500, 500, 1_500, 4_500, 13_500], "no failure yet counts as the first");
}

#[test]
fn builders_set_what_they_say() {
    let every = RetryPolicy::default().every(7 * S);
    assert!((1..50).all(|failed| every.delay(failed, 12_345) == 7 * S));
    let long = plain().first_delay(Duration::from_hours(1));
    assert_eq!((long.delay(1, 0), long.delay(9, 0)), (Duration::from_hours(1), Duration::from_hours(1)));
    assert_eq!(plain().max_delay(3 * S).delay(9, 0), 3 * S);
    assert_eq!(RetryPolicy::default().max_attempts(0).max_attempts.get(), 1);
    assert_eq!(after(&RetryPolicy::none(), 1, Duration::ZERO), Retry::GiveUp(GiveUp::Attempts));
}

#[test]
fn attempts_are_counted_with_the_first() {
    let policy = plain().max_attempts(3);
    assert_eq!(after(&policy, 1, Duration::ZERO), Retry::After(S));
    assert_eq!(after(&policy, 2, S), Retry::After(2 * S));
    assert_eq!(after(&policy, 3, 3 * S), Retry::GiveUp(GiveUp::Attempts));
    assert_eq!(after(&policy, u32::MAX, S), Retry::GiveUp(GiveUp::Attempts));
}

#[test]
fn extremes_stay_within_the_longest_delay() {
    let steep = RetryPolicy { factor: u32::MAX, ..plain() }.max_attempts(u32::MAX);
    for failed in [0, 1, 2, 3, 64, 10_000, u32::MAX - 1] {
        assert!(steep.delay(failed, u64::MAX) <= steep.max_delay, "{failed}");
        assert!(matches!(after(&steep, failed, Duration::MAX), Retry::After(_)), "{failed}");
    }
    assert_eq!(steep.delay(10_000, 0), steep.max_delay);
    let endless = RetryPolicy { max_delay: Duration::MAX, ..steep };
    assert_eq!(endless.delay(10_000, 0), Duration::from_millis(u64::MAX));
    let drawn = RetryPolicy { full_jitter: true, ..endless };
    assert!(drawn.delay(10_000, u64::MAX) <= Duration::from_millis(u64::MAX));
    let flat = RetryPolicy { factor: 0, ..plain() };
    assert_eq!((flat.delay(1, 0), flat.delay(10_000, 0)), (S, S), "a factor below one is one");
    let none = RetryPolicy { first_delay: Duration::ZERO, full_jitter: true, ..plain() };
    assert_eq!(none.delay(10_000, u64::MAX), Duration::ZERO);
}

#[test]
fn jitter_is_drawn_evenly_from_zero_to_the_full_delay() {
    let policy = RetryPolicy::default();
    let drawn: Vec<u64> = (0..=1_000).map(|random| millis(policy.delay(1, random))).collect();
    assert_eq!((drawn[0], drawn[1_000]), (0, 1_000));
    assert!(drawn.iter().enumerate().all(|(at, drawn)| *drawn == at as u64));
    assert_eq!(policy.delay(1, 1_001), Duration::ZERO);
}

#[test]
fn no_attempt_starts_after_the_deadline() {
    let policy = plain().deadline(10 * S);
    assert_eq!(after(&policy, 3, 6 * S), Retry::After(4 * S), "at the deadline is not after it");
    assert_eq!(after(&policy, 3, 6 * S + Duration::from_millis(1)), Retry::GiveUp(GiveUp::Deadline));
    assert_eq!(after(&policy, 1, Duration::MAX), Retry::GiveUp(GiveUp::Deadline));
    let asked = policy.after(1, S, None, Some(10 * S), 0);
    assert_eq!(asked, Retry::GiveUp(GiveUp::Deadline), "the outside asks for more than there is");
}

#[test]
fn some_codes_are_not_worth_a_retry() {
    let policy = plain().never_on(["declined", "unknown-card"]);
    let with = |code| policy.after(1, Duration::ZERO, code, Some(S), 0);
    assert_eq!(with(Some("declined")), Retry::GiveUp(GiveUp::Code));
    assert_eq!(with(Some("unknown-card")), Retry::GiveUp(GiveUp::Code));
    assert_eq!(with(Some("declined-later")), Retry::After(S));
    assert_eq!(with(None), Retry::After(S));
    let last = policy.max_attempts(1).after(1, Duration::ZERO, Some("declined"), None, 0);
    assert_eq!(last, Retry::GiveUp(GiveUp::Code), "the code says more than the count");
}

#[test]
fn the_wait_that_a_failure_asks_for_is_kept_whatever_the_policy_draws() {
    for policy in [RetryPolicy::default(), plain().max_delay(S)] {
        for random in [0, 17, u64::MAX] {
            let asked = policy.after(1, Duration::ZERO, None, Some(90 * S), random);
            assert_eq!(asked, Retry::After(90 * S));
        }
        let given_up = policy.max_attempts(2).after(2, Duration::ZERO, None, Some(S), 0);
        assert_eq!(given_up, Retry::GiveUp(GiveUp::Attempts));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_settings_the_answer_keeps_to_them(
        first in 0_u64..10_000_000,
        longest in 0_u64..100_000_000,
        factor: u32,
        attempts in 1_u32..20_000,
        deadline in proptest::option::of(0_u64..1_000_000_000),
        full_jitter: bool,
        failed in 1_u32..20_000,
        elapsed in 0_u64..2_000_000_000,
        random: u64,
    ) {
        let ms = Duration::from_millis;
        let policy = RetryPolicy {
            factor,
            full_jitter,
            deadline: deadline.map(ms),
            first_delay: ms(first),
            max_delay: ms(longest),
            ..RetryPolicy::default().max_attempts(attempts)
        };
        prop_assert!(policy.delay(failed, random) <= policy.clone().without_jitter().delay(failed, 0));
        match policy.after(failed, ms(elapsed), None, None, random) {
            Retry::After(delay) => {
                prop_assert!(failed < attempts);
                prop_assert!(delay <= policy.max_delay);
                prop_assert!(policy.deadline.is_none_or(|deadline| ms(elapsed) + delay <= deadline));
            }
            Retry::GiveUp(GiveUp::Attempts) => prop_assert!(failed >= attempts),
            Retry::GiveUp(GiveUp::Deadline) => {
                let next = ms(elapsed) + policy.delay(failed, random);
                prop_assert!(policy.deadline.is_some_and(|deadline| next > deadline));
            }
            Retry::GiveUp(GiveUp::Code) => prop_assert!(false, "there is no code"),
        }
    }
}
