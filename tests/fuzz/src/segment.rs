//! What is stored beside a checkpoint.

use serde::Serialize;
use serde::de::DeserializeOwned;
use stepwell_core::history::Segment;
use stepwell_core::limits::CHECKPOINT_BYTES_MAX;
use stepwell_core::{EffectRecord, Timestamp};

/// What can be read is written the same way again.
pub fn segment(bytes: &[u8]) {
    if bytes.len() > CHECKPOINT_BYTES_MAX {
        return;
    }
    if let Some(segment) = read_and_written::<Segment>(bytes) {
        assert!(segment.end() >= segment.from);
        assert_eq!(segment.weight(), serde_json::to_vec(&segment).unwrap().len());
        for entry in &segment.entries {
            let _ = (entry.back(), entry.kind.as_str());
        }
    }
    if let Some(record) = read_and_written::<EffectRecord>(bytes) {
        let _ = (record.has_intent(), record.is_open());
        for (first, now) in [(0, u64::MAX), (u64::MAX, 0), (5, 5)] {
            let _ = record.class.repeatable_for(Timestamp(first), Timestamp(now));
        }
    }
}

fn read_and_written<T: Serialize + DeserializeOwned + PartialEq + core::fmt::Debug>(bytes: &[u8]) -> Option<T> {
    let read: T = serde_json::from_slice(bytes).ok()?;
    let written = serde_json::to_vec(&read).expect("what was read can be written");
    let again: T = serde_json::from_slice(&written).expect("what was written can be read");
    assert_eq!(again, read);
    assert_eq!(serde_json::to_vec(&again).unwrap(), written);
    Some(read)
}
