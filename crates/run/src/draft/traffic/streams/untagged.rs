//! Streams whose packets have no tag: what a receiver knows them by, and where that is refused.

use super::{One, Streamed, together};
use crate::fail::Result;
use crate::paths::Checked;
use mpps_engine::KnownBy;
use mpps_io::AddressRange;
use mpps_io::selection::Headers;
use mpps_stats::{Remark, RemarkName, count};
use mpps_traffic::Tag;
use mpps_wire::ipv4::PROTOCOL_ICMP;
use mpps_wire::ipv6::NEXT_ICMPV6;
use std::ops::RangeInclusive;
use std::sync::Arc;

impl Streamed {
    /// Refuses streams that are numbered by TCP and whose packets could be each other's.
    pub(in crate::draft) fn check_numbered(&self) -> Result<()> {
        let numbered = |one: &One| match &one.known_by {
            KnownBy::Number(numbered) => Some(Arc::clone(numbered)),
            _ => None,
        };
        let all: Vec<_> = self.all.iter().filter_map(|one| Some((one, numbered(one)?))).collect();
        for (at, (one, own)) in all.iter().enumerate() {
            let same_way = |other: &One| other.goes_back() == one.goes_back();
            let mut others = all[..at].iter();
            if let Some((other, _)) = others.find(|(other, of)| same_way(other) && own.meets(of)) {
                let name = &other.stream.name;
                return Err(one.wrong(format!(
                    "tag tcp: its packets can have the addresses and ports of stream {name}, by which a receiver knows \
                     them: want others, or tail"
                )));
            }
        }
        Ok(())
    }

    /// Returns whether it is known of no packet whether it comes, as [`super::super::Draft::counts_nothing_of`].
    pub(in crate::draft) fn counts_nothing_of(&self, name: &str) -> bool {
        let named = |one: &&One| {
            let stream = &one.stream;
            name.is_empty() || stream.name == name || stream.group.as_deref() == Some(name)
        };
        let mut of = self.all.iter().filter(named);
        of.all(|one| one.known_by == KnownBy::Headers)
    }

    /// Returns the packets that arrive of streams without a tag. `turned`: with their ends exchanged.
    pub(in crate::draft) fn untagged(&self, turned: bool) -> Vec<Headers> {
        let streams = self.all.iter().filter(|one| one.known_by != KnownBy::Tag);
        let headers = streams.filter_map(|one| one.made(0)?.headers());
        // The host's own neighbours and errors are ICMP, too, which headers do not tell from the test's.
        let headers = headers.filter(|headers| !is_icmp(headers));
        few(headers
            .map(|headers| if turned { headers.turned() } else { headers })
            .collect())
    }

    /// Checks packets of captures that have no tag and come back: the port at which they arrive must take them, and
    /// nobody but this run can tell them from others. Returns a warning for each stream.
    ///
    /// # Errors
    /// Names the port whose programs take packets by their tags.
    pub(in crate::draft) fn check_untagged(&self, port: &Checked, far: Option<&Checked>) -> Result<Vec<Remark>> {
        let mut warnings = Vec::new();
        for one in self.all.iter().filter(|one| one.known_by != KnownBy::Tag) {
            if far.unwrap_or(port).traits.takes_from_host {
                return Err(one.wrong(format!(
                    "its packets have no tag, by which a program takes packets on {}: want tag = tail, or the path \
                     af_packet",
                    far.unwrap_or(port).spec
                )));
            }
            if one.known_by == KnownBy::Headers {
                let text = format!("{}: its packets have no tag: whether they come is not known", one.named);
                warnings.push(Remark::new(RemarkName::Untagged, text).with("stream", one.stream.name.clone()));
            }
        }
        for (one, replayed) in self.all.iter().filter_map(|one| Some((one, one.capture()?))) {
            let all = replayed.frames.len() as u64;
            let untagged = all - replayed.frames.tagged();
            if untagged == 0 {
                continue;
            }
            let arrives = far.unwrap_or(port);
            let why = match (arrives.traits.takes_from_host, far) {
                (true, _) => "a program takes packets by their tags",
                (_, None) if port.traits.returns_by_tag => "the far end returns packets by their tags",
                _ => "",
            };
            let of = match one.stream.tag {
                Tag::Tail => format!("{} of {} packets have no room for a tag", count(untagged), count(all)),
                Tag::Tcp | Tag::None => "its packets have no tag".to_owned(),
            };
            if !why.is_empty() {
                let want = match one.stream.tag {
                    Tag::Tail => "only = packets that have, or a path that takes all frames",
                    Tag::Tcp | Tag::None => "tag = tail, or send in place of sendrecv",
                };
                return Err(one.wrong(format!("{of}, and on {} {why}: want {want}", arrives.spec)));
            }
            let returned = if far.is_none() {
                "; mpps reflect does not return them"
            } else {
                ""
            };
            let text = format!(
                "{}: {of}: they are counted by their content, without latency and order{returned}",
                one.named
            );
            let warning = Remark::new(RemarkName::Untagged, text)
                .with("stream", one.stream.name.clone())
                .with("packets", untagged)
                .with("all_packets", all);
            warnings.push(warning);
        }
        Ok(warnings)
    }
}

/// Returns whether packets are ICMP or ICMPv6.
pub(super) fn is_icmp(headers: &Headers) -> bool {
    matches!(headers.protocol, PROTOCOL_ICMP | NEXT_ICMPV6)
}

/// Returns packets of streams as so few as an interface has room for programs: each by itself or, of many streams,
/// those of a protocol together, from any of their ends to any.
pub(crate) fn few(headers: Vec<Headers>) -> Vec<Headers> {
    const MOST: usize = 16;
    let mut few: Vec<Headers> = Vec::new();
    for of in headers {
        if !few.contains(&of) {
            few.push(of);
        }
    }
    if few.len() <= MOST {
        return few;
    }
    let mut by_protocol: Vec<Headers> = Vec::new();
    let hull = |one: &RangeInclusive<u16>, other: &RangeInclusive<u16>| {
        *one.start().min(other.start())..=*one.end().max(other.end())
    };
    // No addresses are any.
    let union = |one: &[AddressRange], other: &[AddressRange]| match one.is_empty() || other.is_empty() {
        true => Vec::new(),
        false => together(one.iter().chain(other).cloned()),
    };
    for of in few {
        match by_protocol.iter_mut().find(|other| other.protocol == of.protocol) {
            None => by_protocol.push(of),
            Some(other) => {
                *other = Headers {
                    protocol: of.protocol,
                    from: union(&other.from, &of.from),
                    from_ports: hull(&other.from_ports, &of.from_ports),
                    to: union(&other.to, &of.to),
                    to_ports: hull(&other.to_ports, &of.to_ports),
                }
            }
        }
    }
    by_protocol
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpps_io::addresses as ranges;

    #[test]
    fn many_streams_are_known_together_by_their_protocol() {
        let of = |protocol: u8, host: u8, port: u16| Headers {
            protocol,
            from: vec![ranges::one([10, 0, 0, host].into())],
            from_ports: port..=port,
            to: if protocol == 17 {
                Vec::new()
            } else {
                vec![ranges::one([10, 1, 0, 1].into())]
            },
            to_ports: 0..=u16::MAX,
        };
        assert_eq!(
            few(vec![of(6, 1, 5), of(6, 1, 5), of(17, 1, 5)]),
            [of(6, 1, 5), of(17, 1, 5)]
        );
        let many = (1..=20).flat_map(|host| [of(6, host, 100 - u16::from(host)), of(17, host, 7)]);
        let few = few(many.collect());
        let by_protocol: Vec<_> = few
            .iter()
            .map(|of| (of.protocol, of.from.len(), of.to.len(), &of.from_ports))
            .collect();
        assert_eq!(by_protocol, [(6, 20, 1, &(80..=99)), (17, 20, 0, &(7..=7))]);
    }
}
