//! Tokens of an issuer that speaks `OpenID` Connect: JSON web tokens that it has signed for this API, with the roles that it gives.
//!
//! It is behind the feature `jwt`: only hosts that trust an issuer link what checks its signatures.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::lock::Mutex;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde::Deserialize;
use serde_json::{Map, Value};
use stepwell_core::Timestamp;
use stepwell_core::limits::ROLES_MAX;

use crate::access::{Actor, NoToken, Tokens};

/// Seconds by which clocks may differ.
const LEEWAY_SECONDS: f64 = 60.0;

/// How long keys are used before they are asked for again.
const FRESH: Duration = Duration::from_mins(10);

/// How long keys are used while the issuer does not answer.
const USABLE: Duration = Duration::from_hours(24);

/// Between two questions to the issuer, whatever tokens say: anybody can make up the name of a key.
const PAUSE: Duration = Duration::from_secs(30);

/// How long the issuer has to answer.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes of the issuer's keys.
pub const KEYS_BYTES_MAX: usize = 256 * 1024;

/// Keys of an issuer that are kept.
const KEYS_MAX: usize = 64;

/// Characters of a subject. It stands in histories.
const SUBJECT_CHARS_MAX: usize = 200;

/// Asks an issuer for its keys: a JSON web key set.
#[async_trait]
pub trait KeySource: Send + Sync {
    /// The text of the set, at most [`KEYS_BYTES_MAX`].
    ///
    /// # Errors
    /// Why it cannot be had, for the log.
    async fn fetch(&self) -> Result<Vec<u8>, String>;
}

/// Whose tokens are taken, and what is read from them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issuer {
    /// The issuer: a token's `iss` has to be this.
    pub issuer: String,
    /// This API, as the issuer knows it: a token's `aud` has to have this.
    pub audience: String,
    /// The claim that has the roles: a list of texts, or one text with blanks between them. It may lie within others: `realm_access.roles`.
    pub roles_claim: String,
    /// What roles for this API begin with: it is taken off, and others are left out. Empty, every role counts.
    pub roles_prefix: String,
}

impl Issuer {
    /// With roles in the claim `roles`.
    pub fn new(issuer: impl Into<String>, audience: impl Into<String>) -> Self {
        let (issuer, audience) = (issuer.into(), audience.into());
        Self { issuer, audience, roles_claim: "roles".into(), roles_prefix: String::new() }
    }
}

/// Tells whose a token is. Its bearer is known as `jwt:` and the token's subject.
///
/// Tokens have to be signed with RS256, ES256 or `EdDSA`, by a key of the issuer's set that their `kid` names.
pub struct JwtTokens {
    issuer: Issuer,
    source: Arc<dyn KeySource>,
    kept: RwLock<Arc<Kept>>,
    /// When the issuer was asked last. Held while it is: everybody else waits for the same answer.
    asked: Mutex<Option<Timestamp>>,
}

/// The issuer's keys, and when it has told them.
#[derive(Default)]
struct Kept {
    keys: HashMap<String, Key>,
    told: Option<Timestamp>,
}

#[derive(Clone)]
struct Key {
    /// The one algorithm that it is for: a token does not choose.
    algorithm: Algorithm,
    key: DecodingKey,
}

#[derive(Deserialize)]
struct Claims {
    sub: String,
    exp: f64,
    nbf: Option<f64>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

impl JwtTokens {
    /// Takes the tokens of this issuer, whose keys come from there.
    pub fn new(issuer: Issuer, source: Arc<dyn KeySource>) -> Self {
        Self { issuer, source, kept: RwLock::default(), asked: Mutex::default() }
    }

    async fn key(&self, id: &str, now: Timestamp) -> Result<Key, NoToken> {
        if let Some(key) = self.kept().fresh(now).and_then(|kept| kept.keys.get(id)) {
            return Ok(key.clone());
        }
        let mut asked = self.asked.lock().await;
        // Somebody else may have asked meanwhile.
        if let Some(key) = self.kept().fresh(now).and_then(|kept| kept.keys.get(id)) {
            return Ok(key.clone());
        }
        if asked.is_none_or(|at| at.plus(PAUSE) <= now) {
            *asked = Some(now);
            match self.ask().await {
                Ok(keys) => {
                    let kept = Arc::new(Kept { keys, told: Some(now) });
                    *self.kept.write().unwrap_or_else(PoisonError::into_inner) = kept;
                }
                Err(error) => tracing::warn!(error, "the issuer of tokens does not tell its keys"),
            }
        }
        drop(asked);
        let kept = self.kept();
        let Some(usable) = kept.younger_than(USABLE, now) else {
            return Err(NoToken::Unavailable("there are no keys of the issuer here".into()));
        };
        usable.keys.get(id).cloned().ok_or(NoToken::Refused("the issuer has no such key"))
    }

    async fn ask(&self) -> Result<HashMap<String, Key>, String> {
        let fetched = tokio::time::timeout(FETCH_TIMEOUT, self.source.fetch()).await;
        let text = fetched.map_err(|_| format!("no answer within {} s", FETCH_TIMEOUT.as_secs()))??;
        read_keys(&text)
    }

    fn kept(&self) -> Arc<Kept> {
        self.kept.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The roles that a token carries for this API.
    fn roles(&self, claims: &Map<String, Value>) -> Result<Vec<String>, NoToken> {
        let Issuer { roles_claim, roles_prefix, .. } = &self.issuer;
        let words: Vec<&str> = match within(claims, roles_claim) {
            Some(Value::Array(words)) => words.iter().filter_map(Value::as_str).collect(),
            Some(Value::String(words)) => words.split_ascii_whitespace().collect(),
            Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => Vec::new(),
        };
        let mut roles: Vec<String> =
            words.iter().filter_map(|word| word.strip_prefix(roles_prefix.as_str())).map(str::to_owned).collect();
        roles.retain(|role| crate::access::is_role(role));
        roles.sort();
        roles.dedup();
        // To leave some out would be to guess which.
        if roles.len() > ROLES_MAX {
            return Err(NoToken::Refused("it carries more roles than are taken: give those for here a prefix"));
        }
        Ok(roles)
    }
}

#[async_trait]
impl Tokens for JwtTokens {
    async fn verify(&self, token: &str, now: Timestamp) -> Result<Actor, NoToken> {
        let header = jsonwebtoken::decode_header(token).map_err(|_| NoToken::Refused("it cannot be read"))?;
        if !matches!(header.alg, Algorithm::RS256 | Algorithm::ES256 | Algorithm::EdDSA) {
            return Err(NoToken::Refused("its algorithm is not taken: RS256, ES256 and EdDSA are"));
        }
        if header.crit.is_some() {
            return Err(NoToken::Refused("it asks for extensions that are not known here"));
        }
        let id = header.kid.as_deref().ok_or(NoToken::Refused("it names no key"))?;
        let Key { algorithm, key } = self.key(id, now).await?;
        if header.alg != algorithm {
            return Err(NoToken::Refused("its key is for another algorithm"));
        }
        let mut validation = Validation::new(algorithm);
        validation.set_issuer(&[&self.issuer.issuer]);
        validation.set_audience(&[&self.issuer.audience]);
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        // Below, by the clock that all else goes by.
        validation.validate_exp = false;
        let read = jsonwebtoken::decode::<Claims>(token, &key, &validation);
        let claims = read.map_err(|_| NoToken::Refused("its signature, issuer, audience or claims do not fit"))?.claims;
        in_time(&claims, now)?;
        let Claims { sub, others, .. } = claims;
        if sub.trim().is_empty()
            || sub.trim() != sub
            || sub.chars().count() > SUBJECT_CHARS_MAX
            || sub.contains(char::is_control)
        {
            return Err(NoToken::Refused("its subject cannot be used as a name"));
        }
        Ok(Actor { name: format!("jwt:{sub}"), roles: self.roles(&others)? })
    }
}

impl Kept {
    fn fresh(&self, now: Timestamp) -> Option<&Self> {
        self.younger_than(FRESH, now)
    }

    fn younger_than(&self, age: Duration, now: Timestamp) -> Option<&Self> {
        self.told.filter(|told| now < told.plus(age)).map(|_| self)
    }
}

impl fmt::Debug for JwtTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("JwtTokens").field(&self.issuer).finish()
    }
}

#[allow(
    clippy::cast_precision_loss,
    reason = "times of tokens are numbers of JSON; milliseconds are exact for 285,000 years"
)]
fn in_time(claims: &Claims, now: Timestamp) -> Result<(), NoToken> {
    let now = now.0 as f64 / 1_000.0;
    if !claims.exp.is_finite() || claims.exp + LEEWAY_SECONDS <= now {
        return Err(NoToken::Refused("its time is over"));
    }
    if claims.nbf.is_some_and(|nbf| !nbf.is_finite() || now + LEEWAY_SECONDS < nbf) {
        return Err(NoToken::Refused("its time has not come"));
    }
    Ok(())
}

/// The keys of a set that can check a signature here. Others are left out: a set may hold what nobody asks for.
fn read_keys(text: &[u8]) -> Result<HashMap<String, Key>, String> {
    #[derive(Deserialize)]
    struct Set {
        keys: Vec<Value>,
    }
    if text.len() > KEYS_BYTES_MAX {
        return Err(format!("its key set has more than {KEYS_BYTES_MAX} bytes"));
    }
    let Set { keys } = serde_json::from_slice(text).map_err(|error| format!("its key set cannot be read: {error}"))?;
    let mut read = HashMap::new();
    for jwk in keys.into_iter().filter_map(|jwk| serde_json::from_value::<Jwk>(jwk).ok()).take(KEYS_MAX) {
        let Some((id, key)) = read_key(&jwk) else { continue };
        read.entry(id).or_insert(key);
    }
    Ok(read)
}

fn read_key(jwk: &Jwk) -> Option<(String, Key)> {
    let algorithm = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => Algorithm::RS256,
        AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => Algorithm::ES256,
        AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => Algorithm::EdDSA,
        // Among them shared secrets, which are none in a public set.
        _ => return None,
    };
    let signs = jwk.common.public_key_use.as_ref().is_none_or(|usage| *usage == PublicKeyUse::Signature);
    let stated = jwk.common.key_algorithm;
    let fits = stated.is_none_or(|stated| stated == KeyAlgorithm::from(algorithm));
    let id = jwk.common.key_id.clone().filter(|_| signs && fits)?;
    DecodingKey::from_jwk(jwk).ok().map(|key| (id, Key { algorithm, key }))
}

/// A claim by its name, or within others by the names on the way.
fn within<'a>(claims: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    if let Some(claim) = claims.get(name) {
        return Some(claim);
    }
    let (first, rest) = name.split_once('.')?;
    within(claims.get(first)?.as_object()?, rest)
}
