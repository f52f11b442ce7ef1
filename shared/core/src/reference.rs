//! What a value refers to: a state holds a reference in the place of what is large, or grows.

use alloc::string::String;
use alloc::vec::Vec;

use serde::Deserialize as _;
use serde_json::{Map, Value};

use crate::ids::LogId;
use crate::json::BlobRef;

/// What a value holds in the place of something large.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// A blob.
    Blob(BlobRef),
    /// A log, and how many of its entries count.
    Log {
        /// Which.
        log: LogId,
        /// How many entries.
        len: u64,
    },
}

impl Reference {
    /// The reference that these fields are, exactly as one is written. `None`: they are none.
    pub fn of(fields: &Map<String, Value>) -> Option<Self> {
        let number = |name| fields.get(name).and_then(Value::as_u64);
        match fields.len() {
            2 => {
                let log = LogId(u32::try_from(number("log")?).ok()?);
                Some(Self::Log { log, len: number("len")? })
            }
            3 => BlobRef::deserialize(fields).ok().map(Self::Blob),
            _ => None,
        }
    }

    /// Every reference in a value, in its order.
    ///
    /// ```
    /// use stepwell_core::{LogId, Reference};
    /// let state = serde_json::json!({"notes": {"log": 1, "len": 2}, "n": 7});
    /// assert_eq!(Reference::all(&state), [Reference::Log { log: LogId(1), len: 2 }]);
    /// ```
    pub fn all(value: &Value) -> Vec<Self> {
        let mut found = Vec::new();
        gather(value, &mut found);
        found
    }
}

fn gather(value: &Value, found: &mut Vec<Reference>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| gather(item, found)),
        Value::Object(fields) => match Reference::of(fields) {
            Some(reference) => found.push(reference),
            None => fields.values().for_each(|field| gather(field, found)),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Every blob in a value: whatever can be read as one, with fields beside it too, since a workflow may read it so. In its order.
pub fn blobs(value: &Value) -> Vec<BlobRef> {
    let mut found = Vec::new();
    gather_blobs(value, &mut found);
    found
}

fn gather_blobs(value: &Value, found: &mut Vec<BlobRef>) {
    if let Ok(blob) = BlobRef::deserialize(value) {
        found.push(blob);
    }
    match value {
        Value::Array(items) => items.iter().for_each(|item| gather_blobs(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| gather_blobs(field, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use alloc::string::ToString;

    use serde_json::json;

    use super::*;
    use crate::Digest;

    #[test]
    fn only_a_reference_is_taken_for_one() {
        let of = |value: Value| Reference::of(value.as_object().unwrap());
        let digest = Digest::of(b"x").to_string();
        assert!(matches!(of(json!({"k": "r/x", "n": 1, "h": digest})), Some(Reference::Blob(_))));
        assert!(matches!(of(json!({"log": 1, "len": 2})), Some(Reference::Log { log: LogId(1), len: 2 })));
        for other in [
            json!({"k": "r/x", "n": 1, "h": "no digest"}),
            json!({"k": "r/x", "n": 1, "h": digest, "more": 1}),
            json!({"log": 1, "len": "2"}),
            json!({"log": 1, "len": 2, "pending": []}),
            json!({}),
        ] {
            assert!(of(other.clone()).is_none(), "{other}");
        }
    }

    #[test]
    fn what_may_be_read_as_a_blob_is_found_wherever_it_is() {
        let digest = Digest::of(b"x").to_string();
        let value =
            json!({"a": [{"k": "r/x", "n": 1, "h": digest, "more": 1}], "b": {"c": {"k": "r/y", "n": 2, "h": digest}}});
        let keys: Vec<_> = blobs(&value).into_iter().map(|blob| blob.key).collect();
        assert_eq!(keys, ["r/x", "r/y"]);
        assert_eq!(Reference::all(&value).len(), 1);
    }
}
