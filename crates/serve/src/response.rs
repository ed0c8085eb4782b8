//! Answers as bytes.

use crate::request::Refusal;

/// Headers of every answer. A page from here may use only what comes from here, and nobody may frame it. There is no
/// `Access-Control-Allow-Origin`, so other pages can't read anything.
const SAFE: &str = "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; \
    connect-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'\r\n\
    X-Content-Type-Options: nosniff\r\n\
    Referrer-Policy: no-referrer\r\n\
    Cache-Control: no-store\r\n\
    Cross-Origin-Resource-Policy: same-origin\r\n\
    Connection: close\r\n";

/// Returns the head of a stream of events, which ends with the connection.
pub(crate) fn stream() -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{SAFE}\r\n").into_bytes()
}

/// Returns an answer with a body; for HEAD without one.
pub(crate) fn whole(content_type: &str, body: &[u8], head: bool) -> Vec<u8> {
    of("200 OK", content_type, "", body, head)
}

/// Returns the answer to an unknown path, with a hint where something is.
pub(crate) fn not_found(elsewhere: &str, head: bool) -> Vec<u8> {
    let body = format!("nothing here\n{elsewhere}");
    of("404 Not Found", PLAIN, "", body.as_bytes(), head)
}

/// Returns the answer when there are too many connections.
pub(crate) fn busy() -> Vec<u8> {
    of("503 Service Unavailable", PLAIN, "", b"too many connections\n", false)
}

/// Returns the reason why a request is not answered.
pub(crate) fn refused(refusal: &Refusal) -> Vec<u8> {
    let (status, more, why) = match refusal {
        Refusal::Bad => ("400 Bad Request", "", "no request that is answered here".to_owned()),
        Refusal::ForeignHost(Some(name)) => (
            "403 Forbidden",
            "",
            format!("asked for by the name {name}, which is not known here: --allow-host {name} lets it in"),
        ),
        Refusal::ForeignHost(None) => ("403 Forbidden", "", "asked for by what is no name of a host".to_owned()),
        Refusal::Method => (
            "405 Method Not Allowed",
            "Allow: GET, HEAD\r\n",
            "GET and HEAD only".to_owned(),
        ),
        Refusal::TooSlow => ("408 Request Timeout", "", "the request took too long".to_owned()),
        Refusal::TooLong => (
            "431 Request Header Fields Too Large",
            "",
            "the header is too long".to_owned(),
        ),
    };
    of(status, PLAIN, more, (why + "\n").as_bytes(), false)
}

const PLAIN: &str = "text/plain; charset=utf-8";

fn of(status: &str, content_type: &str, more: &str, body: &[u8], head: bool) -> Vec<u8> {
    let length = body.len();
    let mut bytes =
        format!("HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n{more}{SAFE}\r\n")
            .into_bytes();
    if !head {
        bytes.extend_from_slice(body);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_is_closed_to_other_pages_and_whole() {
        let all = [
            stream(),
            whole("text/html; charset=utf-8", b"x", false),
            not_found("x\n", false),
            busy(),
            refused(&Refusal::Bad),
            refused(&Refusal::ForeignHost(None)),
            refused(&Refusal::ForeignHost("a".parse().ok())),
            refused(&Refusal::Method),
            refused(&Refusal::TooSlow),
            refused(&Refusal::TooLong),
        ];
        for bytes in all {
            let text = String::from_utf8(bytes).expect("text");
            for line in [
                "default-src 'none'",
                "nosniff",
                "no-referrer",
                "no-store",
                "Connection: close\r\n",
            ] {
                assert!(text.contains(line), "{line}: {text}");
            }
            assert!(!text.contains("Access-Control"), "{text}");
            let (head, body) = text.split_once("\r\n\r\n").expect("a head");
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            assert!(length.is_none_or(|length| length == body.len().to_string()), "{text}");
        }
        assert!(whole("text/plain", b"xyz", true).ends_with(b"\r\n\r\n"));
    }
}
