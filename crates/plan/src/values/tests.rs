use super::*;
use mpps_io::addresses::{self as ranges, one};
use std::time::Duration;

#[test]
fn a_code_point_is_read_by_its_number_or_by_its_class() {
    for (text, want) in [
        ("46", 46),
        ("0", 0),
        ("EF", 46),
        ("af21", 18),
        ("AF43", 38),
        ("cs6", 48),
        ("LE", 1),
    ] {
        assert_eq!(dscp(text), Ok(want), "{text}");
    }
    for text in ["64", "-1", "AF14", "AF51", "CS8", "", "E F", "46.0"] {
        assert!(dscp(text).unwrap_err().contains("EF, AF11 to AF43"), "{text}");
    }
    // RFC 2597, section 6, and RFC 2474, section 4.2.2.1.
    for (name, dscp) in CLASSES {
        let digit = |at: usize| name.as_bytes()[at] - b'0';
        match &name[..2] {
            "AF" => assert_eq!(dscp, 8 * digit(2) + 2 * digit(3), "{name}"),
            "CS" => assert_eq!(dscp, 8 * digit(2), "{name}"),
            _ => {}
        }
    }
}

#[test]
fn times_are_read_with_their_units_and_refused_without() {
    assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
    assert_eq!(duration("2h"), Ok(Duration::from_secs(7200)));
    assert_eq!(interval("100us"), Ok(Duration::from_micros(100)));
    assert_eq!(duration("0"), Ok(Duration::ZERO));
    for bad in ["10", "s", "", "-1s", "1x", "NaNs", "infs", ".5s", "1e3s", "0.1us"] {
        assert!(duration(bad).is_err(), "{bad}");
    }
    assert!(interval("99us").is_err() && interval("0s").is_err());
    assert!(duration("10S").unwrap_err().contains("did you mean 10s?"));
    assert!(settle("1.5MS").unwrap_err().contains("did you mean 1.5ms?"));
    assert!(!duration("10x").unwrap_err().contains("did you mean"));
    assert!(!interval("2h").unwrap_err().contains("did you mean"));
}

#[test]
fn ports_and_destinations_are_read_and_refused() {
    assert_eq!(ports("10000-30000"), Ok(10000..=30000));
    assert_eq!(ports("9"), Ok(9..=9));
    assert!(ports("30000-10000").unwrap_err().contains("reversed"));
    for bad in ["0", "0-5", "65536", "a", "1-", "-1", ""] {
        assert!(ports(bad).is_err(), "{bad}");
    }
    assert_eq!(
        target("[fd99::2]:9000").unwrap().host,
        Host::Ips(one("fd99::2".parse().unwrap()))
    );
    assert_eq!(target("10.0.0.1:9000-9004").unwrap().ports, 9000..=9004);
    for (text, expected) in [
        ("10.0.0.1-10.0.3.254:9", "10.0.0.1-10.0.3.254"),
        ("10.0.0.0/22:9", "10.0.0.1-10.0.3.254"),
        ("[fd99::1-fd99::ff]:9", "fd99::1-fd99::ff"),
        ("[fd99::1]-[fd99::ff]:9", "fd99::1-fd99::ff"),
        ("[fd99::/124]:9", "fd99::1-fd99::f"),
    ] {
        let Host::Ips(range) = target(text).unwrap().host else {
            panic!("{text}")
        };
        assert_eq!(ranges::text(&range), expected, "{text}");
    }
    for name in ["server", "a-b.example.org", "9.example", "localhost."] {
        let host = target(&format!("{name}:9")).unwrap().host;
        assert_eq!(host, Host::Name(name.to_owned()));
    }
    for bad in [
        "10.0.0.1",
        "10.0.0.1:",
        "fd99::2:9000",
        "10.0.0:9",
        "a..b:9",
        "-a:9",
        "two words:9",
        ":9",
        "224.0.0.1:9",
        "0.0.0.0:9",
        "10.0.0.1:70000",
        "10.0.0.1-10.0.0:9",
        "[10.0.0.1-10.0.0.2]:9",
        "fd99::1-fd99::2:9",
        "10.0.0.9-10.0.0.1:9",
    ] {
        assert!(target(bad).is_err(), "{bad}");
    }
}

#[test]
fn ranges_of_addresses_are_those_of_hosts() {
    let text = |text: &str| addresses(text).map(|range| ranges::text(&range));
    for (given, range) in [
        ("10.0.0.1", "10.0.0.1"),
        // An address that would be a broadcast address in a smaller subnet is an ordinary one.
        ("10.1.0.1-10.1.63.254", "10.1.0.1-10.1.63.254"),
        ("10.0.0.0/24", "10.0.0.1-10.0.0.254"),
        ("10.0.0.0/31", "10.0.0.0-10.0.0.1"),
        ("10.0.0.7/32", "10.0.0.7"),
        ("fd99::/112", "fd99::1-fd99::ffff"),
        ("fd99::/127", "fd99::-fd99::1"),
        (
            "fd99::ffff:ffff:ffff:ffff-fd99:0:0:1::",
            "fd99::ffff:ffff:ffff:ffff-fd99:0:0:1::",
        ),
    ] {
        assert_eq!(text(given).as_deref(), Ok(range), "{given}");
    }
    for (given, part) in [
        ("10.0.0.2-10.0.0.1", "the range is reversed: want 10.0.0.1-10.0.0.2"),
        ("10.0.0.1-fd99::1", "one family"),
        ("10.0.0.1/24", "want 10.0.0.0/24"),
        ("10.0.0.0/33", "32 bits"),
        ("fd99::/64", "4294967295 at most"),
        ("0.0.0.0/0", "multicast"),
        ("::/0", "multicast"),
        ("223.255.255.0-224.0.0.9", "multicast"),
        ("224.0.0.1", "one host"),
        ("255.255.255.255", "one host"),
        ("0.0.0.0-0.0.0.9", "unspecified"),
        ("fe00::-ff02::1", "multicast"),
        ("10.0.0.1-", "want an IP address, or several"),
        ("10.0.0.0/x", "want an IP address, or several"),
        ("name", "want an IP address, or several"),
    ] {
        let told = text(given).unwrap_err();
        assert!(told.contains(part), "{given}: {told}");
    }
}

#[test]
fn lists_ratios_and_pacing_are_read_and_refused() {
    assert_eq!(cores("0,2-3"), Ok(Cores(vec![0, 2, 3])));
    assert!(cores("3-1").is_err() && cores("").is_err() && cores("a").is_err());
    assert_eq!(ratio("0.1%"), Ok(0.001));
    assert!(ratio("NaN").is_err() && ratio("-1").is_err() && ratio("101%").is_err());
    assert_eq!(pacing("burst=32"), Ok(Pacing::Bursts(32)));
    assert!(pacing("burst=0").is_err() && pacing("x").is_err());
}
