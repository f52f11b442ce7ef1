//! Ids, keys, names, values, references: whatever is one word or one value.

use core::fmt::{Debug, Display};
use core::str::{self, FromStr};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use stepwell::{fingerprint, redact};
use stepwell_core::limits::NAME_CHARS_MAX;
use stepwell_core::{
    ApprovalId, BlobRef, Digest, EffectKey, Json, Payload, Phase, RunId, SignalId, SignalName, WorkerId, WorkflowName,
};
use stepwell_http::view::{RunsFrom, pretty};
use stepwell_http::{Access, is_role};
use stepwell_ports::Claimant;

/// What is taken is what was given; what is a name can stand in a path, a key and a log.
pub fn names(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    name::<RunId>(text);
    name::<WorkflowName>(text);
    name::<SignalName>(text);
    name::<SignalId>(text);
    name::<WorkerId>(text);
    copied(text);
    setting(text);
    value(text);
    reference(bytes);
}

fn name<T: FromStr<Err: Display + Debug> + Display + Debug + PartialEq + Serialize + DeserializeOwned>(text: &str) {
    let quoted = serde_json::to_string(text).unwrap();
    let stored = serde_json::from_str::<T>(&quoted);
    match T::from_str(text) {
        Ok(name) => {
            assert_eq!(name.to_string(), text);
            assert!((1..=NAME_CHARS_MAX).contains(&text.len()), "{text:?}");
            assert!(!text.starts_with(['.', '-', ':']), "{text:?}");
            let is_ours = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
            assert!(text.chars().all(is_ours), "{text:?}");
            assert_eq!(serde_json::to_string(&name).unwrap(), quoted);
            assert_eq!(stored.unwrap(), name);
        }
        Err(error) => {
            assert!(!error.to_string().contains(|c: char| c.is_control()), "{error:?}");
            assert!(stored.is_err(), "{text:?} can be read where it is stored, and cannot be given");
        }
    }
}

/// What a person has copied.
fn copied(text: &str) {
    let hexadecimal = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let key = EffectKey::parse(text);
    assert_eq!(key.is_some(), hexadecimal && text.len() == 32, "{text:?}");
    assert!(key.is_none_or(|key| key.as_str() == text));
    let id = ApprovalId::parse(text);
    assert_eq!(id.is_some(), hexadecimal && text.len() == 16, "{text:?}");
    assert!(id.is_none_or(|id| id.as_str() == text));
    assert!(Claimant::parse(text).is_none_or(|claimant| claimant.to_string() == text), "{text:?}");
    assert!(Phase::parse(text).is_none_or(|phase| phase.as_str() == text), "{text:?}");
    let place = RunsFrom::parse(text, &[Phase::Parked, Phase::Waiting]);
    assert!(place.is_none_or(|place| place.token() == text), "{text:?}");
}

/// What whoever starts a program gives. No error repeats what may be a secret.
fn setting(text: &str) {
    let _ = is_role(text);
    if let Err(error) = Access::from_text(text) {
        let error = error.to_string();
        let long = text.split([',', '=', ':', '+', '@']).map(str::trim).find(|part| part.len() > 100);
        assert!(long.is_none_or(|part| !error.contains(part)), "{error}");
    }
    assert_eq!(redact(text), text, "no secret is known");
}

fn value(text: &str) {
    let parsed = serde_json::from_str::<Value>(text);
    let Ok(json) = Json::from_text(text.to_owned()) else {
        assert!(parsed.is_err(), "what can be read is refused");
        return;
    };
    assert_eq!(json.text().trim(), text.trim());
    let variant = json.variant();
    // A number may be too large to be read, and be JSON all the same.
    let Ok(parsed) = parsed else { return };
    match &parsed {
        Value::String(word) => assert_eq!(variant.as_ref(), Some(word)),
        Value::Object(fields) if fields.len() == 1 => assert_eq!(variant.as_ref(), fields.keys().next()),
        Value::Object(fields) => assert!(variant.is_none_or(|name| fields.contains_key(&name))),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => assert_eq!(variant, None),
    }
    let shown = pretty(json.text());
    assert_eq!(serde_json::from_str::<Value>(&shown).expect("it is still JSON"), parsed);
    let compact = Json::of(&parsed).unwrap();
    let again: Value = compact.parse().expect("what was written can be read");
    assert_eq!(again, parsed);
    match (fingerprint(&parsed), fingerprint(&again)) {
        (Ok(one), Ok(other)) => assert_eq!(one, other),
        (Err(_), Err(_)) => {}
        (one, other) => panic!("one has a fingerprint, and the other has none: {one:?} {other:?}"),
    }
}

fn reference(bytes: &[u8]) {
    if let Ok(digest) = serde_json::from_slice::<Digest>(bytes) {
        let given: String = serde_json::from_slice(bytes).expect("a digest is a text");
        assert_eq!(digest.to_string(), given.to_ascii_lowercase());
    }
    if let Some(blob) = again::<BlobRef>(bytes) {
        assert!(Payload::Blob(blob.clone()).weight() >= blob.key.len());
    }
    if let Some(payload) = again::<Payload>(bytes) {
        let _ = payload.weight();
    }
    let run = RunId::new("r1").unwrap();
    let own = BlobRef::of(&run, bytes);
    assert_eq!((own.size, own.sha256), (bytes.len() as u64, Digest::of(bytes)));
    assert!(own.key.starts_with("r1/"));
}

fn again<T: Serialize + DeserializeOwned + PartialEq + Debug>(bytes: &[u8]) -> Option<T> {
    let read: T = serde_json::from_slice(bytes).ok()?;
    let written = serde_json::to_vec(&read).expect("what was read can be written");
    assert_eq!(serde_json::from_slice::<T>(&written).expect("what was written can be read"), read);
    Some(read)
}
