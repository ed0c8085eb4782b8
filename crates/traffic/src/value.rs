//! Values of a field: constants, and values that vary by packet.

use crate::headers::{FLAGS, Kind};
use crate::text::{Read, Span, Wrong, quoted};
use mpps_wire::vary::{scaled, shuffled};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Most entries of a list, and of a mix of sizes.
pub(crate) const MOST_ENTRIES: u64 = 65_536;
/// Most fields that vary in a packet.
pub(crate) const MOST_FIELDS: usize = 16;
/// Most different values of a list.
const MOST_VALUES: usize = 256;

/// Values of a field, by the number of the flow or of the packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The same value in each packet.
    Constant(u128),
    /// `start + step * i` for `i` below `count`, then again.
    Counter {
        /// First value.
        start: u128,
        /// Difference from one value to the next.
        step: i128,
        /// Number of values.
        count: u64,
    },
    /// The values in this order, then again.
    Table(Vec<u128>),
    /// Random values from `low` on.
    Random {
        /// Lowest value.
        low: u128,
        /// Highest value.
        high: u128,
        /// Number of values after which they come again; `None`: they never do.
        period: Option<u64>,
    },
    /// Each value once, in a random order, then again.
    Shuffle {
        /// Lowest value.
        low: u128,
        /// Number of values, 2^32 at most.
        count: u64,
    },
    /// Value of another field of the packet, plus a number.
    Same {
        /// Header and name of the field, as written.
        of: String,
        /// Number to add.
        plus: i128,
    },
    /// Number from 49152 to 65535 made of the addresses and ports of the inner packet (RFC 7348, section 5).
    InnerHash,
    /// Checksum that is wrong.
    Bad,
}

impl Source {
    /// Returns the number of values after which they come again; `None` if they never do, or if another field says so.
    pub fn period(&self) -> Option<u64> {
        match self {
            Self::Constant(_) | Self::Bad => Some(1),
            Self::Counter { count, .. } | Self::Shuffle { count, .. } => Some(*count),
            Self::Table(values) => Some(values.len() as u64),
            Self::Random { period, .. } => *period,
            Self::Same { .. } | Self::InnerHash => None,
        }
    }

    /// Returns value `i`, for one field of a stream, whose random values begin with `seed`. `None` for values that
    /// depend on others.
    pub fn at(&self, i: u64, seed: u64) -> Option<u128> {
        Some(match self {
            Self::Constant(value) => *value,
            Self::Counter { start, step, count } => {
                start.wrapping_add_signed(step.wrapping_mul(i128::from(i % (*count).max(1))))
            }
            Self::Table(values) => *values.get((i % values.len().max(1) as u64) as usize)?,
            Self::Random { low, high, period } => {
                let i = period.map_or(i, |period| i % period.max(1));
                low + scaled(i, seed, high - low)
            }
            Self::Shuffle { low, count } => low + u128::from(shuffled(i % (*count).max(1), *count, seed)),
            Self::Same { .. } | Self::InnerHash | Self::Bad => return None,
        })
    }

    /// Returns the lowest and the highest value; `None` for values that depend on others.
    pub(crate) fn bounds(&self) -> Option<(u128, u128)> {
        Some(match self {
            Self::Constant(value) => (*value, *value),
            Self::Counter { start, step, count } => {
                let last = step.checked_mul(i128::from(count.saturating_sub(1)))?;
                let last = start.checked_add_signed(last)?;
                (*start.min(&last), *start.max(&last))
            }
            Self::Table(values) => (*values.iter().min()?, *values.iter().max()?),
            Self::Random { low, high, .. } => (*low, *high),
            Self::Shuffle { low, count } => (*low, low.checked_add(u128::from(count.saturating_sub(1)))?),
            Self::InnerHash => (0xc000, 0xffff),
            Self::Same { .. } | Self::Bad => return None,
        })
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Same { of, plus } if *plus != 0 => write!(f, "{of}{plus:+}"),
            Self::Same { of, .. } => f.write_str(of),
            other => write!(f, "{other:?}"),
        }
    }
}

/// Returns the values by their weights, each as evenly spread as can be (smooth weighted round-robin).
///
/// # Errors
/// Names a list that is too long.
pub(crate) fn spread<T: Copy>(weighted: &[(T, u64)], text: &str, at: &Span) -> Read<Vec<T>> {
    let common = weighted
        .iter()
        .fold(0, |common, (_, weight)| greatest_common_divisor(common, *weight))
        .max(1);
    let total: i128 = weighted.iter().map(|(_, weight)| i128::from(weight / common)).sum();
    if weighted.len() > MOST_VALUES || total > i128::from(MOST_ENTRIES) {
        let line = format!(
            "{}: want {MOST_VALUES} values, and weights of {MOST_ENTRIES} in all, at most",
            quoted(text)
        );
        return Err(Wrong::new(at.clone(), line));
    }
    let mut credit = vec![0i128; weighted.len()];
    let mut order = Vec::with_capacity(total.max(0) as usize);
    for _ in 0..total {
        for (credit, (_, weight)) in credit.iter_mut().zip(weighted) {
            *credit += i128::from(weight / common);
        }
        // The first of those with most.
        let next = (0..credit.len()).rev().max_by_key(|at| credit[*at]).unwrap_or(0);
        credit[next] -= total;
        order.push(weighted[next].0);
    }
    Ok(order)
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// Field whose value is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) kind: Kind,
    pub(crate) width: u32,
    /// Checksum: `bad` and `auto` are values.
    pub(crate) sum: bool,
    /// Address of a host: a network means its hosts.
    pub(crate) host: bool,
}

/// Returns the greatest value of so many bits.
pub(crate) fn ones(width: u32) -> u128 {
    match width {
        0 => 0,
        width => u128::MAX >> (128 - width.min(128)),
    }
}

impl Shape {
    fn want(&self) -> String {
        match self.kind {
            Kind::Mac => "want a MAC address, such as 02:00:00:00:00:01".into(),
            Kind::Ipv4 => "want an IPv4 address, such as 10.0.0.1".into(),
            Kind::Ipv6 => "want an IPv6 address, such as 2001:db8::1".into(),
            Kind::Flags => format!("want {} joined by '+', or a number up to 255", FLAGS.join(", ")),
            Kind::Bytes => "want pairs of hexadecimal digits, such as 0800cafe".into(),
            Kind::Segments => "want IPv6 addresses in braces, the next first, such as {2001:db8::1,2001:db8::2}".into(),
            Kind::Bare => "want no value".into(),
            Kind::Decimal | Kind::Hex => match ones(self.width) {
                most if most > 9999 => format!("want 0 to {most} or {most:#x}"),
                most => format!("want 0 to {most}"),
            },
        }
    }

    /// Reads one value.
    pub(crate) fn one(&self, text: &str, at: &Span) -> Read<u128> {
        let wrong = || Wrong::new(at.clone(), format!("{}: {}", quoted(text), self.want()));
        let value = match self.kind {
            Kind::Mac => mac(text),
            Kind::Ipv4 => text.parse().ok().map(Ipv4Addr::to_bits).map(u128::from),
            Kind::Ipv6 => text.parse().ok().map(Ipv6Addr::to_bits),
            Kind::Flags => flags(text).or_else(|| number(text)),
            _ => number(text),
        };
        value.filter(|value| *value <= ones(self.width)).ok_or_else(wrong)
    }

    /// Reads a difference: a number, or an address of the same form.
    fn step(&self, text: &str, at: &Span) -> Read<i128> {
        let (sign, text) = match text.strip_prefix('-') {
            Some(text) => (-1, text),
            None => (1, text),
        };
        let step = match number(text) {
            Some(step) => step,
            None => self.one(text, at)?,
        };
        let step = i128::try_from(step)
            .ok()
            .filter(|step| *step > 0)
            .map(|step| step * sign);
        step.ok_or_else(|| {
            Wrong::new(
                at.clone(),
                format!("step {}: want a number that is not 0", quoted(text)),
            )
        })
    }

    /// Reads the values of a field. `step` is the text and place of the word behind `step`.
    pub(crate) fn values(&self, text: &str, at: &Span, step: Option<(&str, Span)>) -> Read<Source> {
        let read = self.without_step(text, at)?;
        let Some((step, step_at)) = step else { return Ok(read) };
        let Source::Counter {
            start,
            step: one,
            count,
        } = read
        else {
            return Err(Wrong::new(step_at, "step: it goes with a range A..B, or with A*COUNT"));
        };
        let by = self.step(step, &step_at)?;
        let stepped = match text.contains("..") || text.contains('/') {
            true => {
                // The end of the range is reached, or passed by less than a step.
                let span = i128::from(count - 1);
                let by = by.abs();
                let count = (span / by + 1) as u64;
                Source::Counter {
                    start,
                    step: by * one.signum(),
                    count,
                }
            }
            false => Source::Counter { start, step: by, count },
        };
        self.within(stepped, text, at)
    }

    /// Returns the values if all are values of the field.
    fn within(&self, source: Source, text: &str, at: &Span) -> Read<Source> {
        let inside = source.bounds().is_none_or(|(_, high)| high <= ones(self.width));
        let reaches = !matches!(source, Source::Counter { .. }) || source.bounds().is_some();
        if inside && reaches {
            return Ok(source);
        }
        Err(Wrong::new(
            at.clone(),
            format!("{}: it leaves the field: {}", quoted(text), self.want()),
        ))
    }

    fn without_step(&self, text: &str, at: &Span) -> Read<Source> {
        let wrong = |line: String| Err(Wrong::new(at.clone(), line));
        if self.sum && text == "bad" {
            return Ok(Source::Bad);
        }
        if text == "inner-hash" {
            return match (self.kind, self.width) {
                (Kind::Decimal, 16) => Ok(Source::InnerHash),
                _ => wrong("inner-hash: it is a value of a UDP port alone".into()),
            };
        }
        if let Some(inside) = call(text, "random") {
            return self.random(inside, text, at);
        }
        if let Some((inside, rest)) = call(text, "shuffle") {
            if !rest.is_empty() {
                return wrong(format!("{}: want nothing behind shuffle(…)", quoted(text)));
            }
            let (low, high) = self.range(inside, at)?;
            let Some(count) = u64::try_from(high - low)
                .ok()
                .and_then(|n| n.checked_add(1))
                .filter(|n| *n <= 1 << 32)
            else {
                return wrong(format!("{}: want 2^32 values at most", quoted(text)));
            };
            return Ok(Source::Shuffle { low, count });
        }
        if let Some(name) = ["random", "shuffle"].into_iter().find(|name| text.starts_with(name)) {
            return wrong(format!("{}: want {name}(FIRST..LAST)", quoted(text)));
        }
        if let Some(list) = text.strip_prefix('{') {
            let Some(list) = list.strip_suffix('}') else {
                return wrong(format!("{}: want a '}}' at its end", quoted(text)));
            };
            return self.list(list, text, at);
        }
        if let Some((first, last)) = text.split_once("..") {
            let (first, last) = (self.one(first, at)?, self.one(last, at)?);
            let step = if first <= last { 1 } else { -1 };
            let Ok(count) = u64::try_from(first.abs_diff(last)) else {
                return wrong(format!("{}: want 2^64 values at most", quoted(text)));
            };
            return Ok(Source::Counter {
                start: first,
                step,
                count: count.saturating_add(1),
            });
        }
        if let Some((first, count)) = text.split_once('*') {
            let start = self.one(first, at)?;
            let count = self.count(count, text, at)?;
            return self.within(Source::Counter { start, step: 1, count }, text, at);
        }
        if matches!(self.kind, Kind::Ipv4 | Kind::Ipv6 | Kind::Mac) && text.contains('/') {
            let (low, high) = self.range(text, at)?;
            let Ok(count) = u64::try_from(high - low) else {
                return wrong(format!(
                    "{}: want 2^64 values at most: random({text}) has any number",
                    quoted(text)
                ));
            };
            return Ok(match count {
                0 => Source::Constant(low),
                count => Source::Counter {
                    start: low,
                    step: 1,
                    count: count.saturating_add(1),
                },
            });
        }
        // Flags of TCP have the names of fields.
        match self.one(text, at) {
            Ok(value) => Ok(Source::Constant(value)),
            Err(wrong) => other_field(text).ok_or(wrong),
        }
    }

    fn count(&self, count: &str, text: &str, at: &Span) -> Read<u64> {
        let count = count.parse().ok().filter(|count| *count > 0);
        count.ok_or_else(|| {
            Wrong::new(
                at.clone(),
                format!("{}: want a number of values behind '*'", quoted(text)),
            )
        })
    }

    fn random(&self, (inside, rest): (&str, &str), text: &str, at: &Span) -> Read<Source> {
        let (low, high) = self.range(inside, at)?;
        let period = match rest {
            "" => None,
            rest => match rest.strip_prefix('*') {
                Some(period) => Some(self.count(period, text, at)?),
                None => {
                    let line = format!("{}: want nothing behind random(…), or *COUNT", quoted(text));
                    return Err(Wrong::new(at.clone(), line));
                }
            },
        };
        Ok(Source::Random { low, high, period })
    }

    /// Reads `A..B`, a network, or one value.
    fn range(&self, text: &str, at: &Span) -> Read<(u128, u128)> {
        let text = text.trim();
        if let Some((low, high)) = text.split_once("..") {
            let (low, high) = (self.one(low.trim(), at)?, self.one(high.trim(), at)?);
            if low > high {
                return Err(Wrong::new(
                    at.clone(),
                    format!("{}: want the lower end first", quoted(text)),
                ));
            }
            return Ok((low, high));
        }
        let Some((address, bits)) = text.split_once('/') else {
            let one = self.one(text, at)?;
            return Ok((one, one));
        };
        let first = self.one(address, at)?;
        let bits: u32 = match bits.parse() {
            Ok(bits) if bits <= self.width => bits,
            _ => {
                let line = format!("{}: want 0 to {} bits behind '/'", quoted(text), self.width);
                return Err(Wrong::new(at.clone(), line));
            }
        };
        let inner = ones(self.width - bits);
        if first & inner != 0 {
            let line = format!(
                "{}: bits behind the prefix are set: want {}",
                quoted(text),
                self.text(first & !inner)
            );
            return Err(Wrong::new(at.clone(), format!("{line}/{bits}")));
        }
        // As on the command line: hosts alone (RFC 3021, RFC 4291, RFC 6164).
        Ok(match (self.host, self.kind, self.width - bits) {
            (true, Kind::Ipv4, 2..) => (first + 1, first + inner - 1),
            (true, Kind::Ipv6, 2..) => (first + 1, first + inner),
            _ => (first, first + inner),
        })
    }

    /// Reads `80*7, 443*3`.
    fn list(&self, list: &str, text: &str, at: &Span) -> Read<Source> {
        let mut weighted = Vec::new();
        for entry in list.split(',') {
            let (value, weight) = match entry.trim().split_once('*') {
                Some((value, weight)) => (value.trim(), self.count(weight.trim(), text, at)?),
                None => (entry.trim(), 1),
            };
            if let Some((value, weight)) = value.split_once(':')
                && self.one(value, at).is_ok()
                && number(weight).is_some()
            {
                let line = format!("{}: want the weight behind '*': {value}*{weight}", quoted(text));
                return Err(Wrong::new(at.clone(), line));
            }
            weighted.push((self.one(value, at)?, weight));
        }
        Ok(Source::Table(spread(&weighted, text, at)?))
    }

    /// Returns a value as it is written.
    pub(crate) fn text(&self, value: u128) -> String {
        text_of(self.kind, value)
    }
}

/// Returns a value of a kind as it is written.
pub(crate) fn text_of(kind: Kind, value: u128) -> String {
    match kind {
        Kind::Mac => mpps_wire::MacAddr((value as u64).to_be_bytes()[2..].try_into().unwrap_or_default()).to_string(),
        Kind::Ipv4 => Ipv4Addr::from_bits(value as u32).to_string(),
        Kind::Ipv6 => Ipv6Addr::from_bits(value).to_string(),
        Kind::Hex => format!("{value:#x}"),
        Kind::Flags => match FLAGS.iter().enumerate().filter(|(bit, _)| value >> bit & 1 == 1) {
            set if set.clone().next().is_none() => "0".into(),
            set => set.map(|(_, name)| *name).collect::<Vec<_>>().join("+"),
        },
        _ => value.to_string(),
    }
}

/// Returns what is between the parentheses of `NAME(…)`, and what follows.
fn call<'t>(text: &'t str, name: &str) -> Option<(&'t str, &'t str)> {
    let inside = text.strip_prefix(name)?.strip_prefix('(')?;
    inside.split_once(')')
}

/// Reads a number in decimal or, behind `0x`, in hexadecimal.
pub(crate) fn number(text: &str) -> Option<u128> {
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (digits, radix) = hex.map_or((text, 10), |digits| (digits, 16));
    // The standard library takes a sign, too, and testpmd reads 0800 as octal.
    let octal = radix == 10 && digits.len() > 1 && digits.starts_with('0');
    let valid = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    (valid && !octal)
        .then(|| u128::from_str_radix(digits, radix).ok())
        .flatten()
}

fn mac(text: &str) -> Option<u128> {
    let mut value = 0;
    let mut pairs = 0;
    for pair in text.split(':') {
        let digits = (1..=2).contains(&pair.len()) && pair.bytes().all(|byte| byte.is_ascii_hexdigit());
        value = value << 8 | u128::from_str_radix(pair, 16).ok().filter(|_| digits && pairs < 6)?;
        pairs += 1;
    }
    (pairs == 6).then_some(value)
}

fn flags(text: &str) -> Option<u128> {
    let bit = |name: &str| FLAGS.iter().position(|flag| *flag == name).map(|at| 1u128 << at);
    text.split('+').try_fold(0, |all, name| Some(all | bit(name)?))
}

/// Reads bytes in hexadecimal.
pub(crate) fn bytes(text: &str, at: &Span) -> Read<Vec<u8>> {
    let wrong = || {
        let line = format!("{}: want pairs of hexadecimal digits, such as 0800cafe", quoted(text));
        Wrong::new(at.clone(), line)
    };
    if text.is_empty() || !text.is_ascii() || !text.len().is_multiple_of(2) {
        return Err(wrong());
    }
    let pair = |at: usize| {
        let pair = &text[at..at + 2];
        let digits = pair.bytes().all(|byte| byte.is_ascii_hexdigit());
        digits.then(|| u8::from_str_radix(pair, 16).ok()).flatten()
    };
    (0..text.len())
        .step_by(2)
        .map(pair)
        .collect::<Option<_>>()
        .ok_or_else(wrong)
}

/// Reads `src`, `udp.src`, `ipv4[2].src`, each with `+N` or `-N` behind it.
fn other_field(text: &str) -> Option<Source> {
    let sign = text.find(['+', '-']);
    let (of, plus) = match sign {
        Some(at) => {
            let number = i128::try_from(number(&text[at + 1..])?).ok()?;
            (&text[..at], if text[at..].starts_with('-') { -number } else { number })
        }
        None => (text, 0),
    };
    let field = of.rsplit('.').next()?;
    let known = crate::headers::INFO
        .iter()
        .flat_map(|info| info.fields)
        .any(|known| known.name == field);
    let first = of.chars().next()?;
    let hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    (known && first.is_ascii_alphabetic() && !hex(of)).then(|| Source::Same {
        of: of.to_owned(),
        plus,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shape(kind: Kind, width: u32) -> Shape {
        Shape {
            kind,
            width,
            sum: false,
            host: true,
        }
    }

    fn read(kind: Kind, width: u32, text: &str) -> Result<Source, String> {
        shape(kind, width)
            .values(text, &(0..text.len()), None)
            .map_err(|wrong| wrong.line)
    }

    fn first(source: &Source, n: u64) -> Vec<u128> {
        (0..n).map(|i| source.at(i, 7).expect("a value of its own")).collect()
    }

    #[test]
    fn a_range_goes_up_or_down_and_comes_again() {
        let source = read(Kind::Decimal, 16, "10..12").unwrap();
        assert_eq!(first(&source, 5), [10, 11, 12, 10, 11]);
        let source = read(Kind::Decimal, 16, "3..1").unwrap();
        assert_eq!(first(&source, 4), [3, 2, 1, 3]);
    }

    #[test]
    fn a_step_is_a_number_or_an_address() {
        let ip = shape(Kind::Ipv6, 128);
        let text = "2001:db8::1..2001:db8::7";
        let source = ip.values(text, &(0..3), Some(("::2", 0..3))).unwrap();
        assert_eq!(source.period(), Some(4));
        let port = shape(Kind::Decimal, 16);
        let source = port.values("100*3", &(0..3), Some(("-50", 0..3))).unwrap();
        assert_eq!(first(&source, 4), [100, 50, 0, 100]);
        assert!(port.values("100*4", &(0..3), Some(("-50", 0..3))).is_err(), "below 0");
        assert!(port.values("100", &(0..3), Some(("2", 0..3))).is_err(), "no range");
    }

    #[test]
    fn a_network_means_its_hosts() {
        assert_eq!(read(Kind::Ipv4, 32, "10.0.0.0/30").unwrap().period(), Some(2));
        assert_eq!(read(Kind::Ipv4, 32, "10.0.0.0/31").unwrap().period(), Some(2));
        assert_eq!(read(Kind::Ipv6, 128, "2001:db8::/120").unwrap().period(), Some(255));
        let line = read(Kind::Ipv4, 32, "10.0.0.1/24").unwrap_err();
        assert!(line.contains("want 10.0.0.0/24"), "{line}");
    }

    #[test]
    fn a_network_with_a_step_stays_within_it() {
        let ip = shape(Kind::Ipv4, 32);
        let source = ip.values("10.0.0.0/24", &(0..3), Some(("2", 0..3))).unwrap();
        assert_eq!(
            (source.period(), source.bounds()),
            (Some(127), Some((0x0a00_0001, 0x0a00_00fd)))
        );
    }

    #[test]
    fn each_flag_is_a_value_also_where_a_field_has_its_name() {
        for (bit, name) in FLAGS.iter().enumerate() {
            assert_eq!(read(Kind::Flags, 8, name), Ok(Source::Constant(1 << bit)), "{name}");
        }
    }

    #[test]
    fn a_list_has_each_value_as_often_as_its_weight_says() {
        let source = read(Kind::Decimal, 16, "{80*7, 443*3}").unwrap();
        let values = first(&source, 10);
        assert_eq!(values.iter().filter(|port| **port == 80).count(), 7);
        // No value waits for longer than its share.
        assert!(values.windows(4).all(|four| four.contains(&80)), "{values:?}");
    }

    #[test]
    fn a_value_outside_the_field_is_refused() {
        for (kind, width, text) in [
            (Kind::Decimal, 12, "4096"),
            (Kind::Decimal, 12, "4000..4096"),
            (Kind::Decimal, 12, "4095*2"),
            (Kind::Ipv4, 32, "10.0.0.256"),
            (Kind::Ipv4, 32, "255.255.255.255*2"),
            (Kind::Mac, 48, "02:00:00:00:00"),
            (Kind::Decimal, 16, "-1"),
            (Kind::Decimal, 16, "{}"),
            (Kind::Decimal, 16, "random(5..4)"),
            (Kind::Decimal, 16, "shuffle(1..3)*2"),
            (Kind::Decimal, 16, "random"),
            (Kind::Decimal, 16, "shuffle(1..3"),
            (Kind::Flags, 8, "syn+nack"),
            (Kind::Hex, 16, "0800"),
            (Kind::Decimal, 64, "shuffle(0..18446744073709551615)"),
        ] {
            assert!(read(kind, width, text).is_err(), "{text}");
        }
    }

    #[test]
    fn other_fields_and_numbers_are_distinguished() {
        let same = |of: &str, plus| Ok(Source::Same { of: of.into(), plus });
        assert_eq!(read(Kind::Decimal, 16, "udp.src+1"), same("udp.src", 1));
        assert_eq!(read(Kind::Decimal, 16, "src"), same("src", 0));
        assert_eq!(read(Kind::Ipv4, 32, "ipv4[2].dst"), same("ipv4[2].dst", 0));
        assert!(read(Kind::Decimal, 16, "udp.source").is_err());
    }

    proptest! {
        #[test]
        fn a_shuffle_has_each_value_once(count in 1u64..3000, seed: u64) {
            let mut all: Vec<u64> = (0..count).map(|i| shuffled(i, count, seed)).collect();
            all.sort_unstable();
            prop_assert!(all.iter().copied().eq(0..count));
        }

        #[test]
        fn random_values_stay_between_their_ends(low: u128, span: u128, i: u64, seed: u64) {
            let high = low.saturating_add(span);
            let value = Source::Random { low, high, period: None }.at(i, seed).unwrap();
            prop_assert!((low..=high).contains(&value));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,40}") {
            for (kind, width) in [(Kind::Decimal, 16), (Kind::Mac, 48), (Kind::Ipv4, 32), (Kind::Ipv6, 128)] {
                if let Ok(source) = read(kind, width, &text)
                    && let Some((low, high)) = source.bounds()
                {
                    prop_assert!(low <= high && high <= ones(width), "{source:?}");
                }
            }
        }

        #[test]
        fn a_spread_list_holds_each_weight(weights in prop::collection::vec(1u64..20, 1..8)) {
            let weighted: Vec<(usize, u64)> = weights.iter().copied().enumerate().collect();
            let order = spread(&weighted, "", &(0..0)).unwrap();
            let common = weighted.iter().fold(0, |common, (_, weight)| greatest_common_divisor(common, *weight));
            for (value, weight) in weighted {
                prop_assert_eq!(order.iter().filter(|at| **at == value).count() as u64, weight / common);
            }
        }
    }
}
