//! What reaches the outside: each call of an author's closure, counted by key.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stepwell::host::{Goes, Outgoing, Watch};
use stepwell_core::{Class, Digest, EffectKey, Timestamp};
use stepwell_ports::Clock;
use stepwell_testkit::VirtualClock;
use tokio::runtime::Handle;

use crate::bed::lock;

/// What has gone out under one key.
#[derive(Clone, Debug)]
pub(crate) struct Called {
    pub(crate) name: String,
    pub(crate) class: Class,
    pub(crate) calls: u64,
    /// Calls that ended by themselves.
    pub(crate) ended: u64,
    /// Calls that are over: they ended, or were cut off.
    over: u64,
    pub(crate) asks: u64,
    /// Each digest of parameters that it was called with, where the author gave them.
    pub(crate) parameters: BTreeSet<Option<Digest>>,
    pub(crate) first: Option<Timestamp>,
    pub(crate) last: Option<Timestamp>,
}

impl Called {
    /// Calls that were cut off: nobody knows how far they had come, and they may not have acted.
    pub(crate) const fn dropped(&self) -> u64 {
        self.over.saturating_sub(self.ended)
    }
}

/// What has gone out in one world, by key.
pub(crate) type Seen = BTreeMap<EffectKey, Called>;

/// Sees the calls of one world.
pub(crate) struct Calls {
    clock: Arc<VirtualClock>,
    seen: Arc<Mutex<Seen>>,
    /// For how much real time the clock waits for an answer.
    patience: Duration,
    slow: Arc<AtomicU64>,
}

impl Calls {
    pub(crate) fn new(clock: Arc<VirtualClock>, patience: Duration) -> Arc<Self> {
        Arc::new(Self { clock, seen: Arc::default(), patience, slow: Arc::default() })
    }

    pub(crate) fn seen(&self) -> Seen {
        lock(&self.seen).clone()
    }

    /// Calls whose answer took longer than the clock has waited for.
    pub(crate) fn slow(&self) -> u64 {
        self.slow.load(Ordering::Relaxed)
    }

    /// Keeps time from jumping while something outside of this runtime works: a server, a thread. Tokio's paused time stands still
    /// for as long as a blocking task runs.
    fn hold_time(&self) -> Option<Box<dyn Send>> {
        let runtime = Handle::try_current().ok().filter(|_| !self.patience.is_zero())?;
        let (ended, wait) = channel::<()>();
        let (patience, slow) = (self.patience, Arc::clone(&self.slow));
        runtime.spawn_blocking(move || {
            // The other end is dropped when the call has ended.
            if wait.recv_timeout(patience) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                slow.fetch_add(1, Ordering::Relaxed);
            }
        });
        Some(Box::new(ended))
    }
}

impl Watch for Calls {
    fn goes_out(&self, outgoing: &Outgoing<'_>) -> Option<Box<dyn Send>> {
        let Outgoing { what, name, key, class, parameters } = *outgoing;
        let now = self.clock.now();
        let mut seen = lock(&self.seen);
        let called = seen.entry(key.clone()).or_insert_with(|| Called {
            name: name.to_owned(),
            class,
            calls: 0,
            ended: 0,
            over: 0,
            asks: 0,
            parameters: BTreeSet::new(),
            first: None,
            last: None,
        });
        match what {
            Goes::Call => {
                called.calls += 1;
                called.parameters.insert(parameters);
                called.first.get_or_insert(now);
                called.last = Some(now);
            }
            Goes::Ask => called.asks += 1,
        }
        drop(seen);
        let held = self.hold_time();
        Some(Box::new(UnderWay { seen: Arc::clone(&self.seen), key: key.clone(), what, _held: held }))
    }

    fn ended(&self, outgoing: &Outgoing<'_>) {
        if let (Goes::Call, Some(called)) = (outgoing.what, lock(&self.seen).get_mut(outgoing.key)) {
            called.ended += 1;
        }
    }
}

/// What an author's closure has begun, until it has ended or is dropped.
struct UnderWay {
    seen: Arc<Mutex<Seen>>,
    key: EffectKey,
    what: Goes,
    _held: Option<Box<dyn Send>>,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if let (Goes::Call, Some(called)) = (self.what, lock(&self.seen).get_mut(&self.key)) {
            called.over += 1;
        }
    }
}
