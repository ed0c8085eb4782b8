//! Images of random headers against the same packets made bit by bit.

#[path = "common/specs.rs"]
mod specs;

use mpps_wire::image::{Data, Field, Place, SumKind, SumOf, Values};
use mpps_wire::vary::{scaled, shuffled};
use mpps_wire::{Blank, Image, ImageSpec, Mark, TAG_LEN, Tag, fill_back, random};
use proptest::prelude::*;
use specs::{Draw, any_spec, ones, set_bits, values_of};

/// Returns UDP over IPv4 with any of the fields that vary most.
fn any_udp(draw: &mut Draw) -> ImageSpec {
    let flows = [1, 3, 7, 300, 5000][draw.below(5)];
    let mut headers: Vec<u8> = (0..42).map(|_| draw.word() as u8).collect();
    let mut fields = Vec::new();
    let sums = [(40, 34..42, true), (24, 14..34, false)].map(|(at, covers, rest)| SumOf {
        at,
        covers,
        rest,
        pseudo: rest.then_some((26..30, 30..34, 17)),
        kind: if rest { SumKind::Udp } else { SumKind::Internet },
        wrong: false,
    });
    let mut sums = Vec::from(sums);
    match draw.below(12) {
        0 => sums.reverse(),
        1 => sums[0].wrong = true,
        2 => sums[0].kind = SumKind::Internet,
        3 => _ = sums.remove(0),
        4 => _ = sums.remove(1),
        _ => {}
    }
    let least = draw.below(4);
    for bytes in [18..20, 26..30, 30..34, 34..36, 36..38] {
        if draw.below(4) < least {
            continue;
        }
        let width = 8 * bytes.len() as u32;
        fields.push(Field {
            bit: bytes.start * 8,
            width,
            every: [1, 1, 1, 5][draw.below(4)],
            values: values_of(draw, width, flows, fields.len()),
        });
        headers[bytes].fill(0);
    }
    for sum in &sums {
        headers[sum.at..sum.at + 2].fill(0);
    }
    ImageSpec {
        frame_len: 42 + [2, draw.below(8), draw.below(200)][draw.below(3)] + TAG_LEN,
        varied: 0,
        headers,
        fields,
        sums,
        data: Data::Verified,
        tagged: true,
        seed: draw.word(),
        run: draw.word() as u8,
        flows,
        first_flow: draw.below(1000) as u32,
    }
}

/// Returns the packet, made without anything that is worked out before.
fn packet(spec: &ImageSpec, place: Place, time_ns: u64) -> Vec<u8> {
    let mut frame = spec.headers.clone();
    let mut values: Vec<u128> = Vec::new();
    for field in &spec.fields {
        let step = u64::from(place.flow) / field.every;
        let value = match &field.values {
            Values::Counter { start, step: by, count } => {
                start.wrapping_add_signed(by.wrapping_mul((step % count).into()))
            }
            Values::Table(values) => values[(step % values.len() as u64) as usize],
            Values::Random {
                low,
                high,
                period,
                seed,
            } => {
                let i = period.map_or(place.number * u64::from(spec.flows) + u64::from(place.flow), |period| {
                    step % period
                });
                low + scaled(i, *seed, high - low)
            }
            Values::Shuffle { low, count, seed } => low.wrapping_add(shuffled(step % count, *count, *seed).into()),
            Values::Same { field, plus } => values[*field].wrapping_add_signed(*plus),
            Values::Hash { fields, seed } => {
                let hash = fields
                    .iter()
                    .fold(*seed, |hash, of| random(hash, (values[*of] ^ values[*of] >> 64) as u64));
                0xc000 | u128::from(hash & 0x3fff)
            }
            Values::Number => place.number.into(),
            // The form's tests have these.
            Values::ByPacket(_) => unreachable!("none was drawn"),
        };
        values.push(value & ones(field.width));
        set_bits(&mut frame, field, value);
    }
    let tag_len = if spec.tagged { TAG_LEN } else { 0 };
    let mut data = vec![0; spec.frame_len - frame.len() - tag_len];
    let flow = spec.first_flow + place.flow;
    match &spec.data {
        Data::Verified => fill_back(spec.seed, u64::from(flow) << 32 | place.number & 0xffff_ffff, &mut data),
        Data::Pattern(pattern) => data
            .iter_mut()
            .zip(pattern.iter().cycle())
            .for_each(|(to, from)| *to = *from),
    }
    frame.extend(data);
    if spec.tagged {
        let tag = Tag {
            number: place.number as u32,
            run: spec.run,
            flow,
            time_ns,
            mark: Mark::Sent,
        };
        frame.extend(tag.bytes(spec.seed));
    }
    for sum in &spec.sums {
        let covered = &frame[sum.covers.start..if sum.rest { frame.len() } else { sum.covers.end }];
        if sum.kind == SumKind::Crc32c {
            let mut crc = crc32c(covered);
            crc[0] ^= u8::from(sum.wrong);
            frame[sum.at..sum.at + 4].copy_from_slice(&crc);
            continue;
        }
        let mut words = internet(covered);
        if let Some((src, dst, proto)) = &sum.pseudo {
            let len = (spec.frame_len - sum.covers.start) as u32;
            words += internet(&frame[src.clone()]) + internet(&frame[dst.clone()]);
            words += internet(&len.to_be_bytes()) + u64::from(*proto);
        }
        while words >> 16 > 0 {
            words = (words >> 16) + (words & 0xffff);
        }
        let mut field = !(words as u16);
        if sum.kind == SumKind::Udp && field == 0 {
            field = 0xffff;
        }
        if sum.wrong {
            field ^= if sum.kind == SumKind::Udp && field == 1 { 2 } else { 1 };
        }
        frame[sum.at..sum.at + 2].copy_from_slice(&field.to_be_bytes());
    }
    frame
}

fn internet(bytes: &[u8]) -> u64 {
    let word = |pair: &[u8]| u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0));
    bytes.chunks(2).map(word).sum()
}

fn crc32c(bytes: &[u8]) -> [u8; 4] {
    let mut crc = !0u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ (0x82f6_3b78 * (crc & 1));
        }
    }
    (!crc).to_le_bytes()
}

fn same(one: &[u8], other: &[u8], spec: &ImageSpec) -> Result<(), TestCaseError> {
    let differs = one.iter().zip(other).position(|(one, other)| one != other);
    prop_assert!(
        differs.is_none() && one.len() == other.len(),
        "byte {differs:?} of {spec:?}"
    );
    Ok(())
}

proptest! {
    #[test]
    fn packets_are_those_made_bit_by_bit(seed: u64, number: u32, time_ns: u64, later: u64, udp: bool) {
        let mut draw = Draw { seed, drawn: 0 };
        let spec = if udp { any_udp(&mut draw) } else { any_spec(&mut draw) };
        let image = Image::new(spec.clone()).expect("an image");
        prop_assert_eq!(image.data_len(), spec.frame_len - spec.headers.len() - if spec.tagged { TAG_LEN } else { 0 });
        let number = u64::from(number) << draw.below(8);
        let place = |i: u64| Place { flow: ((number + i) % u64::from(spec.flows)) as u32, number: number + i / 2 };
        let mut frame = vec![0xee; spec.frame_len];
        image.write(&mut frame, place(0), time_ns);
        same(&frame, &packet(&spec, place(0), time_ns), &spec)?;
        image.restamp(&mut frame, later);
        same(&frame, &packet(&spec, place(0), later), &spec)?;
        let many = [0, 1, 31, 32, 33, 65][draw.below(6)];
        let mut frames = vec![vec![0xee; spec.frame_len]; many];
        let blanks = (0..).zip(&mut frames).map(|(i, bytes)| {
            let Place { flow, number } = place(i);
            Blank { bytes, flow, ports: (1, 2), seq: number }
        });
        image.write_all(blanks, time_ns);
        for (i, frame) in (0..).zip(&frames) {
            same(frame, &packet(&spec, place(i), time_ns), &spec)?;
        }
    }

    #[test]
    fn a_payload_is_verified_wherever_it_begins(
        seed: u64, number: u32, more: bool, at: prop::sample::Index, flip in 1u8..,
    ) {
        let mut draw = Draw { seed, drawn: 0 };
        let spec = ImageSpec { tagged: true, frame_len: 1000, ..any_spec(&mut draw) };
        let image = Image::new(spec.clone()).expect("an image");
        let mut frame = packet(&spec, Place { flow: 0, number: number.into() }, 5);
        let start = spec.headers.len();
        let before_tag = if more { 0..1000 - TAG_LEN } else { start..1000 - TAG_LEN };
        let right = |frame: &[u8], number| image.verify_payload(&frame[before_tag.clone()], spec.first_flow, number);
        prop_assert!(right(&frame, number));
        prop_assert!(!right(&frame, number ^ 1) || spec.data != Data::Verified);
        prop_assert!(!image.verify_payload(&frame[start + 1..1000 - TAG_LEN], spec.first_flow, number));
        frame[start + at.index(image.data_len())] ^= flip;
        prop_assert!(!right(&frame, number));
    }
}

#[test]
fn fields_with_the_same_bits_are_refused() {
    let spec = |second: usize| ImageSpec {
        headers: vec![0; 14],
        varied: 0,
        frame_len: 30,
        fields: [second, 8]
            .map(|bit| Field {
                bit,
                width: 8,
                every: 1,
                values: Values::Number,
            })
            .into(),
        sums: Vec::new(),
        data: Data::Verified,
        tagged: true,
        seed: 1,
        run: 1,
        flows: 1,
        first_flow: 0,
    };
    assert_eq!(
        [0, 1, 8, 15, 16].map(|second| Image::new(spec(second)).is_some()),
        [true, false, false, false, true]
    );
}

#[test]
fn other_frames_are_not_restamped() {
    let mut draw = Draw { seed: 3, drawn: 0 };
    let spec = ImageSpec {
        tagged: true,
        frame_len: 500,
        ..any_spec(&mut draw)
    };
    let image = Image::new(spec.clone()).expect("an image");
    let mut short = vec![7; 499];
    image.restamp(&mut short, 9);
    assert_eq!(short, [7; 499]);
    let image = Image::new(ImageSpec { tagged: false, ..spec }).expect("an image");
    let mut untagged = vec![7; 500];
    image.restamp(&mut untagged, 9);
    assert_eq!(untagged, [7; 500]);
}
