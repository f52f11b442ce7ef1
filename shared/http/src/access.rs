//! Who may use the API: the names of keys, or whom the host vouches for. Nobody else. A role has only whoever was given it.

use std::collections::BTreeSet;
use std::fmt;
use std::hint::black_box;
use std::sync::Arc;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde::de::value::{Error as NoDigest, StrDeserializer};
use stepwell_core::limits::{NAME_CHARS_MAX, ROLES_MAX};
use stepwell_core::{Digest, Reviewer};

use crate::problem::Problem;

/// In which header a caller shows its key.
const KEY_HEADER: &str = "x-api-key";

/// Who calls. A host that has authenticated the caller itself puts it into the request's extensions; then no key is asked
/// for. Otherwise it is `key:` and the name of the key that was shown, with the key's roles.
///
/// It is what histories, cancellations and approvals say as `by`: no request says so itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// Who. A name that is empty, or has blanks around it, vouches for nobody.
    pub name: String,
    /// The roles that the caller has, for approvals that a role decides on. Nobody has one who was not given it.
    pub roles: Vec<String>,
}

impl Actor {
    /// Somebody without a role.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), roles: Vec::new() }
    }
}

/// Whose keys open the API. It holds digests, never keys. Cheap to clone.
#[derive(Clone, Default)]
pub struct Access {
    keys: Arc<[Key]>,
}

struct Key {
    name: String,
    roles: Vec<String>,
    digest: Digest,
}

/// Keys that cannot be used. Entries are told by their place, from 1: what stands there may be a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// An entry that is no pair.
    #[error("entry {entry} of the API keys has no '=': write NAME=DIGEST or NAME:ROLE=DIGEST, entries apart by commas")]
    NoPair {
        /// Which.
        entry: usize,
    },
    /// A name that cannot be used.
    #[error(
        "entry {entry} of the API keys has a name that cannot be used: give 1 to {NAME_CHARS_MAX} letters, digits, '-', '_' or '.'"
    )]
    BadName {
        /// Which.
        entry: usize,
    },
    /// Roles that cannot be used.
    #[error(
        "entry {entry} of the API keys has roles that cannot be used: give at most {ROLES_MAX}, apart by '+' and each once, of 1 to {NAME_CHARS_MAX} letters, digits, '-', '_' or '.'"
    )]
    BadRole {
        /// Which.
        entry: usize,
    },
    /// A digest that is none.
    #[error(
        "entry {entry} of the API keys has no SHA-256 digest after its '=': give 64 hexadecimal digits, never the key"
    )]
    BadDigest {
        /// Which.
        entry: usize,
    },
    /// The digest of nothing: it would let in whoever shows an empty key.
    #[error("entry {entry} of the API keys has the digest of an empty key: hash the key itself")]
    EmptyKey {
        /// Which.
        entry: usize,
    },
    /// A name or a key that stands there twice: it would not be known who calls.
    #[error("entries {first} and {entry} of the API keys have the same name or the same key: each needs its own")]
    Twice {
        /// The first of the two.
        first: usize,
        /// The second.
        entry: usize,
    },
}

impl Access {
    /// Nobody's: only whom the host vouches for comes in.
    pub fn none() -> Self {
        Self::default()
    }

    /// Reads names, roles and digests: `NAME=DIGEST` for a key without roles, `NAME:ROLE+ROLE=DIGEST` for one that has some,
    /// apart by commas. A digest is the SHA-256 of the key's bytes, in 64 hexadecimal digits. Blank text is [`Access::none`].
    ///
    /// ```
    /// use stepwell_http::{Access, AccessError};
    /// let digest = stepwell_core::Digest::of(b"a key of many random letters");
    /// assert!(Access::from_text(&format!("ann={digest}")).is_ok());
    /// assert!(Access::from_text(&format!("ann:finance+cfo={digest}")).is_ok());
    /// assert_eq!(Access::from_text("ann=a key").unwrap_err(), AccessError::BadDigest { entry: 1 });
    /// ```
    ///
    /// # Errors
    /// An entry that cannot be read. No error repeats what it has read.
    pub fn from_text(text: &str) -> Result<Self, AccessError> {
        let mut keys: Vec<Key> = Vec::new();
        if text.trim().is_empty() {
            return Ok(Self::none());
        }
        for (entry, pair) in (1..).zip(text.split(',')) {
            let key = Key::read(entry, pair)?;
            if let Some(first) = keys.iter().position(|known| known.name == key.name || known.digest == key.digest) {
                return Err(AccessError::Twice { first: first + 1, entry });
            }
            keys.push(key);
        }
        Ok(Self { keys: keys.into() })
    }

    /// Who shows this key. Every key is compared in full, so the time it takes tells nothing about any.
    fn holder(&self, shown: &[u8]) -> Option<Actor> {
        let shown = Digest::of(shown);
        let mut holder = None;
        for key in &*self.keys {
            let differing = key.digest.0.iter().zip(shown.0).fold(0, |differing, (a, b)| differing | (a ^ b));
            if black_box(differing) == 0 {
                holder = Some(key);
            }
        }
        holder.map(|key| Actor { name: format!("key:{}", key.name), roles: key.roles.clone() })
    }

    fn actor(&self, headers: &HeaderMap) -> Option<Actor> {
        let mut shown = headers.get_all(KEY_HEADER).iter();
        match (shown.next(), shown.next()) {
            (Some(key), None) => self.holder(key.as_bytes()),
            // Two keys may be two callers.
            (None | Some(_), _) => None,
        }
    }
}

impl Key {
    fn read(entry: usize, pair: &str) -> Result<Self, AccessError> {
        let (who, digest) = pair.trim().split_once('=').ok_or(AccessError::NoPair { entry })?;
        let (name, roles) = who.split_once(':').map_or((who, None), |(name, roles)| (name, Some(roles)));
        if !is_word(name) {
            return Err(AccessError::BadName { entry });
        }
        let roles: Vec<String> = roles.iter().flat_map(|roles| roles.split('+')).map(str::to_owned).collect();
        let different: BTreeSet<&String> = roles.iter().collect();
        if different.len() != roles.len() || roles.len() > ROLES_MAX || !roles.iter().all(|role| is_word(role)) {
            return Err(AccessError::BadRole { entry });
        }
        let digest = Digest::deserialize(StrDeserializer::<NoDigest>::new(digest));
        let digest = digest.map_err(|_| AccessError::BadDigest { entry })?;
        if digest == Digest::of(b"") {
            return Err(AccessError::EmptyKey { entry });
        }
        Ok(Self { name: name.to_owned(), roles, digest })
    }
}

fn is_word(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=NAME_CHARS_MAX).contains(&text.len()) && text.chars().all(allowed)
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.keys.iter().map(|key| &key.name)).finish()
    }
}

/// Lets a request through that says whose it is, and turns away every other in the same words.
pub(crate) async fn guard(State(access): State<Access>, mut request: Request, next: Next) -> Response {
    if vouched(request.extensions().get()).is_none() {
        match access.actor(request.headers()) {
            Some(actor) => request.extensions_mut().insert(actor),
            None => return unauthenticated().into_response(),
        };
    }
    next.run(request).await
}

/// Who calls. Where the guard was forgotten, nobody does.
pub(crate) struct By(pub(crate) String);

impl<S: Sync> FromRequestParts<S> for By {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        Ok(Self(caller(parts)?.name.clone()))
    }
}

/// Who answers an approval: the caller, with the roles that its credentials have.
pub(crate) struct Answering(pub(crate) Reviewer);

impl<S: Sync> FromRequestParts<S> for Answering {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        let Actor { name, roles } = caller(parts)?.clone();
        Ok(Self(Reviewer { name, roles }))
    }
}

fn caller(parts: &Parts) -> Result<&Actor, Problem> {
    vouched(parts.extensions.get()).ok_or_else(unauthenticated)
}

fn vouched(actor: Option<&Actor>) -> Option<&Actor> {
    // Who writes a name with blanks around it would pass for a second person.
    actor.filter(|actor| !actor.name.is_empty() && actor.name.trim() == actor.name)
}

fn unauthenticated() -> Problem {
    Problem::fix("unauthenticated", format!("this needs a key that is known here, in the header {KEY_HEADER}"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_and_matched() {
        let (ann, bob) = (Digest::of(b"ann's key"), Digest::of(b"bob's key").to_string().to_uppercase());
        let access = Access::from_text(&format!(" ann={ann}, b-o_b.2:finance+c.f-o_1={bob} ")).unwrap();
        assert_eq!(access.holder(b"ann's key"), Some(Actor::named("key:ann")));
        let (name, roles) = ("key:b-o_b.2".into(), vec!["finance".into(), "c.f-o_1".into()]);
        assert_eq!(access.holder(b"bob's key"), Some(Actor { name, roles }));
        for wrong in [&b""[..], b"ann's ke", b"ann's key ", ann.to_string().as_bytes()] {
            assert_eq!(access.holder(wrong), None);
        }
        assert_eq!(format!("{access:?}"), r#"["ann", "b-o_b.2"]"#);
    }

    #[test]
    fn no_keys_match_nothing() {
        for access in [Access::none(), Access::from_text("").unwrap(), Access::from_text(" \n").unwrap()] {
            assert_eq!(access.holder(b""), None);
            assert_eq!(access.holder(b"a key"), None);
        }
    }

    #[test]
    fn what_cannot_be_read_is_refused_and_never_repeated() {
        use AccessError::{BadDigest, BadName, BadRole, EmptyKey, NoPair, Twice};
        let (good, other) = (Digest::of(b"good").to_string(), Digest::of(b"other").to_string());
        let empty = Digest::of(b"");
        let long = "n".repeat(65);
        let many: Vec<String> = (0..17).map(|role| format!("r{role}")).collect();
        let many = many.join("+");
        let cases = [
            ("s3cret".to_owned(), NoPair { entry: 1 }),
            (format!("a={good},"), NoPair { entry: 2 }),
            (format!("={good}"), BadName { entry: 1 }),
            (format!("s3 cret={good}"), BadName { entry: 1 }),
            (format!("a+s3cret={good}"), BadName { entry: 1 }),
            (format!(":s3cret={good}"), BadName { entry: 1 }),
            (format!("a:={good}"), BadRole { entry: 1 }),
            (format!("a:s3cret+={good}"), BadRole { entry: 1 }),
            (format!("a:s3 cret={good}"), BadRole { entry: 1 }),
            (format!("a:s3cret:b={good}"), BadRole { entry: 1 }),
            (format!("a:s3cret+s3cret={good}"), BadRole { entry: 1 }),
            (format!("a:{long}={good}"), BadRole { entry: 1 }),
            (format!("b={other},a:{many}={good}"), BadRole { entry: 2 }),
            (format!("a:b={good},a:c={other}"), Twice { first: 1, entry: 2 }),
            (format!("{long}={good}"), BadName { entry: 1 }),
            ("a=s3cret".to_owned(), BadDigest { entry: 1 }),
            (format!("a={}", &good[1..]), BadDigest { entry: 1 }),
            (format!("a={good}0"), BadDigest { entry: 1 }),
            (format!("a= {good}"), BadDigest { entry: 1 }),
            (format!("a={good}=x"), BadDigest { entry: 1 }),
            (format!("a={empty}"), EmptyKey { entry: 1 }),
            (format!("a={good},b={other},a={empty}0"), BadDigest { entry: 3 }),
            (format!("a={good},a={other}"), Twice { first: 1, entry: 2 }),
            (format!("a={good},b={good}"), Twice { first: 1, entry: 2 }),
        ];
        for (text, expected) in cases {
            let error = Access::from_text(&text).unwrap_err();
            assert_eq!(error, expected, "{text}");
            let words = error.to_string();
            assert!(!words.contains("s3") && !words.contains(&good[..8]), "{words}");
        }
    }
}
