//! Requests: the accepted part of HTTP/1.1, and the refusals.
//!
//! The host name of a request is checked first. Somebody else's page may let its name resolve to this address (DNS
//! rebinding), and would then be allowed to read the answers. The browser still sends the name that it used.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Longest request, bytes.
pub const LONGEST: usize = 8 << 10;
/// Most header lines.
const MOST_HEADERS: usize = 64;

/// A request that is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Whether only the head of the answer is requested.
    pub head: bool,
    /// Requested path, without a query.
    pub path: String,
    /// `Last-Event-ID`: number after which a stream continues.
    pub last_event: Option<u64>,
}

/// Reason why a request is not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The request is not HTTP, or uses a part of it that is not needed here.
    Bad,
    /// The request names another host: the name, if it is valid.
    ForeignHost(Option<HostName>),
    /// The method is neither GET nor HEAD.
    Method,
    /// The request did not arrive in time.
    TooSlow,
    /// The header is too long.
    TooLong,
}

/// State of a request that is being read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// More bytes are needed.
    Partial,
    /// The request is complete.
    Whole(Request),
    /// The request is refused.
    Refused(Refusal),
}

/// Name or address of a host in a request: letters, digits and `.-_`, in lower case, without the dot of the root, or an
/// IP address without brackets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostName(String);

impl HostName {
    /// Longest name in bytes, as in the DNS.
    const LONGEST: usize = 253;
}

impl FromStr for HostName {
    type Err = &'static str;

    /// # Errors
    /// A description of valid names, if the text is not one.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        if let Ok(ip) = bare.unwrap_or(text).parse::<IpAddr>()
            && (bare.is_none() || ip.is_ipv6())
        {
            return Ok(Self(ip.to_canonical().to_string()));
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        let known = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        match !name.is_empty() && !name.contains("..") && name.len() <= Self::LONGEST && name.bytes().all(known) {
            true => Ok(Self(name.to_ascii_lowercase())),
            false => Err("want the name or address of a host, without a port, such as bench1.lab"),
        }
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Names that a socket accepts.
#[derive(Clone, Copy, Debug)]
pub struct Names<'n> {
    /// Address that the connection came to.
    pub local: IpAddr,
    /// Further names that proxies and users use.
    pub allowed: &'n [HostName],
}

/// Parses the bytes so far of a request to a socket with these names.
pub fn parse(bytes: &[u8], names: Names<'_>) -> Parsed {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(_)) => match answered(&request, names) {
            Ok(request) => Parsed::Whole(request),
            Err(refusal) => Parsed::Refused(refusal),
        },
        Ok(httparse::Status::Partial) if bytes.len() < LONGEST => Parsed::Partial,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => Parsed::Refused(Refusal::TooLong),
        Err(_) => Parsed::Refused(Refusal::Bad),
    }
}

fn answered(request: &httparse::Request<'_, '_>, names: Names<'_>) -> Result<Request, Refusal> {
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
    let named = name_of(host);
    if !named.as_ref().is_some_and(|name| is_ours(name, names)) {
        return Err(Refusal::ForeignHost(named));
    }
    let head = match request.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return Err(Refusal::Method),
    };
    // The form for proxies contains a host of its own, which nobody has checked.
    let target = request.path.filter(|path| path.starts_with('/')).ok_or(Refusal::Bad)?;
    let last = of("last-event-id").next();
    Ok(Request {
        head,
        path: target.split(['?', '#']).next().unwrap_or_default().to_owned(),
        last_event: last.and_then(|id| std::str::from_utf8(id).ok()?.trim().parse().ok()),
    })
}

/// Returns the name in a `Host`, without the port: the port may be that of an SSH tunnel or the like.
fn name_of(host: &[u8]) -> Option<HostName> {
    let host = std::str::from_utf8(host).ok()?;
    // An IPv6 address has its colons in brackets.
    let end = host.find(']').map_or(0, |at| at + 1);
    let (name, port) = host.split_at(host[end..].find(':').map_or(host.len(), |at| end + at));
    let digits = |port: &str| port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit());
    let fits = port.is_empty() || port.strip_prefix(':').is_some_and(digits);
    fits.then(|| name.parse().ok()).flatten()
}

/// Returns whether a name belongs to this host: `localhost`, a loopback address, the address that the connection came
/// to, or a name that the user allows.
fn is_ours(name: &HostName, names: Names<'_>) -> bool {
    let ip = || {
        name.0
            .parse::<IpAddr>()
            .is_ok_and(|ip| ip.is_loopback() || ip == names.local)
    };
    name.0 == "localhost" || ip() || names.allowed.contains(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::Ipv4Addr;

    const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    const NAMES: Names<'_> = Names {
        local: LOOPBACK,
        allowed: &[],
    };

    fn of(text: &str) -> Parsed {
        parse(text.as_bytes(), NAMES)
    }

    /// Returns the answer to a request with this host.
    fn host(host: &str, names: Names<'_>) -> Result<(), Option<String>> {
        match parse(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes(), names) {
            Parsed::Whole(_) => Ok(()),
            Parsed::Refused(Refusal::ForeignHost(name)) => Err(name.map(|name| name.to_string())),
            other => panic!("{host}: {other:?}"),
        }
    }

    #[test]
    fn a_request_is_read_whole_and_no_sooner() {
        let text = "GET /metrics?x=1 HTTP/1.1\r\nhOsT: localhost:9100\r\nLast-Event-ID: 17\r\n\r\n";
        for end in 0..text.len() {
            assert_eq!(parse(&text.as_bytes()[..end], NAMES), Parsed::Partial, "{end}");
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
        for ours in [
            "localhost",
            "LocalHost:1",
            "localhost.",
            "localhost:",
            "127.0.0.1",
            "127.0.0.1:9100",
            "[::1]",
            "[::1]:80",
        ] {
            assert_eq!(host(ours, NAMES), Ok(()), "{ours}");
        }
        for (foreign, name) in [
            ("example.com", Some("example.com")),
            ("Example.COM.:127", Some("example.com")),
            ("localhost.example.com", Some("localhost.example.com")),
            ("127.0.0.1.example.com", Some("127.0.0.1.example.com")),
            ("10.0.0.1", Some("10.0.0.1")),
            ("0.0.0.0", Some("0.0.0.0")),
            ("[2001:DB8::1]:80", Some("2001:db8::1")),
            ("127.0.0.1:80@example.com", None),
            ("[::1", None),
            ("[::1]x", None),
            ("[127.0.0.1]", None),
            ("", None),
            (":80", None),
            ("localhost:123456", None),
            ("a b", None),
            ("<b>", None),
        ] {
            assert_eq!(host(foreign, NAMES), Err(name.map(str::to_owned)), "{foreign}");
        }
        let at = |local: &str| Names {
            local: local.parse().expect("an address"),
            allowed: &[],
        };
        assert_eq!(host("192.0.2.7:1", at("192.0.2.7")), Ok(()));
        assert!(host("192.0.2.7:1", at("192.0.2.8")).is_err());
        // The host is checked before the request itself.
        let foreign = of("DELETE /x HTTP/1.1\r\nHost: example.com\r\n\r\n");
        assert!(matches!(foreign, Parsed::Refused(Refusal::ForeignHost(_))));
    }

    #[test]
    fn names_that_the_user_allows_are_answered_and_none_like_them() {
        let allowed = ["Bench1.lab.", "192.0.2.9", "[2001:db8::1]"].map(|name| name.parse().expect(name));
        let names = Names {
            local: LOOPBACK,
            allowed: &allowed,
        };
        for ours in [
            "bench1.lab:8080",
            "BENCH1.LAB",
            "bench1.lab.",
            "192.0.2.9",
            "[2001:DB8:0::1]:1",
        ] {
            assert_eq!(host(ours, names), Ok(()), "{ours}");
        }
        for foreign in ["bench2.lab", "x.bench1.lab", "bench1.lab.example.com", "192.0.2.10"] {
            assert!(host(foreign, names).is_err(), "{foreign}");
        }
        for bad in [
            "",
            "*",
            "*.lab",
            "bench1.lab:80",
            "http://bench1.lab",
            "a b",
            ".",
            "a..b",
            "[192.0.2.9]",
        ] {
            assert!(bad.parse::<HostName>().is_err(), "{bad}");
        }
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
            let _ = parse(&bytes, NAMES);
        }
    }
}
