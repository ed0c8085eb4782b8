//! Hides what says where a test was made: names of hosts and users, IP and MAC addresses. The same name has the same
//! replacement everywhere (`host-1`, `ip-2`), so that the text can still be followed.

use super::Document;
use serde_json::Value;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

/// The document without these.
pub fn document(document: &Document) -> Document {
    Redactor::of(document).document(document)
}

/// What is hidden, and as what it is shown.
#[derive(Debug, Default)]
pub struct Redactor {
    /// In lower case, the longest first.
    hosts: Vec<(String, String)>,
    /// How many hosts these are.
    count: usize,
    ips: HashMap<IpAddr, String>,
    macs: HashMap<String, String>,
    users: HashMap<String, String>,
}

impl Redactor {
    /// Finds the names of hosts that the document tells: where it has a field for one, and where a command line or a
    /// plan has an address.
    pub fn of(document: &Document) -> Self {
        let mut names = Vec::new();
        let value = serde_json::to_value(document).unwrap_or_default();
        named(&value, "", &mut names);
        let mut words = document.command.iter();
        while let Some(word) = words.next() {
            let (option, value) = match word.split_once('=') {
                Some((option, value)) if option.starts_with("--") => (option, Some(value)),
                _ => (word.as_str(), None),
            };
            if ["--dest", "--src", "--gateway", "--back-gateway"].contains(&option) {
                names.extend(
                    value
                        .or_else(|| words.as_slice().first().map(String::as_str))
                        .map(str::to_owned),
                );
            } else {
                names.extend(word.strip_prefix("udp:").map(str::to_owned));
            }
        }
        if let Ok(own) = rustix::system::uname().nodename().to_str() {
            names.push(own.to_owned());
        }
        let mut redactor = Self::default();
        for name in names {
            redactor.host(&name);
        }
        redactor.hosts.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        redactor
    }

    /// A name, perhaps with a port or options behind it.
    fn host(&mut self, text: &str) {
        let end = text.find([':', ',', '/', ' ']).unwrap_or(text.len());
        let name = text[..end].trim_matches('.').to_ascii_lowercase();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        // Of addresses others take care; a name without a letter is none.
        let letters = name.chars().any(|c| c.is_ascii_alphabetic());
        if name.len() < 2 || !letters || !name.chars().all(plain) || name == "localhost" {
            return;
        }
        if name.parse::<IpAddr>().is_ok() || self.hosts.iter().any(|(known, _)| *known == name) {
            return;
        }
        self.count += 1;
        let shown = format!("host-{}", self.count);
        // Its first part alone is as telling.
        let first = name.split('.').next().unwrap_or_default().to_owned();
        if first.len() >= 3 && first != name && !self.hosts.iter().any(|(known, _)| *known == first) {
            self.hosts.push((first, shown.clone()));
        }
        self.hosts.push((name, shown));
    }

    /// The document without these.
    pub fn document(&mut self, document: &Document) -> Document {
        let mut shown = document.clone();
        // The folder of the program says whose it is.
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

    /// A text without these.
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

    /// What begins here and is hidden: its bytes, and what is shown.
    fn found(&mut self, rest: &str, before: Option<char>) -> Option<(usize, String)> {
        if let Some(user) = rest.strip_prefix("/home/") {
            let end = user.find(|c: char| "/ '\",:;".contains(c)).unwrap_or(user.len());
            let count = self.users.len() + 1;
            let name = self
                .users
                .entry(user[..end].to_owned())
                .or_insert_with(|| format!("user-{count}"));
            return (end > 0).then(|| ("/home/".len() + end, format!("/home/{name}")));
        }
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
            return None;
        }
        // Names that udev makes of a MAC address.
        if let Some(digits) = rest.strip_prefix("enx").and_then(|more| more.get(..12))
            && digits.bytes().all(|b| b.is_ascii_hexdigit())
        {
            return Some((15, format!("enx-{}", self.mac(digits))));
        }
        self.address(rest, before).or_else(|| self.name(rest))
    }

    fn name(&self, rest: &str) -> Option<(usize, String)> {
        let found = self.hosts.iter().find(|(name, _)| {
            let here = rest
                .get(..name.len())
                .is_some_and(|here| here.eq_ignore_ascii_case(name));
            let after = rest.get(name.len()..).and_then(|after| after.chars().next());
            here && !after.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '-')
        });
        found.map(|(name, shown)| (name.len(), shown.clone()))
    }

    /// The longest address that begins here.
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
            !(next.is_some_and(|c| c.is_alphanumeric() || c == '_') || next == Some('.') && digit)
        };
        for length in (2..=run).rev().filter(|length| ends(*length)) {
            let text = &rest[..length];
            if is_mac(text) {
                return Some((length, self.mac(text)));
            }
            match text.parse::<IpAddr>() {
                // A bare :: stands for much else.
                Ok(IpAddr::V6(Ipv6Addr::UNSPECIFIED)) | Err(_) => {}
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

/// Six pairs of digits, colons or hyphens between them.
fn is_mac(text: &str) -> bool {
    let digits = |text: &str| text.len() == 2 && text.bytes().all(|b| b.is_ascii_hexdigit());
    text.len() == 17
        && [':', '-']
            .iter()
            .any(|by| text.split(*by).count() == 6 && text.split(*by).all(digits))
}

/// Texts of fields that hold a host's name.
fn named(value: &Value, key: &str, into: &mut Vec<String>) {
    match value {
        Value::String(text) if key.contains("hostname") || key.contains("host_name") || key == "host" => {
            into.push(text.clone());
        }
        Value::String(text) if ["dest", "src", "gateway", "destination_name"].contains(&key) => into.push(text.clone()),
        Value::String(text) if key == "ports" => into.extend(text.strip_prefix("udp:").map(str::to_owned)),
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
            ["edge-1", "sink", "tester7"]
                .iter()
                .any(|known| name.starts_with(known))
        };
        redactor.hosts.retain(|(name, _)| own(name));
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
            ("/home/ada/x.json", "/home/user-1/x.json"),
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
