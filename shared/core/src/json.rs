//! Values as they are stored: JSON text, digests, and references to blobs.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

/// One JSON value as text. Kept as text, so that what the core does not look at costs nothing to carry.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Json(Box<RawValue>);

impl Json {
    /// Writes `value` as compact JSON.
    ///
    /// # Errors
    /// When the value cannot be written as JSON (a map whose keys are no strings, say).
    ///
    /// ```
    /// use stepwell_core::Json;
    /// assert_eq!(Json::of(&[1, 2])?.text(), "[1,2]");
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        serde_json::value::to_raw_value(value).map(Self)
    }

    /// Takes text that is one JSON value.
    pub fn from_text(text: String) -> Result<Self, serde_json::Error> {
        RawValue::from_string(text).map(Self)
    }

    /// Reads it as a `T`.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.0.get())
    }

    /// The text.
    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// The name of an externally tagged enum value, as serde writes one: `"Draft"` or `{"Research":{…}}`.
    /// `None` for what cannot be one.
    ///
    /// ```
    /// use stepwell_core::Json;
    /// assert_eq!(Json::from_text(r#"{"Research":{"vendor":3}}"#.into())?.variant().as_deref(), Some("Research"));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn variant(&self) -> Option<String> {
        let from_name = self.text().strip_prefix('{').unwrap_or(self.text());
        // Only the name is read: a cursor's data costs nothing here.
        serde_json::Deserializer::from_str(from_name).into_iter::<String>().next()?.ok()
    }
}

/// Bytes of a value's JSON text. Counted by writing it: a sum of estimates drifts from the stored form unseen.
pub(crate) fn weight<T: Serialize>(value: &T) -> usize {
    serde_json::to_vec(value).map_or(usize::MAX, |bytes| bytes.len())
}

/// Reads a value that is there: a step that is written as `null` is one, too.
pub(crate) fn given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(from).map(Some)
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for Json {}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// A SHA-256 digest, written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The digest of several parts, each told apart by its length, so that `("ab", "c")` and `("a", "bc")` differ.
    pub fn of_parts<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        Self(hash.finalize().into())
    }

    /// The first `digits` hexadecimal digits, for short keys.
    pub fn short(&self, digits: usize) -> String {
        self.to_string().chars().take(digits).collect()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let bad = || D::Error::custom("a digest has 64 hexadecimal digits");
        let digits: Vec<u8> = text
            .chars()
            .map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
            .collect::<Option<_>>()
            .ok_or_else(bad)?;
        let bytes: Vec<u8> = digits.chunks_exact(2).map(|pair| pair[0] * 16 + pair[1]).collect();
        if digits.len() != 64 {
            return Err(bad());
        }
        bytes.try_into().map(Self).map_err(|_| bad())
    }
}

/// Where a large value lies, how long it is and what it hashes to. Reading checks both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlobRef {
    /// The blob's key, under its run's own prefix.
    #[serde(rename = "k")]
    pub key: String,
    /// Length in bytes.
    #[serde(rename = "n")]
    pub size: u64,
    /// SHA-256 of the bytes.
    #[serde(rename = "h")]
    pub sha256: Digest,
}

impl BlobRef {
    /// The reference that these bytes get in this run. The key is the content's, so storing the same bytes twice
    /// stores them once, and a step that runs again after a crash overwrites its own orphan.
    pub fn of(run: &crate::RunId, bytes: &[u8]) -> Self {
        let sha256 = Digest::of(bytes);
        Self { key: key_of(run, &sha256), size: bytes.len() as u64, sha256 }
    }

    /// Whether it is a reference that this run gets. A value can hold what others have sent, and that can look like one.
    pub fn is_of(&self, run: &crate::RunId) -> bool {
        self.key == key_of(run, &self.sha256)
    }
}

fn key_of(run: &crate::RunId, sha256: &Digest) -> String {
    alloc::format!("{run}/{sha256}")
}

/// A value in the checkpoint, or the reference to where it lies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Payload {
    /// The value itself.
    #[serde(rename = "v")]
    Inline(Json),
    /// A blob that holds the value's JSON text.
    #[serde(rename = "b")]
    Blob(BlobRef),
}

impl Payload {
    /// Bytes that this takes in a checkpoint.
    pub fn weight(&self) -> usize {
        match self {
            Self::Inline(json) => json.text().len(),
            Self::Blob(blob) => blob.key.len() + 84,
        }
    }
}
