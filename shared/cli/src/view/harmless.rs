//! Text from outside, so that it cannot steer a terminal, pass for another line, or read otherwise than it is.

use std::fmt::{self, Display, Write as _};

use stepwell_http::view::is_seen;

/// The text on one line, with what is not to be seen written out: control characters, line ends, marks that turn the
/// direction of writing, and characters without a width.
pub(crate) fn harmless(text: impl Display) -> impl Display {
    fmt::from_fn(move |f| write!(Escaping(f), "{text}"))
}

struct Escaping<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl fmt::Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|letter| {
            if letter == '\t' || is_seen(letter) {
                self.0.write_char(letter)
            } else {
                write!(self.0, "{}", letter.escape_default())
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_to_be_seen_is_written_out() {
        let cases = [
            ("Ada Løvelace, 東京", "Ada Løvelace, 東京"),
            ("a\tb", "a\tb"),
            ("a\u{1b}[2Jb\u{7}", "a\\u{1b}[2Jb\\u{7}"),
            ("a\nstatus completed\r", "a\\nstatus completed\\r"),
            ("c1 \u{9b}2J del \u{7f}", "c1 \\u{9b}2J del \\u{7f}"),
            ("\u{202e}evil\u{2066}", "\\u{202e}evil\\u{2066}"),
            ("zero\u{200b}width\u{feff}\u{2028}", "zero\\u{200b}width\\u{feff}\\u{2028}"),
        ];
        for (text, shown) in cases {
            assert_eq!(harmless(text).to_string(), shown);
        }
    }
}
