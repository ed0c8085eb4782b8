//! Grammar of a packet: headers joined by ` / `, each with its fields: `eth / ipv4 dst=10.0.0.0/24 / udp dst=9000`.

use crate::headers::{Field, HEADERS, HeaderKind, INFO, Kind, Role};
use crate::text::{Read, Span, Wrong, did_you_mean, quoted};
use crate::value::{MOST_ENTRIES, MOST_FIELDS, Shape, Source, bytes};
use std::collections::BTreeMap;

/// Most headers of a packet.
const MOST_HEADERS: usize = 32;
/// Longest text of a packet, bytes.
const LONGEST: usize = 16 * 1024;

/// Values of variables, by name.
pub(crate) type Variables = BTreeMap<String, String>;

/// Packet as it was written: headers in order, with the fields that were given.
#[derive(Clone, Debug, PartialEq)]
pub struct Packet {
    /// Headers, outermost first.
    pub headers: Vec<Header>,
    /// Text, with the values of variables in their places.
    pub text: String,
}

/// One header of a packet.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// Kind.
    pub kind: HeaderKind,
    /// Fields that were given.
    pub(crate) given: Vec<Given>,
    /// Place of the name.
    pub(crate) at: Span,
}

/// Field that was given.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    pub(crate) place: Place,
    pub(crate) value: Value,
    /// Text, with the values of variables.
    pub(crate) said: String,
    pub(crate) at: Span,
}

/// Places do not count: packets are the same if they say the same.
impl PartialEq for Given {
    fn eq(&self, other: &Self) -> bool {
        self.place == other.place && self.value == other.value
    }
}

/// Place that a value is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// Field, or those bits of it that are set in the mask.
    Field(&'static Field, Option<u128>),
    /// Bytes at an offset of the payload or of a raw header: offset, and number of bytes.
    Bytes(usize, usize),
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Field(one, mask), Self::Field(other, other_mask)) => one.name == other.name && mask == other_mask,
            (Self::Bytes(at, len), Self::Bytes(other, other_len)) => (at, len) == (other, other_len),
            _ => false,
        }
    }
}

/// Value of a field.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Numbers(Source),
    Bytes(Vec<u8>),
    /// Addresses of segments, the next first.
    Segments(Vec<u128>),
    /// Name alone.
    Bare,
}

impl Header {
    /// Returns the number of entries of its lists.
    fn entries(&self) -> u64 {
        let of = |given: &Given| match &given.value {
            Value::Numbers(Source::Table(values)) => values.len() as u64,
            _ => 0,
        };
        self.given.iter().map(of).sum()
    }

    /// Returns the number of its fields that vary.
    fn varies(&self) -> usize {
        let varies = |given: &&Given| matches!(&given.value, Value::Numbers(source) if source.period() != Some(1));
        self.given.iter().filter(varies).count()
    }
}

impl Given {
    /// Returns whether the field of this name is given, whole or in part.
    pub(crate) fn is(&self, name: &str) -> bool {
        matches!(self.place, Place::Field(field, _) if field.name == name)
    }

    /// Name of the field, or the place of the bytes.
    pub(crate) fn name(&self) -> String {
        match self.place {
            Place::Field(field, None) => field.name.to_owned(),
            Place::Field(field, Some(mask)) => format!("{}&{mask:#x}", field.name),
            Place::Bytes(at, len) => format!("@{at}:{len}"),
        }
    }
}

/// Word of a packet's text.
#[derive(Clone, Copy, Debug)]
struct Word<'t> {
    text: &'t str,
    start: usize,
}

impl Word<'_> {
    fn at(&self) -> Span {
        self.start..self.start + self.text.len()
    }
}

/// Splits a text into words at white space outside of brackets.
fn words(text: &str) -> Read<Vec<Word<'_>>> {
    let (mut words, mut start, mut open) = (Vec::new(), None, Vec::new());
    for (at, letter) in text.char_indices() {
        match letter {
            '(' | '{' => open.push((letter, at)),
            ')' | '}' => {
                let want = if letter == ')' { '(' } else { '{' };
                if open.pop().is_none_or(|(opened, _)| opened != want) {
                    return Err(Wrong::new(
                        at..at + 1,
                        format!("'{letter}': no '{want}' was opened before it"),
                    ));
                }
            }
            _ => {}
        }
        match (letter.is_whitespace() && open.is_empty(), start) {
            (true, Some(from)) => {
                words.push(Word {
                    text: &text[from..at],
                    start: from,
                });
                start = None;
            }
            (false, None) => start = Some(at),
            _ => {}
        }
    }
    if let Some((letter, at)) = open.pop() {
        return Err(Wrong::new(at..at + 1, format!("'{letter}': it is never closed")));
    }
    if let Some(from) = start {
        words.push(Word {
            text: &text[from..],
            start: from,
        });
    }
    Ok(words)
}

/// Puts the values of variables in the places of `$NAME`, `$NAME+1` and `$NAME-1`.
pub(crate) fn substituted(text: &str, variables: &Variables, at: &Span) -> Read<String> {
    let wrong = |line: String| Err(Wrong::new(at.clone(), line));
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(dollar) = rest.find('$') {
        out.push_str(&rest[..dollar]);
        let after = &rest[dollar + 1..];
        let end = after
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .unwrap_or(after.len());
        let (name, behind) = after.split_at(end);
        let Some(value) = variables.get(name) else {
            let near = did_you_mean(name, variables.keys().map(String::as_str));
            return wrong(format!(
                "'${name}': no variable of that name{near}: want it in [vars], or --set {name}=VALUE"
            ));
        };
        let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        rest = behind;
        match behind.strip_prefix(['+', '-']) {
            Some(number) if digits(number) > 0 => {
                let (number, behind) = number.split_at(digits(number));
                let sign: i128 = if rest.starts_with('-') { -1 } else { 1 };
                let sum = value.parse::<i128>().ok().zip(number.parse::<i128>().ok());
                let sum = sum
                    .and_then(|(value, number)| value.checked_add(sign * number))
                    .filter(|sum| *sum >= 0);
                let Some(sum) = sum else {
                    return wrong(format!(
                        "'${name}' is {}: want a whole number to count from",
                        quoted(value)
                    ));
                };
                out.push_str(&sum.to_string());
                rest = behind;
            }
            _ => out.push_str(value),
        }
        if out.len() > LONGEST {
            return wrong(format!("longer than {LONGEST} bytes with its variables"));
        }
    }
    out.push_str(rest);
    Ok(out)
}

impl Packet {
    /// Reads a packet without variables.
    ///
    /// # Errors
    /// Names the fault, and its place in `text`.
    pub fn parse(text: &str) -> Result<Self, Wrong> {
        Self::read(text, &Variables::new())
    }

    /// Reads a packet.
    ///
    /// # Errors
    /// Names the fault, and its place in `text`.
    pub(crate) fn read(text: &str, variables: &Variables) -> Read<Self> {
        if text.len() > LONGEST {
            return Err(Wrong::new(
                0..text.len(),
                format!("longer than {LONGEST} bytes: want a shorter packet"),
            ));
        }
        let words = words(text)?;
        let mut headers: Vec<Header> = Vec::new();
        let mut said: Vec<String> = Vec::new();
        for part in words.split(|word| word.text == "/") {
            let Some((name, fields)) = part.split_first() else {
                let end = words.last().map_or(0, |word| word.at().end);
                return Err(Wrong::new(
                    0..end,
                    "want a header on each side of ' / ', such as 'eth / ipv4 / udp'",
                ));
            };
            let (header, text) = header(*name, fields, variables)?;
            if headers.len() == MOST_HEADERS {
                return Err(Wrong::new(name.at(), format!("want {MOST_HEADERS} headers at most")));
            }
            headers.push(header);
            said.push(text);
            let entries: u64 = headers.iter().map(Header::entries).sum();
            if entries > MOST_ENTRIES {
                return Err(Wrong::new(
                    name.at(),
                    format!("want lists of {MOST_ENTRIES} entries at most in all"),
                ));
            }
        }
        Ok(Self {
            headers,
            text: said.join(" / "),
        })
    }
}

/// Reads a header, and returns its text with the values of variables.
fn header(name: Word<'_>, fields: &[Word<'_>], variables: &Variables) -> Read<(Header, String)> {
    let Some(kind) = HeaderKind::named(name.text) else {
        let slash = match name.text.contains('/') {
            true => ", with spaces around '/'".to_owned(),
            false => did_you_mean(name.text, INFO.iter().flat_map(|info| info.names).copied()),
        };
        let line = format!(
            "{} is no header{slash}: want one of {}",
            quoted(name.text),
            HEADERS.join(", ")
        );
        return Err(Wrong::new(name.at(), line));
    };
    let mut header = Header {
        kind,
        given: Vec::new(),
        at: name.at(),
    };
    let mut text = vec![kind.name().to_owned()];
    let mut rest = fields.iter();
    while let Some(word) = rest.next() {
        let said = substituted(word.text, variables, &word.at())?;
        let step = match rest.as_slice() {
            [keyword, step, ..] if keyword.text == "step" => {
                rest.next();
                rest.next();
                Some((substituted(step.text, variables, &step.at())?, step.at()))
            }
            _ => None,
        };
        let given = given(
            kind,
            &said,
            word.at(),
            step.as_ref().map(|(step, at)| (step.as_str(), at.clone())),
        )?;
        if let Some(twice) = header.given.iter().find(|before| before.place == given.place) {
            return Err(Wrong::new(
                given.at,
                format!("{} {}: given twice", kind.name(), twice.name()),
            ));
        }
        text.push(said);
        text.extend(step.map(|(step, _)| format!("step {step}")));
        header.given.push(given);
        if header.entries() > MOST_ENTRIES || header.varies() > MOST_FIELDS {
            let line =
                format!("want {MOST_FIELDS} fields that vary, with lists of {MOST_ENTRIES} entries in all, at most");
            return Err(Wrong::new(word.at(), line));
        }
    }
    Ok((header, text.join(" ")))
}

/// Reads `FIELD=VALUE`.
fn given(kind: HeaderKind, said: &str, at: Span, step: Option<(&str, Span)>) -> Read<Given> {
    let (name, value) = match said.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (said, None),
    };
    if let Some(place) = name.strip_prefix('@') {
        return at_offset(kind, place, value, at, step);
    }
    let (name, mask) = match name.split_once('&') {
        Some((name, mask)) => (name, Some(mask)),
        None => (name, None),
    };
    let fields = kind.info().fields;
    let Some(field) = fields.iter().find(|field| field.name == name) else {
        let names: Vec<&str> = fields.iter().map(|field| field.name).collect();
        let want = match (kind, names.is_empty()) {
            (HeaderKind::Payload, _) => "want @OFFSET:BYTES=VALUE".to_owned(),
            (_, true) => "it has none".to_owned(),
            _ => format!("want {}", names.join(", ")),
        };
        let near = did_you_mean(name, names.iter().copied());
        return Err(Wrong::new(
            at,
            format!("{} is no field of {}{near}: {want}", quoted(name), kind.name()),
        ));
    };
    let named = format!("{} {name}", kind.name());
    let shape = Shape {
        kind: field.kind,
        width: width(field),
        sum: matches!(field.role, Role::Sum(_)) || (kind == HeaderKind::Gre && name == "cksum"),
        host: matches!(kind, HeaderKind::Ipv4 | HeaderKind::Ipv6 | HeaderKind::Arp),
    };
    let (shape, mask) = match mask {
        Some(_) if field.role != Role::Plain => {
            return Err(Wrong::new(
                at,
                format!("{named}: its bits have no values of their own: want {name}=VALUE"),
            ));
        }
        Some(mask) => masked(shape, mask, &named, &at)?,
        None => (shape, None),
    };
    let value = match (field.kind, value) {
        (Kind::Bare, None) => Value::Bare,
        (Kind::Bare, Some(_)) => return Err(Wrong::new(at, format!("{named}: want the name alone"))),
        (_, None) => return Err(Wrong::new(at, format!("{named}: want {name}=VALUE"))),
        (Kind::Bytes, Some(value)) => Value::Bytes(bytes(value, &at)?),
        (Kind::Segments, Some(value)) => Value::Segments(segments(value, &shape, &at)?),
        (_, Some(value)) => {
            let read = shape.values(value, &at, step);
            Value::Numbers(read.map_err(|wrong| Wrong::new(wrong.at, format!("{named}={}", wrong.line)))?)
        }
    };
    if kind != HeaderKind::Udp && value == Value::Numbers(Source::InnerHash) {
        return Err(Wrong::new(
            at,
            format!("{named}=inner-hash: it is a value of a UDP port alone"),
        ));
    }
    let constant = matches!(&value, Value::Numbers(Source::Constant(_)));
    if field.role == Role::Option && matches!(value, Value::Numbers(_)) && !constant {
        return Err(Wrong::new(at, format!("{named}: options do not vary: want one value")));
    }
    Ok(Given {
        place: Place::Field(field, mask),
        value,
        said: said.to_owned(),
        at,
    })
}

/// Returns the bits of a value of this field.
fn width(field: &Field) -> u32 {
    match (field.role, field.name) {
        (Role::Option, "mss") => 16,
        (Role::Option, "wscale") => 8,
        (Role::Option, _) => 128,
        _ => field.width,
    }
}

/// Reads the mask of `dst&0.0.255.0=0..255`, whose values are those of the set bits, which lie side by side.
fn masked(shape: Shape, text: &str, named: &str, at: &Span) -> Read<(Shape, Option<u128>)> {
    let wrong = |line: String| Wrong::new(at.clone(), line);
    let mask = shape.one(text, at).or_else(|_| {
        let shape = Shape {
            kind: Kind::Hex,
            ..shape
        };
        shape
            .one(text, at)
            .map_err(|_| wrong(format!("{named}&{}: want bits of the field", quoted(text))))
    })?;
    let bits = mask.count_ones();
    let beside = mask != 0 && mask >> mask.trailing_zeros() == crate::value::ones(bits);
    if !beside {
        return Err(wrong(format!(
            "{named}&{}: want one or more bits side by side",
            quoted(text)
        )));
    }
    let shape = Shape {
        kind: Kind::Decimal,
        width: bits,
        sum: false,
        host: false,
    };
    Ok((shape, Some(mask)))
}

/// Reads `{2001:db8::1,2001:db8::2}`.
fn segments(text: &str, shape: &Shape, at: &Span) -> Read<Vec<u128>> {
    const MOST: usize = 15;
    let inside = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    let shape = Shape {
        kind: Kind::Ipv6,
        width: 128,
        ..*shape
    };
    let list = inside.unwrap_or(text).split(',');
    let all: Vec<u128> = list.map(|one| shape.one(one.trim(), at)).collect::<Read<_>>()?;
    match all.len() {
        1..=MOST => Ok(all),
        _ => Err(Wrong::new(at.clone(), format!("segs: want 1 to {MOST} addresses"))),
    }
}

/// Reads `@OFFSET:BYTES=VALUE` of the payload, or of a raw header.
fn at_offset(kind: HeaderKind, place: &str, value: Option<&str>, at: Span, step: Option<(&str, Span)>) -> Read<Given> {
    let wrong = |line: String| Err(Wrong::new(at.clone(), line));
    if !matches!(kind, HeaderKind::Payload | HeaderKind::Raw) {
        return wrong(format!(
            "'@': bytes at an offset are fields of payload and raw, not of {}",
            kind.name()
        ));
    }
    let (offset, len) = place.split_once(':').unwrap_or((place, "1"));
    let parsed = offset.parse::<usize>().ok().zip(len.parse::<usize>().ok());
    let Some((offset, len)) = parsed.filter(|(offset, len)| *offset <= 65_535 && (1..=16).contains(len)) else {
        return wrong(format!("{}: want @OFFSET:BYTES, BYTES from 1 to 16", quoted(place)));
    };
    let Some(value) = value else {
        return wrong(format!("@{offset}:{len}: want @{offset}:{len}=VALUE"));
    };
    let shape = Shape {
        kind: Kind::Decimal,
        width: len as u32 * 8,
        sum: false,
        host: false,
    };
    let read = shape.values(value, &at, step);
    let value = read.map_err(|wrong| Wrong::new(wrong.at, format!("@{offset}:{len}={}", wrong.line)))?;
    Ok(Given {
        place: Place::Bytes(offset, len),
        value: Value::Numbers(value),
        said: format!("@{offset}:{len}"),
        at,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refused(text: &str) -> (String, usize) {
        let wrong = Packet::parse(text).expect_err(text);
        let column = wrong.position(text).1;
        (wrong.line, column)
    }

    #[test]
    fn headers_and_fields_are_read_in_order() {
        let packet =
            Packet::parse("eth / vlan vid=10..12 / ipv4 src=198.18.0.1 dst=10.0.0.0/24 / udp dst=9000").unwrap();
        let names: Vec<_> = packet.headers.iter().map(|header| header.kind.name()).collect();
        assert_eq!(names, ["eth", "vlan", "ipv4", "udp"]);
        assert_eq!(packet.headers[2].given.len(), 2);
        assert_eq!(
            Packet::parse(&packet.text).unwrap().headers[1].given,
            packet.headers[1].given
        );
    }

    #[test]
    fn a_refusal_names_the_place_and_the_nearest_word() {
        let (line, column) = refused("eth / ipv4 dts=10.0.0.1 / udp");
        assert_eq!(column, 12);
        assert!(
            line.contains("'dts' is no field of ipv4; did you mean 'dst'?"),
            "{line}"
        );
        let (line, column) = refused("eth / ivp4 / udp");
        assert_eq!(column, 7);
        assert!(line.contains("did you mean 'ipv4'?"), "{line}");
        let (line, _) = refused("eth/ipv4/udp");
        assert!(line.contains("spaces around '/'"), "{line}");
        let (line, column) = refused("eth / vlan vid=5000 / ipv4");
        assert_eq!(column, 12);
        assert!(line.contains("vlan vid='5000': want 0 to 4095"), "{line}");
    }

    #[test]
    fn what_is_no_packet_is_refused() {
        for text in [
            "",
            "/",
            "eth /",
            "eth / / ipv4",
            "eth / ipv4 src",
            "eth / ipv4 src=10.0.0.1 src=10.0.0.2",
            "eth / udp src={80, 90",
            "eth / udp src=80)",
            "eth / tcp mss=1..3",
            "eth / tcp sackok=1",
            "eth / raw hex=abc",
            "eth / udp @4:2=7",
            "payload @4:17=7",
            "eth / ipv4 dst&0.255.0.255=1",
            "eth / ipv4 dst&0.0.255.0=256",
            "eth / ipv4 dst=$net",
        ] {
            refused(text);
        }
    }

    #[test]
    fn variables_stand_for_their_values_also_plus_a_number() {
        let variables = Variables::from([("users".into(), "5".into()), ("net".into(), "10.0.0.0/29".into())]);
        let packet = Packet::read("eth / ipv4 dst=$net / udp dst=9000*$users src=$users+1", &variables).unwrap();
        assert_eq!(packet.text, "eth / ipv4 dst=10.0.0.0/29 / udp dst=9000*5 src=6");
    }

    #[test]
    fn bits_of_a_field_have_values_of_their_own() {
        let packet = Packet::parse("eth / ipv4 dst=10.1.2.3 dst&0.0.255.0=0..255 / udp").unwrap();
        assert!(matches!(
            packet.headers[1].given[1].place,
            Place::Field(_, Some(0xff00))
        ));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_within_it(text in "[a-z0-9/ =.:*{}()$,&@+-]{0,80}") {
            if let Err(wrong) = Packet::parse(&text) {
                prop_assert!(wrong.at.start <= text.len() && !wrong.line.contains('\n'));
            }
        }

        #[test]
        fn what_was_read_is_read_again_from_its_text(vid in 0u16..4096, port: u16, count in 1u32..100) {
            let text = format!("eth / vlan vid={vid} / ipv4 src=10.0.0.1*{count} step 2 / udp dst={port}");
            let packet = Packet::parse(&text).unwrap();
            prop_assert_eq!(Packet::parse(&packet.text).unwrap().text, packet.text);
        }
    }
}
