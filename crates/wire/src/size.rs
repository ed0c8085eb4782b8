//! Sizes of frames: the frame size as RFC 2544 counts it, the frame that a payload makes, and its cost on the link.

use crate::eth::{HEADER_LEN, MIN_FRAME_LEN, TAG_LEN};
use crate::{ipv4, ipv6, udp};

/// A frame's size in bytes with FCS, as RFC 2544 counts it; at least [`FrameSize::MIN`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FrameSize(usize);

impl FrameSize {
    /// Bytes of the frame check sequence.
    pub const FCS_LEN: usize = 4;
    /// Shortest frame, with FCS.
    pub const MIN: usize = MIN_FRAME_LEN + Self::FCS_LEN;
    /// Bytes that a frame takes on the link beside itself: preamble, start delimiter, shortest gap.
    pub const L1_OVERHEAD: usize = 20;

    /// From the size with FCS; shorter frames are padded to [`FrameSize::MIN`].
    pub const fn from_fcs(with_fcs: usize) -> Self {
        Self(if with_fcs < Self::MIN { Self::MIN } else { with_fcs })
    }

    /// From the length of a frame in memory, without FCS.
    pub const fn from_frame_len(without_fcs: usize) -> Self {
        Self::from_fcs(without_fcs + Self::FCS_LEN)
    }

    /// From the length of a UDP payload, sent over IPv6 (`v6`) or IPv4, with a VLAN tag (`vlan`) or none.
    pub const fn from_payload(payload_len: usize, v6: bool, vlan: bool) -> Self {
        Self::from_frame_len(Self::header_len(v6, vlan) + payload_len)
    }

    /// Bytes with FCS.
    pub const fn with_fcs(self) -> usize {
        self.0
    }

    /// Bytes in memory, without FCS.
    pub const fn without_fcs(self) -> usize {
        self.0 - Self::FCS_LEN
    }

    /// The UDP payload that fills the frame; `None` if the headers alone are longer.
    pub const fn payload_len(self, v6: bool, vlan: bool) -> Option<usize> {
        self.without_fcs().checked_sub(Self::header_len(v6, vlan))
    }

    /// Bits on the link, preamble and gap counted.
    pub const fn l1_bits(self) -> u64 {
        (self.0 + Self::L1_OVERHEAD) as u64 * 8
    }

    /// Bytes of all headers up to the UDP payload, without IPv4 options and IPv6 extension headers.
    pub const fn header_len(v6: bool, vlan: bool) -> usize {
        HEADER_LEN
            + if vlan { TAG_LEN } else { 0 }
            + if v6 { ipv6::HEADER_LEN } else { ipv4::MIN_HEADER_LEN }
            + udp::HEADER_LEN
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn payload_and_frame_size_are_each_others_inverse(payload in 0usize..65507, v6: bool, vlan: bool) {
            let size = FrameSize::from_payload(payload, v6, vlan);
            let back = size.payload_len(v6, vlan).unwrap();
            prop_assert!(back == payload || size.with_fcs() == 64 && back > payload);
            prop_assert_eq!(FrameSize::from_payload(back, v6, vlan), size);
        }
    }

    #[test]
    fn known_sizes() {
        assert_eq!(FrameSize::from_payload(18, false, false).with_fcs(), 64);
        assert_eq!(FrameSize::from_payload(16, false, false).with_fcs(), 64);
        assert_eq!(FrameSize::from_fcs(64).payload_len(false, false), Some(18));
        assert_eq!(FrameSize::from_fcs(64).payload_len(true, false), None);
        assert_eq!(FrameSize::from_fcs(1518).payload_len(false, false), Some(1472));
        assert_eq!(FrameSize::from_fcs(1518).payload_len(true, false), Some(1452));
        assert_eq!(FrameSize::from_fcs(1522).payload_len(false, true), Some(1472));
        // 14.88 Mpps at 10 Gbit/s.
        assert_eq!(FrameSize::from_fcs(64).l1_bits(), 672);
    }
}
