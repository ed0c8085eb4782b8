//! Settings of a template, and why some make no packet.

use core::net::IpAddr;

use crate::{MacAddr, STAMP_LEN};

/// Place where the UDP checksum is computed: software or device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumMode {
    /// [`Template::write`](super::Template::write) computes it.
    Software,
    /// The device computes it: only the pseudo-header's sum is written, as `CHECKSUM_PARTIAL` and virtio ask for.
    Device,
}

/// Settings that a [`Template`](super::Template) is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TemplateSpec {
    /// Source MAC address.
    pub src_mac: MacAddr,
    /// Destination MAC address; [`Template::set_dst_mac`](super::Template::set_dst_mac) changes it.
    pub dst_mac: MacAddr,
    /// VLAN identifier of an 802.1Q tag, 0 to 4094.
    pub vlan: Option<u16>,
    /// Source address.
    pub src: IpAddr,
    /// Destination address, of the same family.
    pub dst: IpAddr,
    /// UDP payload in bytes, stamp included: 16 to 65507 (IPv4) or 65527 (IPv6).
    pub payload_len: usize,
    /// Time to live or hop limit, from 1.
    pub ttl: u8,
    /// Differentiated services code point, 0 to 63.
    pub dscp: u8,
    /// Seed of the data.
    pub seed: u64,
    /// Place where the UDP checksum is computed.
    pub checksum: ChecksumMode,
}

/// A specification that makes no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// One address is IPv4, the other IPv6.
    #[error("source {src} and destination {dst} are of different families")]
    FamilyMismatch {
        /// The source.
        src: IpAddr,
        /// The destination.
        dst: IpAddr,
    },
    /// The payload has no room for the stamp, or no packet has room for the payload.
    #[error("payload of {len} bytes: want {STAMP_LEN} to {max}")]
    PayloadLength {
        /// Payload length that was asked for.
        len: usize,
        /// The most that a packet holds.
        max: usize,
    },
    /// No such VLAN.
    #[error("VLAN {0}: want 0 to 4094")]
    Vlan(u16),
    /// No such code point.
    #[error("DSCP {0}: want 0 to 63")]
    Dscp(u8),
    /// A packet that no one may receive.
    #[error("time to live 0: want 1 to 255")]
    Ttl,
}
