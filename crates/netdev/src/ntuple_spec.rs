//! Contents of an ntuple filter, and its layout in the kernel's interface.

use std::mem::{offset_of, size_of};

// include/uapi/linux/ethtool.h
const TCP_V4_FLOW: u32 = 0x01;
const UDP_V4_FLOW: u32 = 0x02;
const TCP_V6_FLOW: u32 = 0x05;
const UDP_V6_FLOW: u32 = 0x06;
const IPV4_USER_FLOW: u32 = 0x0d;
const IPV6_USER_FLOW: u32 = 0x0e;
const ETHER_FLOW: u32 = 0x12;
const FLOW_EXT: u32 = 0x8000_0000;
const FLOW_MAC_EXT: u32 = 0x4000_0000;
const ETH_RX_NFC_IP4: u8 = 1;
const RX_CLS_FLOW_DISC: u64 = u64::MAX;

/// A value and the bits of it that count; the default counts none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bitmatch<T> {
    /// Value that packets are compared with.
    pub value: T,
    /// Ones where a bit counts.
    pub mask: T,
}

/// Protocol above IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Above {
    /// UDP with these ports.
    Udp {
        /// Source port.
        src: Bitmatch<u16>,
        /// Destination port.
        dst: Bitmatch<u16>,
    },
    /// TCP with these ports.
    Tcp {
        /// Source port.
        src: Bitmatch<u16>,
        /// Destination port.
        dst: Bitmatch<u16>,
    },
    /// Any protocol with this number.
    Protocol(Bitmatch<u8>),
}

/// The headers that a filter looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Headers {
    /// Ethernet alone.
    Ethernet {
        /// Destination MAC address.
        dst: Bitmatch<[u8; 6]>,
        /// Source MAC address.
        src: Bitmatch<[u8; 6]>,
        /// EtherType.
        ethertype: Bitmatch<u16>,
    },
    /// IPv4.
    Ipv4 {
        /// Source address.
        src: Bitmatch<[u8; 4]>,
        /// Destination address.
        dst: Bitmatch<[u8; 4]>,
        /// Type of service.
        tos: Bitmatch<u8>,
        /// Protocol above IPv4.
        above: Above,
    },
    /// IPv6.
    Ipv6 {
        /// Source address.
        src: Bitmatch<[u8; 16]>,
        /// Destination address.
        dst: Bitmatch<[u8; 16]>,
        /// Traffic class.
        class: Bitmatch<u8>,
        /// Protocol above IPv6.
        above: Above,
    },
}

/// Fate of packets that match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Packets are received by this queue.
    Queue(u16),
    /// The device discards them.
    Discard,
}

/// A filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ntuple {
    /// The headers.
    pub headers: Headers,
    /// Destination MAC address, beside IP headers; `None`: any.
    pub dst_mac: Option<Bitmatch<[u8; 6]>>,
    /// EtherType of a VLAN tag; `None`: not looked at.
    pub vlan_type: Option<Bitmatch<u16>>,
    /// A VLAN tag's control information; `None`: tagged or not.
    pub vlan_tci: Option<Bitmatch<u16>>,
    /// Fate of packets that match.
    pub fate: Fate,
}

/// `struct ethtool_flow_ext`; its `h_dest`, `vlan_etype` and `vlan_tci` by their offsets.
const EXT_DEST: usize = 2;
const EXT_VLAN_TYPE: usize = 8;
const EXT_VLAN_TCI: usize = 10;

/// `union ethtool_flow_union` and `struct ethtool_flow_ext`, side by side as they lie: the value, or its mask.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Side {
    header: [u8; 52],
    ext: [u8; 20],
}

/// `struct ethtool_rx_flow_spec`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowSpec {
    flow_type: u32,
    value: Side,
    mask: Side,
    padding: u32,
    pub(crate) ring_cookie: u64,
    pub(crate) location: u32,
    tail: u32,
}

const _: () = assert!(size_of::<Side>() == 72 && size_of::<FlowSpec>() == 168);
const _: () = assert!(offset_of!(FlowSpec, value) == 4 && offset_of!(FlowSpec, mask) == 76);
const _: () = assert!(offset_of!(FlowSpec, ring_cookie) == 152 && offset_of!(FlowSpec, location) == 160);

impl Side {
    const ANY: Self = Self {
        header: [0; 52],
        ext: [0; 20],
    };

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.header[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn put_ext(&mut self, at: usize, bytes: &[u8]) {
        self.ext[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

impl FlowSpec {
    pub(crate) const ANY: Self = Self {
        flow_type: 0,
        value: Side::ANY,
        mask: Side::ANY,
        padding: 0,
        ring_cookie: 0,
        location: 0,
        tail: 0,
    };

    fn bytes<const N: usize>(&mut self, at: usize, field: Bitmatch<[u8; N]>) {
        self.value.put(at, &field.value);
        self.mask.put(at, &field.mask);
    }

    fn word(&mut self, at: usize, field: Bitmatch<u16>) {
        self.value.put(at, &field.value.to_be_bytes());
        self.mask.put(at, &field.mask.to_be_bytes());
    }

    fn byte(&mut self, at: usize, field: Bitmatch<u8>) {
        self.value.put(at, &[field.value]);
        self.mask.put(at, &[field.mask]);
    }

    /// Writes the ports, or the protocol number in their place. `at` is the offset of the ports behind the addresses,
    /// `protocol` the offset of the protocol number.
    fn above(&mut self, at: usize, protocol: usize, above: Above, [udp, tcp, user]: [u32; 3]) {
        match above {
            Above::Udp { src, dst } | Above::Tcp { src, dst } => {
                self.flow_type = if matches!(above, Above::Udp { .. }) { udp } else { tcp };
                self.word(at, src);
                self.word(at + 2, dst);
            }
            Above::Protocol(number) => {
                self.flow_type = user;
                self.byte(protocol, number);
            }
        }
    }

    pub(crate) fn of(filter: &Ntuple) -> Self {
        let mut spec = Self::ANY;
        match filter.headers {
            Headers::Ethernet { dst, src, ethertype } => {
                spec.flow_type = ETHER_FLOW;
                spec.bytes(0, dst);
                spec.bytes(6, src);
                spec.word(12, ethertype);
            }
            Headers::Ipv4 { src, dst, tos, above } => {
                spec.bytes(0, src);
                spec.bytes(4, dst);
                spec.byte(12, tos);
                spec.above(8, 14, above, [UDP_V4_FLOW, TCP_V4_FLOW, IPV4_USER_FLOW]);
                if spec.flow_type == IPV4_USER_FLOW {
                    spec.value.put(13, &[ETH_RX_NFC_IP4]);
                }
            }
            Headers::Ipv6 { src, dst, class, above } => {
                spec.bytes(0, src);
                spec.bytes(16, dst);
                spec.byte(36, class);
                spec.above(32, 37, above, [UDP_V6_FLOW, TCP_V6_FLOW, IPV6_USER_FLOW]);
            }
        }
        if let Some(mac) = filter.dst_mac {
            spec.flow_type |= FLOW_MAC_EXT;
            spec.value.put_ext(EXT_DEST, &mac.value);
            spec.mask.put_ext(EXT_DEST, &mac.mask);
        }
        for (field, at) in [(filter.vlan_type, EXT_VLAN_TYPE), (filter.vlan_tci, EXT_VLAN_TCI)] {
            if let Some(field) = field {
                spec.flow_type |= FLOW_EXT;
                spec.value.put_ext(at, &field.value.to_be_bytes());
                spec.mask.put_ext(at, &field.mask.to_be_bytes());
            }
        }
        spec.ring_cookie = match filter.fate {
            Fate::Queue(index) => index.into(),
            Fate::Discard => RX_CLS_FLOW_DISC,
        };
        spec
    }
}

#[cfg(test)]
#[path = "ntuple_spec_tests.rs"]
mod tests;
