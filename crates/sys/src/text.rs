//! Texts of others (names, files, what was typed) as they may be shown: on one line, and none of it obeyed by a
//! terminal or read in another order than it stands.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, Write};
use std::sync::OnceLock;

/// Characters that are not shown, or change how others are: control characters, those that turn the direction of
/// writing, those of no width, and separators of lines.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{206f}')
        || matches!(
            c,
            '\u{ad}' | '\u{200b}' | '\u{2060}'..='\u{2065}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
        )
}

/// `text` with `instead` in the place of each character that [`is_hidden`].
pub fn plain(text: &str, instead: char) -> String {
    text.replace(is_hidden, instead.encode_utf8(&mut [0; 4]))
}

/// Names the byte order mark that a file begins with, if any: spreadsheets and some editors put one there.
pub fn byte_order_mark(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0xef, 0xbb, 0xbf, ..] => Some("a byte order mark (EF BB BF)"),
        [0xff, 0xfe, ..] => Some("the byte order mark of UTF-16 (FF FE)"),
        [0xfe, 0xff, ..] => Some("the byte order mark of UTF-16 (FE FF)"),
        _ => None,
    }
}

/// Returns the reason why a text is not JSON, in one line: a byte order mark, a decimal comma or a semicolon by name,
/// else the parser's words, `said`. The parser stopped at line and column `at`, counted from 1; `ended`: the text was
/// cut off.
pub fn not_json(bytes: &[u8], at: (usize, usize), ended: bool, said: &dyn Display) -> String {
    if let Some(mark) = byte_order_mark(bytes) {
        return format!("no JSON: it begins with {mark}: want UTF-8 without one");
    }
    let (line, column) = at;
    let text = bytes.split(|byte| *byte == b'\n').nth(line.saturating_sub(1));
    // A text that was cut off may end anywhere.
    match text.filter(|_| !ended).and_then(|text| habit(text, column)) {
        Some(habit) => format!("no JSON: {habit} at line {line} column {column}"),
        None => format!("no JSON: {said}"),
    }
}

/// Names the mark at which the parser stopped in a line, if it is one; columns count from 1.
fn habit(line: &[u8], column: usize) -> Option<&'static str> {
    let at = column.checked_sub(1)?;
    if line.get(at) == Some(&b';') {
        return Some("a semicolon: want a comma");
    }
    // The parser takes the comma for the end of a value, and stops at the digit after the comma.
    let comma = line.get(..at)?.iter().rposition(|byte| *byte == b',')?;
    let digit = |at: Option<usize>| at.and_then(|at| line.get(at)).is_some_and(u8::is_ascii_digit);
    let decimal = digit(comma.checked_sub(1)) && digit(Some(comma + 1)) && at - comma <= 2;
    decimal.then_some("a decimal comma: want a point")
}

/// Says so if a number in a text has a comma in it; else nothing.
pub fn comma_in_number(text: &str) -> &'static str {
    let bytes = text.as_bytes();
    let found = bytes
        .windows(3)
        .any(|w| w[0].is_ascii_digit() && w[1] == b',' && w[2].is_ascii_digit());
    match found {
        true => " (a comma in a number: decimals have a point, thousands have nothing)",
        false => "",
    }
}

/// First characters of formulas in common spreadsheets.
const FORMULA: [char; 11] = ['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠'];

/// Returns a text of a CSV that spreadsheets don't take for a formula: a name or a command may begin like one.
pub fn no_formula(text: &str) -> Cow<'_, str> {
    match text.starts_with(FORMULA) && text.parse::<f64>().is_err() {
        true => Cow::Owned(format!("'{text}")),
        false => Cow::Borrowed(text),
    }
}

/// The text of a file.
///
/// # Errors
/// The kind of file that it is instead, in a few words.
pub fn of_bytes(bytes: Vec<u8>) -> Result<String, String> {
    let mark = byte_order_mark(&bytes);
    String::from_utf8(bytes).map_err(|_| match mark {
        Some(mark) => format!("it begins with {mark}: want UTF-8"),
        None => "no text".to_owned(),
    })
}

/// JSON text with each hidden character in a string as its escape, which reads back as the same character. Ends of
/// lines and tabs stand between values: inside strings a writer of JSON has escaped them already.
pub fn json(text: String) -> String {
    let hidden = |c: char| is_hidden(c) && !matches!(c, '\n' | '\t');
    if !text.contains(hidden) {
        return text;
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match hidden(c) {
            // None of them is above U+FFFF.
            true => shown.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => shown.push(c),
        }
    }
    shown
}

/// Returns whether readers of this program's texts read UTF-8: by the locale, as every program of a terminal finds it
/// out (`LC_ALL`, `LC_CTYPE`, `LANG`). If none is set, as in containers and services, they do.
pub fn is_utf8() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    let set = |name| std::env::var_os(name).filter(|value: &OsString| !value.is_empty());
    *KNOWN.get_or_init(|| {
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set);
        locale.is_none_or(|locale| names_utf8(&locale.to_string_lossy()))
    })
}

/// Returns whether a locale's name says UTF-8: `C.UTF-8`, `de_DE.utf8@euro`, `UTF-8`.
fn names_utf8(locale: &str) -> bool {
    // Some terminals send the character set alone.
    let codes = locale.split_once('.').map_or(locale, |(_, codes)| codes);
    let codes = codes.split('@').next().unwrap_or_default();
    codes.eq_ignore_ascii_case("UTF-8") || codes.eq_ignore_ascii_case("utf8")
}

/// Returns a text for the reader: in ASCII if the locale has no UTF-8. Characters that no text of ours has are escaped,
/// as Rust writes them.
pub fn spoken(text: &str) -> Cow<'_, str> {
    match text.is_ascii() || is_utf8() {
        true => Cow::Borrowed(text),
        false => Cow::Owned(in_ascii(text, false)),
    }
}

/// Returns a text like [`spoken`], for a screen of cells: no character of ours takes more columns than before.
pub fn in_cells(text: &str) -> Cow<'_, str> {
    match text.is_ascii() || is_utf8() {
        true => Cow::Borrowed(text),
        false => Cow::Owned(in_ascii(text, true)),
    }
}

fn in_ascii(text: &str, cells: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if c.is_ascii() => out.push(c),
            'µ' | 'μ' => out.push('u'),
            '…' => out.push_str(if cells { "~" } else { "..." }),
            '▄'..='█' | '▉'..='▌' => out.push('#'),
            '▁'..='▃' => out.push('_'),
            '▍'..='▏' => out.push('|'),
            '░'..='▓' | '·' => out.push('.'),
            '─' | '━' | '═' | '╌' | '┄' | '−' | '–' | '—' => out.push('-'),
            '│' | '┃' | '║' | '┆' => out.push('|'),
            // Corners and crossings.
            '\u{2500}'..='\u{257f}' => out.push('+'),
            '\u{2800}' => out.push(' '),
            '\u{2801}'..='\u{28ff}' => out.push('*'),
            '×' => out.push('x'),
            '÷' => out.push('/'),
            '²' => out.push('2'),
            '³' => out.push('3'),
            '→' => out.push('>'),
            '←' => out.push('<'),
            '↑' => out.push('^'),
            '↓' => out.push('v'),
            '±' => out.push_str(if cells { "~" } else { "+/-" }),
            '≤' => out.push_str(if cells { "<" } else { "<=" }),
            '≥' => out.push_str(if cells { ">" } else { ">=" }),
            'Δ' => out.push('d'),
            c if cells => out.extend(std::iter::repeat_n('?', if c >= '\u{1100}' { 2 } else { 1 })),
            c => out.extend(c.escape_default()),
        }
    }
    out
}

/// A writer to somebody who reads ([`spoken`]).
#[derive(Debug)]
pub struct Spoken<W>(pub W);

impl<W: Write> Write for Spoken<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Formatting hands over whole texts; other bytes are no text of ours.
        match std::str::from_utf8(bytes) {
            Ok(text) => match spoken(text) {
                Cow::Borrowed(_) => self.0.write(bytes),
                Cow::Owned(words) => self.0.write_all(words.as_bytes()).map(|()| bytes.len()),
            },
            Err(_) => self.0.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// A writer that lets no terminal obey what others have put into names: hidden characters are written as escapes in
/// the words of JSON, so JSON stays what it is. Ends of lines, tabs and colours (`ESC [ … m`) pass.
#[derive(Debug)]
pub struct Harmless<W>(pub W);

impl<W: Write> Write for Harmless<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Formatting hands over whole texts; other bytes are no text of ours.
        let Ok(text) = std::str::from_utf8(bytes) else {
            return self.0.write(bytes);
        };
        if !text.contains(|c| is_hidden(c) && !matches!(c, '\n' | '\t')) {
            return self.0.write(bytes);
        }
        self.0.write_all(harmless(text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn harmless(text: &str) -> String {
    let mut shown = String::with_capacity(text.len() + 16);
    for (at, c) in text.char_indices() {
        let passes = match c {
            '\n' | '\t' => true,
            '\x1b' => is_colour(&text[at + 1..]),
            c => !is_hidden(c),
        };
        match passes {
            true => shown.push(c),
            false => shown.push_str(&format!("\\u{:04x}", u32::from(c))),
        }
    }
    shown
}

/// Whether what follows an escape character chooses a colour that texts of ours have: none hides what is written.
fn is_colour(rest: &str) -> bool {
    let codes = rest.strip_prefix('[').and_then(|rest| rest.split_once('m'));
    let ours = |code| matches!(code, "0" | "1" | "2" | "31" | "32" | "33" | "34" | "35" | "36");
    codes.is_some_and(|(codes, _)| codes.split(';').all(ours))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_a_spreadsheet_would_take_for_a_formula_is_a_text() {
        for (text, cell) in [
            ("=1+1", "'=1+1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("+x", "'+x"),
            ("-x", "'-x"),
            ("\t=1", "'\t=1"),
            ("-1.5", "-1.5"),
            ("+3", "+3"),
            ("a=1", "a=1"),
            ("", ""),
        ] {
            assert_eq!(no_formula(text), cell);
        }
    }

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
    fn a_locale_says_whether_it_has_utf_8() {
        for yes in ["C.UTF-8", "en_US.utf8", "de_DE.UTF-8@euro", "UTF-8"] {
            assert!(names_utf8(yes), "{yes}");
        }
        for no in ["C", "POSIX", "en_US", "de_DE.ISO-8859-1"] {
            assert!(!names_utf8(no), "{no}");
        }
    }

    #[test]
    fn words_in_ascii_have_no_other_characters_and_cells_stay_as_many() {
        assert_eq!(in_ascii("12 µs … ±3 █▁░", false), "12 us ... +/-3 #_.");
        assert_eq!(in_ascii("a│b─┌┼", true), "a|b-++");
        assert_eq!(in_ascii("café", false), "caf\\u{e9}");
        for c in ('\u{80}'..='\u{ffff}').filter(|c| !is_hidden(*c)) {
            for cells in [false, true] {
                let text = in_ascii(&c.to_string(), cells);
                assert!(text.is_ascii() && !text.is_empty(), "{c}");
                assert!(!cells || text.len() <= 2, "{c}");
            }
        }
    }

    #[test]
    fn json_has_hidden_characters_as_escapes_and_nothing_else_changes() {
        let text = "{\n\t\"a\u{202e}b\": \"\u{2066}x\u{7f}\u{9b}\u{fffe} é\u{200d}\"\n}\n".to_owned();
        let want = "{\n\t\"a\\u202eb\": \"\\u2066x\\u007f\\u009b\\ufffe é\u{200d}\"\n}\n";
        assert_eq!(json(text), want);
        assert_eq!(json("{}".to_owned()), "{}");
    }

    #[test]
    fn a_terminal_is_given_colours_and_no_other_sequence() {
        let mut out = Harmless(Vec::new());
        let text = "\x1b[1;32mok\x1b[0m\ta\u{202e}b \x1b]0;x\x07 \x1b[2J\x1b[8m\n";
        write!(out, "{text}").unwrap();
        let want = "\x1b[1;32mok\x1b[0m\ta\\u202eb \\u001b]0;x\\u0007 \\u001b[2J\\u001b[8m\n";
        assert_eq!(String::from_utf8(out.0).unwrap(), want);
    }

    #[test]
    fn controls_turns_of_direction_and_line_separators_are_hidden_and_letters_are_not() {
        let hidden = "\n\t\u{1b}\u{7f}\u{9b}\u{61c}\u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{202e}\u{2066}\u{2069}";
        assert!(hidden.chars().chain(['\u{200b}', '\u{feff}', '\u{ad}']).all(is_hidden));
        assert!(!"aé ש漢\u{200d}\u{2030}\u{fffd}".chars().any(is_hidden));
    }
}
