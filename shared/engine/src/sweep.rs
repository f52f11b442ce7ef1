//! The sweep: wakes runs whose timer comes soon, and runs that every message has forgotten. It only ever sends messages.

use core::time::Duration;

use stepwell_core::decide::{self, sweep::horizon};
use stepwell_core::limits::PAGE_MAX;
use stepwell_ports::{DuePage, Envelope};

use crate::{ClientError, Engine, envelope};

/// What a sweep has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// Index entries it has looked at.
    pub seen: u64,
    /// Messages it has sent.
    pub sent: u64,
    /// Those for runs past their mark: every other message had forgotten them. More than a few now and then mean that
    /// messages get lost.
    pub reminded: u64,
}

impl Engine {
    /// Sweeps once. `ahead` is how far it looks: a timer within it gets its message now, with the exact remaining delay. Sweep
    /// at least that often. Sweeping twice, or from two processes, is harmless.
    ///
    /// # Errors
    /// When index or queue are not available: what was sent is sent; the next sweep finds the rest. When a run that may be due is
    /// damaged, which a person has to mend: every other one was woken first.
    pub async fn sweep(&self, ahead: Duration) -> Result<SweepReport, ClientError> {
        let now = self.ports.clock.now();
        let (until, mut report, mut after) = (horizon(now, ahead), SweepReport::default(), None);
        let mut damaged = Vec::new();
        loop {
            let page = self.ports.store.due(until, PAGE_MAX, after).await?;
            damaged.extend(page.damaged);
            report.seen += page.items.len() as u64;
            let envelopes: Vec<Envelope> = page
                .items
                .iter()
                .filter_map(|found| {
                    let send = decide::sweep(found, now, ahead)?;
                    Some(envelope(&found.run, send))
                })
                .collect();
            if !envelopes.is_empty() {
                self.ports.queue.send(&envelopes).await?;
                report.sent += envelopes.len() as u64;
                // A timer is sent before its time, with the delay that is left.
                report.reminded += envelopes.iter().filter(|envelope| envelope.delay.is_zero()).count() as u64;
            }
            after = page.next;
            if after.is_none() {
                DuePage { items: Vec::new(), damaged, next: None }.whole()?;
                return Ok(report);
            }
        }
    }
}
