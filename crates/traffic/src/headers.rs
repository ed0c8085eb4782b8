//! Headers: fields with their places, what is worked out of each, and how one header names the next.
//!
//! Header and field names are those of testpmd's flow rules where these exist.

/// Way to write a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Decimal,
    Hex,
    Mac,
    Ipv4,
    Ipv6,
    /// Names of bits joined by `+`, or a number.
    Flags,
    /// Bytes in hexadecimal.
    Bytes,
    /// Nothing: the name alone says it.
    Bare,
    /// Addresses of IPv6 in braces.
    Segments,
}

/// Space of numbers that name the next header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    /// EtherType.
    Ether,
    /// Protocol of IP.
    Ip,
    /// Protocol of PPP.
    Ppp,
}

/// Bytes that a checksum covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cover {
    /// Header alone.
    Header,
    /// Header and all that follows.
    Rest,
    /// The same, and the pseudo-header of IP. `zero_is_none`: a sum of 0 is sent as 0xffff, as in UDP.
    Pseudo { zero_is_none: bool },
    /// CRC32c of header and all that follows, as in SCTP.
    Crc32c,
}

/// Rule for the value of a field that is not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Its value in the header's bytes.
    Plain,
    /// Number of the next header.
    Next(Space),
    /// Number of bytes from `from` bytes after the start of the header to the end of the packet.
    Length { from: usize },
    /// Length of the header: `bytes / unit - less`.
    Own { unit: usize, less: usize },
    /// Checksum.
    Sum(Cover),
    /// 1 if the next header is not of the same kind.
    Last,
    /// Four bytes that are there only if the field is written.
    Optional,
    /// Bytes behind the fixed part.
    Option,
}

/// Field of a header.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// First bit in the header.
    pub(crate) bit: usize,
    /// Bits, 1 to 128.
    pub(crate) width: u32,
    pub(crate) role: Role,
    /// Shown by `mpps traffic show` though nobody wrote it.
    pub(crate) shown: bool,
}

const fn field(name: &'static str, kind: Kind, bit: usize, width: u32) -> Field {
    Field {
        name,
        kind,
        bit,
        width,
        role: Role::Plain,
        shown: false,
    }
}

const fn shown(name: &'static str, kind: Kind, bit: usize, width: u32) -> Field {
    Field {
        shown: true,
        ..field(name, kind, bit, width)
    }
}

const fn auto(name: &'static str, kind: Kind, bit: usize, width: u32, role: Role) -> Field {
    Field {
        role,
        ..field(name, kind, bit, width)
    }
}

const fn option(name: &'static str, kind: Kind) -> Field {
    auto(name, kind, 0, 0, Role::Option)
}

/// Kind of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderKind {
    /// Ethernet II.
    Eth,
    /// 802.1Q tag.
    Vlan,
    /// 802.1ad service tag.
    Qinq,
    /// Label of MPLS.
    Mpls,
    /// ARP for IPv4 on Ethernet.
    Arp,
    /// IPv4, with options.
    Ipv4,
    /// IPv6.
    Ipv6,
    /// Hop-by-hop options of IPv6.
    HopOpts,
    /// Destination options of IPv6.
    DstOpts,
    /// Segment routing header (RFC 8754).
    Srh,
    /// Fragment header of IPv6.
    Frag,
    /// UDP.
    Udp,
    /// TCP, with options.
    Tcp,
    /// ICMP.
    Icmp,
    /// ICMPv6.
    Icmp6,
    /// SCTP with one DATA chunk.
    Sctp,
    /// IGMPv2.
    Igmp,
    /// GRE, with checksum, key and sequence number.
    Gre,
    /// VXLAN.
    Vxlan,
    /// Geneve, with options.
    Geneve,
    /// GTP-U, with the container of a PDU session.
    Gtpu,
    /// PPPoE session with the protocol of PPP.
    Pppoe,
    /// ESP: what follows is opaque.
    Esp,
    /// 802.2 logical link control behind a length.
    Llc,
    /// Subnetwork access protocol behind LLC.
    Snap,
    /// Bytes as written.
    Raw,
    /// Payload, whose bytes may vary.
    Payload,
}

/// Facts about a kind of header.
pub(crate) struct Info {
    pub(crate) kind: HeaderKind,
    /// Name, and other names for it.
    pub(crate) names: &'static [&'static str],
    /// Bytes of the fixed part if nothing is written.
    pub(crate) bytes: &'static [u8],
    pub(crate) fields: &'static [Field],
    /// Numbers by which others name it.
    pub(crate) ether: Option<u16>,
    pub(crate) ip: Option<u8>,
    pub(crate) ppp: Option<u16>,
    /// UDP port to which it belongs.
    pub(crate) udp: Option<u16>,
    /// Header that it may follow; empty: any that names the next one, or all if it names none.
    pub(crate) after: &'static [HeaderKind],
}

const NONE: Info = Info {
    kind: HeaderKind::Raw,
    names: &[],
    bytes: &[],
    fields: &[],
    ether: None,
    ip: None,
    ppp: None,
    udp: None,
    after: &[],
};

const TAG: &[Field] = &[
    shown("vid", Kind::Decimal, 4, 12),
    field("pcp", Kind::Decimal, 0, 3),
    field("dei", Kind::Decimal, 3, 1),
    field("tci", Kind::Hex, 0, 16),
    auto("inner_type", Kind::Hex, 16, 16, Role::Next(Space::Ether)),
];

const SRC_PORT: Field = shown("src", Kind::Decimal, 0, 16);
const DST_PORT: Field = shown("dst", Kind::Decimal, 16, 16);

/// Headers that those of IPv6 alone may follow.
const IN_IPV6: &[HeaderKind] = &[
    HeaderKind::Ipv6,
    HeaderKind::HopOpts,
    HeaderKind::DstOpts,
    HeaderKind::Srh,
    HeaderKind::Frag,
];

const OPTIONS6: &[Field] = &[
    auto("proto", Kind::Decimal, 0, 8, Role::Next(Space::Ip)),
    auto("len", Kind::Decimal, 8, 8, Role::Own { unit: 8, less: 1 }),
    option("options", Kind::Bytes),
];

const ECHO: &[Field] = &[
    shown("type", Kind::Decimal, 0, 8),
    shown("code", Kind::Decimal, 8, 8),
    auto("cksum", Kind::Hex, 16, 16, Role::Sum(Cover::Rest)),
    field("ident", Kind::Decimal, 32, 16),
    field("seq", Kind::Decimal, 48, 16),
    field("rest", Kind::Hex, 32, 32),
];

const ECHO6: &[Field] = &[
    shown("type", Kind::Decimal, 0, 8),
    shown("code", Kind::Decimal, 8, 8),
    auto(
        "cksum",
        Kind::Hex,
        16,
        16,
        Role::Sum(Cover::Pseudo { zero_is_none: false }),
    ),
    field("ident", Kind::Decimal, 32, 16),
    field("seq", Kind::Decimal, 48, 16),
    field("rest", Kind::Hex, 32, 32),
];

/// Headers there are, with their fields.
pub(crate) const INFO: [Info; 27] = [
    Info {
        kind: HeaderKind::Eth,
        names: &["eth"],
        bytes: &[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0, 0],
        fields: &[
            shown("dst", Kind::Mac, 0, 48),
            shown("src", Kind::Mac, 48, 48),
            auto("type", Kind::Hex, 96, 16, Role::Next(Space::Ether)),
        ],
        ether: Some(0x6558),
        ip: Some(143),
        ..NONE
    },
    Info {
        kind: HeaderKind::Vlan,
        names: &["vlan"],
        bytes: &[0, 1, 0, 0],
        fields: TAG,
        ether: Some(0x8100),
        ..NONE
    },
    Info {
        kind: HeaderKind::Qinq,
        names: &["qinq", "svlan"],
        bytes: &[0, 1, 0, 0],
        fields: TAG,
        ether: Some(0x88a8),
        ..NONE
    },
    Info {
        kind: HeaderKind::Mpls,
        names: &["mpls"],
        bytes: &[0, 1, 0, 64],
        fields: &[
            shown("label", Kind::Decimal, 0, 20),
            field("tc", Kind::Decimal, 20, 3),
            auto("s", Kind::Decimal, 23, 1, Role::Last),
            field("ttl", Kind::Decimal, 24, 8),
        ],
        ether: Some(0x8847),
        ip: Some(137),
        ppp: Some(0x0281),
        udp: Some(6635),
        ..NONE
    },
    Info {
        kind: HeaderKind::Arp,
        names: &["arp", "arp_eth_ipv4"],
        bytes: &[
            0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 198, 18, 0, 1, 0, 0, 0, 0, 0, 0, 198, 18, 0, 2,
        ],
        fields: &[
            shown("op", Kind::Decimal, 48, 16),
            field("sha", Kind::Mac, 64, 48),
            shown("spa", Kind::Ipv4, 112, 32),
            field("tha", Kind::Mac, 144, 48),
            shown("tpa", Kind::Ipv4, 192, 32),
        ],
        ether: Some(0x0806),
        ..NONE
    },
    Info {
        kind: HeaderKind::Ipv4,
        names: &["ipv4"],
        bytes: &[0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 0, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2],
        fields: &[
            shown("src", Kind::Ipv4, 96, 32),
            shown("dst", Kind::Ipv4, 128, 32),
            field("dscp", Kind::Decimal, 8, 6),
            field("ecn", Kind::Decimal, 14, 2),
            field("tos", Kind::Hex, 8, 8),
            field("ttl", Kind::Decimal, 64, 8),
            auto("proto", Kind::Decimal, 72, 8, Role::Next(Space::Ip)),
            field("id", Kind::Decimal, 32, 16),
            field("df", Kind::Decimal, 49, 1),
            field("mf", Kind::Decimal, 50, 1),
            field("frag", Kind::Decimal, 51, 13),
            field("version", Kind::Decimal, 0, 4),
            auto("ihl", Kind::Decimal, 4, 4, Role::Own { unit: 4, less: 0 }),
            auto("length", Kind::Decimal, 16, 16, Role::Length { from: 0 }),
            auto("cksum", Kind::Hex, 80, 16, Role::Sum(Cover::Header)),
            option("options", Kind::Bytes),
        ],
        ether: Some(0x0800),
        ip: Some(4),
        ppp: Some(0x0021),
        ..NONE
    },
    Info {
        kind: HeaderKind::Ipv6,
        names: &["ipv6"],
        bytes: &[
            0x60, 0, 0, 0, 0, 0, 0, 64, //
            0x20, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, //
            0x20, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2,
        ],
        fields: &[
            shown("src", Kind::Ipv6, 64, 128),
            shown("dst", Kind::Ipv6, 192, 128),
            field("dscp", Kind::Decimal, 4, 6),
            field("ecn", Kind::Decimal, 10, 2),
            field("tc", Kind::Hex, 4, 8),
            field("flow", Kind::Decimal, 12, 20),
            field("hop", Kind::Decimal, 56, 8),
            auto("proto", Kind::Decimal, 48, 8, Role::Next(Space::Ip)),
            field("version", Kind::Decimal, 0, 4),
            auto("length", Kind::Decimal, 32, 16, Role::Length { from: 40 }),
        ],
        ether: Some(0x86dd),
        ip: Some(41),
        ppp: Some(0x0057),
        ..NONE
    },
    Info {
        kind: HeaderKind::HopOpts,
        names: &["hopopts"],
        bytes: &[0, 0],
        fields: OPTIONS6,
        ip: Some(0),
        after: &[HeaderKind::Ipv6],
        ..NONE
    },
    Info {
        kind: HeaderKind::DstOpts,
        names: &["dstopts"],
        bytes: &[0, 0],
        fields: OPTIONS6,
        ip: Some(60),
        after: IN_IPV6,
        ..NONE
    },
    Info {
        kind: HeaderKind::Srh,
        names: &["srh", "ipv6_routing_ext"],
        bytes: &[0, 0, 4, 0, 0, 0, 0, 0],
        fields: &[
            auto("proto", Kind::Decimal, 0, 8, Role::Next(Space::Ip)),
            auto("len", Kind::Decimal, 8, 8, Role::Own { unit: 8, less: 1 }),
            field("type", Kind::Decimal, 16, 8),
            shown("left", Kind::Decimal, 24, 8),
            field("last", Kind::Decimal, 32, 8),
            field("flags", Kind::Hex, 40, 8),
            field("tag", Kind::Decimal, 48, 16),
            option("segs", Kind::Segments),
        ],
        ip: Some(43),
        after: IN_IPV6,
        ..NONE
    },
    Info {
        kind: HeaderKind::Frag,
        names: &["frag", "ipv6_frag_ext"],
        bytes: &[0, 0, 0, 0, 0, 0, 0, 0],
        fields: &[
            auto("proto", Kind::Decimal, 0, 8, Role::Next(Space::Ip)),
            shown("offset", Kind::Decimal, 16, 13),
            shown("m", Kind::Decimal, 31, 1),
            field("id", Kind::Decimal, 32, 32),
        ],
        ip: Some(44),
        after: IN_IPV6,
        ..NONE
    },
    Info {
        kind: HeaderKind::Udp,
        names: &["udp"],
        bytes: &[0x27, 0x10, 0x23, 0x28, 0, 0, 0, 0],
        fields: &[
            SRC_PORT,
            DST_PORT,
            auto("length", Kind::Decimal, 32, 16, Role::Length { from: 0 }),
            auto(
                "cksum",
                Kind::Hex,
                48,
                16,
                Role::Sum(Cover::Pseudo { zero_is_none: true }),
            ),
        ],
        ip: Some(17),
        ..NONE
    },
    Info {
        kind: HeaderKind::Tcp,
        names: &["tcp"],
        bytes: &[
            0x27, 0x10, 0x23, 0x28, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0xff, 0xff, 0, 0, 0, 0,
        ],
        fields: &[
            SRC_PORT,
            DST_PORT,
            field("seq", Kind::Decimal, 32, 32),
            field("ack", Kind::Decimal, 64, 32),
            auto("doff", Kind::Decimal, 96, 4, Role::Own { unit: 4, less: 0 }),
            shown("flags", Kind::Flags, 104, 8),
            field("win", Kind::Decimal, 112, 16),
            auto(
                "cksum",
                Kind::Hex,
                128,
                16,
                Role::Sum(Cover::Pseudo { zero_is_none: false }),
            ),
            field("urg", Kind::Decimal, 144, 16),
            option("mss", Kind::Decimal),
            option("wscale", Kind::Decimal),
            option("sackok", Kind::Bare),
            option("options", Kind::Bytes),
        ],
        ip: Some(6),
        ..NONE
    },
    Info {
        kind: HeaderKind::Icmp,
        names: &["icmp"],
        bytes: &[8, 0, 0, 0, 0, 0, 0, 0],
        fields: ECHO,
        ip: Some(1),
        after: &[HeaderKind::Ipv4],
        ..NONE
    },
    Info {
        kind: HeaderKind::Icmp6,
        names: &["icmp6"],
        bytes: &[128, 0, 0, 0, 0, 0, 0, 0],
        fields: ECHO6,
        ip: Some(58),
        after: IN_IPV6,
        ..NONE
    },
    Info {
        kind: HeaderKind::Sctp,
        names: &["sctp"],
        bytes: &[
            0x27, 0x10, 0x23, 0x28, 0, 0, 0, 1, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0,
        ],
        fields: &[
            SRC_PORT,
            DST_PORT,
            field("tag", Kind::Hex, 32, 32),
            auto("cksum", Kind::Hex, 64, 32, Role::Sum(Cover::Crc32c)),
            field("chunk", Kind::Decimal, 96, 8),
            field("flags", Kind::Hex, 104, 8),
            auto("length", Kind::Decimal, 112, 16, Role::Length { from: 12 }),
            field("tsn", Kind::Decimal, 128, 32),
            field("stream", Kind::Decimal, 160, 16),
            field("seq", Kind::Decimal, 176, 16),
            field("ppid", Kind::Decimal, 192, 32),
        ],
        ip: Some(132),
        ..NONE
    },
    Info {
        kind: HeaderKind::Igmp,
        names: &["igmp"],
        bytes: &[0x16, 0, 0, 0, 239, 0, 0, 1],
        fields: &[
            shown("type", Kind::Hex, 0, 8),
            field("resp", Kind::Decimal, 8, 8),
            auto("cksum", Kind::Hex, 16, 16, Role::Sum(Cover::Rest)),
            shown("group", Kind::Ipv4, 32, 32),
        ],
        ip: Some(2),
        after: &[HeaderKind::Ipv4],
        ..NONE
    },
    Info {
        kind: HeaderKind::Gre,
        names: &["gre"],
        bytes: &[0, 0, 0, 0],
        fields: &[
            field("version", Kind::Decimal, 13, 3),
            auto("protocol", Kind::Hex, 16, 16, Role::Next(Space::Ether)),
            auto("cksum", Kind::Hex, 0, 16, Role::Optional),
            auto("key", Kind::Decimal, 0, 32, Role::Optional),
            auto("seq", Kind::Decimal, 0, 32, Role::Optional),
        ],
        ip: Some(47),
        ..NONE
    },
    Info {
        kind: HeaderKind::Vxlan,
        names: &["vxlan"],
        bytes: &[8, 0, 0, 0, 0, 0, 0, 0],
        fields: &[shown("vni", Kind::Decimal, 32, 24), field("flags", Kind::Hex, 0, 8)],
        udp: Some(4789),
        after: &[HeaderKind::Udp],
        ..NONE
    },
    Info {
        kind: HeaderKind::Geneve,
        names: &["geneve"],
        bytes: &[0, 0, 0, 0, 0, 0, 0, 0],
        fields: &[
            shown("vni", Kind::Decimal, 32, 24),
            auto("optlen", Kind::Decimal, 2, 6, Role::Own { unit: 4, less: 2 }),
            field("oam", Kind::Decimal, 8, 1),
            field("critical", Kind::Decimal, 9, 1),
            auto("protocol", Kind::Hex, 16, 16, Role::Next(Space::Ether)),
            option("options", Kind::Bytes),
        ],
        udp: Some(6081),
        after: &[HeaderKind::Udp],
        ..NONE
    },
    Info {
        kind: HeaderKind::Gtpu,
        names: &["gtpu", "gtp"],
        bytes: &[0x30, 255, 0, 0, 0, 0, 0, 1],
        fields: &[
            shown("teid", Kind::Hex, 32, 32),
            field("msg_type", Kind::Decimal, 8, 8),
            auto("length", Kind::Decimal, 16, 16, Role::Length { from: 8 }),
            auto("qfi", Kind::Decimal, 0, 6, Role::Optional),
        ],
        udp: Some(2152),
        after: &[HeaderKind::Udp],
        ..NONE
    },
    Info {
        kind: HeaderKind::Pppoe,
        names: &["pppoe", "pppoes"],
        bytes: &[0x11, 0, 0, 1, 0, 0, 0, 0],
        fields: &[
            field("code", Kind::Hex, 8, 8),
            shown("seid", Kind::Decimal, 16, 16),
            auto("length", Kind::Decimal, 32, 16, Role::Length { from: 6 }),
            auto("proto_id", Kind::Hex, 48, 16, Role::Next(Space::Ppp)),
        ],
        ether: Some(0x8864),
        ..NONE
    },
    Info {
        kind: HeaderKind::Esp,
        names: &["esp"],
        bytes: &[0, 0, 1, 0, 0, 0, 0, 1],
        fields: &[shown("spi", Kind::Hex, 0, 32), field("seq", Kind::Decimal, 32, 32)],
        ip: Some(50),
        ..NONE
    },
    Info {
        kind: HeaderKind::Llc,
        names: &["llc"],
        bytes: &[0xaa, 0xaa, 3],
        fields: &[
            field("dsap", Kind::Hex, 0, 8),
            field("ssap", Kind::Hex, 8, 8),
            field("ctrl", Kind::Hex, 16, 8),
        ],
        after: &[HeaderKind::Eth, HeaderKind::Vlan, HeaderKind::Qinq],
        ..NONE
    },
    Info {
        kind: HeaderKind::Snap,
        names: &["snap"],
        bytes: &[0, 0, 0, 0, 0],
        fields: &[
            field("oui", Kind::Hex, 0, 24),
            auto("type", Kind::Hex, 24, 16, Role::Next(Space::Ether)),
        ],
        after: &[HeaderKind::Llc],
        ..NONE
    },
    Info {
        kind: HeaderKind::Raw,
        names: &["raw"],
        fields: &[option("hex", Kind::Bytes)],
        ..NONE
    },
    Info {
        kind: HeaderKind::Payload,
        names: &["payload"],
        ..NONE
    },
];

/// Names of the headers, the first of each.
pub(crate) const HEADERS: [&str; INFO.len()] = {
    let mut names = [""; INFO.len()];
    let mut at = 0;
    while at < INFO.len() {
        names[at] = INFO[at].names[0];
        at += 1;
    }
    names
};

impl HeaderKind {
    /// Returns what is known of the kind.
    pub(crate) fn info(self) -> &'static Info {
        static TABLE: [Info; INFO.len()] = INFO;
        &TABLE[self as usize]
    }

    /// Returns the name.
    pub fn name(self) -> &'static str {
        HEADERS[self as usize]
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        INFO.iter()
            .find(|info| info.names.contains(&name))
            .map(|info| info.kind)
    }

    /// Returns the field that names the next header, if the kind has one.
    pub(crate) fn next(self) -> Option<(&'static Field, Space)> {
        self.info().fields.iter().find_map(|field| match field.role {
            Role::Next(space) => Some((field, space)),
            _ => None,
        })
    }

    /// Returns the number by which a header names this one.
    pub(crate) fn number(self, space: Space) -> Option<u16> {
        let info = self.info();
        match space {
            Space::Ether => info.ether,
            Space::Ip => info.ip.map(u16::from),
            Space::Ppp => info.ppp,
        }
    }
}

/// Names of the bits of TCP's flags, from the lowest.
pub(crate) const FLAGS: [&str; 8] = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_stands_at_its_place_in_the_table() {
        for (at, info) in INFO.iter().enumerate() {
            assert_eq!(info.kind as usize, at, "{:?}", info.kind);
            assert_eq!(info.kind.info().names, info.names);
        }
    }

    #[test]
    fn fields_lie_within_their_headers() {
        for info in &INFO {
            for field in info.fields {
                if matches!(field.role, Role::Optional | Role::Option) {
                    continue;
                }
                let end = field.bit + field.width as usize;
                assert!(end <= info.bytes.len() * 8, "{:?} {}", info.kind, field.name);
            }
        }
    }

    #[test]
    fn no_two_names_are_the_same() {
        let names: Vec<&str> = INFO.iter().flat_map(|info| info.names).copied().collect();
        for (at, name) in names.iter().enumerate() {
            assert!(!names[..at].contains(name), "{name}");
        }
        for info in &INFO {
            for (at, field) in info.fields.iter().enumerate() {
                assert!(
                    info.fields[..at].iter().all(|other| other.name != field.name),
                    "{}",
                    field.name
                );
            }
        }
    }
}
