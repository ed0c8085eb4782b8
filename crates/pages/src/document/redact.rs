//! Hides data that shows where a test was made: names of hosts and users, IP and MAC addresses. The same name has the
//! same replacement everywhere (`host-1`, `ip-2`), so that the text can still be followed.

use super::Document;
use serde_json::Value;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

/// Returns the document without names and addresses.
pub fn document(document: &Document) -> Document {
    Redactor::of(document).document(document)
}

/// Folders that contain a folder per user, with the user's name.
const HOMES: [&str; 9] = [
    "/var/home/",
    "/export/home/",
    "/home/",
    "/homes/",
    "/Users/",
    "/users/",
    "/media/",
    "/run/media/",
    "/run/user/",
];
/// Common names that identify no user. They are not hidden when they stand alone.
const COMMON: [&str; 8] = ["root", "user", "admin", "test", "mpps", "daemon", "nobody", "ubuntu"];
/// Last parts of names with two parts that are hosts' names.
const LOCAL: [&str; 8] = [
    "local",
    "lan",
    "localdomain",
    "internal",
    "intern",
    "corp",
    "home",
    "example",
];
/// Last parts of names that are file names rather than host names.
const FILES: [&str; 16] = [
    "json", "jsonl", "html", "md", "csv", "svg", "sock", "log", "txt", "so", "gz", "xz", "pcapng", "conf", "service",
    "ko",
];

/// Names and addresses to hide, each with its replacement.
#[derive(Debug, Default)]
pub struct Redactor {
    /// Names of hosts in lower case with their replacements, the longest first.
    hosts: Vec<(String, String)>,
    /// Number of hosts that these names belong to.
    count: usize,
    ips: HashMap<IpAddr, String>,
    macs: HashMap<String, String>,
    users: HashMap<String, String>,
}

/// Returns the users whose folders a text names.
fn users_of(text: &str) -> impl Iterator<Item = &str> {
    let of = move |home: &'static str| {
        text.match_indices(home)
            .map(move |(at, _)| user_at(&text[at + home.len()..]))
    };
    HOMES.into_iter().flat_map(of).filter(|name| !name.is_empty())
}

/// Returns whether a user's name identifies somebody even when it stands alone.
fn is_telling(name: &str) -> bool {
    name.len() >= 3 && !COMMON.contains(&name)
}

/// Returns the name at the beginning of the rest of a path.
fn user_at(rest: &str) -> &str {
    &rest[..rest.find(|c: char| "/ '\",:;".contains(c)).unwrap_or(rest.len())]
}

impl Redactor {
    /// Finds the names of hosts in the document: in fields for host names, and in addresses of a command line or a
    /// plan.
    pub fn of(document: &Document) -> Self {
        let mut names = Vec::new();
        let value = serde_json::to_value(document).unwrap_or_default();
        named(&value, "", &mut names);
        addressed(document.command.iter().map(String::as_str), &mut names);
        if let Ok(own) = rustix::system::uname().nodename().to_str() {
            names.push(own.to_owned());
        }
        let mut redactor = Self::default();
        for name in names {
            redactor.host(&name);
        }
        let text = document.text();
        let own = ["USER", "LOGNAME", "SUDO_USER"].map(|name| std::env::var(name).unwrap_or_default());
        let own = own.iter().map(String::as_str).filter(|user| is_telling(user));
        for user in users_of(&text).chain(own) {
            redactor.user(user);
        }
        redactor.hosts.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        redactor
    }

    /// Adds the name of a host from a text that may have a port or options behind the name.
    fn host(&mut self, text: &str) {
        let end = text.find([':', ',', '/', ' ']).unwrap_or(text.len());
        let name = text[..end].trim_matches('.').to_ascii_lowercase();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        // Addresses are hidden elsewhere. A text without a letter is not a name.
        let letters = name.chars().any(|c| c.is_ascii_alphabetic());
        if name.len() < 2 || !letters || !name.chars().all(plain) || name == "localhost" {
            return;
        }
        if name.parse::<IpAddr>().is_ok() || self.hosts.iter().any(|(known, _)| *known == name) {
            return;
        }
        self.count += 1;
        let shown = format!("host-{}", self.count);
        // The first part of the name alone also identifies the host.
        let first = name.split('.').next().unwrap_or_default().to_owned();
        if first.len() >= 3 && first != name && !self.hosts.iter().any(|(known, _)| *known == first) {
            self.hosts.push((first, shown.clone()));
        }
        self.hosts.push((name, shown));
    }

    /// Returns the replacement of a user's name.
    fn user(&mut self, name: &str) -> String {
        let count = self.users.len() + 1;
        let shown = self
            .users
            .entry(name.to_owned())
            .or_insert_with(|| format!("user-{count}"));
        shown.clone()
    }

    /// Returns the document without names and addresses.
    pub fn document(&mut self, document: &Document) -> Document {
        let mut shown = document.clone();
        // The folder of the program may name its user.
        if let Some(program) = shown.command.first_mut() {
            *program = program.rsplit('/').next().unwrap_or_default().to_owned();
        }
        let hidden = serde_json::from_str(&shown.text()).map(|value| self.value(&value));
        // A document that was written can be read again.
        hidden.and_then(serde_json::from_value).unwrap_or_default()
    }

    fn value(&mut self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::from(self.text(text)),
            Value::Array(all) => all.iter().map(|value| self.value(value)).collect(),
            Value::Object(all) => {
                let fields = all.iter().map(|(key, value)| (self.text(key), self.value(value)));
                Value::Object(fields.collect())
            }
            other => other.clone(),
        }
    }

    /// Returns a text without names and addresses.
    pub fn text(&mut self, text: &str) -> String {
        let mut shown = String::with_capacity(text.len());
        let mut rest = text;
        let mut before = None;
        while let Some(c) = rest.chars().next() {
            let (taken, instead) = match self.found(rest, before) {
                Some((length, instead)) => (length, Some(instead)),
                None => (c.len_utf8(), None),
            };
            match instead {
                Some(instead) => shown.push_str(&instead),
                None => shown.push(c),
            }
            before = rest[..taken].chars().next_back();
            rest = &rest[taken..];
        }
        shown
    }

    /// Returns the length in bytes of something to hide at the start of `rest`, and its replacement.
    fn found(&mut self, rest: &str, before: Option<char>) -> Option<(usize, String)> {
        if let Some(home) = HOMES.into_iter().find(|home| rest.starts_with(home)) {
            let name = user_at(&rest[home.len()..]);
            let shown = (!name.is_empty()).then(|| self.user(name));
            return shown.map(|shown| (home.len() + name.len(), format!("{home}{shown}")));
        }
        if before.is_some_and(|c| c.is_alphanumeric()) {
            return self.address(rest, before);
        }
        // The shell's name of a user's folder.
        if let Some(path) = rest.strip_prefix('~') {
            let name = user_at(path);
            let there = path.starts_with(|c: char| c.is_ascii_alphabetic()) && path[name.len()..].starts_with('/');
            return there.then(|| (1 + name.len(), format!("~{}", self.user(name))));
        }
        if before == Some('_') {
            return self.address(rest, before).or_else(|| self.name(rest));
        }
        // Names that udev makes from a MAC address.
        if let Some(digits) = rest.strip_prefix("enx").and_then(|more| more.get(..12))
            && digits.bytes().all(|b| b.is_ascii_hexdigit())
        {
            return Some((15, format!("enx-{}", self.mac(digits))));
        }
        let found = self.address(rest, before).or_else(|| self.name(rest));
        let found = found.or_else(|| self.login(rest));
        found.or_else(|| self.whole_name(rest, before))
    }

    /// Finds a user's name before an `@` with a host behind it, in the form that `ssh` takes.
    fn login(&mut self, rest: &str) -> Option<(usize, String)> {
        let part = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let (name, host) = rest.split_once('@')?;
        let plain = name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(part);
        if !plain || COMMON.contains(&name) {
            return None;
        }
        let at = Some('@');
        let known = self.address(host, at).or_else(|| self.name(host));
        known.or_else(|| self.whole_name(host, at))?;
        Some((name.len(), self.user(name)))
    }

    /// Finds a known name of a host or a user.
    fn name(&self, rest: &str) -> Option<(usize, String)> {
        let ends = |length: usize, more: bool| {
            let after = rest.get(length..).and_then(|after| after.chars().next());
            !after.is_some_and(|c| c.is_alphanumeric() || !more && (c == '_' || c == '-'))
        };
        let host = self.hosts.iter().find(|(name, _)| {
            let here = rest
                .get(..name.len())
                .is_some_and(|here| here.eq_ignore_ascii_case(name));
            // A short name may also be part of an ordinary word.
            here && ends(name.len(), name.len() > 3)
        });
        let user = || {
            let known = self.users.iter().filter(|(name, _)| is_telling(name));
            let mut here = known.filter(|(name, _)| rest.starts_with(name.as_str()) && ends(name.len(), false));
            here.next()
        };
        host.map(|(name, shown)| (name.len(), shown.clone()))
            .or_else(|| user().map(|(name, shown)| (name.len(), shown.clone())))
    }

    /// Finds a full host name that is not known from elsewhere: three parts or more with dots between, or a last part
    /// that only names of hosts have.
    fn whole_name(&mut self, rest: &str, before: Option<char>) -> Option<(usize, String)> {
        let part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
        if matches!(before, Some('.' | '-')) || !rest.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return None;
        }
        let run = rest.find(|c: char| !part(c)).unwrap_or(rest.len());
        let name = rest[..run].trim_end_matches(['.', '-']);
        let parts: Vec<&str> = name.split('.').collect();
        let last = parts.last()?.to_ascii_lowercase();
        let word = last.len() >= 2 && last.bytes().all(|b| b.is_ascii_alphabetic());
        let whole = parts.iter().all(|part| !part.is_empty()) && word && !FILES.contains(&last.as_str());
        if !whole || parts.len() < 2 || parts.len() == 2 && !LOCAL.contains(&last.as_str()) {
            return None;
        }
        self.host(name);
        let lower = name.to_ascii_lowercase();
        let found = self.hosts.iter().find(|(known, _)| *known == lower);
        found.map(|(name, shown)| (name.len(), shown.clone()))
    }

    /// Finds the longest address that begins here.
    fn address(&mut self, rest: &str, before: Option<char>) -> Option<(usize, String)> {
        if before == Some('.') || !rest.starts_with(|c: char| c.is_ascii_hexdigit() || c == ':') {
            return None;
        }
        let part = |c: char| c.is_ascii_hexdigit() || ":.-".contains(c);
        let run = rest.find(|c: char| !part(c)).unwrap_or(rest.len()).min(45);
        let ends = |length: usize| {
            let mut after = rest[length..].chars();
            let next = after.next();
            let digit = after.next().is_some_and(|c| c.is_ascii_digit());
            !(next.is_some_and(|c| c.is_ascii_digit()) || next == Some('.') && digit)
        };
        let after = |length: usize| rest[length..].chars().next();
        // Letters may stand right before or behind an address, but none that could be a digit of it.
        let glued = |length: usize| [before, after(length)].into_iter().flatten().any(char::is_alphanumeric);
        let torn = |length: usize| {
            let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_hexdigit());
            digit(before) || digit(after(length))
        };
        if before.is_some_and(|c| c.is_ascii_digit()) {
            return None;
        }
        for length in (2..=run).rev().filter(|length| ends(*length)) {
            let text = &rest[..length];
            if is_mac(text) && (length > 12 || !torn(length)) {
                return Some((length, self.mac(text)));
            }
            match text.parse::<IpAddr>() {
                // A bare `::` has many other meanings.
                Ok(IpAddr::V6(Ipv6Addr::UNSPECIFIED)) | Err(_) => {}
                // So has a word with two colons.
                Ok(IpAddr::V6(_)) if glued(length) && (torn(length) || !looks_like_ipv6(text)) => {}
                Ok(ip) => {
                    let count = self.ips.len() + 1;
                    let shown = self.ips.entry(ip).or_insert_with(|| format!("ip-{count}"));
                    return Some((length, shown.clone()));
                }
            }
        }
        None
    }

    fn mac(&mut self, text: &str) -> String {
        let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
        let count = self.macs.len() + 1;
        let shown = self
            .macs
            .entry(digits.to_ascii_lowercase())
            .or_insert_with(|| format!("mac-{count}"));
        shown.clone()
    }
}

/// Returns whether a text is a MAC address: six pairs of digits with colons or hyphens between them; three groups of
/// four with dots; or twelve digits, of which one is a letter or the first is 0. No number has either.
fn is_mac(text: &str) -> bool {
    let groups = |by: char, count: usize| {
        let digits = |text: &str| text.len() == 12 / count && text.bytes().all(|b| b.is_ascii_hexdigit());
        text.split(by).count() == count && text.split(by).all(digits)
    };
    match text.len() {
        17 => groups(':', 6) || groups('-', 6),
        14 => groups('.', 3),
        12 => {
            let number = text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0');
            groups(':', 1) && !number
        }
        _ => false,
    }
}

/// Returns whether the first group has three digits or more, and the text has a digit that is not a letter: no path of
/// a program has both.
fn looks_like_ipv6(text: &str) -> bool {
    let first = text.split(':').next().unwrap_or_default();
    first.len() >= 3 && text.bytes().any(|b| b.is_ascii_digit())
}

/// Adds the names that the words of a command line give as addresses.
fn addressed<'w>(mut words: impl Iterator<Item = &'w str>, into: &mut Vec<String>) {
    while let Some(word) = words.next() {
        let (option, value) = match word.split_once('=') {
            Some((option, value)) if option.starts_with("--") => (option, Some(value)),
            _ => (word, None),
        };
        if ["--dest", "--src", "--gateway", "--back-gateway"].contains(&option) {
            into.extend(value.or_else(|| words.next()).map(str::to_owned));
        } else {
            into.extend(word.strip_prefix("udp:").map(str::to_owned));
        }
    }
}

/// Adds the texts of fields that contain a host's name.
fn named(value: &Value, key: &str, into: &mut Vec<String>) {
    let of_host = |key: &str| {
        let host = key.contains("hostname") || key.contains("host_name") || key == "host";
        host || ["dest", "src", "gateway", "destination_name"].contains(&key)
    };
    match value {
        Value::String(text) if of_host(key) => into.push(text.clone()),
        // A row of the differences between results begins with the name of the field.
        Value::Array(row) if row.first().and_then(Value::as_str).is_some_and(of_host) => {
            let field = row[0].as_str().unwrap_or_default();
            row[1..].iter().for_each(|value| named(value, field, into));
        }
        // A port, or a command line.
        Value::String(text) => addressed(text.split_whitespace(), into),
        Value::Array(all) => all.iter().for_each(|value| named(value, key, into)),
        Value::Object(all) => all.iter().for_each(|(key, value)| named(value, key, into)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn redactor() -> Redactor {
        let document = Document {
            command: [
                "mpps",
                "sendrecv",
                "udp:edge-1.lab.example:9000,gso=on",
                "--dest",
                "sink.lab.example:9000",
            ]
            .map(str::to_owned)
            .to_vec(),
            tester: json!({ "hostname": "Tester7" }),
            ..Document::default()
        };
        let mut redactor = Redactor::of(&document);
        // That of the host that the test runs on could be any.
        let own = |name: &str| {
            ["edge-1", "sink", "tester7", "drain"]
                .iter()
                .any(|known| name.starts_with(known))
        };
        redactor.hosts.retain(|(name, _)| own(name));
        redactor.users.clear();
        redactor
    }

    #[test]
    fn the_same_name_is_always_the_same() {
        let mut redactor = redactor();
        let shown = |r: &mut Redactor, text: &str| r.text(text);
        for (text, want) in [
            ("10.0.0.1-10.0.0.9,10.0.0.1", "ip-1-ip-2,ip-1"),
            ("udp:10.0.0.1:9000", "udp:ip-1:9000"),
            ("[fd99::1]:9000, FD99:0::1%eth0", "[ip-3]:9000, ip-3%eth0"),
            ("10.0.0.0/24.", "ip-4/24."),
            ("af_packet:10.0.0.2", "af_packet:ip-5"),
            (
                "02:00:5E:10:00:01 02-00-5e-10-00-01 enx02005e100001",
                "mac-1 mac-1 enx-mac-1",
            ),
            (
                "0200.5e10.0001 02005E100001 eth02005e100001 mac02:00:5e:10:00:01x",
                "mac-1 mac-1 ethmac-1 macmac-1x",
            ),
            ("ip10.0.0.1 eth1_10.0.0.1ms x10.0.0.2", "ipip-1 eth1_ip-1ms xip-5"),
            ("ethfd99::1 std::fs feed::back", "ethip-3 std::fs feed::back"),
            ("/home/ada/x.json", "/home/user-1/x.json"),
            (
                "/var/home/ada, /Users/ada: sudo -u ada canada",
                "/var/home/user-1, /Users/user-1: sudo -u user-1 canada",
            ),
            (
                "~ada/x ssh ada@10.0.0.1 bob@10.0.0.1: eth1@if2 10kpps@2s ~5 root@10.0.0.1 /homes/bob",
                "~user-1/x ssh user-1@ip-1 user-2@ip-1: eth1@if2 10kpps@2s ~5 root@ip-1 /homes/user-2",
            ),
            ("deadbeefcafe 020000000001 id=feedfacebead", "mac-2 mac-3 id=mac-4"),
            (
                "123456789012 packets, 3f2a9c0e packets, abcdef012345678",
                "123456789012 packets, 3f2a9c0e packets, abcdef012345678",
            ),
            (
                "results/report.html dpdk-22.11.tar.gz",
                "results/report.html dpdk-22.11.tar.gz",
            ),
            (
                "kernel 6.18.44, version 0.1.0, 1.2.3.4.5",
                "kernel 6.18.44, version 0.1.0, 1.2.3.4.5",
            ),
            (
                "at 10:20:30, ratio 0.99, 0000:3b:00.0, a::",
                "at 10:20:30, ratio 0.99, 0000:3b:00.0, a::",
            ),
        ] {
            let got = shown(&mut redactor, text);
            if text.ends_with("a::") {
                assert!(got.starts_with("at 10:20:30, ratio 0.99, 0000:3b:00.0, "), "{got}");
            } else {
                assert_eq!(got, want);
            }
        }
        let text = shown(
            &mut redactor,
            "tester7: edge-1 to EDGE-1.lab.example, sink.lab.example; sinking",
        );
        let words: Vec<_> = text.split(' ').collect();
        assert!(words[0].starts_with("host-") && words[1].starts_with("host-"), "{text}");
        assert_eq!(words[1], words[3].trim_end_matches(','), "{text}");
        assert!(text.ends_with("; sinking") && !text.contains("sink."), "{text}");
    }

    proptest! {
        #[test]
        fn no_address_is_left(a in any::<u32>(), b in any::<u128>(), mac in any::<[u8; 6]>(), junk in "\\PC{0,9}") {
            let (four, six) = (std::net::Ipv4Addr::from(a), Ipv6Addr::from(b));
            let mac = mac.map(|byte| format!("{byte:02x}")).join(":");
            let text = format!("{junk} {four} {junk} [{six}] {junk} {mac} {junk}");
            let shown = redactor().text(&text);
            prop_assert!(!shown.contains(&format!(" {four} ")), "{shown}");
            prop_assert!(six.is_unspecified() || !shown.contains(&format!("[{six}]")), "{shown}");
            prop_assert!(!shown.contains(&format!(" {mac} ")), "{shown}");
        }
    }
}
