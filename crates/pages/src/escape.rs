//! The one function that makes any text part of HTML or XML, in contents and in attributes between double quotes.

pub(crate) use mpps_sys::text::is_hidden;

/// Returns `text` in a form that is valid in HTML and XML. XML 1.0 can't contain control characters at all, but a file
/// name can. Characters that change the direction of writing would make the text look different from what it is.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(c),
            c if is_hidden(c) => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}
