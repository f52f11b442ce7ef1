//! What a status says about the outside: one table.

use std::time::{Duration, SystemTime};

use reqwest::header::{DATE, HeaderMap, HeaderName, RETRY_AFTER};
use reqwest::{Method, StatusCode};
use stepwell::CallError;

/// No server is waited for longer than this, whatever it says.
pub const RETRY_AFTER_MAX: Duration = Duration::from_hours(24);

/// What a status that is no success says about the outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// It did not happen; calling again may help.
    NotDone,
    /// It did not happen, and will not.
    Refused,
    /// It may have happened.
    Unknown,
}

impl Meaning {
    pub(super) fn into_error(self, words: String, after: Option<Duration>) -> CallError {
        match (self, after) {
            (Self::NotDone, None) => CallError::retry(words),
            (Self::NotDone, Some(delay)) => CallError::retry_after(delay, words),
            (Self::Refused, _) => CallError::refused(words),
            (Self::Unknown, None) => CallError::unknown(words),
            (Self::Unknown, Some(delay)) => CallError::unknown_after(delay, words),
        }
    }
}

/// The table. [`Http`](super::Http) says why.
pub(super) fn of_status(method: &Method, status: StatusCode, says_when: bool) -> Meaning {
    match status.as_u16() {
        307 | 308 => Meaning::Refused,
        300..=399 if method.is_safe() => Meaning::Refused,
        421 | 425 | 429 => Meaning::NotDone,
        503 if says_when => Meaning::NotDone,
        408 | 409 | 499 => Meaning::Unknown,
        400..=499 | 501 | 505 => Meaning::Refused,
        _ => Meaning::Unknown,
    }
}

/// How long the server asks to be left alone, if it says so in a form that can be read.
pub(super) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: HeaderName| headers.get(name)?.to_str().ok().map(str::trim);
    let after = text(RETRY_AFTER)?;
    let delay = if !after.is_empty() && after.bytes().all(|byte| byte.is_ascii_digit()) {
        // More than fits is more than the bound.
        Duration::from_secs(after.parse().unwrap_or(u64::MAX))
    } else {
        let time = httpdate::parse_http_date(after).ok()?;
        // By the server's own clock, where it shows it: ours may be another.
        let now = text(DATE).and_then(|date| httpdate::parse_http_date(date).ok()).unwrap_or(now);
        time.duration_since(now).unwrap_or_default()
    };
    Some(delay.min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_its_meaning() {
        const NOT_DONE: [u16; 3] = [421, 425, 429];
        const MAY_HAVE_HAPPENED: [u16; 3] = [408, 409, 499];
        for code in (100..200).chain(300..=999) {
            let status = StatusCode::from_u16(code).unwrap();
            for (says_when, method) in [(false, Method::POST), (true, Method::POST), (false, Method::GET)] {
                let is_redirect = (300..400).contains(&code);
                let expected = if NOT_DONE.contains(&code) || says_when && code == 503 {
                    Meaning::NotDone
                } else if is_redirect && (method == Method::GET || code == 307 || code == 308) {
                    Meaning::Refused
                } else if MAY_HAVE_HAPPENED.contains(&code) {
                    Meaning::Unknown
                } else if (400..500).contains(&code) || code == 501 || code == 505 {
                    Meaning::Refused
                } else {
                    Meaning::Unknown
                };
                assert_eq!(of_status(&method, status, says_when), expected, "{method} {code}, says when: {says_when}");
            }
        }
    }

    #[test]
    fn a_server_says_when_in_seconds_or_as_a_date_and_is_bounded() {
        const NOW: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
        let now = httpdate::parse_http_date(NOW).unwrap();
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        let rows = [
            ("0", seconds(0)),
            (" 120 ", seconds(120)),
            ("86400", seconds(86_400)),
            ("86401", Some(RETRY_AFTER_MAX)),
            ("99999999999999999999999999", Some(RETRY_AFTER_MAX)),
            ("Sun, 06 Nov 1994 08:50:37 GMT", seconds(60)),
            // The two old forms that a client has to read.
            ("Sunday, 06-Nov-94 08:50:37 GMT", seconds(60)),
            ("Sun Nov  6 08:50:37 1994", seconds(60)),
            // Past, and far off.
            ("Sun, 06 Nov 1994 08:00:00 GMT", seconds(0)),
            ("Sat, 06 Nov 2094 08:00:00 GMT", Some(RETRY_AFTER_MAX)),
            ("", None),
            ("-1", None),
            ("1.5", None),
            ("soon", None),
        ];
        for (text, expected) in rows {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, text.parse().unwrap())]);
            assert_eq!(retry_after(&headers, now), expected, "{text:?}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }

    #[test]
    fn a_date_is_read_by_the_clock_of_its_server() {
        let headers = HeaderMap::from_iter([
            (RETRY_AFTER, "Sun, 06 Nov 1994 08:50:37 GMT".parse().unwrap()),
            (DATE, "Sun, 06 Nov 1994 08:50:07 GMT".parse().unwrap()),
        ]);
        assert_eq!(retry_after(&headers, SystemTime::now()), Some(Duration::from_secs(30)));
    }
}
