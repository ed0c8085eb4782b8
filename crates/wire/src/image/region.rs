//! Checksums of an image, with all that is constant summed before.

use super::parts::PartSum;
use super::{ImageSpec, MOST_SUMS, SumKind, SumOf};
use crate::bytes::chunk_mut;
use crate::checksum::Sum;
use crate::udp::CHECKSUM_OFFSET;

/// Checksum that differs from packet to packet.
#[derive(Clone, Debug)]
pub(super) struct Region {
    pub(super) of: SumOf,
    /// Sum of the constant words.
    pub(super) constant: Sum,
    /// Weight of the sum of what follows the headers.
    rest: Weight,
    /// Weights of the checksums before this one, and how many of them count.
    inner: [Weight; MOST_SUMS],
    inners: usize,
}

/// Way in which a word counts in a sum: not at all, as it is, or as bytes at odd places (RFC 1071, section 2 (B)).
/// Without branches, because it is applied to each packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Weight {
    mask: u64,
    turn: u32,
}

impl Weight {
    /// Returns the weight of a word that begins so many bytes after an even place.
    pub(super) fn at(distance: usize) -> Self {
        Self {
            mask: u64::MAX,
            turn: if distance.is_multiple_of(2) { 0 } else { 8 },
        }
    }

    /// Returns what a word adds to a sum.
    #[inline(always)]
    pub(super) fn of(self, word: u64) -> u64 {
        word.rotate_left(self.turn) & self.mask
    }

    /// Returns what takes a word from a sum again.
    #[inline(always)]
    fn without(self, word: u64) -> u64 {
        (!word).rotate_left(self.turn) & self.mask
    }

    /// Returns the factor that does the same to numbers below 2^56.
    pub(super) fn factor(self) -> u64 {
        self.mask & 1 << self.turn
    }

    pub(super) fn counts(self) -> bool {
        self.mask != 0
    }
}

/// Internet checksum that is right, and covers no other checksum that differs from packet to packet: what the loop over
/// packets keeps in registers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Simple {
    /// Byte of the field; of 32 bits, so that no sum with it overflows.
    at: u32,
    constant: Sum,
    rest: Weight,
    /// Field in place of 0.
    zero: u16,
}

impl Simple {
    /// Returns the sum of the constant words.
    #[inline(always)]
    pub(super) fn constant(&self) -> Sum {
        self.constant
    }

    /// Returns whether it is that of a UDP header at byte `at`, and its payload ends at an even place.
    pub(super) fn is_of_udp(&self, at: usize) -> bool {
        self.at as usize == at + CHECKSUM_OFFSET && self.rest == Weight::at(0) && self.zero == 0xffff
    }

    /// Does the same as [`Simple::write`] for one that [is of UDP](Simple::is_of_udp).
    #[inline(always)]
    pub(super) fn write_udp(frame: &mut [u8], at: usize, sum: Sum, end: Sum) {
        if let Some(field) = chunk_mut::<2>(frame, at + CHECKSUM_OFFSET) {
            *field = sum.plus(end).finish_udp();
        }
    }

    /// Writes the checksum. `sum` is that of the headers, `end` that of the payload.
    #[inline(always)]
    pub(super) fn write(self, frame: &mut [u8], sum: Sum, end: Sum) {
        let field = !sum.word(self.rest.of(end.to_word())).fold();
        let at = self.at as usize;
        if let Some(bytes) = frame.get_mut(at..at + 2) {
            bytes.copy_from_slice(&if field == 0 { self.zero } else { field }.to_le_bytes());
        }
    }
}

impl SumOf {
    /// Returns the weight of a window of the frame from byte `at` on, for a field in bytes `first` to `last`.
    pub(super) fn weight(&self, at: usize, (first, last): (usize, usize)) -> Weight {
        if self.kind == SumKind::Crc32c {
            return Weight::default();
        }
        let within = |bytes: &&core::ops::Range<usize>| bytes.start <= first && last < bytes.end;
        let pseudo = self.pseudo.as_ref();
        let address = pseudo.and_then(|(src, dst, _)| [src, dst].into_iter().find(within));
        let inside = self.covers.start <= first && (self.rest || last < self.covers.end);
        match address.map(|bytes| bytes.start).or(inside.then_some(self.covers.start)) {
            Some(start) => Weight::at(at.abs_diff(start)),
            None => Weight::default(),
        }
    }
}

impl Region {
    /// Works out the constant part of `sum`. `headers` has the constant checksums inside, `before` are the others.
    pub(super) fn of(spec: &ImageSpec, sum: &SumOf, headers: &[u8], before: &[Region]) -> Self {
        let end = if sum.rest { headers.len() } else { sum.covers.end };
        let mut constant = Sum::ZERO.bytes(&headers[sum.covers.start..end]);
        if let Some((src, dst, proto)) = &sum.pseudo {
            let len = (spec.frame_len - sum.covers.start) as u32;
            constant = constant
                .bytes(&headers[src.clone()])
                .bytes(&headers[dst.clone()])
                .number((len >> 16) as u16)
                .number(len as u16)
                .number(u16::from(*proto));
        }
        let mut inner = [Weight::default(); MOST_SUMS];
        for (weight, region) in inner.iter_mut().zip(before) {
            if sum.rest && sum.covers.start <= region.of.at {
                *weight = Weight::at(region.of.at - sum.covers.start);
            }
        }
        let inners = inner
            .iter()
            .rposition(|weight| weight.counts())
            .map_or(0, |last| last + 1);
        Self {
            of: sum.clone(),
            constant: Sum::ZERO.word(constant.fold().into()),
            rest: match sum.rest {
                true => Weight::at(spec.frame_len - sum.covers.start),
                false => Weight::default(),
            },
            inner,
            inners,
        }
    }

    /// Returns whether the checksum is the same in all packets if no field that varies counts in it.
    pub(super) fn is_constant(&self) -> bool {
        !self.of.rest && self.of.kind != SumKind::Crc32c
    }

    /// Returns the checksum as plain numbers; `None` if it is CRC32c, or wrong.
    pub(super) fn part(&self) -> Option<PartSum> {
        let plain = !self.of.wrong && self.of.kind != SumKind::Crc32c;
        plain.then(|| PartSum {
            at: self.of.at as u32,
            constant: self.constant.fold(),
            rest: self.rest.factor(),
            inner: self.inner.map(Weight::factor),
            zero: if self.of.kind == SumKind::Udp { 0xffff } else { 0 },
        })
    }

    /// Returns the checksum as a simple one, if it is.
    pub(super) fn simple(&self) -> Option<Simple> {
        let simple = !self.of.wrong && self.inners == 0 && self.of.kind != SumKind::Crc32c;
        simple.then_some(Simple {
            at: self.of.at as u32,
            constant: self.constant,
            rest: self.rest,
            zero: if self.of.kind == SumKind::Udp { 0xffff } else { 0 },
        })
    }

    /// Writes the checksum of a frame in which all inside is right. `sum` is that of constant words and of fields
    /// that vary, `end` that of the payload, as if it ended at an even place.
    #[inline(always)]
    pub(super) fn write(&self, regions: &[Region], frame: &mut [u8], sum: Sum, end: Sum) {
        if self.of.kind == SumKind::Crc32c {
            return self.write_crc(frame);
        }
        let mut sum = sum.word(self.rest.of(end.to_word()));
        for (weight, region) in self.inner[..self.inners].iter().zip(regions) {
            sum = sum.word(weight.of(region.read(frame)));
        }
        self.put(frame, sum);
    }

    /// Writes the constant checksum into the headers.
    pub(super) fn write_constant(&self, headers: &mut [u8]) {
        self.put(headers, self.constant);
    }

    /// Writes the field of a sum.
    #[inline(always)]
    fn put(&self, frame: &mut [u8], sum: Sum) {
        let field = match self.of.kind {
            SumKind::Udp => sum.finish_udp(),
            _ => sum.finish(),
        };
        if let Some(bytes) = chunk_mut::<2>(frame, self.of.at) {
            *bytes = if self.of.wrong { self.wrong(field) } else { field };
        }
    }

    /// Returns another number, and neither "none" nor the other form of zero.
    #[cold]
    fn wrong(&self, [high, low]: [u8; 2]) -> [u8; 2] {
        let bit = match (self.of.kind, [high, low]) {
            (SumKind::Udp, [0, 1]) => 2,
            _ => 1,
        };
        [high, low ^ bit]
    }

    #[cold]
    fn write_crc(&self, frame: &mut [u8]) {
        let at = self.of.at;
        frame[at..at + 4].fill(0);
        let mut crc = crc32c(&frame[self.of.covers.start..]);
        crc[0] ^= u8::from(self.of.wrong);
        frame[at..at + 4].copy_from_slice(&crc);
    }

    /// Returns the field as it lies in the frame, as a little-endian word.
    #[inline(always)]
    pub(super) fn read(&self, frame: &[u8]) -> u64 {
        let rest = frame.get(self.of.at..).unwrap_or_default();
        match self.of.kind {
            SumKind::Crc32c => rest.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes).into()),
            _ => rest.first_chunk().map_or(0, |bytes| u16::from_le_bytes(*bytes).into()),
        }
    }

    /// Updates the checksum after the last word of the frame changed from `old` to `new`, and those of `regions` before
    /// this one from `fields` to what the frame has (RFC 1624, equation 3).
    pub(super) fn update(&self, regions: &[Region], fields: &[u64], frame: &mut [u8], old: u64, new: u64) {
        if self.of.kind == SumKind::Crc32c {
            return self.write_crc(frame);
        }
        if !self.of.rest {
            return;
        }
        if self.of.wrong {
            // A wrong field does not say which the right one was.
            let sum = self.sum_again(frame);
            return self.put(frame, sum);
        }
        let mut sum = Sum::ZERO
            .word(!self.read(frame) & 0xffff)
            .word(self.rest.without(old))
            .word(self.rest.of(new));
        for ((weight, region), field) in self.inner[..self.inners].iter().zip(regions).zip(fields) {
            sum = sum.word(weight.without(*field)).word(weight.of(region.read(frame)));
        }
        self.put(frame, sum);
    }

    /// Returns the sum of all that the checksum covers in this frame.
    fn sum_again(&self, frame: &mut [u8]) -> Sum {
        let of = &self.of;
        frame[of.at..of.at + 2].fill(0);
        let sum = Sum::ZERO.bytes(&frame[of.covers.start..]);
        of.pseudo.as_ref().map_or(sum, |(src, dst, proto)| {
            let len = (frame.len() - of.covers.start) as u32;
            sum.bytes(&frame[src.clone()])
                .bytes(&frame[dst.clone()])
                .number((len >> 16) as u16)
                .number(len as u16)
                .number(u16::from(*proto))
        })
    }
}

/// Returns the CRC32c (RFC 9260, appendix A) in the order of transmission.
fn crc32c(bytes: &[u8]) -> [u8; 4] {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut at = 0;
        while at < 256 {
            let (mut crc, mut bit) = (at as u32, 0);
            while bit < 8 {
                crc = crc >> 1 ^ (0x82f6_3b78 * (crc & 1));
                bit += 1;
            }
            table[at] = crc;
            at += 1;
        }
        table
    };
    let crc = bytes
        .iter()
        .fold(!0u32, |crc, byte| crc >> 8 ^ TABLE[usize::from(crc as u8 ^ byte)]);
    (!crc).to_le_bytes()
}
