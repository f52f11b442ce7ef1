//! JSON as text that a person can read, and that says the same when it is sent back.

use core::fmt::Write as _;

use super::is_seen;

/// JSON text on lines, indented. Numbers, the order of keys and all else stay as they are, to the letter; characters of
/// strings that are not to be seen become escapes, which mean the same.
///
/// The text has to be JSON; of other text it makes other text, and no harm.
pub fn pretty(json: &str) -> String {
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
}
