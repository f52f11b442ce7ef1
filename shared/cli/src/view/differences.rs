//! What changed from one value to the next, a path a line.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value as Tree;
use stepwell_core::Json;
use stepwell_http::view::Value;

use super::{BOLD, Text, harmless};

/// Shows each place where the two differ. What is not here cannot be compared.
pub(crate) fn differences(f: &mut fmt::Formatter<'_>, before: &Value, after: &Value) -> fmt::Result {
    let (Value::Here(before), Value::Here(after)) = (before, after) else {
        return write!(f, "\nwhat changed is not known: it is stored apart");
    };
    match (before.parse(), after.parse()) {
        (Ok(before), Ok(after)) if before == after => write!(f, "\nnothing changed"),
        (Ok(before), Ok(after)) => {
            write!(f, "\n{BOLD}changed{BOLD:#}")?;
            compare(f, "", Some(&before), Some(&after))
        }
        (Err(_), _) | (_, Err(_)) => write!(f, "\nwhat changed is not known: it cannot be read"),
    }
}

fn compare(f: &mut fmt::Formatter<'_>, path: &str, before: Option<&Tree>, after: Option<&Tree>) -> fmt::Result {
    match (before, after) {
        (Some(before), Some(after)) if before == after => Ok(()),
        (Some(Tree::Object(before)), Some(Tree::Object(after))) => {
            let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            names.into_iter().try_for_each(|name| {
                let path = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
                compare(f, &path, before.get(name), after.get(name))
            })
        }
        (Some(Tree::Array(before)), Some(Tree::Array(after))) => (0..before.len().max(after.len()))
            .try_for_each(|place| compare(f, &format!("{path}/{place}"), before.get(place), after.get(place))),
        (before, after) => {
            let told = |tree: Option<&Tree>| tree.map_or_else(|| "nothing".to_owned(), short);
            let path = if path.is_empty() { "all of it" } else { path };
            write!(f, "\n  {}: {} -> {}", harmless(path), told(before), told(after))
        }
    }
}

fn short(tree: &Tree) -> String {
    Json::of(tree).map_or_else(|error| error.to_string(), |json| Text(&Value::Here(json)).to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(before: &Tree, after: &Tree) -> String {
        let value = |tree: &Tree| Value::Here(Json::of(tree).unwrap());
        let (before, after) = (value(before), value(after));
        let text = fmt::from_fn(|f| differences(f, &before, &after)).to_string();
        anstream::adapter::strip_str(&text).to_string()
    }

    #[test]
    fn each_place_that_differs_is_told_with_its_path() {
        let before = json!({"a": 1, "b": {"c/d": [1, 2], "same": "x"}, "gone": null});
        let after = json!({"a": 2, "b": {"c/d": [1, 3, 4], "same": "x"}, "new": {"e": true}});
        let lines = [
            "",
            "changed",
            "  /a: 1 -> 2",
            "  /b/c~1d/1: 2 -> 3",
            "  /b/c~1d/2: nothing -> 4",
            "  /gone: null -> nothing",
            r#"  /new: nothing -> {"e":true}"#,
        ];
        assert_eq!(told(&before, &after).lines().collect::<Vec<_>>(), lines);
        assert_eq!(told(&json!(1), &json!("1")), "\nchanged\n  all of it: 1 -> \"1\"");
        assert_eq!(told(&before, &before), "\nnothing changed");
    }
}
