//! A row as fixed-size bytes, for the backlog on disk.

use crate::spill::Record;
use mpps_stats::{Latency, Percentiles, Row, RowFill};

const LATENCY_WORDS: usize = 9;
const WORDS: usize = 12 + LATENCY_WORDS + 1 + LATENCY_WORDS + 14;

impl Record for Row {
    fn encode(&self, out: &mut Vec<u8>) {
        // Everything that `Row` has is named here, so that a new field can't be forgotten.
        let Self {
            index,
            start_ns,
            length_ns,
            tx,
            rx,
            rx_by_arrival,
            lost,
            late,
            duplicates,
            reordered,
            corrupt,
            foreign,
            missed,
            latency,
            latency_scheduled,
            host_wait_ns,
            host_dropped,
            own_threads_ns,
            blocked_ns,
            rx_fill,
        } = self;
        let mut put = |word: u64| out.extend_from_slice(&word.to_le_bytes());
        for word in [
            *index,
            *start_ns,
            *length_ns,
            *tx,
            *rx,
            lost.cast_unsigned(),
            *late,
            *duplicates,
        ] {
            put(word);
        }
        for word in [*reordered, *corrupt, *foreign, *missed] {
            put(word);
        }
        latency_words(latency).into_iter().for_each(&mut put);
        put(u64::from(latency_scheduled.is_some()));
        latency_words(&latency_scheduled.unwrap_or_default())
            .into_iter()
            .for_each(&mut put);
        let fill = [rx_fill.map(|fill| fill.highest_ppm), rx_fill.map(|fill| fill.mean_ppm)];
        let cells = [
            *host_wait_ns,
            *host_dropped,
            *own_threads_ns,
            *blocked_ns,
            *rx_by_arrival,
        ];
        for cell in cells.into_iter().chain(fill) {
            put(u64::from(cell.is_some()));
            put(cell.unwrap_or(0));
        }
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != WORDS * 8 {
            return None;
        }
        let mut words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        let mut next = || words.next();
        Some(Self {
            index: next()?,
            start_ns: next()?,
            length_ns: next()?,
            tx: next()?,
            rx: next()?,
            lost: next()?.cast_signed(),
            late: next()?,
            duplicates: next()?,
            reordered: next()?,
            corrupt: next()?,
            foreign: next()?,
            missed: next()?,
            latency: latency_of(&mut next)?,
            latency_scheduled: {
                let there = next()? != 0;
                let latency = latency_of(&mut next)?;
                there.then_some(latency)
            },
            host_wait_ns: cell_of(&mut next)?,
            host_dropped: cell_of(&mut next)?,
            own_threads_ns: cell_of(&mut next)?,
            blocked_ns: cell_of(&mut next)?,
            rx_by_arrival: cell_of(&mut next)?,
            rx_fill: {
                let (highest, mean) = (cell_of(&mut next)?, cell_of(&mut next)?);
                highest
                    .zip(mean)
                    .map(|(highest_ppm, mean_ppm)| RowFill { highest_ppm, mean_ppm })
            },
        })
    }
}

fn latency_words(latency: &Latency) -> [u64; LATENCY_WORDS] {
    let Latency {
        count,
        min,
        mean,
        percentiles,
        max,
    } = *latency;
    let Percentiles { p50, p90, p99, p999 } = percentiles.unwrap_or_default();
    [
        count,
        min,
        mean.to_bits(),
        max,
        u64::from(percentiles.is_some()),
        p50,
        p90,
        p99,
        p999,
    ]
}

fn cell_of(next: &mut impl FnMut() -> Option<u64>) -> Option<Option<u64>> {
    let there = next()? != 0;
    let value = next()?;
    Some(there.then_some(value))
}

fn latency_of(next: &mut impl FnMut() -> Option<u64>) -> Option<Latency> {
    let (count, min, mean, max) = (next()?, next()?, f64::from_bits(next()?), next()?);
    let there = next()? != 0;
    let percentiles = Percentiles {
        p50: next()?,
        p90: next()?,
        p99: next()?,
        p999: next()?,
    };
    Some(Latency {
        count,
        min,
        mean,
        percentiles: there.then_some(percentiles),
        max,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn latencies() -> impl Strategy<Value = Latency> {
        (
            any::<[u64; 3]>(),
            -1e18..1e18f64,
            proptest::option::of(any::<[u64; 4]>()),
        )
            .prop_map(|(w, mean, p)| Latency {
                count: w[0],
                min: w[1],
                mean,
                percentiles: p.map(|[p50, p90, p99, p999]| Percentiles { p50, p90, p99, p999 }),
                max: w[2],
            })
    }

    proptest! {
        #[test]
        fn a_row_comes_back_as_it_was(
            w in any::<[u64; 11]>(), lost: i64, latency in latencies(),
            latency_scheduled in proptest::option::of(latencies()), host_wait_ns: Option<u64>,
            host_dropped: Option<u64>, own_threads_ns: Option<u64>, blocked_ns: Option<u64>,
            rx_by_arrival: Option<u64>, fill: Option<(u64, u64)>,
        ) {
            let row = Row {
                index: w[0], start_ns: w[1], length_ns: w[2], tx: w[3], rx: w[4], rx_by_arrival,
                lost, late: w[5], duplicates: w[6],
                reordered: w[7], corrupt: w[8], foreign: w[9], missed: w[10], latency, latency_scheduled, host_wait_ns,
                host_dropped, own_threads_ns, blocked_ns,
                rx_fill: fill.map(|(highest_ppm, mean_ppm)| RowFill { highest_ppm, mean_ppm }),
            };
            let mut bytes = Vec::new();
            row.encode(&mut bytes);
            prop_assert_eq!(Row::decode(&bytes), Some(row));
            prop_assert_eq!(Row::decode(&bytes[1..]), None);
        }
    }
}
