//! Times, as the API reads and writes them.

use std::cell::LazyCell;
use std::str;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use stepwell_core::Timestamp;
use tower::ServiceExt as _;

use crate::world::{PORT, World, escaped};

thread_local! {
    static WORLD: LazyCell<World> = LazyCell::new(World::new);
}

/// The first time whose year has five digits: RFC 3339 has no words for it.
const YEAR_10_000: u64 = 253_402_300_800_000;

/// What is two days before [`YEAR_10_000`] and later is read as earlier: see the API.
const LAST_DAYS: u64 = YEAR_10_000 - 3 * 86_400_000;

/// A time that is written is read as the same; other text is read only where it has the form of RFC 3339.
///
/// Eight bytes are a time, others are text.
pub fn times(bytes: &[u8]) {
    WORLD.with(|world| {
        if let Ok(number) = <[u8; 8]>::try_from(bytes) {
            written(world, Timestamp(u64::from_be_bytes(number)));
        } else if let Ok(text) = str::from_utf8(bytes)
            && read(world, text).is_some()
        {
            assert!(is_rfc_3339(text), "{text:?} was read as a time");
        }
    });
}

fn written(world: &World, time: Timestamp) {
    let text = time.to_string();
    // Most numbers are far away; their remainder is a time of our own.
    for time in [time, Timestamp(time.0 % YEAR_10_000)] {
        let text = time.to_string();
        let whole = text.len() == "2026-10-02T08:00:00.000Z".len();
        assert_eq!(whole, time.0 < YEAR_10_000, "{text}");
        match read(world, &text) {
            Some(read) if time.0 < LAST_DAYS => assert_eq!(read, time, "{text}"),
            Some(read) => assert!(read >= Timestamp(LAST_DAYS) && read <= time, "{text}"),
            None => assert!(!whole, "{text} is written and cannot be read"),
        }
    }
    assert!(text.ends_with('Z'));
}

/// Asks the API for the runs that were started from then on. `None`: it does not take it as a time.
fn read(world: &World, text: &str) -> Option<Timestamp> {
    let escaped = escaped(text);
    let request = Request::get(format!("/v1/runs?from={escaped}")).header("host", format!("localhost:{PORT}"));
    let request = request.body(Body::empty()).unwrap();
    let status = world.runtime.block_on(world.app(true).oneshot(request)).unwrap().status();
    let asked = world.behind.asked();
    assert!(matches!(status, StatusCode::OK | StatusCode::BAD_REQUEST), "{status}: {text:?}");
    assert_eq!(asked.is_some(), status == StatusCode::OK);
    asked.and_then(|query| query.started_from)
}

/// Whether it has the form `2026-10-02T08:00:00[.000](Z|+00:00)`.
fn is_rfc_3339(text: &str) -> bool {
    let Some((whole, rest)) = text.split_at_checked(19) else { return false };
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let form = "dddd-dd-ddTdd:dd:dd";
    let fits = whole.chars().zip(form.chars()).all(|(c, form)| match form {
        'd' => c.is_ascii_digit(),
        'T' => c.eq_ignore_ascii_case(&'T'),
        _ => c == form,
    });
    let end = rest.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(rest.len());
    let (fraction, offset) = rest.split_at(end);
    let has_fraction = fraction.is_empty() || fraction.strip_prefix('.').is_some_and(digits);
    let has_offset = match offset.strip_prefix(['+', '-']) {
        Some(offset) => {
            offset.split_once(':').is_some_and(|(h, m)| h.len() == 2 && m.len() == 2 && digits(h) && digits(m))
        }
        None => offset.eq_ignore_ascii_case("z"),
    };
    fits && has_fraction && has_offset
}
