//! Images of random headers.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part")]

use mpps_wire::image::{Data, Field, SumKind, SumOf, Values};
use mpps_wire::{ImageSpec, TAG_FLOWS, TAG_LEN, random};

/// Numbers that a case is drawn from.
pub struct Draw {
    pub seed: u64,
    pub drawn: u64,
}

impl Draw {
    pub fn word(&mut self) -> u64 {
        self.drawn += 1;
        random(self.seed, self.drawn)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.word() % n as u64) as usize
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn value(&mut self, width: u32) -> u128 {
        let whole = u128::from(self.word()) << 64 | u128::from(self.word());
        let shift = if self.one_in(2) {
            128 - width
        } else {
            128 - self.below(width as usize) as u32 - 1
        };
        whole >> shift
    }
}

pub fn ones(width: u32) -> u128 {
    u128::MAX >> (128 - width)
}

/// Returns headers in parts, each with a checksum perhaps, which covers this part or all from it on.
pub fn any_spec(draw: &mut Draw) -> ImageSpec {
    let usual = [
        None,
        Some(42),
        Some(46),
        Some(54),
        Some(62),
        Some(66),
        Some(92),
        Some(112),
    ][draw.below(8)];
    let flows = [1, 2, 7, 300, 5000, 1 << 20][draw.below(6)];
    let (mut at, mut fields, mut sums, mut addresses) = (0, Vec::new(), Vec::new(), Vec::new());
    for _ in 0..1 + draw.below(5) {
        let start = at;
        let mut field_of_sum = None;
        for _ in 0..1 + draw.below(4) {
            let len = 1 + draw.below(20);
            fields_of(draw, at..at + len, flows, &mut fields);
            if len == 4 || len == 16 {
                addresses.push(at..at + len);
            }
            at += len;
            if field_of_sum.is_none() && sums.len() < 4 && draw.one_in(3) {
                field_of_sum = Some(at);
                at += 4;
            }
        }
        if let Some(field) = field_of_sum {
            let rest = draw.one_in(2);
            let kind = match draw.below(if rest { 6 } else { 5 }) {
                0 | 1 => SumKind::Internet,
                2..5 => SumKind::Udp,
                _ => SumKind::Crc32c,
            };
            let address = |draw: &mut Draw, len| {
                let those: Vec<_> = addresses
                    .iter()
                    .filter(|bytes| bytes.end <= start && bytes.len() == len)
                    .collect();
                (!those.is_empty()).then(|| those[draw.below(those.len())].clone())
            };
            let len = [4, 16][draw.below(2)];
            let pseudo = address(draw, len).zip(address(draw, len));
            sums.push(SumOf {
                at: field,
                covers: start..at,
                rest,
                pseudo: pseudo.filter(|(src, dst)| src != dst).map(|(src, dst)| (src, dst, 17)),
                kind,
                wrong: draw.one_in(5),
            });
        }
    }
    if let Some(len) = usual.filter(|len| *len > at) {
        at = len;
    }
    for sum in sums.iter_mut().filter(|sum| sum.rest) {
        sum.covers.end = at;
    }
    // Innermost first.
    sums.reverse();
    let mut headers: Vec<u8> = (0..at).map(|_| draw.word() as u8).collect();
    for field in &fields {
        set_bits(&mut headers, field, 0);
    }
    for sum in &sums {
        headers[sum.at..sum.at + 2].fill(0);
        if sum.kind == SumKind::Crc32c {
            headers[sum.at..sum.at + 4].fill(0);
        }
    }
    let tagged = !draw.one_in(4);
    let data_len = match draw.below(4) {
        0 => draw.below(8),
        1 => draw.below(200),
        _ => draw.below(64),
    };
    ImageSpec {
        frame_len: at + data_len + if tagged { TAG_LEN } else { 0 },
        varied: 0,
        headers,
        fields,
        sums,
        data: match draw.below(4) {
            0 => Data::Pattern((0..1 + draw.below(5)).map(|_| draw.word() as u8).collect()),
            _ => Data::Verified,
        },
        tagged,
        seed: draw.word(),
        run: draw.word() as u8,
        flows,
        first_flow: draw.below((TAG_FLOWS - flows) as usize) as u32,
    }
}

fn fields_of(draw: &mut Draw, bytes: std::ops::Range<usize>, flows: u32, fields: &mut Vec<Field>) {
    let (mut bit, end) = (bytes.start * 8, bytes.end * 8);
    while draw.one_in(2) && bit < end {
        let whole = draw.one_in(2);
        bit += if whole { 0 } else { draw.below(end - bit) };
        let most = (end - bit).min(128);
        let width = if whole { most } else { 1 + draw.below(most) } as u32;
        fields.push(Field {
            bit,
            width,
            every: [1, 1, 1, 2, 100][draw.below(5)],
            values: values_of(draw, width, flows, fields.len()),
        });
        bit += width as usize;
    }
}

/// Returns values of a field of so many bits, of which `before` others stand in front.
pub fn values_of(draw: &mut Draw, width: u32, flows: u32, before: usize) -> Values {
    let count = [1, 3, u64::from(flows), 1 << 30][draw.below(4)];
    match draw.below(if before > 0 { 7 } else { 5 }) {
        0 => {
            let step = [1, -1, 256, i128::from(draw.word() as i64) << 40][draw.below(4)];
            let start = draw.value(width);
            Values::Counter { start, step, count }
        }
        1 => Values::Table((0..1 + draw.below(5)).map(|_| draw.value(width)).collect()),
        2 => {
            let (one, other) = (draw.value(width), draw.value(width));
            let (low, high) = match draw.below(3) {
                0 => (0, ones(width)),
                1 => (0, ones(width.min(64))),
                _ => (one.min(other), one.max(other)),
            };
            Values::Random {
                low,
                high,
                period: draw.one_in(2).then_some(count),
                seed: draw.word(),
            }
        }
        3 => Values::Shuffle {
            low: draw.value(width),
            count: count.max(u64::from(flows)),
            seed: draw.word(),
        },
        4 => Values::Number,
        5 => Values::Same {
            field: draw.below(before),
            plus: [0, 1, -1, i128::from(draw.word()) << 50][draw.below(4)],
        },
        _ => Values::Hash {
            fields: (0..before).filter(|_| draw.one_in(2)).collect(),
            seed: draw.word(),
        },
    }
}

pub fn set_bits(bytes: &mut [u8], field: &Field, value: u128) {
    for i in 0..field.width as usize {
        let (bit, set) = (field.bit + i, value >> (field.width as usize - 1 - i) & 1 == 1);
        bytes[bit / 8] &= !(0x80 >> (bit % 8));
        bytes[bit / 8] |= u8::from(set) << (7 - bit % 8);
    }
}
