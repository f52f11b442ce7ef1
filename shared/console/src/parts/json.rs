//! Values as text that a person can read, and that says the same when it is sent back.

use core::fmt::Write as _;

use maud::{Markup, html};
use stepwell_core::Json;
use stepwell_http::view::{Value, is_seen};

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

/// JSON text on lines, indented. Numbers, the order of keys and all else stay as they are, to the letter; characters of
/// strings that are not to be seen become escapes, which mean the same.
///
/// The text has to be JSON; of other text it makes other text, and no harm.
pub(crate) fn pretty(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    let mut letters = json.chars().peekable();
    while let Some(letter) = letters.next() {
        if in_string {
            if is_seen(letter) {
                out.push(letter);
            } else {
                escape(&mut out, letter);
            }
            in_string = escaped || letter != '"';
            escaped = !escaped && letter == '\\';
            continue;
        }
        match letter {
            '"' => {
                in_string = true;
                out.push(letter);
            }
            '{' | '[' => {
                out.push(letter);
                while letters.next_if(char::is_ascii_whitespace).is_some() {}
                if let Some(end) = letters.next_if(|next| matches!(next, '}' | ']')) {
                    out.push(end);
                } else {
                    depth += 1;
                    new_line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
                out.push(letter);
            }
            ',' => {
                out.push(letter);
                new_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            blank if blank.is_ascii_whitespace() => {}
            other => out.push(other),
        }
    }
    out
}

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    // What is nested very deeply would become mostly blanks.
    out.extend(core::iter::repeat_n("  ", depth.min(40)));
}

fn escape(out: &mut String, letter: char) {
    for unit in letter.encode_utf16(&mut [0; 2]) {
        // Writing to a string cannot fail.
        let _ = write!(out, "\\u{unit:04x}");
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn it_says_the_same_to_the_letter() {
        let cases = [
            ("{}", "{}"),
            ("[ ]", "[]"),
            (r#"{"a":[1,2e400,-0.10],"b":{}}"#, "{\n  \"a\": [\n    1,\n    2e400,\n    -0.10\n  ],\n  \"b\": {}\n}"),
            (r#"{"a":123456789012345678901234567890}"#, "{\n  \"a\": 123456789012345678901234567890\n}"),
            (r#""a,\"{b}:\\""#, r#""a,\"{b}:\\""#),
            ("\"\u{202e}x\u{e0041}\"", r#""\u202ex\udb40\udc41""#),
            (r#"{"b":1,"a":1,"b":2}"#, "{\n  \"b\": 1,\n  \"a\": 1,\n  \"b\": 2\n}"),
        ];
        for (text, expected) in cases {
            assert_eq!(pretty(text), expected);
            assert_eq!(pretty(expected), expected);
        }
        let text = "{\"a\":[{\"b\":\"\u{200b}\\u0000\\\\\"},null,true]}";
        let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(parse(&pretty(text)), parse(text));
    }

    #[test]
    fn what_is_no_json_does_no_harm() {
        for text in ["", "}}]]", "\"open", "[[[", "{\"a\":"] {
            pretty(text);
        }
        assert!(pretty(&"[".repeat(10_000)).len() < 1_000_000);
    }

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
