//! Requests: what is taken of HTTP/1.1, and what is refused.
//!
//! The host that a request names is checked first. A page of somebody else's may have its name lead to this address
//! (DNS rebinding) and would then be allowed to read the answers; the browser still says by which name it came.

use std::net::IpAddr;

/// Bytes of the longest request.
pub const LONGEST: usize = 8 << 10;
/// Header lines, at the most.
const MOST_HEADERS: usize = 64;

/// A request that is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Only the head of the answer is wanted.
    pub head: bool,
    /// What is asked for, without a query.
    pub path: String,
    /// `Last-Event-ID`: what a stream goes on after.
    pub last_event: Option<u64>,
}

/// Why a request is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No HTTP, or HTTP that nobody needs.
    Bad,
    /// The host that it names is not this one.
    ForeignHost,
    /// Neither GET nor HEAD.
    Method,
    /// It did not come in time.
    TooSlow,
    /// Its header is too long.
    TooLong,
}

/// What has come so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// More is to come.
    Partial,
    /// All of it.
    Whole(Request),
    /// It is not answered.
    Refused(Refusal),
}

/// Reads what has come so far, to a socket with this address.
pub fn parse(bytes: &[u8], local: IpAddr) -> Parsed {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(_)) => match answered(&request, local) {
            Ok(request) => Parsed::Whole(request),
            Err(refusal) => Parsed::Refused(refusal),
        },
        Ok(httparse::Status::Partial) if bytes.len() < LONGEST => Parsed::Partial,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => Parsed::Refused(Refusal::TooLong),
        Err(_) => Parsed::Refused(Refusal::Bad),
    }
}

fn answered(request: &httparse::Request<'_, '_>, local: IpAddr) -> Result<Request, Refusal> {
    let of = |name: &str| {
        let name = name.to_owned();
        let named = request
            .headers
            .iter()
            .filter(move |header| header.name.eq_ignore_ascii_case(&name));
        named.map(|header| header.value)
    };
    let mut hosts = of("host");
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return Err(Refusal::Bad);
    };
    if !is_ours(host, local) {
        return Err(Refusal::ForeignHost);
    }
    let head = match request.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return Err(Refusal::Method),
    };
    // A proxy's form has a host of its own, which nobody has checked.
    let target = request.path.filter(|path| path.starts_with('/')).ok_or(Refusal::Bad)?;
    let last = of("last-event-id").next();
    Ok(Request {
        head,
        path: target.split(['?', '#']).next().unwrap_or_default().to_owned(),
        last_event: last.and_then(|id| std::str::from_utf8(id).ok()?.trim().parse().ok()),
    })
}

/// Whether a `Host` names this host: as `localhost`, by a loopback address, or by the address that the connection came
/// to. The port is whatever led here, such as that of an SSH tunnel.
fn is_ours(host: &[u8], local: IpAddr) -> bool {
    let Ok(host) = std::str::from_utf8(host) else {
        return false;
    };
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((name, port)) => (name, port),
            None => return false,
        },
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let digits = |port: &str| port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit());
    if !port.is_empty() && !port.strip_prefix(':').is_some_and(digits) {
        return false;
    }
    if host.starts_with('[') {
        return name.parse::<std::net::Ipv6Addr>().is_ok_and(|ip| {
            let ip = IpAddr::V6(ip).to_canonical();
            ip.is_loopback() || ip == local
        });
    }
    name.eq_ignore_ascii_case("localhost")
        || name
            .parse::<std::net::Ipv4Addr>()
            .is_ok_and(|ip| ip.is_loopback() || IpAddr::V4(ip) == local)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::Ipv4Addr;

    const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn of(text: &str) -> Parsed {
        parse(text.as_bytes(), LOOPBACK)
    }

    #[test]
    fn a_request_is_read_whole_and_no_sooner() {
        let text = "GET /metrics?x=1 HTTP/1.1\r\nhOsT: localhost:9100\r\nLast-Event-ID: 17\r\n\r\n";
        for end in 0..text.len() {
            assert_eq!(parse(&text.as_bytes()[..end], LOOPBACK), Parsed::Partial, "{end}");
        }
        let whole = Request {
            head: false,
            path: "/metrics".to_owned(),
            last_event: Some(17),
        };
        assert_eq!(of(text), Parsed::Whole(whole));
    }

    #[test]
    fn only_this_host_s_names_are_answered_whatever_else_is_asked() {
        let host = |host: &str| match of(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")) {
            Parsed::Whole(_) => true,
            Parsed::Refused(refusal) => {
                assert_eq!(refusal, Refusal::ForeignHost, "{host}");
                false
            }
            Parsed::Partial => panic!("{host}"),
        };
        for ours in [
            "localhost",
            "LocalHost:1",
            "127.0.0.1",
            "127.0.0.1:9100",
            "[::1]",
            "[::1]:80",
        ] {
            assert!(host(ours), "{ours}");
        }
        for foreign in [
            "example.com",
            "localhost.example.com",
            "127.0.0.1.example.com",
            "localhost.",
            "127.0.0.1:80@example.com",
            "example.com:127",
            "[::1",
            "[::1]x",
            "[127.0.0.1]",
            "10.0.0.1",
            "0.0.0.0",
            "",
            ":80",
            "localhost:",
            "localhost:123456",
        ] {
            // No port behind the colon is one of RFC 3986.
            assert_eq!(host(foreign), foreign == "localhost:", "{foreign}");
        }
        let at = |local: &str| {
            parse(
                b"GET / HTTP/1.1\r\nHost: 192.0.2.7:1\r\n\r\n",
                local.parse().expect("an address"),
            )
        };
        assert!(matches!(at("192.0.2.7"), Parsed::Whole(_)));
        assert_eq!(at("192.0.2.8"), Parsed::Refused(Refusal::ForeignHost));
        // The host comes before what is asked for.
        let foreign = of("DELETE /x HTTP/1.1\r\nHost: example.com\r\n\r\n");
        assert_eq!(foreign, Parsed::Refused(Refusal::ForeignHost));
    }

    #[test]
    fn whatever_is_no_plain_get_is_refused() {
        let bad = |text: &str| match of(text) {
            Parsed::Refused(refusal) => refusal,
            other => panic!("{text:?}: {other:?}"),
        };
        assert_eq!(bad("GET / HTTP/1.1\r\n\r\n"), Refusal::Bad);
        assert_eq!(
            bad("GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n"),
            Refusal::Bad
        );
        assert_eq!(
            bad("GET http://localhost/ HTTP/1.1\r\nHost: localhost\r\n\r\n"),
            Refusal::Bad
        );
        assert_eq!(bad("\u{16}\u{3}\u{1} TLS"), Refusal::Bad);
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "get"] {
            assert_eq!(
                bad(&format!("{method} / HTTP/1.1\r\nHost: localhost\r\n\r\n")),
                Refusal::Method
            );
        }
        assert_eq!(bad(&format!("GET /{}", "x".repeat(LONGEST))), Refusal::TooLong);
        assert_eq!(
            bad(&format!("GET / HTTP/1.1\r\n{}", "a: b\r\n".repeat(MOST_HEADERS + 1))),
            Refusal::TooLong
        );
    }

    proptest! {
        #[test]
        fn nothing_that_comes_in_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse(&bytes, LOOPBACK);
        }
    }
}
