//! From the summary of a trial to what a search is told of it.

use mpps_method::{Input, Trial, Verdict};
use mpps_stats::{Shortfall, Summary};

/// How long what this host can send is measured, ns.
pub(super) const CEILING_NS: u64 = 1_000_000_000;

/// A trial, as far as it is recorded.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Measured {
    pub(super) trial: Trial,
    pub(super) sent: u64,
    pub(super) received: u64,
    /// Came back in time no more, or not at all.
    pub(super) lost: u64,
    pub(super) late: u64,
    /// Due and not taken by the path.
    pub(super) refused: u64,
    pub(super) offered_pps: f64,
    pub(super) received_pps: f64,
    /// 50th, 99th and 99.9th percentile, and the largest, ns.
    pub(super) latency_ns: Option<[u64; 4]>,
    /// It is void since this host could not send as fast.
    pub(super) outpaced: bool,
    /// Why it is void.
    pub(super) reasons: Vec<String>,
    /// What else is to be known of it.
    pub(super) notes: Vec<String>,
}

/// What a search is told of a trial at `input`: loss is what is missing of the packets due. What the path did not take
/// was due, too, and counts as lost; what this host failed to send makes the trial void.
pub(super) fn measured(input: Input, summary: &Summary) -> Measured {
    let refused = match summary.shortfall {
        Some(Shortfall::Refused) => summary.missed,
        _ => 0,
    };
    let counted = summary.valid || summary.shortfall == Some(Shortfall::Refused);
    let verdict = match counted {
        true => Verdict::Counted {
            due: summary.tx + refused,
            missing: summary.lost + summary.late + refused,
        },
        false => Verdict::Void,
    };
    let percentiles = summary.latency.percentiles;
    Measured {
        trial: Trial {
            input,
            effective_ns: input.duration_ns,
            verdict,
        },
        sent: summary.tx,
        received: summary.rx,
        lost: summary.lost,
        late: summary.late,
        refused,
        offered_pps: summary.offered_pps,
        received_pps: summary.received_pps,
        latency_ns: percentiles.map(|p| [p.p50, p.p99, p.p999, summary.latency.max]),
        outpaced: summary.shortfall == Some(Shortfall::Outpaced),
        notes: summary.warnings.clone(),
        reasons: if counted {
            Vec::new()
        } else {
            summary.invalid_reasons.clone()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_load_is_lost_and_a_host_s_fault_is_void() {
        let input = Input {
            load: 1000,
            duration_ns: 1_000_000_000,
        };
        let good = Summary {
            tx: 1000,
            rx: 990,
            lost: 8,
            late: 2,
            valid: true,
            ..Summary::default()
        };
        let told = |summary: &Summary| measured(input, summary).trial.verdict;
        assert_eq!(told(&good), Verdict::Counted { due: 1000, missing: 10 });
        // Missed within the tolerance: the device never saw them, and nobody lost them.
        let missed = Summary {
            missed: 1,
            ..good.clone()
        };
        assert_eq!(told(&missed), Verdict::Counted { due: 1000, missing: 10 });
        let refused = Summary {
            missed: 500,
            valid: false,
            shortfall: Some(Shortfall::Refused),
            ..good.clone()
        };
        assert_eq!(
            told(&refused),
            Verdict::Counted {
                due: 1500,
                missing: 510
            }
        );
        let fault = Summary {
            shortfall: None,
            invalid_reasons: vec!["the host interfered".to_owned()],
            ..refused
        };
        assert_eq!(told(&fault), Verdict::Void);
        assert_eq!(measured(input, &fault).reasons, ["the host interfered"]);
    }
}
