//! Which characters a person sees as they are.

/// Whether a character of a text from outside can be shown as it is: no control character, no line end, no mark that turns the
/// direction of writing, nothing without a width or a shape. Whoever shows text writes the others out, else what is read is not what is
/// there.
pub fn is_seen(letter: char) -> bool {
    // The soft hyphen, joiners, fillers and vowels without a shape, marks of direction, line and paragraph separators, annotations,
    // tags and selectors of variants.
    let is_shapeless = matches!(
        letter,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'
            | '\u{1160}'
            | '\u{17b4}'
            | '\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}'
    );
    !letter.is_control() && !is_shapeless
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_told_apart() {
        for letter in ['a', ' ', 'ø', '東', '🙂', '\u{fe0f}'] {
            assert!(is_seen(letter), "{letter:?}");
        }
        for letter in [
            '\0',
            '\n',
            '\t',
            '\u{1b}',
            '\u{7f}',
            '\u{9b}',
            '\u{ad}',
            '\u{200b}',
            '\u{202e}',
            '\u{2066}',
            '\u{feff}',
            '\u{e0041}',
        ] {
            assert!(!is_seen(letter), "{letter:?}");
        }
    }
}
