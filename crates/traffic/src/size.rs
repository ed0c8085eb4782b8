//! Sizes of frames: one, a sweep, a list, random sizes, a weighted mix.

use crate::text::{Read, Span, Wrong, quoted};
use crate::value::{Source, number, spread};

/// Smallest frame, bytes with FCS.
pub(crate) const SMALLEST: u64 = 64;
/// Largest frame, bytes with FCS: an IP packet of 65,535 bytes.
const LARGEST: u64 = 65_535 + 18;

/// Frame lengths of RFC 6985's letters, bytes with FCS.
const GENOME: [(char, u64); 7] = [
    ('a', 64),
    ('b', 128),
    ('c', 256),
    ('d', 512),
    ('e', 1024),
    ('f', 1280),
    ('g', 1518),
];

/// Simple IMIX: 7 frames of 64 bytes, 4 of 594, 1 of 1518.
const IMIX: [(u64, u64); 3] = [(64, 7), (594, 4), (1518, 1)];

/// Sizes of a stream's frames, bytes with FCS, by the number of the packet.
#[derive(Clone, Debug, PartialEq)]
pub struct Size {
    /// Text.
    pub text: String,
    /// Sizes.
    pub(crate) source: Source,
    /// Whether VLAN tags come on top of the size.
    pub(crate) without_tags: bool,
}

impl Size {
    /// Returns one size.
    pub(crate) fn one(size: u64) -> Self {
        Self {
            text: size.to_string(),
            source: Source::Constant(size.into()),
            without_tags: false,
        }
    }

    /// Reads a size that stands alone.
    ///
    /// # Errors
    /// Names the fault.
    pub fn parse(text: &str) -> Result<Self, Wrong> {
        Self::read(text, &(0..text.len()))
    }

    /// Reads `512`, `64..1518 step 64`, `random(64..1518)`, `64*7 594*4 1518*1`, `{64, 512}`, `imix`, `genome:abc`.
    ///
    /// # Errors
    /// Names the fault, at `at`.
    pub(crate) fn read(text: &str, at: &Span) -> Read<Self> {
        const WANT: &str = "want a size such as 512, a sweep 64..1518 step 64, random(64..1518), a mix 64*7 594*4 \
                            1518*1, imix, or genome:abcdefg";
        let wrong = |line: String| Wrong::new(at.clone(), line);
        let refused = || wrong(format!("size {}: {WANT}", quoted(text)));
        let size = |text: &str| {
            let size = number(text.trim()).ok_or_else(refused)?;
            match u64::try_from(size) {
                Ok(size) if (SMALLEST..=LARGEST).contains(&size) => Ok(size),
                _ => Err(wrong(format!(
                    "size {}: want {SMALLEST} to {LARGEST} bytes with FCS",
                    quoted(text.trim())
                ))),
            }
        };
        let made = |source: Source, without_tags: bool| {
            Ok(Self {
                text: text.trim().to_owned(),
                source,
                without_tags,
            })
        };
        let said = text.trim();
        if said == "imix" {
            return made(table(&IMIX, said, at)?, true);
        }
        if let Some(letters) = said.strip_prefix("genome:") {
            let sizes: Option<Vec<u128>> = letters
                .chars()
                .map(|letter| {
                    GENOME
                        .iter()
                        .find(|(known, _)| *known == letter)
                        .map(|(_, size)| (*size).into())
                })
                .collect();
            let sizes = sizes.filter(|sizes| (1..=1024).contains(&sizes.len()));
            let sizes = sizes.ok_or_else(|| {
                wrong(format!(
                    "size {}: want letters a to g (RFC 6985), 1024 at most",
                    quoted(said)
                ))
            })?;
            return made(Source::Table(sizes), true);
        }
        if let Some(inside) = said.strip_prefix("random(") {
            let (low, high) = inside
                .strip_suffix(')')
                .and_then(|inside| inside.split_once(".."))
                .ok_or_else(refused)?;
            let (low, high) = (size(low)?, size(high)?);
            if low > high {
                return Err(wrong(format!("size {}: want the smaller size first", quoted(said))));
            }
            return made(
                Source::Random {
                    low: low.into(),
                    high: high.into(),
                    period: None,
                },
                false,
            );
        }
        if let Some((first, rest)) = said.split_once("..") {
            let (last, step) = match rest.split_once("step") {
                Some((last, step)) => (last, number(step.trim()).and_then(|step| u64::try_from(step).ok())),
                None => (rest, Some(1)),
            };
            let (first, last) = (size(first)?, size(last)?);
            let step = step.filter(|step| *step > 0).ok_or_else(refused)?;
            let count = first.abs_diff(last) / step + 1;
            let step = if first <= last {
                i128::from(step)
            } else {
                -i128::from(step)
            };
            return made(
                Source::Counter {
                    start: first.into(),
                    step,
                    count,
                },
                false,
            );
        }
        let list = said
            .strip_prefix('{')
            .and_then(|said| said.strip_suffix('}'))
            .unwrap_or(said);
        let mut weighted = Vec::new();
        for entry in list.split([' ', ',', '\n', '\t']).filter(|entry| !entry.is_empty()) {
            let (one, weight) = entry.split_once('*').unwrap_or((entry, "1"));
            let weight = weight.parse().ok().filter(|weight| *weight > 0).ok_or_else(refused)?;
            weighted.push((size(one)?, weight));
        }
        match weighted.as_slice() {
            [] => Err(refused()),
            [(one, _)] => made(Source::Constant((*one).into()), false),
            mix => made(table(mix, said, at)?, false),
        }
    }

    /// Returns a size, bytes with FCS: number `i` of those that come again, or that of packet `n` of random ones.
    /// `tags` is the length of the frame's outer VLAN tags.
    pub(crate) fn at(&self, i: u64, n: u64, seed: u64, tags: u64) -> u64 {
        let i = if self.source.period().is_some() { i } else { n };
        let size = self.source.at(i, seed).unwrap_or(SMALLEST.into()) as u64;
        if self.without_tags { size + tags } else { size }
    }

    /// Returns all sizes as they are written; `None` of random ones and of a sweep of too many.
    pub(crate) fn values(&self) -> Option<Vec<u64>> {
        const MOST: u64 = 65_536;
        let period = self.source.period().filter(|period| *period <= MOST)?;
        (0..period)
            .map(|i| self.source.at(i, 0).map(|size| size as u64))
            .collect()
    }

    /// Returns the smallest and the largest size.
    pub(crate) fn bounds(&self, tags: u64) -> (u64, u64) {
        let (low, high) = self.source.bounds().unwrap_or_default();
        let more = if self.without_tags { tags } else { 0 };
        (low as u64 + more, high as u64 + more)
    }

    /// Returns the mean size, bytes with FCS.
    pub fn mean(&self, tags: u64) -> f64 {
        let more = if self.without_tags { tags } else { 0 };
        let mean = match &self.source {
            Source::Table(sizes) => sizes.iter().sum::<u128>() as f64 / sizes.len().max(1) as f64,
            source => source.bounds().map_or(0.0, |(low, high)| (low + high) as f64 / 2.0),
        };
        mean + more as f64
    }
}

fn table(mix: &[(u64, u64)], text: &str, at: &Span) -> Read<Source> {
    Ok(Source::Table(
        spread(mix, text, at)?.into_iter().map(u128::from).collect(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(text: &str, n: u64) -> Vec<u64> {
        let size = Size::read(text, &(0..text.len())).expect(text);
        (0..n).map(|i| size.at(i, i, 1, 4)).collect()
    }

    #[test]
    fn each_form_gives_its_sizes() {
        assert_eq!(sizes("512", 2), [512, 512]);
        assert_eq!(sizes("64..200 step 64", 4), [64, 128, 192, 64]);
        assert_eq!(sizes("1518..64 step 1000", 3), [1518, 518, 1518]);
        assert_eq!(sizes("genome:abg", 4), [68, 132, 1522, 68]);
        let mix = sizes("64*7 594*4 1518*1", 12);
        assert_eq!(mix.iter().sum::<u64>(), 7 * 64 + 4 * 594 + 1518);
        let imix = sizes("imix", 12);
        assert_eq!(imix.iter().sum::<u64>(), 7 * 68 + 4 * 598 + 1522, "behind one tag");
        assert!(sizes("random(64..70)", 50).iter().all(|size| (64..=70).contains(size)));
        assert_eq!(sizes("{64, 512}", 2).iter().sum::<u64>(), 576);
    }

    #[test]
    fn the_mean_is_that_of_the_mix() {
        let size = Size::read("imix", &(0..4)).unwrap();
        assert!((size.mean(0) - (7.0 * 64.0 + 4.0 * 594.0 + 1518.0) / 12.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in [
            "",
            "63",
            "65554",
            "64..",
            "random(100..64)",
            "64*0",
            "genome:",
            "genome:x",
            "imx",
            "64..128 step 0",
        ] {
            assert!(Size::read(text, &(0..text.len())).is_err(), "{text}");
        }
    }
}
