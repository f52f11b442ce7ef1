//! What can go wrong in a world, and where.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use stepwell_ports::Clock;
use stepwell_testkit::VirtualClock;
use stepwell_testkit::faults::{Fate, PortCall};

/// Half as long again as a lease: whoever stands still for so long has lost its run.
const STALL: Duration = Duration::from_secs(45);

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// The worker dies before a port call has any effect, and another takes over.
    DiesBefore,
    /// The worker dies after a port call had its effect, before it hears so, and another takes over.
    DiesAfter,
    /// The worker stands still before a port call for longer than its lease, another takes over, and the first one goes on as if
    /// nothing had been: a process that was paused, a machine that was moved.
    StallsBefore,
    /// The same, after a port call had its effect.
    StallsAfter,
    /// A port call has its effect; its caller hears that it may have had.
    ReplyLost,
    /// A port call has no effect: the backend is busy.
    Throttled,
    /// A message is delivered twice.
    DeliveredTwice,
    /// Nothing goes wrong: what differs then does so by itself.
    Nothing,
}

impl Fault {
    /// Those that strike at a port call.
    pub(crate) const AT_CALLS: [Self; 6] =
        [Self::DiesBefore, Self::DiesAfter, Self::StallsBefore, Self::StallsAfter, Self::ReplyLost, Self::Throttled];

    /// For people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DiesBefore => "the worker dies before a call",
            Self::DiesAfter => "the worker dies after a call",
            Self::ReplyLost => "the reply to a call is lost",
            Self::Throttled => "a call is throttled",
            Self::StallsBefore => "the worker stalls before a call, beyond its lease",
            Self::StallsAfter => "the worker stalls after a call, beyond its lease",
            Self::DeliveredTwice => "a message is delivered twice",
            Self::Nothing => "nothing, once more",
        }
    }

    /// Whether another worker comes when it has struck.
    pub(crate) const fn brings_another(self) -> bool {
        match self {
            Self::DiesBefore | Self::DiesAfter | Self::StallsBefore | Self::StallsAfter => true,
            Self::ReplyLost | Self::Throttled | Self::DeliveredTwice | Self::Nothing => false,
        }
    }
}

/// What goes wrong, and at which call of the worker, or with which message. Counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) fault: Fault,
    pub(crate) number: u64,
    /// Which call it is without faults.
    pub(crate) call: Option<PortCall>,
}

impl Point {
    pub(crate) const NOTHING: Self = Self { fault: Fault::Nothing, number: 0, call: None };

    /// What becomes of each call of the worker.
    pub(crate) fn plan(
        self,
        clock: Arc<VirtualClock>,
        struck: Arc<tokio::sync::Notify>,
    ) -> impl FnMut(u64, PortCall) -> Fate + Send + 'static {
        let mut stalls_until = None;
        move |number, _| {
            let now = clock.now();
            if number != self.number {
                // A process that stands still does so with all of its tasks.
                let left = stalls_until.map_or(Duration::ZERO, |until: stepwell_core::Timestamp| until.since(now));
                return if left.is_zero() { Fate::Pass } else { Fate::SlowStart(left) };
            }
            struck.notify_one();
            match self.fault {
                Fault::DiesBefore => Fate::DieBefore,
                Fault::DiesAfter => Fate::DieAfter,
                Fault::ReplyLost => Fate::LostAfter,
                Fault::Throttled => Fate::Throttled,
                Fault::StallsBefore => {
                    stalls_until = Some(now.plus(STALL));
                    Fate::SlowStart(STALL)
                }
                Fault::StallsAfter => {
                    stalls_until = Some(now.plus(STALL));
                    Fate::SlowAnswer(STALL)
                }
                Fault::DeliveredTwice | Fault::Nothing => Fate::Pass,
            }
        }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.number;
        let call = self.call.map_or_else(String::new, |call| format!(" ({call})"));
        match self.fault {
            Fault::DiesBefore => write!(f, "the worker dies before call {number}{call}"),
            Fault::DiesAfter => write!(f, "the worker dies after call {number}{call}"),
            Fault::ReplyLost => write!(f, "the reply to call {number}{call} is lost"),
            Fault::Throttled => write!(f, "call {number}{call} is throttled"),
            Fault::StallsBefore => write!(f, "the worker stalls before call {number}{call}"),
            Fault::StallsAfter => write!(f, "the worker stalls after call {number}{call}"),
            Fault::DeliveredTwice => write!(f, "message {number} is delivered twice"),
            Fault::Nothing => f.write_str("nothing goes wrong, once more"),
        }
    }
}
