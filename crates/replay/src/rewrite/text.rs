//! Changes as a packet's text has them.

use super::{Rewrite, Set, Value, Where};
use crate::rewrite::frame::{TCP, UDP};
use mpps_traffic::{Header, HeaderKind, Packet, Part, PartPlace, PartValues, Source, Wrong};
use mpps_wire::{eth, random};

/// Most fields of a text.
pub(super) const MOST_FIELDS: usize = 32;

/// Returns the fields of a header that may be set.
fn fields(kind: HeaderKind) -> &'static [&'static str] {
    match kind {
        HeaderKind::Vlan | HeaderKind::Qinq => &["vid", "pcp", "dei", "tci"],
        HeaderKind::Ipv4 => &["src", "dst", "ttl", "dscp", "ecn", "tos"],
        HeaderKind::Ipv6 => &["src", "dst", "hop", "dscp", "ecn", "tc", "flow"],
        _ => &["src", "dst"],
    }
}

impl Rewrite {
    /// Reads which fields a packet's text gives values: MAC addresses, VLAN tags, addresses, classes and times to live
    /// of IP, ports of UDP and TCP.
    ///
    /// Values that vary move on by one each lap of a replay; `seed` makes the random ones. A network (`10.1.0.0/16`,
    /// also within `random(…)`) takes the place of the first bits of an address, which keeps the others. Another
    /// field's name (`dst=src`, `src=src+1`) stands for the value that the frame had there.
    ///
    /// # Errors
    /// Names a header or a field that is not changed, and values that are worked out where packets are made.
    pub fn of(packet: &Packet, seed: u64) -> Result<Self, Wrong> {
        let places = places(&packet.headers)?;
        let mut rewrite = Self::default();
        for (at, header) in packet.headers.iter().enumerate() {
            match header.kind {
                HeaderKind::Vlan => rewrite.tags.push(eth::TYPE_CTAG),
                HeaderKind::Qinq => rewrite.tags.push(eth::TYPE_STAG),
                _ => {}
            }
            for part in header.parts() {
                let seed = random(seed, rewrite.sets.len() as u64);
                let set = set(packet, &places, at, &part, seed).map_err(|line| Wrong {
                    at: part.at.clone(),
                    line: format!("{} {}: {line}", header.kind.name(), part.field),
                })?;
                rewrite.sets.extend(set);
            }
        }
        if rewrite.sets.len() > MOST_FIELDS {
            return Err(Wrong {
                at: 0..packet.text.len(),
                line: format!("{} fields: want {MOST_FIELDS} at most", rewrite.sets.len()),
            });
        }
        // Values of some bits stand beside one of them all.
        rewrite.sets.sort_by_key(|set| std::cmp::Reverse(set.width));
        Ok(rewrite)
    }
}

/// Returns where the headers of a text are in a frame.
fn places(headers: &[Header]) -> Result<Vec<Where>, Wrong> {
    let mut places: Vec<Where> = Vec::new();
    for header in headers {
        let place = match (places.last().copied(), header.kind) {
            (None, HeaderKind::Eth) => Where::Eth,
            (Some(Where::Eth), HeaderKind::Vlan | HeaderKind::Qinq) => Where::Tag(0),
            (Some(Where::Tag(before)), HeaderKind::Vlan | HeaderKind::Qinq) => Where::Tag(before + 1),
            (Some(Where::Eth | Where::Tag(_)), HeaderKind::Ipv4) => Where::Ip { v6: false },
            (Some(Where::Eth | Where::Tag(_)), HeaderKind::Ipv6) => Where::Ip { v6: true },
            (Some(Where::Ip { v6 }), HeaderKind::Udp) => Where::Ports { v6, protocol: UDP },
            (Some(Where::Ip { v6 }), HeaderKind::Tcp) => Where::Ports { v6, protocol: TCP },
            _ => {
                return Err(Wrong {
                    at: header.at(),
                    line: format!(
                        "{}: want eth first, then vlan or qinq, then ipv4 or ipv6, then udp or tcp: no other header is \
                         changed",
                        header.kind.name()
                    ),
                });
            }
        };
        places.push(place);
    }
    match places.is_empty() {
        true => Err(Wrong {
            at: 0..0,
            line: "want eth first".to_owned(),
        }),
        false => Ok(places),
    }
}

/// Returns what a part sets; `None`: nothing, as of a network of all addresses.
fn set(packet: &Packet, places: &[Where], at: usize, part: &Part<'_>, seed: u64) -> Result<Option<Set>, String> {
    let known = fields(packet.headers[at].kind);
    let (PartPlace::Bits { bit, width }, true) = (part.place, known.contains(&part.field)) else {
        return Err(format!("it is not changed: want {}", known.join(", ")));
    };
    let (width, value) = match part.values {
        PartValues::Network(_, 0) => return Ok(None),
        PartValues::Network(first, bits) => {
            let value = Source::Constant(first >> (width - bits));
            (bits, Value::Of(value, seed))
        }
        PartValues::Numbers(Source::Same { of, plus }) => {
            let Some((header, bit, bits)) = packet.field_named(at, of) else {
                return Err(format!("{of}: want one field of that name"));
            };
            let (header, plus) = (places[header], *plus);
            let value = Value::Same {
                header,
                bit,
                width: bits,
                plus,
            };
            (width, value)
        }
        PartValues::Numbers(Source::InnerHash | Source::Bad) => {
            return Err("it is worked out where packets are made: want a value".to_owned());
        }
        PartValues::Numbers(source) => (width, Value::Of(source.clone(), seed)),
        PartValues::Bytes(_) | PartValues::Segments(_) | PartValues::Bare => {
            return Err("want a number".to_owned());
        }
    };
    Ok(Some(Set {
        name: format!("{} {}", packet.headers[at].kind.name(), part.field),
        header: places[at],
        bit,
        width,
        value,
    }))
}
