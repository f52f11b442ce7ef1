//! What a request shows of whose it is.

use async_trait::async_trait;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName};
use stepwell_core::Timestamp;

use super::{Access, Actor, Caller, Peer};
use crate::limits::peer;
use crate::problem::Problem;
use crate::session;

/// In which header a caller shows its key.
const KEY_HEADER: HeaderName = HeaderName::from_static("x-api-key");

/// Bytes of a token. Longer text is not looked at.
const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// Tells whose a token is. `stepwell_http::jwt` has one, behind the feature `jwt`; a host may bring its own.
#[async_trait]
pub trait Tokens: Send + Sync {
    /// Whose this token is at this time, with the roles that it carries.
    ///
    /// # Errors
    /// As [`NoToken`] says. No error repeats anything of the token.
    async fn verify(&self, token: &str, now: Timestamp) -> Result<Actor, NoToken>;
}

/// Why a token lets nobody in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoToken {
    /// It is not one of ours, or its time is over, or has not come. For the log.
    #[error("the token is refused: {0}")]
    Refused(&'static str),
    /// Nobody can tell now: the issuer's keys cannot be had. For the log.
    #[error("the token cannot be checked now: {0}")]
    Unavailable(String),
}

/// How a caller came in. Browsers send some of these by themselves, whoever asks them to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Means {
    /// In a header that only the caller's own program sets, or the host vouches for it.
    Shown,
    /// A session's cookie.
    Session,
    /// By reaching this machine's own address.
    Local,
}

/// What a request shows. Two may be two callers, so they are none.
enum Shown<'a> {
    Nothing,
    Key(&'a [u8]),
    Token(&'a str),
    Session(&'a str),
    Several,
}

impl Access {
    /// Whose request this is, and how they came in.
    pub(super) async fn authenticate(&self, parts: &Parts) -> Result<(Caller, Means), Problem> {
        if let Some(actor) = parts.extensions.get::<Actor>().filter(|actor| actor.is_somebody()) {
            return Ok((Caller::new(actor.clone()), Means::Shown));
        }
        let mut shown = shown(&parts.headers);
        // Cookies are shared over the ports of a machine: this one began elsewhere, and nobody logs in here.
        if self.local.is_some() && matches!(shown, Shown::Session(_)) {
            shown = Shown::Nothing;
        }
        if let (Shown::Nothing, Some(local)) = (&shown, &self.local) {
            return Ok((Caller::new(local.actor.clone()), Means::Local));
        }
        let from = peer(parts.extensions.get::<Peer>());
        self.limiters.may_try(from.as_ref(), self.now())?;
        let known = match shown {
            Shown::Nothing | Shown::Several => None,
            Shown::Key(key) => self.keys.holder(key).map(|key| (key.actor(), Means::Shown)),
            Shown::Session(cookie) => session::read(self, cookie).map(|actor| (actor, Means::Session)),
            Shown::Token(token) => self.bearer(token).await?.map(|actor| (actor, Means::Shown)),
        };
        match (known, shown) {
            (Some((actor, means)), _) => Ok((Caller::new(actor), means)),
            // Nobody was guessing: a browser without a session, or one whose session is over.
            (None, Shown::Nothing | Shown::Session(_)) => Err(unauthenticated()),
            (None, Shown::Key(_) | Shown::Token(_) | Shown::Several) => {
                self.limiters.failed(from, self.now())?;
                Err(unauthenticated())
            }
        }
    }

    async fn bearer(&self, token: &str) -> Result<Option<Actor>, Problem> {
        let Some(tokens) = self.tokens.as_ref().filter(|_| token.len() <= TOKEN_BYTES_MAX) else { return Ok(None) };
        match tokens.verify(token, self.now()).await {
            Ok(actor) if actor.is_somebody() => Ok(Some(actor)),
            Ok(_) => Ok(None),
            Err(NoToken::Refused(why)) => {
                tracing::info!(why, "a token is refused");
                Ok(None)
            }
            Err(NoToken::Unavailable(error)) => {
                tracing::warn!(error, "a token cannot be checked");
                let detail =
                    "who calls cannot be checked now, since the issuer of tokens does not answer; try again later";
                Err(Problem::later("no-issuer", detail, 5))
            }
        }
    }
}

fn shown(headers: &HeaderMap) -> Shown<'_> {
    let keys = headers.get_all(KEY_HEADER).iter().map(|key| Shown::Key(key.as_bytes()));
    // Other schemes are for whoever stands before this: AWS signs requests in the same header.
    let tokens = headers.get_all(AUTHORIZATION).iter().filter_map(|value| {
        let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| Shown::Token(token.trim()))
    });
    let sessions = session::shown(headers).map(Shown::Session);
    let mut all = keys.chain(tokens).chain(sessions);
    match (all.next(), all.next()) {
        (None, _) => Shown::Nothing,
        (Some(only), None) => only,
        (Some(_), Some(_)) => Shown::Several,
    }
}

/// The same words to everybody: they tell nothing about what was shown.
pub(crate) fn unauthenticated() -> Problem {
    let detail = format!(
        "this needs credentials that are known here and in time: a key in the header {KEY_HEADER}, or a token in Authorization: Bearer"
    );
    Problem::fix("unauthenticated", detail)
}
