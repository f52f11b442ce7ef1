//! What has changed from one value to another.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};
use stepwell_core::Json;

use super::json::here;
use super::text::name;

/// Changes that are told. More would not be read, and a value may have any number.
const CHANGES_MAX: usize = 200;

/// How deep values are looked into. What differs below is told as a whole.
const DEPTH_MAX: usize = 32;

/// One place at which two values differ.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// Where, as a JSON pointer.
    pub(crate) at: String,
    pub(crate) before: Option<Json>,
    pub(crate) after: Option<Json>,
}

/// What differs, and whether that is all of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Diff {
    pub(crate) changes: Vec<Change>,
    pub(crate) cut: bool,
}

/// What differs between two values. Their text is compared, so that nothing is lost: numbers of any size, the order of keys
/// left out.
pub(crate) fn diff(before: &Json, after: &Json) -> Diff {
    let mut found = Diff::default();
    found.look(&mut String::new(), before, after, DEPTH_MAX);
    found
}

impl Diff {
    fn look(&mut self, at: &mut String, before: &Json, after: &Json, depth: usize) {
        if before == after || self.cut {
            return;
        }
        if depth > 0 {
            // A pair of `parse`s that succeeds says of which kind both are.
            if let (Ok(before), Ok(after)) = (object(before), object(after)) {
                let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
                for key in keys {
                    let name = key.replace('~', "~0").replace('/', "~1");
                    self.pair(at, &name, before.get(key), after.get(key), depth);
                }
                return;
            }
            if let (Ok(before), Ok(after)) = (before.parse::<Vec<Json>>(), after.parse::<Vec<Json>>()) {
                self.lists(at, &before, &after, depth);
                return;
            }
        }
        self.push(at, Some(before), Some(after));
    }

    /// What lies between an equal beginning and an equal end.
    fn lists(&mut self, at: &mut String, before: &[Json], after: &[Json], depth: usize) {
        let same = |(one, other): &(&Json, &Json)| one == other;
        let head = before.iter().zip(after).take_while(same).count();
        let tail = before[head..].iter().rev().zip(after[head..].iter().rev()).take_while(same).count();
        let (before, after) = (&before[head..before.len() - tail], &after[head..after.len() - tail]);
        for place in 0..before.len().max(after.len()) {
            self.pair(at, &(head + place).to_string(), before.get(place), after.get(place), depth);
        }
    }

    fn pair(&mut self, at: &mut String, name: &str, before: Option<&Json>, after: Option<&Json>, depth: usize) {
        let length = at.len();
        at.push('/');
        at.push_str(name);
        match (before, after) {
            (Some(before), Some(after)) => self.look(at, before, after, depth - 1),
            (before, after) => self.push(at, before, after),
        }
        at.truncate(length);
    }

    fn push(&mut self, at: &str, before: Option<&Json>, after: Option<&Json>) {
        if self.changes.len() == CHANGES_MAX {
            self.cut = true;
        } else if !self.cut {
            self.changes.push(Change { at: at.to_owned(), before: before.cloned(), after: after.cloned() });
        }
    }
}

fn object(json: &Json) -> Result<BTreeMap<String, Json>, serde_json::Error> {
    json.parse()
}

/// The changes as a table.
pub(crate) fn table(diff: &Diff, caption: &str) -> Markup {
    if diff.changes.is_empty() {
        return html! { p.note { (caption) ": nothing." } };
    }
    html! {
        div.scroll tabindex="0" role="region" aria-label=(caption) {
            table.diff {
                caption { (caption) }
                thead { tr { th scope="col" { "Where" } th scope="col" { "Before" } th scope="col" { "After" } } }
                tbody {
                    @for Change { at, before, after } in &diff.changes {
                        tr {
                            th scope="row" { @if at.is_empty() { "the whole" } @else { code { (name(at)) } } }
                            td.before { (side(before.as_ref())) }
                            td.after { (side(after.as_ref())) }
                        }
                    }
                }
            }
        }
        @if diff.cut { p.note { "There are more differences: these are the first " (CHANGES_MAX) "." } }
    }
}

fn side(value: Option<&Json>) -> Markup {
    html! { @match value { Some(json) => (here(json, false)), None => span.absent { "not there" } } }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::from_text(text.into()).unwrap()
    }

    fn changes(before: &str, after: &str) -> Vec<(String, Option<String>, Option<String>)> {
        let text = |json: Option<Json>| json.map(|json| json.text().to_owned());
        let found = diff(&json(before), &json(after)).changes;
        found.into_iter().map(|Change { at, before, after }| (at, text(before), text(after))).collect()
    }

    fn change(at: &str, before: &str, after: &str) -> (String, Option<String>, Option<String>) {
        let side = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        (at.into(), side(before), side(after))
    }

    #[test]
    fn what_differs_is_told_where_it_does() {
        assert_eq!(changes("[1, 2]", "[1, 2]"), []);
        assert_eq!(changes(r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#), []);
        assert_eq!(changes("1", r#"{"a":1}"#), [change("", "1", r#"{"a":1}"#)]);
        let (before, after) = (r#"{"a":{"x/y~":1},"gone":null,"n":[1]}"#, r#"{"a":{"x/y~":2},"new":[],"n":{}}"#);
        let expected = [
            change("/a/x~1y~0", "1", "2"),
            change("/gone", "null", ""),
            change("/n", "[1]", "{}"),
            change("/new", "", "[]"),
        ];
        assert_eq!(changes(before, after), expected);
    }

    #[test]
    fn one_more_in_a_list_is_one_change() {
        assert_eq!(changes("[2,3,4]", "[1,2,3,4]"), [change("/0", "", "1")]);
        assert_eq!(changes("[1,2,3]", "[1,3]"), [change("/1", "2", "")]);
        assert_eq!(changes("[1,1]", "[1,1,1]"), [change("/2", "", "1")]);
    }

    #[test]
    fn numbers_that_no_float_can_hold_are_told_apart() {
        let (one, other) = ("123456789012345678901", "123456789012345678902");
        assert_eq!(changes(one, other), [change("", one, other)]);
    }

    #[test]
    fn many_and_deep_changes_are_bounded() {
        let list = |from: u32| Json::of(&(from..from + 5_000).collect::<Vec<_>>()).unwrap();
        let found = diff(&list(0), &list(10_000));
        assert_eq!((found.changes.len(), found.cut), (CHANGES_MAX, true));
        let deep = |leaf: u32| json(&format!("{}{leaf}{}", "[".repeat(100), "]".repeat(100)));
        assert_eq!(diff(&deep(1), &deep(2)).changes.len(), 1);
    }
}
