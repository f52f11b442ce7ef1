//! Text from outside, so that it cannot pass for another line, read otherwise than it is, or fill the page.

use maud::{Markup, html};
use stepwell_http::view::is_seen;

/// Characters that are shown of a long text before somebody asks for the rest.
const SHORT: usize = 240;

/// The text on one line, apart from what surrounds it. What is not to be seen is written out; what is long can be opened.
pub(crate) fn line(text: &str) -> Markup {
    if text.chars().nth(SHORT).is_none() {
        return html! { bdi { (seen(text, false)) } };
    }
    let beginning: String = text.chars().take(SHORT / 2).collect();
    html! {
        details.long {
            summary { bdi { (seen(&beginning, false)) "…" } " (" (text.chars().count()) " characters)" }
            (block(text))
        }
    }
}

/// The same where only a name can stand, as in a heading or a link: what is long is cut.
pub(crate) fn name(text: &str) -> Markup {
    let whole = text.chars().count();
    if whole <= SHORT / 2 {
        return html! { bdi { (seen(text, false)) } };
    }
    let beginning: String = text.chars().take(SHORT / 2).collect();
    html! { bdi { (seen(&beginning, false)) "…" } " (" (whole) " characters)" }
}

/// The text with its lines, as it is.
pub(crate) fn block(text: &str) -> Markup {
    html! { pre { bdi { (seen(text, true)) } } }
}

/// Plain text for places where no element can stand, such as a title.
pub(crate) fn plain(text: &str) -> String {
    let mut plain = String::new();
    for letter in text.chars().take(SHORT) {
        if shows(letter) { plain.push(letter) } else { plain.extend(letter.escape_default()) }
    }
    plain
}

/// Each stretch of what is seen as it is, each character that is not as its escape, marked as such.
fn seen(text: &str, lines: bool) -> Markup {
    let is_plain = |letter: &char| shows(*letter) || lines && *letter == '\n';
    let mut pieces: Vec<(bool, String)> = Vec::new();
    for letter in text.chars() {
        let plain = is_plain(&letter);
        match pieces.last_mut() {
            Some((last, piece)) if plain && *last => piece.push(letter),
            _ if plain => pieces.push((true, letter.to_string())),
            _ => pieces.push((false, letter.escape_default().to_string())),
        }
    }
    html! {
        @for (plain, piece) in pieces {
            @if plain { (piece) } @else { span.unseen { (piece) } }
        }
    }
}

/// Whether a character shows as itself, on a page.
pub(crate) fn shows(letter: char) -> bool {
    letter == '\t' || is_seen(letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_to_be_seen_is_written_out_and_marked() {
        let shown = line("a\u{202e}b\0\nc <b>").into_string();
        let unseen = |name: &str| format!(r#"<span class="unseen">{name}</span>"#);
        let expected = format!("<bdi>a{}b{}{}c &lt;b&gt;</bdi>", unseen(r"\u{202e}"), unseen(r"\u{0}"), unseen(r"\n"));
        assert_eq!(shown, expected);
        assert_eq!(block("a\nb\u{7}").into_string(), format!("<pre><bdi>a\nb{}</bdi></pre>", unseen(r"\u{7}")));
        assert_eq!(plain("a\u{202e}\n東京"), r"a\u{202e}\n東京");
    }

    #[test]
    fn what_is_long_is_folded_and_whole() {
        let long = "ü".repeat(10_000);
        let shown = line(&long).into_string();
        assert!(shown.starts_with("<details") && shown.contains(&long) && shown.contains("(10000 characters)"));
        assert!(!line(&"x".repeat(SHORT)).into_string().contains("details"));
        let cut = name(&long).into_string();
        assert!(cut.len() < 1_000 && cut.contains("(10000 characters)") && !cut.contains("details"), "{cut}");
    }
}
