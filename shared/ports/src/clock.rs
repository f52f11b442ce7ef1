//! Time.

use core::time::Duration;

use async_trait::async_trait;
use stepwell_core::Timestamp;

/// Time as the engine sees it. Tests put a virtual one here.
#[async_trait]
pub trait Clock: Send + Sync {
    /// Now. May differ between machines; no safety rests on it.
    fn now(&self) -> Timestamp;

    /// Returns after this much time has passed.
    async fn sleep(&self, duration: Duration);
}
