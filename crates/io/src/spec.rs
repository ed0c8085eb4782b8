//! How a port is written: `PATH:DEVICE[,key=value…]`.

use crate::RxTime;
use std::fmt;
use std::str::FromStr;

/// A port as the user wrote it, split but not yet interpreted: `af_packet:eth1,queues=2`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSpec {
    /// `udp`, `af_packet`, …
    pub path: String,
    /// Device that the path opens: an address, an interface; empty for paths that open nothing.
    pub device: String,
    /// Options in the order written.
    pub options: Vec<(String, String)>,
}

/// Longest name of an interface: an alternative one (`ALTIFNAMSIZ` less the terminating zero).
const NAME_MAX: usize = 127;

/// A port specification that can't be used; one line, naming what was wrong and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SpecError(pub String);

/// Name of the path that a text in front of a port's colon means: the kernel's headers and other tools write
/// `AF_PACKET` and `af-xdp`.
pub fn path_name(text: &str) -> String {
    text.to_ascii_lowercase().replace('-', "_")
}

impl FromStr for PortSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let Some((path, rest)) = text.split_once(':').filter(|(path, _)| !path.is_empty()) else {
            return Err(SpecError(format!(
                "port '{text}': want PATH:DEVICE[,key=value…], such as udp:127.0.0.1:9000, af_packet:eth1 or loop:"
            )));
        };
        let mut parts = rest.split(',');
        let device = parts.next().unwrap_or_default().to_owned();
        let mut spec = Self {
            path: path_name(path),
            device,
            options: Vec::new(),
        };
        // A path without a device may start with its options: `loop:delay=1ms`.
        let mut pending: Vec<&str> = parts.collect();
        if spec.device.contains('=') {
            let first = std::mem::take(&mut spec.device);
            return Self::with_options(spec, std::iter::once(first.as_str()).chain(pending.drain(..)), text);
        }
        Self::with_options(spec, pending.drain(..), text)
    }
}

impl PortSpec {
    fn with_options<'a>(mut self, parts: impl Iterator<Item = &'a str>, text: &str) -> Result<Self, SpecError> {
        for part in parts {
            let Some((key, value)) = part.split_once('=').filter(|(k, v)| !k.is_empty() && !v.is_empty()) else {
                let word = part.split(|c: char| !is_of_key(c)).next().unwrap_or_default();
                // A secret with a comma in it: the words after the comma are the rest of it.
                if is_secret(word) || self.options.iter().any(|(key, _)| is_secret(key)) {
                    return Err(SpecError(format!(
                        "port '{self},{HIDDEN}': an option is not of the form key=value; a secret has no comma in it"
                    )));
                }
                let digit = |text: Option<char>| text.is_some_and(|c| c.is_ascii_digit());
                let before = self.options.last().and_then(|(_, value)| value.chars().last());
                let why = match digit(before) && digit(part.chars().next()) {
                    true => " (a comma ends an option: decimals have a point)",
                    false => "",
                };
                return Err(SpecError(hide_secrets(&format!(
                    "port '{text}': option '{part}' is not of the form key=value{why}"
                ))));
            };
            if self.options.iter().any(|(k, _)| k == key) {
                let twice = format!("port '{text}': option '{key}' is given twice");
                return Err(SpecError(hide_secrets(&twice)));
            }
            self.options.push((key.to_owned(), value.to_owned()));
        }
        Ok(self)
    }

    /// The device as the name of a network interface, of a path that opens one.
    ///
    /// # Errors
    /// When no interface can have this name.
    pub fn interface(&self) -> Result<String, SpecError> {
        let device = &self.device;
        let impossible = device.is_empty() || device.len() > NAME_MAX || device == "." || device == "..";
        if impossible || device.contains(|c: char| c == '/' || c.is_whitespace() || c.is_control()) {
            return Err(SpecError(format!(
                "port '{self}': interface '{device}': want the name of a network interface (1 to {NAME_MAX} \
                 characters), such as {}:eth1",
                self.path
            )));
        }
        Ok(device.clone())
    }

    /// The options, to be taken one by one by the path; [`SpecOptions::finish`] then refuses what is left.
    pub fn take_options(&self) -> SpecOptions<'_> {
        SpecOptions {
            spec: self,
            taken: Vec::new(),
        }
    }
}

/// Text that is shown in place of a secret.
const HIDDEN: &str = "…";

/// A text without the values of options `secret=`, and of those that were meant to be one: `Secret=`, `secrt=`.
pub fn hide_secrets(text: &str) -> String {
    // A port, or any other word: a secret may have all that stands up to the next option.
    let word = !text.contains(char::is_whitespace);
    let ends: &[char] = if word { &[','] } else { &[',', '\'', '"', ';', '\n'] };
    let (mut hidden, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find('=') {
        let (before, after) = (&rest[..at], &rest[at + 1..]);
        let key = before.rsplit(|c: char| !is_of_key(c)).next().unwrap_or_default();
        hidden += &rest[..=at];
        rest = after;
        if is_secret(key) {
            let end = after.find(ends).unwrap_or(after.len());
            hidden += HIDDEN;
            rest = &after[end..];
        }
    }
    hidden + rest
}

/// Whether an option's name may have this character.
fn is_of_key(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether an option is `secret`, or was meant to be: another case, one letter missing, one too many, another or two
/// exchanged, or words with it.
fn is_secret(key: &str) -> bool {
    const SECRET: &[u8] = b"secret";
    let key = key.to_ascii_lowercase();
    if key.contains("secret") || key.contains("passw") {
        return true;
    }
    // A few letters: each way to write the word wrongly is gone through from both ends.
    let key = key.as_bytes();
    let common = |a: &mut dyn Iterator<Item = (&u8, &u8)>| a.take_while(|(a, b)| a == b).count();
    let head = common(&mut key.iter().zip(SECRET));
    let tail = common(&mut key.iter().rev().zip(SECRET.iter().rev()));
    match (key.len(), SECRET.len()) {
        (a, b) if a == b => {
            let exchanged = head + tail + 2 == b && (key[head], key[head + 1]) == (SECRET[head + 1], SECRET[head]);
            head + tail + 1 >= b || exchanged
        }
        (a, b) if a.abs_diff(b) == 1 => head + tail >= a.min(b),
        _ => false,
    }
}

impl fmt::Display for PortSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, &|_| true)
    }
}

impl PortSpec {
    /// The port with the values of these options only: one that is misspelt may be a secret.
    pub fn with_values_of(&self, known: &dyn Fn(&str) -> bool) -> String {
        let mut text = String::new();
        // A text takes all.
        let _ = self.write(&mut text, known);
        text
    }

    fn write(&self, out: &mut dyn fmt::Write, known: &dyn Fn(&str) -> bool) -> fmt::Result {
        write!(out, "{}:{}", self.path, self.device)?;
        for (i, (key, value)) in self.options.iter().enumerate() {
            let comma = if i == 0 && self.device.is_empty() { "" } else { "," };
            // A secret is in no report and no error.
            let shown = known(key) && !is_secret(key);
            let value = if shown { value.as_str() } else { HIDDEN };
            write!(out, "{comma}{key}={value}")?;
        }
        Ok(())
    }
}

/// Takes typed options out of a [`PortSpec`], remembering which names the path knows.
pub struct SpecOptions<'s> {
    spec: &'s PortSpec,
    taken: Vec<&'static str>,
}

impl SpecOptions<'_> {
    /// The option `key`, parsed by `parse`; `None` when it was not given. `want` completes "…: want".
    ///
    /// # Errors
    /// When `parse` refuses the value.
    pub fn get<T>(
        &mut self,
        key: &'static str,
        want: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, SpecError> {
        self.taken.push(key);
        let Some((_, value)) = self.spec.options.iter().find(|(k, _)| k == key) else {
            return Ok(None);
        };
        match parse(value) {
            Some(value) => Ok(Some(value)),
            None => Err(SpecError(format!("port '{}': {key}={value}: want {want}", self.spec))),
        }
    }

    /// The option `key` as a whole number within `range`.
    ///
    /// # Errors
    /// When it is no such number.
    pub fn number(
        &mut self,
        key: &'static str,
        range: std::ops::RangeInclusive<u64>,
    ) -> Result<Option<u64>, SpecError> {
        let want = format!("a whole number from {} to {}", range.start(), range.end());
        self.get(key, &want, |v| v.parse().ok().filter(|n| range.contains(n)))
    }

    /// The option `key` as a switch: `on`/`off`, `yes`/`no`, `true`/`false`, `1`/`0`.
    ///
    /// # Errors
    /// When it is none of these.
    pub fn switch(&mut self, key: &'static str) -> Result<Option<bool>, SpecError> {
        self.get(key, "on or off", |v| match v {
            "on" | "yes" | "true" | "1" => Some(true),
            "off" | "no" | "false" | "0" => Some(false),
            _ => None,
        })
    }

    /// The option `rx_time`: who takes the time of arrival. A switch is understood, too: on is the kernel.
    ///
    /// # Errors
    /// When it is another word, or `hardware`, which no path can do yet.
    pub fn rx_time(&mut self) -> Result<Option<RxTime>, SpecError> {
        let taken_by = self.get("rx_time", "lane or kernel", |v| match v {
            "lane" | "off" | "no" | "false" | "0" => Some(RxTime::Lane),
            "kernel" | "on" | "yes" | "true" | "1" => Some(RxTime::Kernel),
            "hardware" => Some(RxTime::Hardware),
            _ => None,
        })?;
        match taken_by {
            Some(RxTime::Hardware) => Err(SpecError(format!(
                "port '{}': rx_time=hardware: no clock of a card is read by this path yet: want kernel or lane",
                self.spec
            ))),
            taken_by => Ok(taken_by),
        }
    }

    /// Refuses options that no call has asked for.
    ///
    /// # Errors
    /// Names the first unknown option and lists those that the path knows.
    pub fn finish(self) -> Result<(), SpecError> {
        match self
            .spec
            .options
            .iter()
            .find(|(k, _)| !self.taken.contains(&k.as_str()))
        {
            None => Ok(()),
            Some((key, _)) if self.taken.is_empty() => Err(SpecError(format!(
                "port '{}': unknown option '{key}': {}: takes none",
                self.spec, self.spec.path
            ))),
            Some((key, _)) => Err(SpecError(format!(
                "port '{}': unknown option '{key}': {}: takes {}",
                self.spec,
                self.spec.path,
                self.taken.join(", ")
            ))),
        }
    }
}
