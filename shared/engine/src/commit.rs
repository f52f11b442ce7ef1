//! One conditional write by a holder, carried through: busy stores, replies that were lost, refusals.

use core::time::Duration;

use stepwell_core::write::{Refusal, Write, WriteRequest, check};
use stepwell_core::{Checkpoint, RunId};
use stepwell_ports::{StoreError, Written};

use crate::Ports;

/// Tries of one write against a store that is busy or away, before the turn is given up. The run is not lost then: its
/// lease runs out and its message comes again.
const TRIES: u32 = 6;

/// The first pause between tries; doubles.
const PAUSE: Duration = Duration::from_millis(50);

/// What came of a write.
pub(crate) enum Carried {
    /// It is written. The checkpoint as it is now.
    Applied(Box<Checkpoint>),
    /// It is refused, for this reason. The checkpoint that refused it.
    Refused(Refusal, Option<Box<Checkpoint>>),
    /// The store does not take it, now.
    Failed(StoreError),
}

/// Carries out a write. The same request is sent again when the store was busy or its reply was lost: its write id makes
/// that safe, whatever has become of the first try.
pub(crate) async fn carry_out(ports: &Ports, run: &RunId, write: Write) -> Carried {
    let request = WriteRequest { run: run.clone(), id: ports.ids.write_id(), now: ports.clock.now(), write };
    let (mut pause, mut attempt) = (PAUSE, 1);
    loop {
        match ports.store.write(&request).await {
            Ok(Written::Applied(checkpoint)) => return Carried::Applied(checkpoint),
            Ok(Written::Refused(current)) => {
                return match check(current.as_deref(), &request) {
                    Err(refusal) => Carried::Refused(refusal, current),
                    // The store refuses what the protocol allows: it is the store that is wrong.
                    Ok(()) => Carried::Failed(StoreError::Damaged(format!(
                        "run {run}: the store refused a write whose condition holds"
                    ))),
                };
            }
            Err(error) if error.is_passing() && attempt < TRIES => {
                tracing::warn!(%run, %error, attempt, "a write has to be tried again");
                ports.clock.sleep(pause).await;
                pause *= 2;
                attempt += 1;
            }
            Err(error) => return Carried::Failed(error),
        }
    }
}
