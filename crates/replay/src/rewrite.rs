//! Changes to the headers of a frame: `eth dst=02:00:00:00:00:07 / vlan vid=10 / ipv4 src=10.0.0.0/8 ttl=9`.
//!
//! A packet's text says which fields get which values. Headers that a frame has not are left out, with all that follow
//! them in the text: of a frame with IPv4 `eth src=… / ipv6 hop=9` changes the MAC address alone. Between the tags of
//! the text and IP a frame may have more tags, labels of MPLS and PPPoE, between IPv6 and ports extension headers. What
//! is wrong stays as wrong as it was: checksums are updated for what changed (RFC 1624), and not worked out.

mod frame;
mod tags;
mod text;

use frame::{Found, Where};
use mpps_traffic::Source;
use mpps_traffic::Vlans;
use mpps_wire::{bits, eth};
use text::MOST_FIELDS;

/// Changes to the headers of a frame. The default changes nothing.
#[derive(Clone, Debug, Default)]
pub struct Rewrite {
    /// Types of the text's VLAN tags, outermost first.
    tags: Vec<u16>,
    tagging: Vlans,
    sets: Vec<Set>,
    /// Difference of ports from lap to lap.
    shift: u16,
}

/// Field that is set.
#[derive(Clone, Debug)]
struct Set {
    /// Names of its header and of the field.
    name: String,
    header: Where,
    /// First bit in the header, and bits.
    bit: usize,
    width: u32,
    value: Value,
}

#[derive(Clone, Debug)]
enum Value {
    /// Values of which each lap has the next, and their seed.
    Of(Source, u64),
    /// Value that another field has before the frame is changed, plus a number.
    Same {
        header: Where,
        bit: usize,
        width: u32,
        plus: i128,
    },
}

/// Frame that can't be changed, and is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotRewritten {
    /// Frame that is shorter than an Ethernet header.
    #[error("the frame is shorter than an Ethernet header")]
    Short,
    /// Frame without room for its VLAN tags.
    #[error("the frame has no room for its VLAN tags: want {0} bytes")]
    NoRoom(usize),
}

impl Rewrite {
    /// Has the VLAN tags of the text treated otherwise than [`Vlans::Set`].
    #[must_use]
    pub fn tagging(mut self, tagging: Vlans) -> Self {
        self.tagging = tagging;
        self
    }

    /// Shifts a port of each packet of TCP, UDP, UDP-Lite and DCCP by so much with each lap, so that a lap has flows of
    /// its own: the higher one, which is that of the client as a rule, or both where they are the same. So packets of
    /// both directions stay in one flow. Port 1 follows port 65535, and port 0 stays.
    #[must_use]
    pub fn shift_ports(mut self, by: u16) -> Self {
        self.shift = by;
        self
    }

    /// Returns whether frames change otherwise in one lap than in another.
    pub fn changes_by_lap(&self) -> bool {
        let varies = |set: &Set| !matches!(set.value, Value::Of(Source::Constant(_), _) | Value::Same { .. });
        self.shift > 0 || self.sets.iter().any(varies)
    }

    /// Returns the changes without those to VLAN tags.
    #[must_use]
    pub fn without_tags(&self) -> Self {
        Self {
            tags: Vec::new(),
            tagging: Vlans::Set,
            ..self.clone()
        }
    }

    /// Treats the VLAN tags of a frame alone, as [`Rewrite::apply`].
    ///
    /// # Errors
    /// As [`Rewrite::apply`].
    pub fn apply_tags(&self, buffer: &mut [u8], len: usize) -> Result<usize, NotRewritten> {
        let len = len.min(buffer.len());
        match len < eth::HEADER_LEN {
            true => Err(NotRewritten::Short),
            false => tags::apply(buffer, len, &self.tags, self.tagging),
        }
    }

    /// Returns which of the fields a frame has, each as a bit.
    pub(crate) fn reaches(&self, frame: &[u8]) -> u32 {
        let found = Found::of(frame);
        let bit = |(at, set): (usize, &Set)| u32::from(found.bit(set.header, set.bit, set.width).is_some()) << at;
        self.sets.iter().enumerate().map(bit).fold(0, |all, bit| all | bit)
    }

    /// Returns the name of the first field without its bit.
    pub(crate) fn unreached(&self, reached: u32) -> Option<&str> {
        let mut sets = self.sets.iter().enumerate();
        let (_, set) = sets.find(|(at, _)| reached >> at & 1 == 0)?;
        Some(&set.name)
    }

    /// Returns by how many bytes a frame may become longer.
    pub fn growth(&self) -> usize {
        self.tags.len() * eth::TAG_LEN
    }

    /// Changes the frame of `len` bytes at the beginning of `buffer` in lap `lap`, from 0, and returns its new length.
    /// Never panics, whatever the bytes. Fields behind the end of a frame that was cut are left out.
    ///
    /// # Errors
    /// [`NotRewritten`]: less than an Ethernet header, or no room for tags in `buffer`.
    pub fn apply(&self, buffer: &mut [u8], len: usize, lap: u64) -> Result<usize, NotRewritten> {
        let len = len.min(buffer.len());
        if len < eth::HEADER_LEN {
            return Err(NotRewritten::Short);
        }
        let len = tags::apply(buffer, len, &self.tags, self.tagging)?;
        let frame = buffer.get_mut(..len).unwrap_or_default();
        let found = Found::of(frame);
        let before = found.snapshot(frame);
        // All are known before one is written: fields may change places.
        let mut values = [None; MOST_FIELDS];
        for (value, set) in values.iter_mut().zip(&self.sets) {
            *value = set.value.now(frame, &found, lap);
        }
        for (value, set) in values.iter().zip(&self.sets) {
            let bit = found.bit(set.header, set.bit, set.width);
            if let Some((value, bit)) = value.zip(bit) {
                bits::set(frame, bit, set.width, value);
            }
        }
        if self.shift > 0 {
            shift(found.ports(frame), self.shift, lap);
        }
        found.update_sums(frame, &before);
        Ok(len)
    }
}

impl Value {
    /// Returns the value for a frame that is not changed yet; `None` if that has not got what it is taken from.
    fn now(&self, frame: &[u8], found: &Found, lap: u64) -> Option<u128> {
        match self {
            Self::Of(source, seed) => source.at(lap, *seed),
            Self::Same {
                header,
                bit,
                width,
                plus,
            } => {
                let bit = found.bit(*header, *bit, *width)?;
                Some(bits::get(frame, bit, *width).wrapping_add_signed(*plus))
            }
        }
    }
}

/// Shifts the higher of two ports, or both if they are the same.
fn shift(ports: Option<&mut [u8; 4]>, by: u16, lap: u64) {
    let Some(ports) = ports else { return };
    let [a, b, c, d] = *ports;
    let (src, dst) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    let shifted = |port: u16| match port {
        0 => 0,
        // Below 2^32: both factors are below 2^16.
        port => {
            let by = u64::from(by) * (lap % 65_535);
            ((u64::from(port) - 1 + by) % 65_535 + 1) as u16
        }
    };
    let new_src = if src >= dst { shifted(src) } else { src };
    let new_dst = if dst >= src { shifted(dst) } else { dst };
    let ([a, b], [c, d]) = (new_src.to_be_bytes(), new_dst.to_be_bytes());
    *ports = [a, b, c, d];
}
