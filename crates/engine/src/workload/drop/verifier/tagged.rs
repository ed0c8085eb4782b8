//! Test packets that are known by their tag, whatever headers they have.
//!
//! The tag names run, flow and number. Its keyed check takes the place of addresses and ports, and of the checksums of
//! headers, which are not verified: what is right in a tagged packet is the tag and, if asked for, the data before it.

use super::{MAX_ONE_WAY_NS, Pending, Verifier};
use crate::codec::{Class, Foreign, class_of_reject};
use crate::workload::drop::ledger::Ledger;
use mpps_io::{Frame, Layer};
use mpps_wire::tagged::{Outline, outer_ip, tag_of};
use mpps_wire::{Stamp, TAG_LEN, Tag, eth, parse_udp, verify_back};
use std::net::IpAddr;

/// Send times of tags begin again after this many ns.
const TIMES: u64 = 1 << 36;
/// Numbers of tags begin again after this many. The first number of a flow is counted from here, so that there are
/// numbers below it for packets that it has overtaken.
const NUMBERS: u64 = 1 << 32;

/// Source of a tagged packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Ip(IpAddr),
    /// MAC address of a frame without IP.
    Mac([u8; 6]),
}

impl Source {
    /// Returns the source address of the outermost IP header, or the MAC address if there is none.
    #[inline]
    fn of(frame: &[u8]) -> Self {
        let ip = || {
            let packet = frame.get(outer_ip(frame)?..)?;
            match packet.first()? >> 4 {
                4 => Some(IpAddr::from(*packet.get(12..)?.first_chunk::<4>()?)),
                6 => Some(IpAddr::from(*packet.get(8..)?.first_chunk::<16>()?)),
                _ => None,
            }
        };
        ip().map_or_else(|| Self::Mac(eth::source(frame).0), Self::Ip)
    }
}

/// Returns the send time that a tag names, given when it was read: at most [`MAX_ONE_WAY_NS`] before, or else
/// after it, by a clock that is ahead of this one.
///
/// Clocks that are nearly the same are followed without a leap. Those of two hosts that differ by just 60 s, modulo
/// 68 s, are not: times then leap, and some packets are taken for those of another stream.
#[inline]
fn sent_at(tag_ns: u64, read_ns: u64) -> u64 {
    let ago = read_ns.wrapping_sub(tag_ns) % TIMES;
    match read_ns.checked_sub(ago).filter(|_| ago < MAX_ONE_WAY_NS) {
        Some(sent_ns) => sent_ns,
        None => read_ns + (TIMES - ago),
    }
}

/// Returns the number of a packet in its flow, given the one that is expected next; `None`: it is the flow's first.
#[inline]
fn number_near(number: u32, next: Option<u64>) -> u64 {
    match next {
        Some(next) => {
            let ahead = number.wrapping_sub(next as u32) as i32;
            next.saturating_add_signed(ahead.into())
        }
        None => NUMBERS + u64::from(number),
    }
}

impl Verifier<'_> {
    /// Whether a frame is a test packet by its tag, and tags are looked at.
    pub(in crate::workload::drop) fn is_tagged(&self, bytes: &[u8]) -> bool {
        self.plan.tagged.is_some() && tag_of(bytes, self.plan.common.seed).is_some()
    }

    /// Counts the frames of a burst as [`Verifier::burst`] does, if test packets are known by their tag.
    #[inline(never)]
    pub(in crate::workload::drop) fn tagged_burst<F: Frame>(
        &mut self,
        frames: &[F],
        now_ns: u64,
        ledger: &mut impl Ledger,
    ) -> usize {
        let (mut pending, mut slow) = (Pending::default(), 0);
        for frame in frames {
            slow += usize::from(self.tagged(frame, now_ns, &mut pending, ledger));
        }
        self.book(&mut pending, now_ns, ledger);
        slow
    }

    /// Counts one frame. Returns true if it is for the slow path.
    #[inline]
    fn tagged<F: Frame>(&mut self, frame: &F, now_ns: u64, pending: &mut Pending, ledger: &mut impl Ledger) -> bool {
        let bytes = frame.bytes();
        let outline = match self.layer {
            Layer::Ethernet => Some(Outline::of(bytes)),
            Layer::Payload => None,
        };
        let packet = &bytes[..outline.map_or(bytes.len(), |outline| outline.end)];
        let Some(tag) = Tag::read(packet, self.plan.common.seed) else {
            let class = match self.layer {
                Layer::Ethernet => parse_udp(bytes).err().map(class_of_reject),
                Layer::Payload => None,
            };
            let class = class.unwrap_or(Class::Foreign(Foreign::NotStamped));
            ledger.turn_to(None, |ledger| self.book(pending, now_ns, ledger));
            return self.count(Err(class), None, now_ns, pending, ledger);
        };
        if outline.is_some_and(|outline| outline.icmp_error(bytes).is_some()) {
            ledger.turn_to(None, |ledger| self.book(pending, now_ns, ledger));
            return self.count(Err(Class::Foreign(Foreign::NotUdp)), None, now_ns, pending, ledger);
        }
        ledger.turn_to(Some(tag.flow), |ledger| self.book(pending, now_ns, ledger));
        if self.plan.verify && !self.data_ok(bytes, &tag, (outline.as_ref(), packet.len())) {
            ledger.event(now_ns, |t| t.corrupt += 1);
            return false;
        }
        let Some(flow) = self.flow_of_tag(frame, &tag, outline.as_ref()) else {
            self.count_untracked(now_ns, ledger);
            return false;
        };
        let (flow, rx_time) = (flow as usize, frame.rx_time_ns());
        let next = self.streams.known(flow).then(|| self.streams.next(flow));
        let stamp = Stamp {
            seq: number_near(tag.number, next),
            time_ns: sent_at(tag.time_ns, now_ns),
        };
        self.stamped(flow, stamp, rx_time, now_ns, pending, ledger);
        false
    }

    /// Whether the data before the tag are those that were sent. Data whose beginning is not known pass.
    #[inline(always)]
    fn data_ok(&self, bytes: &[u8], tag: &Tag, (outline, end): (Option<&Outline>, usize)) -> bool {
        // Behind what nobody knows the data begin later than the headers seem to end.
        let start = match outline {
            Some(outline) => outline
                .payload_start(bytes)
                .map(|start| start.max(self.plan.tagged.unwrap_or(0))),
            None => Some(0),
        };
        let number = u64::from(tag.flow) << 32 | u64::from(tag.number);
        let (before, seed) = (&bytes[..end - TAG_LEN], self.plan.common.seed);
        let len = start.and_then(|start| before.len().checked_sub(start));
        len.is_none_or(|len| verify_back(seed, number, before, len))
    }

    /// Returns the flow of a tagged packet, by its source, run and flow number; `None` if there are too many.
    #[inline(always)]
    fn flow_of_tag<F: Frame>(&mut self, frame: &F, tag: &Tag, outline: Option<&Outline>) -> Option<u32> {
        let number = u32::from(tag.run) << 22 | tag.flow;
        match outline.and_then(Outline::ipv4_source) {
            Some(source) => {
                let wanted = u64::from(source) << 32 | u64::from(number);
                if let Some((last, flow)) = self.last_tagged
                    && last == wanted
                {
                    return Some(flow);
                }
                let flow = self.table.flow_v4(source, number, 0)?;
                self.last_tagged = Some((wanted, flow));
                Some(flow)
            }
            None => self.flow_of_any(frame, number),
        }
    }

    #[inline(never)]
    fn flow_of_any<F: Frame>(&mut self, frame: &F, number: u32) -> Option<u32> {
        let source = match self.layer {
            Layer::Ethernet => Source::of(frame.bytes()),
            Layer::Payload => frame.peer().map_or(Source::Mac([0; 6]), |peer| Source::Ip(peer.ip())),
        };
        match source {
            Source::Ip(IpAddr::V4(ip)) => self.table.flow_v4(ip.into(), number, 0),
            Source::Ip(IpAddr::V6(ip)) => self.table.flow_v6(ip.into(), number.into(), 0),
            Source::Mac(mac) => self.table.flow_mac(mac, number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_send_time_is_known_again(arrived in MAX_ONE_WAY_NS..1 << 60, ago in 0..MAX_ONE_WAY_NS) {
            prop_assert_eq!(sent_at((arrived - ago) % TIMES, arrived), arrived - ago);
        }

        #[test]
        fn a_clock_that_is_ahead_stays_ahead(arrived in 0u64..1 << 60, ahead in 1..TIMES - MAX_ONE_WAY_NS) {
            prop_assert_eq!(sent_at((arrived + ahead) % TIMES, arrived), arrived + ahead);
        }

        #[test]
        fn a_number_is_the_nearest_to_the_next(next in NUMBERS..1 << 60, ahead in i32::MIN..=i32::MAX) {
            let number = next.saturating_add_signed(ahead.into());
            prop_assert_eq!(number_near(number as u32, Some(next)), number);
        }
    }

    #[test]
    fn a_time_before_this_hosts_start_is_of_a_clock_that_is_ahead() {
        assert_eq!(sent_at(TIMES - 5, 10), TIMES - 5);
        assert_eq!(sent_at(3, 10), 3);
    }

    #[test]
    fn a_flow_begins_with_any_number() {
        assert_eq!(number_near(7, None), NUMBERS + 7);
        assert_eq!(number_near(u32::MAX, None), 2 * NUMBERS - 1);
        assert_eq!(number_near(0, Some(2 * NUMBERS)), 2 * NUMBERS);
        assert_eq!(number_near(5, Some(NUMBERS + 8)), NUMBERS + 5);
    }

    #[test]
    fn the_source_is_that_of_the_outermost_ip_header_or_the_station() {
        let mut frame = [vec![2; 6], vec![4; 6], vec![0x81, 0, 0, 5, 8, 0, 0x45], vec![0; 30]].concat();
        frame[18 + 12..18 + 16].copy_from_slice(&[10, 0, 0, 1]);
        assert_eq!(Source::of(&frame), Source::Ip([10, 0, 0, 1].into()));
        assert_eq!(Source::of(&frame[..30]), Source::Mac([4; 6]));
        assert_eq!(Source::of(&[]), Source::Mac([0; 6]));
    }
}
