//! What stands in addresses.

use core::fmt::Write as _;

use stepwell_core::Timestamp;

/// A query of these pairs, without those that are empty.
pub(crate) fn query(pairs: &[(&str, &str)]) -> String {
    let mut query = String::new();
    for (name, value) in pairs.iter().filter(|(_, value)| !value.is_empty()) {
        query.push(if query.is_empty() { '?' } else { '&' });
        query.push_str(name);
        query.push('=');
        for byte in value.bytes() {
            if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
                query.push(char::from(byte));
            } else {
                // Writing to a string cannot fail.
                let _ = write!(query, "%{byte:02X}");
            }
        }
    }
    query
}

/// A time in UTC, as a browser's field gives it: `2026-11-30T18:14`, with seconds or without, with a `Z` or without.
pub(crate) fn read_time(text: &str) -> Option<Timestamp> {
    let text = text.strip_suffix(['Z', 'z']).unwrap_or(text);
    // An offset would be read over.
    let is_time = |letter: char| letter.is_ascii_digit() || matches!(letter, '-' | ':' | '.' | 'T' | 't' | ' ');
    if !text.chars().all(is_time) || text.matches('-').count() != 2 {
        return None;
    }
    let time: jiff::civil::DateTime = text.parse().ok()?;
    let time = jiff::tz::TimeZone::UTC.to_timestamp(time).ok()?;
    u64::try_from(time.as_millisecond()).ok().map(Timestamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_escaped() {
        assert_eq!(query(&[("a", ""), ("b", "x y&ü"), ("c", "1:2")]), "?b=x%20y%26%C3%BC&c=1%3A2");
        assert_eq!(query(&[("a", "")]), "");
    }

    #[test]
    fn times_are_read_as_browsers_give_them() {
        for text in ["2023-11-14T22:13:20.123Z", "2023-11-14T22:13:20.123"] {
            assert_eq!(read_time(text), Some(Timestamp(1_700_000_000_123)));
        }
        assert_eq!(read_time("1970-01-01T00:01"), Some(Timestamp(60_000)));
        for text in ["", "now", "1969-12-31T23:59", "2026-13-01T00:00", "2026-11-30T18:00+02:00"] {
            assert_eq!(read_time(text), None, "{text}");
        }
    }
}
