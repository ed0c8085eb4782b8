//! Choice of the reflected packets that are looked at, so that none goes round for ever: see [`mpps_wire::Loops`].
//!
//! A look costs as much as some packets on the fastest paths, so of a large burst only one packet is looked at, and
//! counts for all. A packet that goes round alone comes in bursts of its own, and is looked at each time.

use mpps_io::Reason;
use mpps_stats::{Remark, RemarkName};
use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

/// Sizes of bursts: up to the first all packets are looked at, from the second on only one of all is.
const SMALL: usize = 4;
const LARGE: usize = 16;

/// Returns the secret of this process: all its lanes know each other's probes.
pub(crate) fn secret() -> [u64; 2] {
    static SECRET: OnceLock<[u64; 2]> = OnceLock::new();
    *SECRET.get_or_init(|| [0, 1].map(|n| RandomState::new().hash_one(n)))
}

/// Draws the packets to look at.
#[derive(Debug, Default)]
pub(crate) struct Sampler(u64);

impl Sampler {
    /// Returns the first packet of a burst of `len` to look at, and the distance to the next. Each counts for as many
    /// packets as that distance.
    #[inline]
    pub(crate) fn of(&mut self, len: usize) -> (usize, usize) {
        let step = match len {
            0..=SMALL => return (0, 1),
            LARGE.. => len,
            _ => SMALL,
        };
        self.0 = self
            .0
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        ((self.0 >> 33) as usize % step, step)
    }
}

/// Returns a remark for each thing that kept packets from going round, given how often each reason was counted.
pub(crate) fn warnings(count: impl Fn(Reason) -> u64) -> Vec<Remark> {
    let mut warnings = Vec::new();
    let mut tell = |reason: Reason, text: &str| {
        let n = count(reason);
        if n > 0 {
            let remark = Remark::new(RemarkName::KeptFromGoingRound, format!("{n} packets {text}"));
            warnings.push(remark.with("packets", n).with("reason", reason.as_str()));
        }
    };
    tell(
        Reason::TtlExpired,
        "were not sent back, because their time to live (hop limit) was used up: they had gone round between this \
         reflector and another, or were sent with a time to live of 1",
    );
    tell(
        Reason::Returned,
        "were not sent back, because their source returns what it is sent: another reflector, or an echo server",
    );
    tell(
        Reason::OwnSource,
        "were not sent back, because they came from this reflector's own address: it was forged, or they had come back",
    );
    tell(
        Reason::Probed,
        "got a probe or nothing in place of their answer, because their source had sent the same bytes many times: a \
         packet that goes round looks like this",
    );
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpps_stats::RemarkValue;

    #[test]
    fn what_was_stopped_is_told() {
        assert!(warnings(|_| 0).is_empty());
        let all = warnings(|reason| reason.as_str().len() as u64);
        assert_eq!(all.len(), 4);
        assert!(
            all[0]
                .sentence
                .starts_with("11 packets were not sent back, because their time to live")
        );
        let reasons: Vec<_> = all.iter().filter_map(|remark| remark.value("reason")).collect();
        let names = ["ttl_expired", "returned", "own_source", "probed"].map(RemarkValue::from);
        assert_eq!(reasons, names.iter().collect::<Vec<_>>());
    }

    #[test]
    fn each_place_of_a_burst_has_its_turn() {
        let mut sampler = Sampler::default();
        for len in 1..=256usize {
            let mut looks = vec![0usize; len];
            for _ in 0..len * 40 {
                let (first, step) = sampler.of(len);
                assert!(step >= 1 && first < step);
                (first..len).step_by(step).for_each(|at| looks[at] += step);
            }
            // Each counts for as much as there are packets.
            assert!(
                looks.iter().all(|n| (len * 10..len * 100).contains(n)),
                "{len}: {looks:?}"
            );
        }
    }

    #[test]
    fn the_secret_is_one() {
        assert_eq!(secret(), secret());
        assert_ne!(secret()[0], secret()[1]);
    }
}
