//! Values of a field, as a set.

use mpps_traffic::Source;

/// Set of values.
#[derive(Clone, Debug)]
pub(super) enum Values {
    /// Value of the bits that are set in the second number; the others are any.
    Bits(u128, u128),
    /// Both ends included.
    Range(u128, u128),
    /// Lowest, highest, and the step between them.
    Steps(u128, u128, u128),
    /// Sorted.
    Some(Box<[u128]>),
    /// Value behind which so many bits are any.
    Network(u128, u32),
}

impl Values {
    /// Returns the values of a source; `None` of those that depend on what a packet is made of.
    pub(super) fn of(source: &Source) -> Option<Self> {
        Some(match source {
            Source::Constant(value) => Self::bits(*value, u128::MAX),
            Source::Counter { start, step, count } => {
                let last = start.checked_add_signed(step.checked_mul(i128::from(count.checked_sub(1)?))?)?;
                let (low, high) = (*start.min(&last), *start.max(&last));
                match step.unsigned_abs() {
                    0 | 1 => Self::Range(low, high),
                    step => Self::Steps(low, high, step),
                }
            }
            Source::Table(values) => {
                let mut values = values.clone();
                values.sort_unstable();
                values.dedup();
                Self::Some(values.into())
            }
            Source::Random { low, high, .. } => Self::Range(*low, *high),
            Source::Shuffle { low, count } => Self::Range(*low, low.checked_add(count.checked_sub(1)?.into())?),
            Source::Same { .. } | Source::InnerHash | Source::Bad => return None,
        })
    }

    /// Returns the values that have the bits of a mask in common with one.
    pub(super) fn bits(value: u128, mask: u128) -> Self {
        Self::Bits(value & mask, mask)
    }

    /// Returns the values of `width` bits that have the first `bits` of them in common with `first`.
    pub(super) fn network(first: u128, bits: u32, width: u32) -> Self {
        match width.saturating_sub(bits) {
            128.. => Self::Range(0, u128::MAX),
            any => Self::Network(first >> any, any),
        }
    }

    /// Returns whether a value is one of them.
    pub(super) fn has(&self, value: u128) -> bool {
        match self {
            Self::Bits(bits, mask) => value & mask == *bits,
            Self::Range(low, high) => (low..=high).contains(&&value),
            Self::Steps(low, high, step) => (low..=high).contains(&&value) && (value - low).is_multiple_of(*step),
            Self::Some(values) => values.binary_search(&value).is_ok(),
            Self::Network(first, any) => value >> any == *first,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpps_traffic::{Packet, PartValues};

    /// Values below 100 that a port may have.
    fn ports(text: &str) -> Vec<u128> {
        let packet = Packet::parse(&format!("eth / udp src={text}")).unwrap();
        let part = packet.headers[1].parts().next().unwrap();
        let PartValues::Numbers(source) = part.values else {
            panic!("{text}")
        };
        let values = Values::of(source).expect(text);
        (0..100).filter(|value| values.has(*value)).collect()
    }

    #[test]
    fn a_set_has_the_values_that_packets_have_in_turn() {
        assert_eq!(ports("7"), [7]);
        assert_eq!(ports("7..9"), [7, 8, 9]);
        assert_eq!(ports("9..7"), [7, 8, 9]);
        assert_eq!(ports("10..30 step 10"), [10, 20, 30]);
        assert_eq!(ports("30*3 step -10"), [10, 20, 30]);
        assert_eq!(ports("5*3 step 40"), [5, 45, 85]);
        assert_eq!(ports("{8*7, 4, 8*3}"), [4, 8]);
        assert_eq!(ports("random(3..5)"), [3, 4, 5]);
        assert_eq!(ports("shuffle(3..5)"), [3, 4, 5]);
        assert!(Values::of(&Source::Bad).is_none());
    }

    #[test]
    fn a_network_has_all_its_addresses() {
        let network = Values::network(0x0a00_0000, 24, 32);
        assert!([0x0a00_0000, 0x0a00_00ff].iter().all(|value| network.has(*value)));
        assert!([0x09ff_ffff, 0x0a00_0100].iter().all(|value| !network.has(*value)));
        assert!(Values::network(0, 0, 128).has(u128::MAX));
        assert!(!Values::network(7, 128, 128).has(6));
    }
}
