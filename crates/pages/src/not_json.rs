//! Names the reason why a text is not JSON, if a spreadsheet, an editor or a habit caused it.

use mpps_sys::text::not_json;

/// Returns the reason in one line: [`not_json`].
pub fn no_json(bytes: &[u8], error: &serde_json::Error) -> String {
    not_json(bytes, (error.line(), error.column()), error.is_eof(), error)
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
