//! Names the reason why a text is not JSON, if a spreadsheet, an editor or a habit caused it.

use mpps_sys::text::byte_order_mark;

/// Returns the reason in one line: a byte order mark, a decimal comma or a semicolon by name, else the parser's words.
pub fn no_json(bytes: &[u8], error: &serde_json::Error) -> String {
    if let Some(mark) = byte_order_mark(bytes) {
        return format!("no JSON: it begins with {mark}: want UTF-8 without one");
    }
    let (line, column) = (error.line(), error.column());
    let text = bytes.split(|byte| *byte == b'\n').nth(line.saturating_sub(1));
    // A text that was cut off may end anywhere.
    match text.filter(|_| !error.is_eof()).and_then(|text| habit(text, column)) {
        Some(habit) => format!("no JSON: {habit} at line {line} column {column}"),
        None => format!("no JSON: {error}"),
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn told(bytes: &[u8]) -> String {
        no_json(bytes, &serde_json::from_slice::<Value>(bytes).unwrap_err())
    }

    #[test]
    fn marks_of_other_programs_are_named() {
        for (bytes, part) in [
            (
                &b"\xef\xbb\xbf{}"[..],
                "a byte order mark (EF BB BF): want UTF-8 without one",
            ),
            (b"\xff\xfe{\0}\0", "the byte order mark of UTF-16 (FF FE)"),
            (b"{\"a\": 0,5}", "a decimal comma: want a point at line 1"),
            (
                b"{\"rate\": 1,\n\"s\": 12,25,\n\"b\": 1}",
                "a decimal comma: want a point at line 2",
            ),
            (b"{\"a\": 1; \"b\": 2}", "a semicolon: want a comma at line 1"),
            (b"{\n\"a\": \"x\";\n}", "a semicolon: want a comma at line 2"),
        ] {
            let why = told(bytes);
            assert!(why.starts_with("no JSON: ") && why.contains(part), "{why}");
        }
    }

    #[test]
    fn whatever_else_is_wrong_is_in_the_parsers_words() {
        for bytes in [
            &b""[..],
            b"{",
            b"{\"a\": 1, 5}",
            b"{\"a\" 1}",
            b"[1,2",
            b"{\"a\": \"0,5\" x}",
        ] {
            let why = told(bytes);
            assert!(!why.contains("comma: want") && !why.contains("byte order"), "{why}");
        }
    }
}
