//! Workers that die: a fuse burns at one of a worker's port calls, and from then on none of its calls returns.

use std::fmt;
use std::future::{Future, pending};

use tokio::sync::watch;

/// The life of one worker. Clones are the same fuse.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// use stepwell_testkit::crash::Fuse;
/// let fuse = Fuse::new();
/// assert_eq!(fuse.while_alive(async { 7 }).await, Some(7));
/// fuse.burn();
/// assert_eq!(fuse.while_alive(async { 7 }).await, None);
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Fuse {
    burnt: watch::Sender<bool>,
}

impl Default for Fuse {
    fn default() -> Self {
        Self::new()
    }
}

impl Fuse {
    /// A whole one.
    pub fn new() -> Self {
        Self { burnt: watch::Sender::new(false) }
    }

    /// The worker dies.
    pub fn burn(&self) {
        self.burnt.send_replace(true);
    }

    /// Whether it has died.
    pub fn is_burnt(&self) -> bool {
        *self.burnt.borrow()
    }

    /// Returns when it dies.
    pub async fn burnt(&self) {
        // It fails when the fuse is gone, which `self` rules out.
        let _ = self.burnt.subscribe().wait_for(|burnt| *burnt).await;
    }

    /// Runs what the worker does until it dies, then drops it where it stands. `None`: it has died.
    pub async fn while_alive<F: Future>(&self, doing: F) -> Option<F::Output> {
        tokio::select! {
            biased;
            () = self.burnt() => None,
            done = doing => Some(done),
        }
    }

    /// What a dead worker's call comes to: nothing, ever.
    pub(crate) async fn silence<T>(&self) -> T {
        pending().await
    }
}

/// Where in a worker's life it dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrashPoint {
    /// At which of its port calls, from 1.
    pub call: u64,
    /// On which side of it.
    pub side: Side,
}

impl fmt::Display for CrashPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} call {}", self.side, self.call)
    }
}

/// On which side of a call something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The call had no effect.
    Before,
    /// The call had its effect, and nobody heard of it.
    After,
}

impl Side {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Before, Self::After];
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Before => "before",
            Self::After => "after",
        })
    }
}
