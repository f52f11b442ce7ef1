//! API keys: a name, its roles, and the digest of a secret. The secret itself is nowhere.

use std::collections::BTreeSet;
use std::fmt;
use std::hint::black_box;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::value::{Error as NoDigest, StrDeserializer};
use stepwell_core::Digest;
use stepwell_core::limits::{NAME_CHARS_MAX, ROLES_MAX};

use super::Actor;
use super::roles::{Grant, is_word};

/// Digests of keys, never keys. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Keys(Arc<[Key]>);

pub(crate) struct Key {
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
        "entry {entry} of the API keys has roles that cannot be used: give at most {ROLES_MAX}, apart by '+' and each once, of 1 to {NAME_CHARS_MAX} letters, digits, '-', '_' or '.', each with '@' and a workflow's name after it if it is for that one alone"
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
    /// A key that stands there twice: it would not be known who calls. A name may, so that its key can be changed without a gap.
    #[error("entries {first} and {entry} of the API keys have the same key: each needs its own")]
    Twice {
        /// The first of the two.
        first: usize,
        /// The second.
        entry: usize,
    },
}

impl Keys {
    pub(crate) fn from_text(text: &str) -> Result<Self, AccessError> {
        let mut keys: Vec<Key> = Vec::new();
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        for (entry, pair) in (1..).zip(text.split(',')) {
            let key = Key::read(entry, pair)?;
            if let Some(first) = keys.iter().position(|known| known.digest == key.digest) {
                return Err(AccessError::Twice { first: first + 1, entry });
            }
            keys.push(key);
        }
        Ok(Self(keys.into()))
    }

    /// Who shows this key. Every key is compared in full, so the time it takes tells nothing about any.
    pub(crate) fn holder(&self, shown: &[u8]) -> Option<&Key> {
        let shown = Digest::of(shown);
        let mut holder = None;
        for key in &*self.0 {
            let differing = key.digest.0.iter().zip(shown.0).fold(0, |differing, (a, b)| differing | (a ^ b));
            if black_box(differing) == 0 {
                holder = Some(key);
            }
        }
        holder
    }

    /// The key that a session was begun with, while it is still one.
    pub(crate) fn of_session(&self, name: &str, mark: &str) -> Option<&Key> {
        self.0.iter().find(|key| key.name == name && key.mark() == mark)
    }
}

impl Key {
    pub(crate) fn actor(&self) -> Actor {
        Actor { name: format!("key:{}", self.name), roles: self.roles.clone() }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// By which a session knows this key from a later one of the same name. It tells nothing about the key or its digest.
    pub(crate) fn mark(&self) -> String {
        Digest::of_parts([&b"session"[..], self.name.as_bytes(), &self.digest.0]).short(16)
    }

    fn read(entry: usize, pair: &str) -> Result<Self, AccessError> {
        let (who, digest) = pair.trim().split_once('=').ok_or(AccessError::NoPair { entry })?;
        let (name, roles) = who.split_once(':').map_or((who, None), |(name, roles)| (name, Some(roles)));
        if !is_word(name) {
            return Err(AccessError::BadName { entry });
        }
        let roles: Vec<String> = roles.iter().flat_map(|roles| roles.split('+')).map(str::to_owned).collect();
        let different: BTreeSet<&String> = roles.iter().collect();
        if different.len() != roles.len()
            || roles.len() > ROLES_MAX
            || !roles.iter().all(|role| Grant::parse(role).is_some())
        {
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

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|key| &key.name)).finish()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    fn actor(keys: &Keys, shown: &[u8]) -> Option<Actor> {
        keys.holder(shown).map(Key::actor)
    }

    #[test]
    fn keys_are_read_and_matched() {
        let (ann, bob) = (Digest::of(b"ann's key"), Digest::of(b"bob's key").to_string().to_uppercase());
        let keys = Keys::from_text(&format!(" ann={ann}, b-o_b.2:finance+operator@a:b.c={bob} ")).unwrap();
        assert_eq!(actor(&keys, b"ann's key"), Some(Actor::named("key:ann")));
        let (name, roles) = ("key:b-o_b.2".into(), vec!["finance".into(), "operator@a:b.c".into()]);
        assert_eq!(actor(&keys, b"bob's key"), Some(Actor { name, roles }));
        for wrong in [&b""[..], b"ann's ke", b"ann's key ", ann.to_string().as_bytes()] {
            assert_eq!(actor(&keys, wrong), None);
        }
        assert_eq!(format!("{keys:?}"), r#"["ann", "b-o_b.2"]"#);
    }

    #[test]
    fn a_key_is_changed_without_a_gap() {
        let (old, new) = (Digest::of(b"the old one"), Digest::of(b"the new one"));
        let both = Keys::from_text(&format!("ann:viewer={old},ann:admin={new}")).unwrap();
        let holder = |keys: &Keys, key: &[u8]| actor(keys, key).map(|actor| (actor.name, actor.roles.concat()));
        assert_eq!(holder(&both, b"the old one"), Some(("key:ann".into(), "viewer".into())));
        assert_eq!(holder(&both, b"the new one"), Some(("key:ann".into(), "admin".into())));
        let after = Keys::from_text(&format!("ann:admin={new}")).unwrap();
        assert_eq!(holder(&after, b"the old one"), None);
        // A session that was begun with the old key goes with it.
        let mark = both.holder(b"the old one").unwrap().mark();
        assert!(both.of_session("ann", &mark).is_some() && after.of_session("ann", &mark).is_none());
        assert!(!mark.contains(&old.short(8)), "{mark}");
    }

    #[test]
    fn no_keys_match_nothing() {
        for keys in [Keys::default(), Keys::from_text("").unwrap(), Keys::from_text(" \n").unwrap()] {
            assert_eq!(actor(&keys, b""), None);
            assert_eq!(actor(&keys, b"a key"), None);
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
            (format!("{long}={good}"), BadName { entry: 1 }),
            ("a=s3cret".to_owned(), BadDigest { entry: 1 }),
            (format!("a={}", &good[1..]), BadDigest { entry: 1 }),
            (format!("a={good}0"), BadDigest { entry: 1 }),
            (format!("a= {good}"), BadDigest { entry: 1 }),
            (format!("a={good}=x"), BadDigest { entry: 1 }),
            (format!("a={empty}"), EmptyKey { entry: 1 }),
            (format!("a={good},b={other},a={empty}0"), BadDigest { entry: 3 }),
            (format!("a:operator@={good}"), BadRole { entry: 1 }),
            (format!("a:@refund={good}"), BadRole { entry: 1 }),
            (format!("a:operator@s3 cret={good}"), BadRole { entry: 1 }),
            (format!("a={good},a={good}"), Twice { first: 1, entry: 2 }),
            (format!("a={good},b={good}"), Twice { first: 1, entry: 2 }),
        ];
        for (text, expected) in cases {
            let error = Keys::from_text(&text).unwrap_err();
            assert_eq!(error, expected, "{text}");
            let words = error.to_string();
            assert!(!words.contains("s3") && !words.contains(&good[..8]), "{words}");
        }
    }
}
