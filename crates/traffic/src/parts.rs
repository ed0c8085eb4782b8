//! Parts of a packet's text, for those who look for packets, or change them, instead of making some.

use crate::grammar::{Given, Header, Packet, Place, Value};
use crate::headers::{Field, HeaderKind, Role, Space};
use crate::text::Span;
use crate::value::Source;

/// Part of a header to which the text gives a value.
#[derive(Clone, Debug)]
pub struct Part<'p> {
    /// Name of the field, empty for bytes at an offset.
    pub field: &'static str,
    /// Place in the header.
    pub place: PartPlace,
    /// Values.
    pub values: PartValues<'p>,
    /// Place in the packet's text.
    pub at: Span,
}

/// Place of a part in its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartPlace {
    /// Bits that each header of the kind has.
    Bits {
        /// First bit, the top bit of the header's first byte being 0.
        bit: usize,
        /// Number of bits, 1 to 128.
        width: u32,
    },
    /// Field of a header of variable form, which is to be looked for by its name: an option, or a word that is there
    /// only if another one says so. The number is its bits, 0 if it has any number of them.
    Named(u32),
    /// Bytes at an offset of the payload or of a raw header.
    Bytes {
        /// Offset, bytes.
        offset: usize,
        /// Number of bytes, 1 to 16.
        len: usize,
    },
}

/// Values of a part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PartValues<'p> {
    /// Numbers.
    Numbers(&'p Source),
    /// Network: its first address, and the bits that all its addresses share.
    Network(u128, u32),
    /// Bytes, in order.
    Bytes(&'p [u8]),
    /// Addresses of segments, the next first.
    Segments(&'p [u128]),
    /// None: the field has a name alone.
    Bare,
}

/// Way in which a header shows which one follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carries {
    /// By a number in one of its fields, which has this name: first bit, bits, and the number of that header.
    Number(&'static str, usize, u32, u16),
    /// By a length of 1,500 at most in such a field: first bit, bits (IEEE 802.3).
    Length(&'static str, usize, u32),
    /// By its destination port, where nothing else is agreed upon.
    Port(u16),
    /// By nothing: what follows may be anything.
    Anything,
    /// Not at all: it does not carry that header.
    Not,
}

impl Packet {
    /// Returns the place of the field that a value of header `at` is taken from, as [`Source::Same`] names it: number
    /// of its header, first bit in that one, and bits. `None` if there is none of that name, several headers, or no
    /// place that each header of the kind has.
    pub fn field_named(&self, at: usize, of: &str) -> Option<(usize, usize, u32)> {
        let (header, name) = match of.rsplit_once('.') {
            Some((header, name)) => (self.header_named(header)?, name),
            None => (at, of),
        };
        let fields = self.headers.get(header)?.kind.info().fields;
        let field = fields.iter().find(|field| field.name == name)?;
        has_place(field).then_some((header, field.bit, field.width))
    }

    /// Returns the one header of a name, or number N of `NAME[N]`.
    pub(crate) fn header_named(&self, name: &str) -> Option<usize> {
        let (name, number) = match name.split_once('[') {
            Some((name, rest)) => (name, Some(rest.strip_suffix(']')?.parse::<usize>().ok()?)),
            None => (name, None),
        };
        let kind = HeaderKind::named(name)?;
        let mut of_kind = (0..self.headers.len()).filter(|at| self.headers[*at].kind == kind);
        match number {
            Some(number) => of_kind.nth(number.checked_sub(1)?),
            None => of_kind.next().filter(|_| of_kind.next().is_none()),
        }
    }
}

impl Header {
    /// Returns the parts to which the text gives values, in its order.
    pub fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        self.given.iter().map(Given::part)
    }

    /// Returns the place of the header's name in the packet's text.
    pub fn at(&self) -> Span {
        self.at.clone()
    }
}

impl Given {
    fn part(&self) -> Part<'_> {
        let (field, place) = match self.place {
            Place::Bytes(offset, len) => ("", PartPlace::Bytes { offset, len }),
            Place::Field(field, _) if !has_place(field) => (field.name, PartPlace::Named(field.width)),
            Place::Field(field, mask) => {
                let (bit, width) = bits(field, mask);
                (field.name, PartPlace::Bits { bit, width })
            }
        };
        let values = match &self.value {
            Value::Numbers(source) => match self.network() {
                Some((first, bits)) => PartValues::Network(first, bits),
                None => PartValues::Numbers(source),
            },
            Value::Bytes(bytes) => PartValues::Bytes(bytes),
            Value::Segments(segments) => PartValues::Segments(segments),
            Value::Bare => PartValues::Bare,
        };
        Part {
            field,
            place,
            values,
            at: self.at.clone(),
        }
    }

    /// Returns the first address of `10.0.0.0/24`, also within `random(…)` or `shuffle(…)`, and its bits in front.
    /// Values of such a field are its hosts; what belongs to a network has its other addresses, too.
    fn network(&self) -> Option<(u128, u32)> {
        let (Place::Field(field, None), Value::Numbers(source)) = (self.place, &self.value) else {
            return None;
        };
        let low = match source {
            Source::Constant(low)
            | Source::Counter {
                start: low, step: 1, ..
            } => *low,
            Source::Random { low, .. } | Source::Shuffle { low, .. } => *low,
            _ => return None,
        };
        let behind = self.said.split_once('/')?.1;
        let digits = behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len());
        let bits = behind[..digits].parse().ok().filter(|bits| *bits <= field.width)?;
        let inner = crate::value::ones(field.width - bits);
        Some((low & !inner, bits))
    }
}

impl HeaderKind {
    /// Returns how a header of this kind shows that `next` follows it.
    pub fn carries(self, next: Self) -> Carries {
        let after = next.info().after;
        if !after.is_empty() && !after.contains(&self) && self != Self::Raw {
            return Carries::Not;
        }
        match (self, next) {
            (_, Self::Payload) | (Self::Raw, _) => return Carries::Anything,
            _ => {}
        }
        if let Some((field, space)) = self.next() {
            let (bit, width) = (field.bit, field.width);
            return match next.number(space) {
                _ if next == Self::Llc && space == Space::Ether => Carries::Length(field.name, bit, width),
                Some(number) => Carries::Number(field.name, bit, width, number),
                None => Carries::Not,
            };
        }
        match (self, next) {
            (Self::Udp, Self::Raw) => Carries::Anything,
            (Self::Udp, next) => next.info().udp.map_or(Carries::Not, Carries::Port),
            (_, Self::Raw)
            | (Self::Vxlan, Self::Eth)
            | (Self::Gtpu, Self::Ipv4 | Self::Ipv6)
            | (Self::Llc, Self::Snap)
            // Errors quote the packet that they are about.
            | (Self::Icmp, Self::Ipv4)
            | (Self::Icmp6, Self::Ipv6)
            | (Self::Mpls, Self::Mpls | Self::Ipv4 | Self::Ipv6 | Self::Eth) => Carries::Anything,
            _ => Carries::Not,
        }
    }

    /// Returns the name of the field whose number says which header follows, if the kind has one.
    pub fn next_field(self) -> Option<&'static str> {
        self.next().map(|(field, _)| field.name)
    }

    /// Returns the bytes of a header without options.
    pub fn least_len(self) -> usize {
        self.info().bytes.len()
    }
}

/// Returns whether each header of the kind has the field, at the same place.
fn has_place(field: &Field) -> bool {
    !matches!(field.role, Role::Option | Role::Optional)
}

/// Returns first bit and bits of a field, or of those of its bits that are set in the mask.
pub(crate) fn bits(field: &Field, mask: Option<u128>) -> (usize, u32) {
    let Some(mask) = mask else {
        return (field.bit, field.width);
    };
    let above = field.width - mask.trailing_zeros() - mask.count_ones();
    (field.bit + above as usize, mask.count_ones())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str, header: usize) -> Vec<(String, PartPlace, String)> {
        let packet = Packet::parse(text).unwrap();
        let of = |part: Part<'_>| (part.field.to_owned(), part.place, format!("{:?}", part.values));
        packet.headers[header].parts().map(of).collect()
    }

    #[test]
    fn parts_have_their_bits_and_values() {
        let text =
            "eth / vlan vid=10..12 / ipv4 dst=10.1.0.0 dst&0.0.255.0=7 options=01 / udp src=dst+1 / payload @4:2=7";
        assert_eq!(parts(text, 0), []);
        assert_eq!(parts(text, 1)[0].1, PartPlace::Bits { bit: 4, width: 12 });
        assert!(parts(text, 1)[0].2.contains("Counter { start: 10, step: 1, count: 3 }"));
        let ipv4 = parts(text, 2);
        assert_eq!(ipv4[0].1, PartPlace::Bits { bit: 128, width: 32 });
        assert_eq!(ipv4[1].1, PartPlace::Bits { bit: 144, width: 8 });
        assert_eq!((ipv4[2].1, &ipv4[2].2[..]), (PartPlace::Named(0), "Bytes([1])"));
        assert_eq!(parts(text, 4)[0].1, PartPlace::Bytes { offset: 4, len: 2 });
        let packet = Packet::parse(text).unwrap();
        assert_eq!(packet.field_named(3, "dst"), Some((3, 16, 16)));
        assert_eq!(packet.field_named(3, "ipv4.ttl"), Some((2, 64, 8)));
        assert_eq!(packet.field_named(3, "ipv6.hop"), None);
        assert_eq!(parts("eth / gre key=1", 1)[0].1, PartPlace::Named(32));
    }

    #[test]
    fn networks_have_all_their_addresses() {
        let network = |text: &str| parts(text, 1)[0].2.clone();
        assert_eq!(
            network("eth / ipv4 dst=10.0.0.0/24"),
            format!("Network({}, 24)", 10 << 24)
        );
        assert_eq!(
            network("eth / ipv4 dst=random(10.0.0.0/8)*9"),
            format!("Network({}, 8)", 10 << 24)
        );
        assert_eq!(
            network("eth / ipv4 dst=shuffle(10.0.0.0/24)"),
            format!("Network({}, 24)", 10 << 24)
        );
        assert_eq!(
            network("eth / ipv4 dst=10.0.0.1/32"),
            format!("Network({}, 32)", (10 << 24) + 1)
        );
        assert_eq!(network("eth / ipv6 dst=random(::/0)"), "Network(0, 0)");
        assert!(network("eth / ipv4 dst=10.0.0.0/24 step 2").starts_with("Numbers(Counter"));
        assert!(network("eth / ipv4 dst=10.0.0.0..10.0.0.9").starts_with("Numbers(Counter"));
    }

    #[test]
    fn headers_show_which_one_follows() {
        use HeaderKind::*;
        assert_eq!(Eth.carries(Ipv4), Carries::Number("type", 96, 16, 0x800));
        assert_eq!(Ipv6.carries(Udp), Carries::Number("proto", 48, 8, 17));
        assert_eq!(Eth.carries(Llc), Carries::Length("type", 96, 16));
        assert_eq!(Udp.carries(Vxlan), Carries::Port(4789));
        assert_eq!(Vxlan.carries(Eth), Carries::Anything);
        assert_eq!(Ipv6.carries(Icmp), Carries::Not);
        assert_eq!(Eth.carries(Raw), Carries::Not);
        assert_eq!(Tcp.carries(Udp), Carries::Not);
        assert_eq!(Esp.carries(Payload), Carries::Anything);
    }
}
