//! A run's values with what they refer to: blobs and logs in place of their references.

use stepwell_core::{BlobRef, Json, LogId, Payload, RunId};
use stepwell_engine::{Client, Ports};
use stepwell_http::view::Value;

use serde_json::{Map, Value as Tree, json};

use super::{Text, harmless};

/// Bytes of one text or blob that are shown.
const VALUE_BYTES_SHOWN: usize = 64 * 1024;
/// Entries of one log that are shown: the last ones.
const ENTRIES_SHOWN: u64 = 100;

/// Where the contents of a run are.
pub(crate) struct Contents<'a> {
    pub(crate) client: &'a Client,
    pub(crate) ports: &'a Ports,
    pub(crate) run: &'a RunId,
}

impl Contents<'_> {
    /// The value, with the contents of its blobs and logs. What is long is cut, and says so; what cannot be read says why.
    pub(crate) async fn resolve(&self, value: Value) -> Value {
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
                Some(Reference::Log { id, len }) => self.log(id, len).await,
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
                Ok(tree) if json.text().len() <= VALUE_BYTES_SHOWN => tree,
                Ok(_) => bounded(json.text().to_owned()),
                Err(error) => unreadable(&error),
            },
            Err(error) => unreadable(&error),
        }
    }

    async fn log(&self, id: LogId, len: u64) -> Tree {
        let first = len.saturating_sub(ENTRIES_SHOWN);
        let limit = usize::try_from(len - first).unwrap_or(usize::MAX);
        let entries = match self.ports.store.log(self.run, id, first, limit).await {
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

/// What a state holds in place of something large.
enum Reference {
    Blob(BlobRef),
    Log { id: LogId, len: u64 },
}

impl Reference {
    fn of(fields: &Map<String, Tree>) -> Option<Self> {
        let number = |name| fields.get(name).and_then(Tree::as_u64);
        match fields.len() {
            2 => {
                let id = LogId(u32::try_from(number("log")?).ok()?);
                Some(Self::Log { id, len: number("len")? })
            }
            3 if fields.contains_key("h") => serde_json::from_value(Tree::Object(fields.clone())).ok().map(Self::Blob),
            _ => None,
        }
    }
}

fn bounded(text: String) -> Tree {
    if text.len() <= VALUE_BYTES_SHOWN {
        return Tree::String(text);
    }
    let end = text.floor_char_boundary(VALUE_BYTES_SHOWN);
    json!({ "cut": format!("the first {end} of {} bytes", text.len()), "text": text[..end] })
}

fn unreadable(error: &impl std::fmt::Display) -> Tree {
    json!({ "unreadable": error.to_string() })
}

/// Shows a value to people: a field a line, texts as they read.
pub(crate) fn write_tree(f: &mut std::fmt::Formatter<'_>, value: &Value) -> std::fmt::Result {
    match value {
        Value::Apart { .. } | Value::Lost { .. } => write!(f, "\n  {}", Text(value)),
        Value::Here(json) => match json.parse() {
            Ok(tree) => write_at(f, &tree, 1),
            Err(_) => write!(f, "\n  {}", harmless(json.text())),
        },
    }
}

fn write_at(f: &mut std::fmt::Formatter<'_>, tree: &Tree, depth: usize) -> std::fmt::Result {
    let indent = "  ".repeat(depth);
    match tree {
        Tree::String(text) => text.lines().try_for_each(|line| write!(f, "\n{indent}{}", harmless(line))),
        Tree::Array(items) if !items.is_empty() => items.iter().try_for_each(|item| {
            write!(f, "\n{indent}-")?;
            write_beside(f, item, depth)
        }),
        Tree::Object(fields) if !fields.is_empty() => fields.iter().try_for_each(|(name, value)| {
            write!(f, "\n{indent}{}:", harmless(name))?;
            write_beside(f, value, depth)
        }),
        Tree::Null | Tree::Bool(_) | Tree::Number(_) | Tree::Array(_) | Tree::Object(_) => {
            write!(f, "\n{indent}{tree}")
        }
    }
}

/// On the same line what fits there, below it the rest.
fn write_beside(f: &mut std::fmt::Formatter<'_>, tree: &Tree, depth: usize) -> std::fmt::Result {
    match tree {
        Tree::String(text) if !text.contains('\n') => write!(f, " {}", harmless(text)),
        Tree::Array(items) if items.is_empty() => write!(f, " []"),
        Tree::Object(fields) if fields.is_empty() => write!(f, " {{}}"),
        Tree::Null | Tree::Bool(_) | Tree::Number(_) => write!(f, " {tree}"),
        Tree::String(_) | Tree::Array(_) | Tree::Object(_) => write_at(f, tree, depth + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_reference_is_taken_for_one() {
        let of = |value: Tree| Reference::of(value.as_object().unwrap());
        let digest = stepwell_core::Digest::of(b"x").to_string();
        assert!(matches!(of(json!({"k": "r/x", "n": 1, "h": digest})), Some(Reference::Blob(_))));
        assert!(matches!(of(json!({"log": 1, "len": 2})), Some(Reference::Log { id: LogId(1), len: 2 })));
        for other in [
            json!({"k": "r/x", "n": 1, "h": "no digest"}),
            json!({"k": "r/x", "n": 1, "h": digest, "more": 1}),
            json!({"log": 1, "len": "2"}),
            json!({"log": 1, "len": 2, "pending": []}),
            json!({}),
        ] {
            assert!(of(other.clone()).is_none(), "{other}");
        }
    }

    #[test]
    fn a_long_text_is_cut_at_a_character_and_says_so() {
        let cut = bounded(format!("x{}", "ü".repeat(VALUE_BYTES_SHOWN)));
        assert_eq!(cut["cut"], "the first 65535 of 131073 bytes");
        assert_eq!(cut["text"].as_str().unwrap().len(), 65_535);
        assert_eq!(bounded("ü".into()), json!("ü"));
    }

    #[test]
    fn a_tree_reads_as_it_is_and_does_not_steer_the_terminal() {
        let value = Value::Here(Json::of(&json!({"a": "one\ntwo\u{1b}[2J", "b": [1, {"c": null}], "d": []})).unwrap());
        let text = std::fmt::from_fn(|f| write_tree(f, &value)).to_string();
        assert_eq!(text, "\n  a:\n    one\n    two\\u{1b}[2J\n  b:\n    - 1\n    -\n      c: null\n  d: []");
    }
}
