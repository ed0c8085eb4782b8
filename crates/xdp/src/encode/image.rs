//! Packets of any headers, as the programs have them: `xdp/image.h`.

use crate::abi::{Image, MOST_SUMS, MOST_WRITERS, PartOfSum, Writer};
use mpps_wire::image::{PartSource, Parts};

/// Kinds of a [`Writer`].
const COUNTER: u32 = 0;
const TABLE: u32 = 1;
const RANDOM: u32 = 2;

/// Returns the image, and the words of its tables, one after the other; `None`: it has more headers or fields than the
/// programs have room for.
pub(crate) fn image(parts: &Parts) -> Option<(Image, Vec<u64>)> {
    let mut image = Image {
        headers: parts.headers.len() as u32,
        data: parts.data_len as u32,
        writers: parts.writers.len() as u32,
        sums: parts.sums.len() as u32,
        ..Image::default()
    };
    let padded: Vec<u8> = parts.headers.iter().copied().chain([0; 7]).collect();
    if parts.headers.len() > size_of_val(&image.word) || parts.writers.len() > MOST_WRITERS {
        return None;
    }
    for (word, bytes) in image.word.iter_mut().zip(padded.as_chunks::<8>().0) {
        *word = u64::from_ne_bytes(*bytes);
    }
    let mut words = Vec::new();
    for (to, from) in image.writer.iter_mut().zip(&parts.writers) {
        *to = Writer {
            mask: from.mask,
            constant: from.constant,
            at: from.at,
            factor: from.factors.map(|factor| factor as u16),
            ..Writer::default()
        };
        match &from.source {
            PartSource::Counter { start, step } => (to.kind, to.start, to.step) = (COUNTER, *start, *step),
            PartSource::Table(of_flows) => {
                (to.kind, to.table) = (TABLE, words.len() as u32);
                words.extend_from_slice(of_flows);
            }
            PartSource::Random {
                low,
                count,
                seed,
                shift,
            } => {
                (to.kind, to.shift) = (RANDOM, *shift);
                (to.start, to.count, to.step) = (*low, *count, *seed);
            }
        }
    }
    for (to, from) in image.sum.iter_mut().zip(&parts.sums) {
        *to = PartOfSum {
            at: from.at,
            constant: from.constant.into(),
            zero: from.zero.into(),
            rest: from.rest as u32,
            inner: from.inner.map(|factor| factor as u16),
        };
    }
    Some((image, words))
}

const _: () = assert!(MOST_SUMS == mpps_wire::image::MOST_SUMS);
