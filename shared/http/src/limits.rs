//! How much is taken, and from whom: each caller has its own measure, and so has whoever guesses at credentials.
//!
//! Each process counts for itself, and forgets when it ends: these keep one caller from taking everything, and no bill small.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use governor::clock::Clock as GovernorClock;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};
use stepwell_core::Timestamp;
use stepwell_ports::Clock;

use crate::access::Peer;
use crate::problem::Problem;

/// After how many callers or peers those are forgotten that have been quiet.
const KEPT_MAX: usize = 10_000;

/// A measure: so many at once, and then one more each time that this much time has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// At once.
    pub burst: NonZeroU32,
    /// Time for one more. Zero is no measure at all.
    pub one_more_every: Duration,
}

impl Rate {
    /// So many at once, and one more each time that this much has passed. Zero at once counts as one.
    pub fn new(burst: u32, one_more_every: Duration) -> Self {
        Self { burst: NonZeroU32::new(burst).unwrap_or(NonZeroU32::MIN), one_more_every }
    }
}

/// How much is taken. `None` is without end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests of one caller.
    pub calls: Option<Rate>,
    /// Wrong credentials from one peer, or from all of them where the host does not say who they are.
    pub failures: Option<Rate>,
    /// Requests for links, from one peer or from all.
    pub links: Option<Rate>,
}

impl Limits {
    /// Everything is taken.
    pub const fn none() -> Self {
        Self { calls: None, failures: None, links: None }
    }
}

impl Default for Limits {
    /// For people and their programs: 200 requests a second of one caller, 1,000 at once; 30 wrong keys and one more every other second;
    /// 60 looks at links and two more a second.
    fn default() -> Self {
        Self {
            calls: Some(Rate::new(1_000, Duration::from_millis(5))),
            failures: Some(Rate::new(30, Duration::from_secs(2))),
            links: Some(Rate::new(60, Duration::from_millis(500))),
        }
    }
}

/// The measures, and what has been taken of each.
#[derive(Clone)]
pub(crate) struct Limiters {
    limits: Limits,
    calls: Option<Arc<Limiter<String>>>,
    failures: Option<Arc<Limiter<Option<Peer>>>>,
    links: Option<Arc<Limiter<Option<Peer>>>>,
    /// Peers that are not listened to, and until when.
    blocked: Arc<Mutex<HashMap<Peer, Timestamp>>>,
}

type Limiter<K> = RateLimiter<K, HashMapStateStore<K>, Reading, NoOpMiddleware<Nanos>>;

/// The program's own clock, as the limiter reads it.
#[derive(Clone)]
struct Reading(Arc<dyn Clock>);

impl GovernorClock for Reading {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        Nanos::from(self.0.now().0.saturating_mul(1_000_000))
    }
}

impl Limiters {
    pub(crate) fn of(limits: Limits, clock: &Arc<dyn Clock>) -> Self {
        let Limits { calls, failures, links } = limits;
        let blocked = Arc::default();
        Self {
            limits,
            calls: limiter(calls, clock),
            failures: limiter(failures, clock),
            links: limiter(links, clock),
            blocked,
        }
    }

    /// The same by another clock.
    pub(crate) fn by(&self, clock: &Arc<dyn Clock>) -> Self {
        Self::of(self.limits, clock)
    }

    /// Counts a request of this caller.
    pub(crate) fn call(&self, caller: &str) -> Result<(), Problem> {
        take(self.calls.as_deref(), &caller.to_owned(), "you ask more often than is taken here")
            .map_err(|(problem, _)| problem)
    }

    /// Counts a request for a link.
    pub(crate) fn link(&self, from: Option<&Peer>) -> Result<(), Problem> {
        take(self.links.as_deref(), &from.cloned(), "links are asked for more often than is taken here")
            .map_err(|(problem, _)| problem)
    }

    /// Whether this peer is listened to. One that is not learns nothing about what it shows, were it right.
    pub(crate) fn may_try(&self, from: Option<&Peer>, now: Timestamp) -> Result<(), Problem> {
        let Some(from) = from else { return Ok(()) };
        let blocked = self.blocked.lock().unwrap_or_else(PoisonError::into_inner);
        match blocked.get(from) {
            Some(until) if now < *until => Err(too_many(GUESSING, until.since(now))),
            Some(_) | None => Ok(()),
        }
    }

    /// Counts wrong credentials.
    pub(crate) fn failed(&self, from: Option<Peer>, now: Timestamp) -> Result<(), Problem> {
        let Err((problem, wait)) = take(self.failures.as_deref(), &from, GUESSING) else { return Ok(()) };
        if let Some(from) = from {
            let mut blocked = self.blocked.lock().unwrap_or_else(PoisonError::into_inner);
            if blocked.len() >= KEPT_MAX {
                blocked.retain(|_, until| now < *until);
            }
            if blocked.len() < KEPT_MAX {
                blocked.insert(from, now.plus(wait));
            }
        }
        Err(problem)
    }
}

const GUESSING: &str = "too many wrong credentials came from where you are";

fn limiter<K: Hash + Eq + Clone>(rate: Option<Rate>, clock: &Arc<dyn Clock>) -> Option<Arc<Limiter<K>>> {
    let Rate { burst, one_more_every } = rate?;
    let quota = Quota::with_period(one_more_every)?.allow_burst(burst);
    Some(Arc::new(RateLimiter::new(quota, HashMapStateStore::default(), Reading(clock.clone()))))
}

/// Takes one, or says after how long there is one more.
fn take<K: Hash + Eq + Clone>(limiter: Option<&Limiter<K>>, key: &K, why: &str) -> Result<(), (Problem, Duration)> {
    let Some(limiter) = limiter else { return Ok(()) };
    if limiter.len() >= KEPT_MAX {
        limiter.retain_recent();
    }
    limiter.check_key(key).map_err(|not_until| {
        let wait = not_until.wait_time_from(limiter.clock().now());
        (too_many(why, wait), wait)
    })
}

fn too_many(why: &str, wait: Duration) -> Problem {
    let seconds = wait.as_millis().div_ceil(1_000).max(1);
    let seconds = u64::try_from(seconds).unwrap_or(u64::MAX);
    Problem::later("too-many", format!("{why}; ask again in {seconds} s"), seconds)
}

/// Whom a peer counts as. Who has one address of the sixth version has as many as they like: the first half tells them apart.
pub(crate) fn peer(peer: Option<&Peer>) -> Option<Peer> {
    let Peer(text) = peer?;
    match text.parse() {
        Ok(IpAddr::V6(address)) => {
            let [a, b, c, d, ..] = address.segments();
            let network = || format!("{a:x}:{b:x}:{c:x}:{d:x}::/64");
            Some(Peer(address.to_ipv4_mapped().map_or_else(network, |address| address.to_string())))
        }
        Ok(IpAddr::V4(_)) | Err(_) => Some(Peer(text.clone())),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use stepwell_testkit::VirtualClock;

    use super::*;

    fn limiters(clock: &Arc<VirtualClock>) -> Limiters {
        let rate = Some(Rate::new(2, Duration::from_secs(10)));
        let limits = Limits { calls: rate, failures: rate, links: rate };
        let clock: Arc<dyn Clock> = clock.clone();
        Limiters::of(limits, &clock)
    }

    fn named(name: &str) -> Peer {
        Peer(name.into())
    }

    #[tokio::test(start_paused = true)]
    async fn each_caller_has_its_own_measure_and_time_gives_it_back() {
        let clock = Arc::new(VirtualClock::starting_at(Timestamp(1_000_000)));
        let limiters = limiters(&clock);
        assert!(limiters.call("ann").is_ok() && limiters.call("ann").is_ok());
        assert!(limiters.call("ann").is_err());
        assert!(limiters.call("bob").is_ok());
        tokio::time::advance(Duration::from_millis(9_990)).await;
        assert!(limiters.call("ann").is_err());
        tokio::time::advance(Duration::from_millis(20)).await;
        assert!(limiters.call("ann").is_ok());
        assert!(limiters.call("ann").is_err());
        assert!(Limiters::of(Limits::none(), &(clock as Arc<dyn Clock>)).call("ann").is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_guesses_is_not_listened_to_and_nobody_else_suffers() {
        let clock = Arc::new(VirtualClock::starting_at(Timestamp(1_000_000)));
        let limiters = limiters(&clock);
        let (bad, good) = (Some(named("1.2.3.4")), Some(named("5.6.7.8")));
        for _ in 0..2 {
            assert!(limiters.failed(bad.clone(), clock.now()).is_ok());
        }
        assert!(limiters.may_try(bad.as_ref(), clock.now()).is_ok());
        assert!(limiters.failed(bad.clone(), clock.now()).is_err());
        assert!(limiters.may_try(bad.as_ref(), clock.now()).is_err());
        assert!(limiters.may_try(good.as_ref(), clock.now()).is_ok() && limiters.may_try(None, clock.now()).is_ok());
        tokio::time::advance(Duration::from_secs(11)).await;
        assert!(limiters.may_try(bad.as_ref(), clock.now()).is_ok());
    }

    #[test]
    fn a_network_of_the_sixth_version_counts_as_one() {
        let of = |text: &str| peer(Some(&named(text))).unwrap().0;
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), of("2001:db8:1:2::1"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(
            (of("::ffff:1.2.3.4"), of("1.2.3.4"), of("anything")),
            ("1.2.3.4".into(), "1.2.3.4".into(), "anything".into())
        );
    }
}
