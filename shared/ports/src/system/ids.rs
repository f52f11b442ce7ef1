//! Fresh ids.

use core::str::FromStr;

use stepwell_core::{NameError, RunId, SignalId, WriteId};
use uuid::Uuid;

use crate::Ids;

/// Ids from the time and the system's randomness. Good for telling things apart, not for secrets.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemIds;

impl Ids for SystemIds {
    fn run_id(&self) -> RunId {
        fresh()
    }

    fn signal_id(&self) -> SignalId {
        fresh()
    }

    fn write_id(&self) -> WriteId {
        WriteId(fastrand::u64(1..))
    }

    fn random(&self) -> u64 {
        fastrand::u64(..)
    }
}

/// 32 hexadecimal digits that begin with the time: such ids sort by it.
fn fresh<T: FromStr<Err = NameError>>() -> T {
    loop {
        // Always the first: 32 hexadecimal digits are a good name.
        if let Ok(id) = Uuid::now_v7().simple().to_string().parse() {
            return id;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_ids_sort_by_the_time_they_were_made() {
        let made: Vec<RunId> = (0..1_000).map(|_| SystemIds.run_id()).collect();
        assert!(made.is_sorted_by(|a, b| a < b));
    }
}
