//! The time of the machine.

use core::time::Duration;
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use stepwell_core::Timestamp;
use stepwell_core::time::millis;

use crate::Clock;

/// The system's clock, and the runtime's timer. Needs a tokio runtime with its timer on.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        // A clock before 1970 counts as 1970: no safety rests on it.
        Timestamp(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, millis))
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}
