//! A run's values with the contents of what they refer to, as people read them.

use stepwell_http::view::Value;

use serde_json::Value as Tree;

use super::{Text, harmless};

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
    use serde_json::json;
    use stepwell_core::Json;

    use super::*;

    #[test]
    fn a_tree_reads_as_it_is_and_does_not_steer_the_terminal() {
        let value = Value::Here(Json::of(&json!({"a": "one\ntwo\u{1b}[2J", "b": [1, {"c": null}], "d": []})).unwrap());
        let text = std::fmt::from_fn(|f| write_tree(f, &value)).to_string();
        assert_eq!(text, "\n  a:\n    one\n    two\\u{1b}[2J\n  b:\n    - 1\n    -\n      c: null\n  d: []");
    }
}
