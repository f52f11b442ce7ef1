//! Digests of values that do not depend on how they were written.

use serde::Serialize;
use serde_json::Value;
use stepwell_core::Digest;

/// A value that has no fingerprint.
#[derive(Debug, thiserror::Error)]
pub enum FingerprintError {
    /// It cannot be written as JSON.
    #[error("cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// It holds an integer that JSON readers take for another one, so that two values would share a digest.
    #[error("holds the integer {0}, which JSON cannot carry exactly (over 2^53): write it as a string")]
    Integer(String),
}

/// The SHA-256 of a value in canonical JSON: object keys sorted, no white space, so that the same value gives the same
/// digest however it was written.
///
/// ```
/// let a: serde_json::Value = serde_json::from_str(r#"{"b": 1, "a": [true]}"#)?;
/// let b: serde_json::Value = serde_json::from_str(r#"{"a":[true],"b":1}"#)?;
/// assert_eq!(stepwell::fingerprint(&a)?, stepwell::fingerprint(&b)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`FingerprintError::Integer`] for integers beyond ±2^53.
pub fn fingerprint<T: Serialize + ?Sized>(value: &T) -> Result<Digest, FingerprintError> {
    let mut text = String::new();
    write_canonical(&serde_json::to_value(value)?, &mut text)?;
    Ok(Digest::of(text.as_bytes()))
}

fn write_canonical(value: &Value, to: &mut String) -> Result<(), FingerprintError> {
    match value {
        Value::Null | Value::Bool(_) | Value::String(_) => to.push_str(&value.to_string()),
        Value::Number(number) => {
            let exact = 1_u64 << 53;
            let over =
                number.as_u64().is_some_and(|n| n > exact) || number.as_i64().is_some_and(|n| n.unsigned_abs() > exact);
            if over {
                return Err(FingerprintError::Integer(number.to_string()));
            }
            // 1.0 and 1 are the same JSON number, so they are written the same.
            match number.as_f64().filter(|n| number.is_f64() && n.fract() == 0.0 && n.abs() < 9.0e15) {
                Some(0.0) => to.push('0'),
                Some(whole) => to.push_str(format!("{whole:.0}").as_str()),
                None => to.push_str(&number.to_string()),
            }
        }
        Value::Array(items) => {
            to.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    to.push(',');
                }
                write_canonical(item, to)?;
            }
            to.push(']');
        }
        Value::Object(fields) => {
            // RFC 8785 sorts by UTF-16 code units.
            let mut sorted: Vec<_> = fields.iter().collect();
            sorted.sort_by_cached_key(|(name, _)| name.encode_utf16().collect::<Vec<_>>());
            to.push('{');
            for (at, (name, field)) in sorted.into_iter().enumerate() {
                if at > 0 {
                    to.push(',');
                }
                to.push_str(&Value::from(name.as_str()).to_string());
                to.push(':');
                write_canonical(field, to)?;
            }
            to.push('}');
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whole_floats_are_integers_and_large_integers_are_refused() {
        assert_eq!(fingerprint(&1.0).unwrap(), fingerprint(&1).unwrap());
        assert_eq!(fingerprint(&-0.0).unwrap(), fingerprint(&0).unwrap());
        assert_ne!(fingerprint(&1.5).unwrap(), fingerprint(&1).unwrap());
        assert!(fingerprint(&json!([9_007_199_254_740_993_u64])).is_err());
        assert!(fingerprint(&json!({"n": -9_007_199_254_740_993_i64})).is_err());
    }
}
