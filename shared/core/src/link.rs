//! Signed links: a capability in a URL. Whoever holds one may do one thing to one run, until it expires.
//!
//! A token is text, `<key id>.<payload>.<mac>`: the payload is compact JSON in base64url, and the mac is HMAC-SHA-256 over what the
//! token is for and everything before its last dot. Nothing is stored about a token that was given out: that it is used once follows
//! from what it does (an approval takes one answer of a person, a signal's id comes from the link's nonce).
//!
//! ```
//! use stepwell_core::link::{Link, LinkError, LinkKeys, Nonce, Target};
//! use stepwell_core::{RunId, SignalName, Timestamp, Visit};
//! let keys = LinkKeys::from_text("k1=000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f")?;
//! let target = Target::Signal { name: SignalName::new("delivered")?, visit: Visit(3) };
//! let (run, expires, nonce) = (RunId::new("order-7")?, Timestamp(2_000), Nonce::of([7; 16]));
//! let link = Link { run, target, expires, nonce };
//! let token = keys.sign(&link)?;
//! assert_eq!(keys.verify(&token, Timestamp(1_999)), Ok(link));
//! assert_eq!(keys.verify(&token, Timestamp(2_000)), Err(LinkError::Expired { at: Timestamp(2_000) }));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use base64ct::{Base64UrlUnpadded, Encoding as _};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::approval::ApprovalId;
use crate::checkpoint::Visit;
use crate::ids::{NameError, RunId, SignalId, SignalName};
use crate::json::Digest;
use crate::time::Timestamp;

/// Bytes of a key at least. Fewer could be guessed.
pub const LINK_KEY_BYTES_MIN: usize = 32;

/// Bytes of a key at most: a block of SHA-256. More would not make it stronger.
pub const LINK_KEY_BYTES_MAX: usize = 64;

/// Characters of a key's id.
pub const LINK_KEY_ID_CHARS_MAX: usize = 16;

/// Bytes of a token. Longer text is not looked at.
pub const TOKEN_BYTES_MAX: usize = 4_096;

/// What one link is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// The run.
    #[serde(rename = "r")]
    pub run: RunId,
    /// What of it.
    #[serde(rename = "t")]
    pub target: Target,
    /// It does nothing from this time on.
    #[serde(rename = "x")]
    pub expires: Timestamp,
    /// Tells it from every other link.
    #[serde(rename = "o")]
    pub nonce: Nonce,
}

/// What a link lets its holder do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Target {
    /// Answer this approval, as this person.
    #[serde(rename = "a")]
    Approval {
        /// Which.
        #[serde(rename = "i")]
        id: ApprovalId,
        /// The fingerprint of what is asked.
        #[serde(rename = "h")]
        fingerprint: Digest,
        /// As whom.
        #[serde(rename = "p")]
        person: String,
        /// Who has made the link.
        #[serde(rename = "m")]
        maker: String,
    },
    /// Send this signal, while the run is at this visit or at the next one.
    #[serde(rename = "s")]
    Signal {
        /// Which.
        #[serde(rename = "n")]
        name: SignalName,
        /// The visit in which the link was made.
        #[serde(rename = "v")]
        visit: Visit,
    },
}

/// Tells links apart: 32 hexadecimal digits. It need not be secret, only new.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nonce(String);

impl Nonce {
    /// Of 16 bytes that were never used before, such as a UUID's.
    pub fn of(bytes: [u8; 16]) -> Self {
        use fmt::Write as _;
        let mut text = String::with_capacity(32);
        for byte in bytes {
            // Writing to a string never fails.
            let _ = write!(text, "{byte:02x}");
        }
        Self(text)
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Link {
    /// The id of the signal that this link sends: a second use is the same signal, and changes nothing.
    pub fn signal_id(&self) -> Result<SignalId, NameError> {
        SignalId::new(alloc::format!("link-{}", self.nonce.0))
    }
}

/// What a token is for. One that was made for another purpose is as good as altered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A link that is given to somebody.
    Link,
    /// A browser's session.
    Session,
}

impl Purpose {
    const fn domain(self) -> &'static [u8] {
        match self {
            Self::Link => b"stepwell link v1\0",
            Self::Session => b"stepwell session v1\0",
        }
    }
}

/// The keys that sign. The first one signs, all of them verify: a new key goes to the front, and the old one stays until its links
/// have expired. Shows no key, and is cheap to clone.
#[derive(Clone)]
pub struct LinkKeys {
    keys: Arc<[Key]>,
}

struct Key {
    id: String,
    /// Padded with zeros to a block: so HMAC defines it.
    block: [u8; LINK_KEY_BYTES_MAX],
}

/// Keys that cannot be used. Entries are told by their place, from 1: what stands there may be a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkKeysError {
    /// There is none.
    #[error("there is no signing key: give ID=HEX, more of them with commas between; the first one signs")]
    None,
    /// An entry that is no pair, or whose id cannot be used.
    #[error(
        "entry {entry} of the signing keys has no usable id: write ID=HEX, with an id of 1 to {LINK_KEY_ID_CHARS_MAX} letters, digits, '-' or '_'"
    )]
    BadId {
        /// Which.
        entry: usize,
    },
    /// A key that is none.
    #[error(
        "entry {entry} of the signing keys has no usable key after its '=': give {LINK_KEY_BYTES_MIN} to {LINK_KEY_BYTES_MAX} random bytes as hexadecimal digits"
    )]
    BadKey {
        /// Which.
        entry: usize,
    },
    /// An id or a key that stands there twice.
    #[error("entries {first} and {entry} of the signing keys have the same id or the same key: each needs its own")]
    Twice {
        /// The first of the two.
        first: usize,
        /// The second.
        entry: usize,
    },
}

/// Why a token does nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// It is no token, or was cut on its way.
    #[error("this is no signed link: it may have been cut on its way; open it again from where it came")]
    Unreadable,
    /// Its key is not known here any more, or never was.
    #[error("this link was signed with a key that is not in use here: ask for a new one")]
    UnknownKey,
    /// It is not what was signed.
    #[error("this link is not as it was given out: ask for a new one")]
    Altered,
    /// Its time is over.
    #[error("this link has expired at {at}: ask for a new one")]
    Expired {
        /// When.
        at: Timestamp,
    },
}

/// What cannot be made into a token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a token takes at most {TOKEN_BYTES_MAX} bytes, and this one would take {bytes}: shorten the person's name")]
pub struct TokenTooLong {
    /// How many it would take.
    pub bytes: usize,
}

impl LinkKeys {
    /// Reads `ID=HEX`, more of them with commas between. The first signs, all verify.
    ///
    /// # Errors
    /// An entry that cannot be used. No error repeats what it has read.
    pub fn from_text(text: &str) -> Result<Self, LinkKeysError> {
        let mut keys: Vec<Key> = Vec::new();
        if text.trim().is_empty() {
            return Err(LinkKeysError::None);
        }
        for (entry, pair) in (1..).zip(text.split(',')) {
            let key = Key::read(entry, pair.trim())?;
            // Whoever starts the program reads them: nothing is compared with what a stranger sends.
            if let Some(first) = keys.iter().position(|known| known.id == key.id || known.block == key.block) {
                return Err(LinkKeysError::Twice { first: first + 1, entry });
            }
            keys.push(key);
        }
        Ok(Self { keys: keys.into() })
    }

    /// Makes the token of a link.
    ///
    /// # Errors
    /// When it would be longer than [`TOKEN_BYTES_MAX`].
    pub fn sign(&self, link: &Link) -> Result<String, TokenTooLong> {
        // Texts and numbers can always be written.
        self.seal(Purpose::Link, &serde_json::to_vec(link).unwrap_or_default())
    }

    /// Reads a token that was signed here and whose time is not over.
    ///
    /// # Errors
    /// As [`LinkError`] says. Nothing of a token is believed before its signature was checked.
    pub fn verify(&self, token: &str, now: Timestamp) -> Result<Link, LinkError> {
        let payload = self.unseal(Purpose::Link, token)?;
        let link: Link = serde_json::from_slice(&payload).map_err(|_| LinkError::Unreadable)?;
        if now < link.expires { Ok(link) } else { Err(LinkError::Expired { at: link.expires }) }
    }

    /// Signs any payload for a purpose. Whoever uses this has to put an expiry into it.
    ///
    /// # Errors
    /// When the token would be longer than [`TOKEN_BYTES_MAX`].
    pub fn seal(&self, purpose: Purpose, payload: &[u8]) -> Result<String, TokenTooLong> {
        // There is always a first key.
        let Some(key) = self.keys.first() else { return Ok(String::new()) };
        let mut token = alloc::format!("{}.{}", key.id, Base64UrlUnpadded::encode_string(payload));
        let mac = key.mac(purpose, &token).finalize().into_bytes();
        token.push('.');
        token.push_str(&Base64UrlUnpadded::encode_string(&mac));
        if token.len() > TOKEN_BYTES_MAX { Err(TokenTooLong { bytes: token.len() }) } else { Ok(token) }
    }

    /// The payload of a token that was signed here for this purpose. Its expiry is not looked at.
    ///
    /// # Errors
    /// As [`LinkError`] says, but for `Expired`.
    pub fn unseal(&self, purpose: Purpose, token: &str) -> Result<Vec<u8>, LinkError> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(LinkError::Unreadable);
        }
        let (signed, mac) = token.rsplit_once('.').ok_or(LinkError::Unreadable)?;
        let (id, payload) = signed.split_once('.').ok_or(LinkError::Unreadable)?;
        let mac = Base64UrlUnpadded::decode_vec(mac).map_err(|_| LinkError::Unreadable)?;
        let payload = Base64UrlUnpadded::decode_vec(payload).map_err(|_| LinkError::Unreadable)?;
        let key = self.keys.iter().find(|key| key.id == id).ok_or(LinkError::UnknownKey)?;
        key.mac(purpose, signed).verify_slice(&mac).map_err(|_| LinkError::Altered)?;
        Ok(payload)
    }
}

impl Key {
    fn read(entry: usize, pair: &str) -> Result<Self, LinkKeysError> {
        let (id, hex) = pair.split_once('=').ok_or(LinkKeysError::BadId { entry })?;
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if !(1..=LINK_KEY_ID_CHARS_MAX).contains(&id.len()) || !id.chars().all(allowed) {
            return Err(LinkKeysError::BadId { entry });
        }
        let block = block(hex).ok_or(LinkKeysError::BadKey { entry })?;
        Ok(Self { id: id.to_string(), block })
    }

    fn mac(&self, purpose: Purpose, signed: &str) -> Hmac<Sha256> {
        Hmac::<Sha256>::new(&self.block.into()).chain_update(purpose.domain()).chain_update(signed)
    }
}

/// A key's bytes, padded to a block.
fn block(hex: &str) -> Option<[u8; LINK_KEY_BYTES_MAX]> {
    let digits: Option<Vec<u32>> = hex.chars().map(|c| c.to_digit(16)).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    if !(LINK_KEY_BYTES_MIN..=LINK_KEY_BYTES_MAX).contains(&(digits.len() / 2)) {
        return None;
    }
    let mut block = [0; LINK_KEY_BYTES_MAX];
    for (byte, pair) in block.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::try_from(pair[0] * 16 + pair[1]).ok()?;
    }
    // Zeros are what a placeholder looks like, and what anybody would try first.
    (block != [0; LINK_KEY_BYTES_MAX]).then_some(block)
}

impl fmt::Debug for LinkKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.keys.iter().map(|key| &key.id)).finish()
    }
}
