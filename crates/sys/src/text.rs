//! Texts of others (names, files, what was typed) as they may be shown: on one line, and none of it obeyed by a
//! terminal or read in another order than it stands.

/// Characters that are not shown, or change how others are: control characters, those that turn the direction of
/// writing, and separators of lines.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        || matches!(c, '\u{fffe}' | '\u{ffff}')
}

/// `text` with `instead` in the place of each character that [`is_hidden`].
pub fn plain(text: &str, instead: char) -> String {
    text.replace(is_hidden, instead.encode_utf8(&mut [0; 4]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nothing_hidden_is_left_and_all_else_stands_where_it_stood(
            text in "[a-zé\u{61c}\u{0}-\u{1f}\u{7f}-\u{9f}\u{200b}-\u{2030}\u{2060}-\u{2070}]{0,40}"
        ) {
            let shown = plain(&text, '?');
            prop_assert!(!shown.chars().any(is_hidden));
            prop_assert_eq!(shown.chars().count(), text.chars().count());
            for (was, is) in text.chars().zip(shown.chars()) {
                prop_assert_eq!(is, if is_hidden(was) { '?' } else { was });
            }
        }
    }

    #[test]
    fn controls_turns_of_direction_and_line_separators_are_hidden_and_letters_are_not() {
        let hidden = "\n\t\u{1b}\u{7f}\u{9b}\u{61c}\u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{202e}\u{2066}\u{2069}";
        assert!(hidden.chars().all(is_hidden));
        assert!(!"aé ש漢\u{200d}\u{2030}\u{fffd}".chars().any(is_hidden));
    }
}
