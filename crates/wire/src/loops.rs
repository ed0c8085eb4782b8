//! Packets that go round between a reflector and another program that returns what it gets.
//!
//! Between two reflectors that lower the time to live, the time to live bounds how often a packet goes round. An echo
//! server over an ordinary socket gives each answer a fresh time to live and returns only the payload. So a loop must
//! be detected by the payload: a packet that goes round comes again and again from one source with the same bytes. Many
//! ordinary senders (trafgen, nping, a client that waits for each answer) also repeat the same bytes, and no counting
//! can distinguish the two. A question can: in place of an answer the source is sent a *probe*, [`PROBE_LEN`] bytes
//! that nobody else can know. A source that returns the probe is a reflector, and is answered no more. An ordinary
//! sender never returns it, and has lost one answer.
//!
//! The probe is due when a source has sent the same bytes [`FIRST_DUE`] times more, then at twice as many, and so on:
//! three times before a packet has gone round 255 times, 25 times in a thousand million packets.
//!
//! Packets seen are kept in a table of fixed size, in sets of four. A new packet takes a free place, so that few
//! packets do not push each other out. In a full set, each of the four places takes new packets four times more rarely
//! than the place before it, and so keeps a packet four times longer. So a packet that took a long way round is found
//! again even beside other traffic. Nothing here allocates after the start.

use core::net::{IpAddr, SocketAddr};

use crate::bytes::chunk;
use crate::checksum::Sum;
use crate::udp::CHECKSUM_OFFSET;
use crate::{UdpPacket, eth, parse_udp, udp};

/// Payload bytes of a probe: fewer than those of any test packet, so that a probe is recognized by its length.
pub const PROBE_LEN: usize = 12;
/// Times that a source may send the same bytes again before the first probe.
pub const FIRST_DUE: u32 = 32;
/// Most that one packet counts for, if not every packet is looked at: a packet that comes twice is no loop yet.
const MOST_WEIGHT: u32 = FIRST_DUE / 2;
/// Number of newcomers that an entry withstands: for each time that its packet comes again, and at most.
const LIFE: u8 = 8;
const MOST_LIFE: u8 = 64;
const MAGIC: [u8; 4] = *b"loop";
const SETS: usize = 1024;
const WAYS: usize = 4;
/// Number of sources remembered as returning what they get. A newer source may take the place of an older one: packets
/// that went round with the older source are gone by then, and that source would be found again.
const RETURNERS: usize = 256;

/// Address and port that a packet came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    ip: [u64; 2],
    port: u16,
}

impl Source {
    /// Returns the source of a packet in a frame.
    #[inline]
    pub fn of(frame: &[u8], p: &UdpPacket) -> Self {
        let at = if p.v6 { 8 } else { 12 };
        Self::at(frame, p, usize::from(p.l3) + at, p.src_port)
    }

    /// Returns the source of a packet that was turned already: the packet's destination now.
    #[inline]
    pub fn of_turned(frame: &[u8], p: &UdpPacket) -> Self {
        let at = if p.v6 { 24 } else { 16 };
        Self::at(frame, p, usize::from(p.l3) + at, p.dst_port)
    }

    #[inline]
    fn at(frame: &[u8], p: &UdpPacket, at: usize, port: u16) -> Self {
        let word = |at: usize| chunk::<8>(frame, at).map_or(0, |w| u64::from_le_bytes(*w));
        let ip = if p.v6 {
            [word(at), word(at + 8)]
        } else {
            let v4 = chunk::<4>(frame, at).map_or(0, |w| u32::from_le_bytes(*w));
            [0, 0xffff_0000 | u64::from(v4) << 32]
        };
        Self { ip, port }
    }
}

impl From<SocketAddr> for Source {
    fn from(address: SocketAddr) -> Self {
        let octets = match address.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
            IpAddr::V6(ip) => ip.octets(),
        };
        let word = |at: usize| chunk::<8>(&octets, at).map_or(0, |w| u64::from_le_bytes(*w));
        Self {
            ip: [word(0), word(8)],
            port: address.port(),
        }
    }
}

/// Decision on a packet that was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// The packet is answered.
    Ordinary,
    /// The answer is withheld: the probe that comes next is longer than an answer, and no source is sent more bytes
    /// than it sent.
    Withheld,
    /// These bytes take the place of the packet's payload.
    Probe([u8; PROBE_LEN]),
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    tag: u32,
    /// Times that the packet came again.
    score: u32,
    /// The next probe is due at this score.
    due: u32,
    /// Newcomers that the entry withstands.
    life: u8,
    withheld: bool,
}

const NOT_SEEN: Seen = Seen {
    tag: 0,
    score: 0,
    due: FIRST_DUE,
    life: 0,
    withheld: false,
};

/// One lane's memory of packets that came again, and of sources that return what they get.
#[derive(Debug)]
pub struct Loops {
    secret: [u64; 2],
    seen: Box<[[Seen; WAYS]]>,
    returners: Box<[u64]>,
    any: bool,
    random: u64,
}

impl Loops {
    /// `secret` is random, the same for all lanes of a run, and nobody else's.
    pub fn new(secret: [u64; 2]) -> Self {
        Self {
            secret,
            seen: vec![[NOT_SEEN; WAYS]; SETS].into_boxed_slice(),
            returners: vec![0; RETURNERS].into_boxed_slice(),
            any: false,
            random: secret[0] | 1,
        }
    }

    /// Whether any source is known to return what it gets. If so, the source of every packet is to be looked up; if
    /// not, only the source of packets with [`PROBE_LEN`] bytes of payload.
    #[inline(always)]
    pub fn alert(&self) -> bool {
        self.any
    }

    /// Whether a packet is to be answered: false if its source returns what it gets.
    pub fn admits(&mut self, source: Source, payload: &[u8]) -> bool {
        let probe = payload.len() == PROBE_LEN && payload.starts_with(&MAGIC);
        if !probe && !self.any {
            return true;
        }
        let mark = self.mark(source);
        let place = &mut self.returners[mark as usize % RETURNERS];
        if probe && payload[MAGIC.len()..] == mark.to_le_bytes() {
            *place = mark;
            self.any = true;
        }
        *place != mark
    }

    /// Notes a packet that is to be answered, one of `weight` that came. `checksum`: of its payload, or 0.
    pub fn look(&mut self, source: Source, payload: &[u8], checksum: u16, weight: u32) -> Look {
        let hash = self.hash(source, payload, checksum);
        let (set, tag) = (hash as usize % SETS, (hash >> 32) as u32 | 1);
        let Some(found) = self.seen[set].iter_mut().find(|seen| seen.tag == tag) else {
            self.insert(set, tag);
            return Look::Ordinary;
        };
        found.life = (found.life + LIFE).min(MOST_LIFE);
        found.score = found.score.saturating_add(weight.clamp(1, MOST_WEIGHT));
        if found.score < found.due || found.due == u32::MAX {
            return Look::Ordinary;
        }
        if payload.len() < PROBE_LEN && !found.withheld {
            found.withheld = true;
            return Look::Withheld;
        }
        found.withheld = false;
        found.due = found.due.saturating_mul(2);
        let mark = self.mark(source);
        let mut probe = [0; PROBE_LEN];
        probe[..MAGIC.len()].copy_from_slice(&MAGIC);
        probe[MAGIC.len()..].copy_from_slice(&mark.to_le_bytes());
        Look::Probe(probe)
    }

    #[inline]
    fn insert(&mut self, set: usize, tag: u32) {
        if let Some(free) = self.seen[set].iter_mut().find(|seen| seen.tag == NOT_SEEN.tag) {
            free.tag = tag;
            return;
        }
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let way = (self.random.trailing_zeros() as usize / 2).min(WAYS - 1);
        let seen = &mut self.seen[set][way];
        match seen.life.checked_sub(1) {
            // It has come again: it stays for a while.
            Some(less) => seen.life = less,
            None => *seen = Seen { tag, ..NOT_SEEN },
        }
    }

    /// Hashes everything that stays the same when a packet comes again.
    #[inline]
    fn hash(&self, source: Source, payload: &[u8], checksum: u16) -> u64 {
        let mix = |hash: u64, word: u64| {
            let hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            hash ^ hash >> 32
        };
        let word = |at: usize| match chunk::<8>(payload, at) {
            Some(word) => u64::from_le_bytes(*word),
            None => payload
                .iter()
                .skip(at)
                .fold(0, |word, &byte| word << 8 | u64::from(byte)),
        };
        let rest = u64::from(source.port) << 48 | u64::from(checksum) << 32 | payload.len() as u64;
        [source.ip[0], source.ip[1], rest, word(0), word(8)]
            .into_iter()
            .fold(self.secret[0], mix)
    }

    /// Returns the number of this source: SipHash-2-4 of its address. Nobody knows it without the secret, unless it was
    /// sent to him.
    fn mark(&self, source: Source) -> u64 {
        let [k0, k1] = self.secret;
        let mut v = [
            k0 ^ 0x736f_6d65_7073_6575,
            k1 ^ 0x646f_7261_6e64_6f6d,
            k0 ^ 0x6c79_6765_6e65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        ];
        // 18 bytes, and their number in the last word's highest byte.
        for word in [source.ip[0], source.ip[1], u64::from(source.port) | 18 << 56] {
            v[3] ^= word;
            (0..2).for_each(|_| sip_round(&mut v));
            v[0] ^= word;
        }
        v[2] ^= 0xff;
        (0..4).for_each(|_| sip_round(&mut v));
        // 0 is no mark: a free place.
        (v[0] ^ v[1] ^ v[2] ^ v[3]).max(1)
    }
}

fn sip_round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[2] = v[2].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].rotate_left(32).wrapping_add(v[3]);
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].rotate_left(32);
}

/// The checksum field of a packet, for [`Loops::look`]: turning leaves it as it is.
#[inline]
pub(crate) fn checksum_field(frame: &[u8], p: &UdpPacket) -> u16 {
    chunk::<2>(frame, usize::from(p.l4) + CHECKSUM_OFFSET).map_or(0, |field| u16::from_le_bytes(*field))
}

/// Makes a packet into a probe: its headers stay, its payload becomes `probe`. `len` is the frame's length; `frame` may
/// have room behind it. Returns the new length; `None`, with nothing changed, if it does not fit or is no UDP
/// packet.
pub fn make_probe_in_place(frame: &mut [u8], len: usize, probe: [u8; PROBE_LEN]) -> Option<usize> {
    let mut p = parse_udp(frame.get(..len)?).ok()?;
    let (l3, l4) = (usize::from(p.l3), usize::from(p.l4));
    let end = l4 + udp::HEADER_LEN + PROBE_LEN;
    // A short frame is padded, as it may have been before.
    let new_len = end.max(len.min(eth::MIN_FRAME_LEN));
    let behind = frame.get_mut(l4 + udp::HEADER_LEN..new_len)?;
    behind.fill(0);
    behind[..PROBE_LEN].copy_from_slice(&probe);
    frame[l4 + 4..l4 + 6].copy_from_slice(&((udp::HEADER_LEN + PROBE_LEN) as u16).to_be_bytes());
    if p.v6 {
        let payload_len = (end - l3 - crate::ipv6::HEADER_LEN) as u16;
        frame[l3 + 4..l3 + 6].copy_from_slice(&payload_len.to_be_bytes());
    } else {
        frame[l3 + 2..l3 + 4].copy_from_slice(&((end - l3) as u16).to_be_bytes());
        frame[l3 + 10..l3 + 12].fill(0);
        let sum = Sum::ZERO.bytes(&frame[l3..l4]).finish();
        frame[l3 + 10..l3 + 12].copy_from_slice(&sum);
    }
    p.payload_len = PROBE_LEN as u16;
    udp::complete_udp_checksum(frame, &p);
    Some(new_len)
}
