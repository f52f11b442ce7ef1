//! Whether a request comes from a page of this very host, and goes to this very machine. Browsers say both, and no page can lie.

use axum::http::HeaderMap;
use axum::http::header::{HOST, HeaderName, ORIGIN};
use axum::http::request::Parts;

use crate::problem::Problem;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Checks that a browser made this for a page of ours: each of `Origin` and `Sec-Fetch-Site` that is there says so, and where it has
/// to be `said`, one of them is. `ours` is where the outside finds this host, where a front stands before it that asks under another name.
pub(crate) fn from_here(headers: &HeaderMap, said: bool, ours: Option<&str>) -> Result<(), Problem> {
    let (origin, site) = (one(headers, &ORIGIN), one(headers, &FETCH_SITE));
    let origin_fits = match (&origin, one(headers, &HOST)) {
        (Given::Nothing, _) => true,
        (Given::One(origin), _) if ours.is_some_and(|ours| ours.eq_ignore_ascii_case(origin)) => true,
        (Given::One(origin), Given::One(host)) => {
            let of_origin = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
            of_origin.is_some_and(|of_origin| of_origin.eq_ignore_ascii_case(host))
        }
        (Given::One(_) | Given::Unclear, _) => false,
    };
    let site_fits = match &site {
        Given::Nothing => true,
        Given::One(site) => *site == "same-origin",
        Given::Unclear => false,
    };
    let is_said = !matches!((&origin, &site), (Given::Nothing, Given::Nothing));
    if origin_fits && site_fits && (is_said || !said) {
        return Ok(());
    }
    let detail =
        "a browser made this for another site, or does not say for which: do it from a page of this one, or with a key";
    Err(Problem::fix("wrong-origin", detail))
}

/// Whether a request names this machine as itself, with this port.
pub(super) fn is_for_this_machine(parts: &Parts, port: u16) -> bool {
    let named = match (one(&parts.headers, &HOST), parts.uri.authority()) {
        (Given::One(host), None) => host,
        (Given::One(host), Some(authority)) if host == authority.as_str() => host,
        (Given::Nothing, Some(authority)) => authority.as_str(),
        (Given::One(_) | Given::Unclear, Some(_)) | (Given::Nothing | Given::Unclear, None) => return false,
    };
    let own = ["localhost", "127.0.0.1", "[::1]"];
    let rest = own.into_iter().find_map(|name| {
        let rest = named.get(name.len()..)?;
        named[..name.len()].eq_ignore_ascii_case(name).then_some(rest)
    });
    match rest {
        Some("") => port == 80,
        Some(rest) => rest == format!(":{port}"),
        None => false,
    }
}

enum Given<'a> {
    Nothing,
    One(&'a str),
    /// Several, or none that can be read.
    Unclear,
}

fn one<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Given<'a> {
    let mut all = headers.get_all(name).iter();
    match (all.next().map(|value| value.to_str()), all.next()) {
        (None, _) => Given::Nothing,
        (Some(Ok(text)), None) => Given::One(text),
        (Some(Err(_)), None) | (Some(_), Some(_)) => Given::Unclear,
    }
}
