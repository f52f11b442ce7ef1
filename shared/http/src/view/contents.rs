//! What a run's values refer to: the contents of blobs and logs.

use serde_json::{Value as Tree, json};
use stepwell_core::{BlobRef, Json, LogId, Payload, Reference, RunId};
use stepwell_engine::{Client, Remedy};
use stepwell_ports::CheckpointStore;

use super::Value;

/// Bytes of one text or blob that are shown.
pub const CONTENT_BYTES_MAX: usize = 64 * 1024;
/// Blobs of a state that are shown beside it.
pub const CONTENTS_MAX: usize = 10;
/// Entries of one log that are shown: the last ones.
const ENTRIES_SHOWN: u64 = 100;

/// Where the contents of a run are, for whoever has its store at hand and may know where values lie.
pub struct Contents<'a> {
    /// Reads blobs.
    pub client: &'a Client,
    /// Reads logs.
    pub store: &'a dyn CheckpointStore,
    /// Whose they are.
    pub run: &'a RunId,
}

impl Contents<'_> {
    /// The value, with the contents of its blobs and logs. A text or blob above [`CONTENT_BYTES_MAX`] is cut, of a log the last 100
    /// entries are there, and each says so; what cannot be read says why.
    pub async fn resolve(&self, value: Value) -> Value {
        let Value::Here(json) = value else { return value };
        let resolved = match json.parse::<Tree>() {
            Ok(tree) => Json::of(&self.read(tree).await),
            Err(error) => Err(error),
        };
        resolved.map_or_else(|error| Value::Lost { unreadable: error.to_string() }, Value::Here)
    }

    async fn read(&self, tree: Tree) -> Tree {
        match tree {
            Tree::Null | Tree::Bool(_) | Tree::Number(_) => tree,
            Tree::String(text) => bounded(text),
            Tree::Array(items) => Tree::Array(self.read_all(items).await),
            Tree::Object(fields) => match Reference::of(&fields) {
                Some(Reference::Blob(blob)) => self.blob(blob).await,
                Some(Reference::Log { log, len }) => self.log(log, len).await,
                None => {
                    let (names, values): (Vec<_>, Vec<_>) = fields.into_iter().unzip();
                    Tree::Object(names.into_iter().zip(self.read_all(values).await).collect())
                }
            },
        }
    }

    async fn read_all(&self, items: Vec<Tree>) -> Vec<Tree> {
        let mut read = Vec::with_capacity(items.len());
        for item in items {
            read.push(Box::pin(self.read(item)).await);
        }
        read
    }

    /// What lies in a blob is shown as it is: what it refers to in turn could be without end.
    async fn blob(&self, blob: BlobRef) -> Tree {
        match self.client.value(&Payload::Blob(blob)).await {
            Ok(json) => match json.parse() {
                Ok(Tree::String(text)) => bounded(text),
                Ok(tree) if json.text().len() <= CONTENT_BYTES_MAX => tree,
                Ok(_) => bounded(json.text().to_owned()),
                Err(error) => unreadable(&error),
            },
            Err(error) => unreadable(&error),
        }
    }

    async fn log(&self, id: LogId, len: u64) -> Tree {
        let first = len.saturating_sub(ENTRIES_SHOWN);
        let limit = usize::try_from(len - first).unwrap_or(usize::MAX);
        let entries = match self.store.log(self.run, id, first, limit).await {
            Ok(entries) => entries,
            Err(error) => return unreadable(&error),
        };
        let entries = entries.iter().map(|entry| entry.parse().unwrap_or_else(|error| unreadable(&error))).collect();
        let entries = self.read_all(entries).await;
        if first == 0 {
            return Tree::Array(entries);
        }
        json!({ "cut": format!("the last {ENTRIES_SHOWN} of {len} entries"), "entries": entries })
    }
}

/// What a state refers to, to be shown beside it to whoever may look at the run. Nobody learns where anything lies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContentsView {
    /// The blobs, in the state's order, at most [`CONTENTS_MAX`].
    pub blobs: Vec<ContentView>,
    /// How many blobs more the state refers to.
    pub left_out: usize,
    /// How many logs it refers to. They are not read.
    pub logs: usize,
}

/// A blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentView {
    /// Where the state refers to it, as a JSON pointer.
    pub at: String,
    /// What is in it.
    pub content: Content,
}

/// What is in a blob. What it refers to in turn is not looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A text.
    Text(String),
    /// Any other value.
    Value(Json),
    /// More than [`CONTENT_BYTES_MAX`]. It was not read.
    TooLarge {
        /// Its size in bytes.
        bytes: u64,
    },
    /// It cannot be read.
    Lost {
        /// Why.
        unreadable: &'static str,
    },
}

impl ContentsView {
    /// Reads the blobs that the state of this run refers to. A state can hold what others have sent: blobs of other runs are not read,
    /// whatever it says.
    pub async fn load(client: &Client, run: &RunId, state: &Json) -> Self {
        let mut found = Self::default();
        let mut blobs = Vec::new();
        if let Ok(tree) = state.parse() {
            look(&tree, &mut String::new(), &mut |at, reference| match reference {
                Reference::Blob(blob) if blobs.len() < CONTENTS_MAX => blobs.push((at.to_owned(), blob)),
                Reference::Blob(_) => found.left_out += 1,
                Reference::Log { .. } => found.logs += 1,
            });
        }
        for (at, blob) in blobs {
            found.blobs.push(ContentView { at, content: Content::load(client, run, blob).await });
        }
        found
    }
}

impl Content {
    async fn load(client: &Client, run: &RunId, blob: BlobRef) -> Self {
        if !blob.is_of(run) {
            return Self::Lost { unreadable: "it is no blob of this run" };
        }
        if blob.size > CONTENT_BYTES_MAX as u64 {
            return Self::TooLarge { bytes: blob.size };
        }
        match client.value(&Payload::Blob(blob)).await {
            Ok(json) => json.parse().map_or(Self::Value(json), Self::Text),
            Err(error) => {
                tracing::warn!(%error, %run, "a blob cannot be read");
                Self::Lost {
                    unreadable: match error.remedy() {
                        Remedy::Retry => "it cannot be read right now; load the page again in a moment",
                        Remedy::FixTheInput | Remedy::CallAPerson => {
                            "it is missing or was altered; a person has to look"
                        }
                    },
                }
            }
        }
    }
}

/// Finds what a value refers to, in its order.
fn look(tree: &Tree, at: &mut String, found: &mut impl FnMut(&str, Reference)) {
    let mut below = |name: &str, tree: &Tree| {
        let length = at.len();
        at.push('/');
        at.push_str(&name.replace('~', "~0").replace('/', "~1"));
        look(tree, at, found);
        at.truncate(length);
    };
    match tree {
        Tree::Null | Tree::Bool(_) | Tree::Number(_) | Tree::String(_) => {}
        Tree::Array(items) => items.iter().enumerate().for_each(|(place, item)| below(&place.to_string(), item)),
        Tree::Object(fields) => match Reference::of(fields) {
            Some(reference) => found(at, reference),
            None => fields.iter().for_each(|(name, value)| below(name, value)),
        },
    }
}

fn bounded(text: String) -> Tree {
    if text.len() <= CONTENT_BYTES_MAX {
        return Tree::String(text);
    }
    let end = text.floor_char_boundary(CONTENT_BYTES_MAX);
    json!({ "cut": format!("the first {end} of {} bytes", text.len()), "text": text[..end] })
}

fn unreadable(error: &impl std::fmt::Display) -> Tree {
    json!({ "unreadable": error.to_string() })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_at_a_character_and_says_so() {
        let cut = bounded(format!("x{}", "ü".repeat(CONTENT_BYTES_MAX)));
        assert_eq!(cut["cut"], "the first 65535 of 131073 bytes");
        assert_eq!(cut["text"].as_str().unwrap().len(), 65_535);
        assert_eq!(bounded("ü".into()), json!("ü"));
    }

    #[test]
    fn references_are_found_wherever_they_are_and_told_by_a_pointer() {
        let digest = stepwell_core::Digest::of(b"x").to_string();
        let blob = json!({"k": "r/x", "n": 1, "h": digest});
        let mut found = Vec::new();
        let state = json!({"a/b~": [1, {"log": 1, "len": 2}, blob], "c": {"d": blob, "e": "text"}, "f": null});
        look(&state, &mut String::new(), &mut |at, reference| {
            found.push((at.to_owned(), matches!(reference, Reference::Log { .. })));
        });
        let expected = [("/a~1b~0/1", true), ("/a~1b~0/2", false), ("/c/d", false)];
        assert_eq!(found, expected.map(|(at, is_log)| (at.to_owned(), is_log)));
    }
}
