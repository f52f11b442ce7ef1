//! Values as text that a person can read, and that says the same when it is sent back.

use maud::{Markup, html};
use stepwell_core::Json;
use stepwell_http::view::Value;
pub(crate) use stepwell_http::view::pretty;

/// Characters of a value that stands in a line.
const IN_LINE: usize = 80;

/// Lines of a value that is shown unasked.
const LINES: usize = 24;

/// A value in a page: in its line when it is short, else on lines of its own, folded when those are many.
pub(crate) fn value(value: &Value) -> Markup {
    shown(value, false)
}

/// The same, never folded: what somebody decides on.
pub(crate) fn in_full(value: &Value) -> Markup {
    shown(value, true)
}

fn shown(value: &Value, in_full: bool) -> Markup {
    match value {
        Value::Here(json) => here(json, in_full),
        Value::Apart { stored_apart } => html! {
            p.note { "It has " (stored_apart) " bytes and is stored apart: too large for a page. "
                code { "stepwell show RUN --json" } " has it." }
        },
        Value::Lost { unreadable } => html! { div.note.bad { "It cannot be read: " (super::text::line(unreadable)) } },
    }
}

/// A value that is here.
pub(crate) fn here(json: &Json, in_full: bool) -> Markup {
    let text = pretty(json.text());
    let lines = text.lines().count();
    if lines == 1 && text.chars().count() <= IN_LINE {
        return html! { code.json { bdi { (text) } } };
    }
    // A region that scrolls has to be reached by the keyboard too.
    let block = html! { pre.json tabindex="0" { bdi { (text) } } };
    if in_full || lines <= LINES && text.len() <= LINES * IN_LINE {
        return block;
    }
    html! { details.long { summary { (lines) " lines, " (json.text().len()) " bytes" } (block) } }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_decides_on_is_never_folded() {
        let json = Json::of(&(0..100).collect::<Vec<u32>>()).unwrap();
        assert!(here(&json, false).into_string().contains("<details"));
        assert!(!here(&json, true).into_string().contains("<details"));
        assert!(!here(&Json::of("short").unwrap(), false).into_string().contains("<pre"));
    }

    #[test]
    fn a_value_is_text() {
        let json = Json::of("</pre><script>alert(1)</script>").unwrap();
        let shown = here(&json, true).into_string();
        assert!(shown.contains("&lt;/pre&gt;&lt;script&gt;") && !shown.contains("<script>"));
    }
}
