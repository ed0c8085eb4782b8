//! Conversion of a trial's summary into the values that a method uses.

use crate::search::{Input, StreamLoss, Trial, Verdict};
use mpps_report::stream_named;
use mpps_stats::{Histogram, KeptOff, Remark, Shortfall, StreamSummary, Summary, sentences};
use std::time::Duration;

/// Purpose of a trial. The record contains its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// How fast this host can send, as fast as it can.
    Ceiling,
    /// Whether it keeps up the highest rate, with departures at given times.
    Reach,
    /// A search for a rate.
    Search,
    /// Loss by load.
    Loss,
    /// Latency at a rate.
    Latency,
    /// A burst of back-to-back frames.
    Burst,
    /// Overload, and less from a given time.
    Recovery,
    /// A reset of the device.
    Reset,
    /// One load of an overload test.
    Overload,
}

impl Phase {
    const ALL: [Self; 9] = [
        Self::Ceiling,
        Self::Reach,
        Self::Search,
        Self::Loss,
        Self::Latency,
        Self::Burst,
        Self::Recovery,
        Self::Reset,
        Self::Overload,
    ];

    /// Returns the name used in the record and the result.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ceiling => "ceiling",
            Self::Reach => "reach",
            Self::Search => "search",
            Self::Loss => "loss",
            Self::Latency => "latency",
            Self::Burst => "burst",
            Self::Recovery => "recovery",
            Self::Reset => "reset",
            Self::Overload => "overload",
        }
    }

    /// Returns the phase with this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.name() == name)
    }
}

/// Settings of a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ask {
    /// Purpose of the trial.
    pub phase: Phase,
    /// Frame size with FCS, bytes.
    pub frame_size: usize,
    /// Packets per second; `None`: as fast as can be.
    pub load: Option<u64>,
    /// Length of the sending, ns.
    pub duration_ns: u64,
    /// Another load from a time after the start on: packets per second, ns.
    pub then: Option<(u64, u64)>,
    /// Time that packets may take to come back, if not as long as in other trials.
    pub settle: Option<Duration>,
    /// Number of frames sent back to back, followed by a pause, if not as the options set it.
    pub burst: Option<u32>,
}

impl Ask {
    /// A trial of one load.
    pub(crate) fn of(phase: Phase, frame_size: usize, input: Input) -> Self {
        Self {
            phase,
            frame_size,
            load: Some(input.load),
            duration_ns: input.duration_ns,
            then: None,
            settle: None,
            burst: None,
        }
    }
}

/// Latency in a trial, ns.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Delay {
    pub(crate) min: u64,
    pub(crate) mean: f64,
    pub(crate) p50: u64,
    pub(crate) p99: u64,
    pub(crate) p999: u64,
    pub(crate) max: u64,
    /// Shares of the packets, and what these did not exceed: where a trial is for latency.
    pub(crate) quantiles: Vec<(f64, u64)>,
}

/// Shares of the packets at which latency is reported.
const SHARES: [f64; 16] = [
    0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 0.9995, 0.9999, 0.99995, 0.99999, 0.999999,
];

/// Returns the latencies at those [`SHARES`] for which there are enough packets.
pub(crate) fn quantiles(histogram: &Histogram) -> Vec<(f64, u64)> {
    let count = histogram.count() as f64;
    let told = SHARES.into_iter().filter(|share| (1.0 - share) * count >= 1.0);
    told.map(|share| (share, histogram.value_at(share))).collect()
}

/// Returns the sentences of remarks, for a record.
fn texts(remarks: &[Remark]) -> Vec<String> {
    sentences(remarks).into_iter().map(str::to_owned).collect()
}

/// Results of a trial that are recorded.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Measured {
    pub(crate) ask: Ask,
    pub(crate) trial: Trial,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// Came back in time no more, or not at all.
    pub(crate) lost: u64,
    pub(crate) late: u64,
    /// Due and not taken by the path.
    pub(crate) refused: u64,
    /// Departures that were due and did not leave, for any reason; refused ones are among them.
    pub(crate) missed: u64,
    /// Measured time to the end of sending.
    pub(crate) sending_ns: u64,
    /// Rate offered, packets per second; if packets went both ways, that of the slower way.
    pub(crate) offered_pps: f64,
    pub(crate) received_pps: f64,
    pub(crate) latency: Option<Delay>,
    /// When the first and the last of the lost packets left, ns since the start.
    pub(crate) lost_between_ns: Option<[u64; 2]>,
    /// The longest time without a packet of the test: its two ends, ns since the start.
    pub(crate) outage_ns: Option<[u64; 2]>,
    /// The link was down for a while.
    pub(crate) down: bool,
    /// The trial is void because this host could not send as fast.
    pub(crate) outpaced: bool,
    /// Start of the trial, ns since 1970.
    pub(crate) started_unix_ns: u64,
    /// Reasons why the trial is void.
    pub(crate) reasons: Vec<String>,
    /// Cause that kept the trial's lanes off their cores, if a reason names it.
    pub(crate) kept_off: Option<KeptOff>,
    /// Other notes on the trial.
    pub(crate) notes: Vec<String>,
}

/// Returns a reason why a run is not valid without the numbers in parentheses before the cause. The names of the
/// programs that used the cores stay.
pub(crate) fn in_short(reason: &str) -> String {
    let cut = reason
        .split_once(" (")
        .and_then(|(effect, rest)| Some((effect, rest.split_once("): ")?)));
    match cut {
        // A parenthesis within the first one would be cut in two.
        Some((effect, (numbers, cause))) if !numbers.contains('(') => format!("{effect}: {cause}"),
        _ => reason.to_owned(),
    }
}

impl Measured {
    /// Whether its numbers hold.
    pub(crate) fn counts(&self) -> bool {
        self.trial.verdict != Verdict::Void
    }

    /// Returns the first reason why the trial is void, in short.
    pub(crate) fn void_in_short(&self) -> String {
        in_short(self.reasons.first().map_or("", String::as_str))
    }

    /// Returns the cause that disturbed a void trial.
    pub(crate) fn disturbance(&self) -> String {
        let kept_off = self.kept_off.as_ref().map(|of| of.sentence.clone());
        kept_off.unwrap_or_else(|| self.void_in_short())
    }

    /// Packets that were due, and those of them that are missing; none of either in a void trial.
    pub(crate) fn loss(&self) -> (u64, u64) {
        match self.trial.verdict {
            Verdict::Counted { due, missing } => (due, missing),
            Verdict::Void => (0, 0),
        }
    }

    /// Share of the packets that is missing; `None` for a void trial.
    pub(crate) fn loss_ratio(&self) -> Option<f64> {
        let (due, missing) = self.loss();
        self.counts().then(|| missing as f64 / due.max(1) as f64)
    }
}

/// Packets that the goals of a test are about.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subject {
    /// Streams and groups that goals name.
    pub(crate) streams: Vec<String>,
    /// Only these matter: each goal names one.
    pub(crate) only: bool,
}

impl Subject {
    /// Returns the results of these streams.
    fn of<'s>(&self, summary: &'s Summary) -> Vec<&'s StreamSummary> {
        let named = self.streams.iter().filter_map(|name| stream_named(summary, name).ok());
        named.collect()
    }

    /// Returns the reasons why a trial says nothing about the packets that goals are about; none if it does.
    fn void(&self, summary: &Summary) -> Vec<String> {
        if summary.shortfall == Some(Shortfall::Refused) {
            return Vec::new();
        }
        let streams = self.of(summary);
        if !self.only && !summary.valid || self.only && streams.iter().any(|stream| !stream.valid) {
            return texts(&summary.invalid_reasons);
        }
        let none_due = streams.iter().filter(|stream| stream.due == Some(0));
        none_due
            .map(|stream| {
                format!(
                    "no packet of {} was due in a trial: want it to begin earlier, or longer trials",
                    stream.name
                )
            })
            .collect()
    }
}

/// Departures that the path in front of the device refused: those missed, where it is the cause. Within the tolerance
/// of a valid trial it is taken to be wherever it took nothing while half of them were due; if this host was late as
/// well, that is no excuse for the path. Departures that this host alone missed never reached anybody: within the
/// tolerance they are neither due nor lost, as a fault of the tester must not decide (the rate that was really sent is
/// reported).
fn refused(ask: &Ask, summary: &Summary) -> u64 {
    if summary.shortfall == Some(Shortfall::Refused) {
        return summary.missed;
    }
    // Without a load the rate is measured, not asked for: every packet that was due left.
    if !summary.valid || ask.load.is_none() {
        return 0;
    }
    let senders = summary.lanes.iter().filter(|lane| lane.tx_role);
    let blocked: u64 = senders.clone().filter_map(|lane| lane.blocked_ns).sum();
    let time = senders.count() as f64 * summary.duration_ns as f64;
    let due = (summary.tx + summary.missed) as f64;
    match blocked as f64 * due * 2.0 >= summary.missed as f64 * time && blocked > 0 {
        true => summary.missed,
        false => 0,
    }
}

/// Converts a summary into the values that a method uses. Loss is the share of the due packets that is missing. Packets
/// that the path did not take were due, too, and count as lost. Packets that this host failed to send make the trial
/// void. Without a load the rate is measured, not asked for, and a low one is no fault.
pub(crate) fn measured(ask: Ask, summary: &Summary, quantiles: Vec<(f64, u64)>, subject: &Subject) -> Measured {
    let refused = refused(&ask, summary);
    let reasons = subject.void(summary);
    let counted = reasons.is_empty();
    let loss_of = |stream: &StreamSummary| {
        // Where the path refused load, it refused what each stream missed.
        let refused = if refused > 0 { stream.missed } else { 0 };
        StreamLoss {
            name: stream.name.clone(),
            due: stream.tx.saturating_sub(stream.untagged) + refused,
            missing: stream.lost + stream.late + refused,
        }
    };
    // Streams that are not valid and that no goal names are no reason, but to be known.
    let beside = match counted && subject.only {
        true => texts(&summary.invalid_reasons),
        false => Vec::new(),
    };
    let verdict = match counted {
        true => Verdict::Counted {
            due: summary.tx.saturating_sub(summary.untagged) + refused,
            missing: summary.lost + summary.late + refused,
        },
        false => Verdict::Void,
    };
    let latency = &summary.latency;
    // Loads are of each way, so rates are, too: that of the slower one.
    let each = |rate: fn(&Summary) -> f64| {
        let ways = summary.directions.iter().map(|way| rate(&way.summary));
        ways.reduce(f64::min).unwrap_or_else(|| rate(summary))
    };
    Measured {
        ask,
        trial: Trial {
            input: Input {
                load: ask.load.unwrap_or(each(|told| told.offered_pps) as u64).max(1),
                duration_ns: ask.duration_ns,
            },
            effective_ns: ask.duration_ns,
            verdict,
            streams: subject.of(summary).into_iter().map(loss_of).collect(),
        },
        // Of others nobody knows whether they came.
        sent: summary.tx.saturating_sub(summary.untagged),
        received: summary.rx,
        lost: summary.lost,
        late: summary.late,
        refused,
        missed: summary.missed,
        sending_ns: summary.duration_ns,
        offered_pps: each(|told| told.offered_pps),
        received_pps: each(|told| told.received_pps),
        latency: latency.percentiles.map(|p| Delay {
            min: latency.min,
            mean: latency.mean,
            p50: p.p50,
            p99: p.p99,
            p999: p.p999,
            max: latency.max,
            quantiles,
        }),
        lost_between_ns: summary.loss_times.map(|times| [times.first_ns, times.last_ns]),
        outage_ns: summary.longest_outage.map(|outage| [outage.from_ns, outage.to_ns]),
        down: summary.lanes.iter().any(|lane| lane.link_down_ns > 0),
        outpaced: summary.shortfall == Some(Shortfall::Outpaced),
        started_unix_ns: summary.started.utc_ns,
        notes: [beside, texts(&summary.warnings)].concat(),
        kept_off: summary.kept_off.clone().filter(|of| of.named && !counted),
        reasons,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpps_stats::{KeptOffBy, LaneSummary, RemarkName};

    fn reason(sentence: &str) -> Remark {
        Remark::new(RemarkName::MissedDepartures, sentence)
    }

    #[test]
    fn refused_load_is_lost_and_a_host_s_fault_is_void() {
        let input = Input {
            load: 1000,
            duration_ns: 1_000_000_000,
        };
        let measured = |summary: &Summary| {
            measured(
                Ask::of(Phase::Search, 64, input),
                summary,
                Vec::new(),
                &Subject::default(),
            )
        };
        let good = Summary {
            tx: 1000,
            rx: 990,
            lost: 8,
            late: 2,
            valid: true,
            ..Summary::default()
        };
        let told = |summary: &Summary| measured(summary).trial.verdict;
        assert_eq!(told(&good), Verdict::Counted { due: 1000, missing: 10 });
        // Missed within the tolerance by this host: the device never saw them, and nobody lost them.
        let missed = |blocked_ns| Summary {
            missed: 1,
            duration_ns: 1_000_000_000,
            lanes: vec![LaneSummary {
                tx_role: true,
                blocked_ns: Some(blocked_ns),
                ..LaneSummary::default()
            }],
            ..good.clone()
        };
        assert_eq!(told(&missed(0)), Verdict::Counted { due: 1000, missing: 10 });
        assert_eq!(told(&missed(100_000)), Verdict::Counted { due: 1000, missing: 10 });
        // Missed because of the path, which took nothing for a thousandth of the time.
        assert_eq!(told(&missed(1_000_000)), Verdict::Counted { due: 1001, missing: 11 });
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
            invalid_reasons: vec![reason("the host interfered")],
            ..refused
        };
        assert_eq!(told(&fault), Verdict::Void);
        assert_eq!(measured(&fault).reasons, ["the host interfered"]);
    }

    #[test]
    fn a_trial_is_judged_by_the_streams_that_goals_name() {
        let stream = |name: &str, missed, valid| StreamSummary {
            name: name.to_owned(),
            tx: 100,
            rx: 98,
            lost: 2,
            missed,
            due: Some(100 + missed),
            valid,
            ..StreamSummary::default()
        };
        let summary = Summary {
            tx: 200,
            rx: 196,
            lost: 4,
            streams: vec![stream("gold", 0, true), stream("noise", 50, false)],
            invalid_reasons: vec![reason("stream noise: 50 of 150 departures were missed")],
            ..Summary::default()
        };
        let input = Input {
            load: 200,
            duration_ns: 1_000_000_000,
        };
        let of = |summary: &Summary, streams: &[&str], only| {
            let subject = Subject {
                streams: streams.iter().map(|name| (*name).to_owned()).collect(),
                only,
            };
            measured(Ask::of(Phase::Search, 64, input), summary, Vec::new(), &subject)
        };
        // The goals are about gold alone, and the rest is to be known.
        let gold = of(&summary, &["gold"], true);
        let loss = StreamLoss {
            name: "gold".to_owned(),
            due: 100,
            missing: 2,
        };
        assert_eq!((gold.counts(), &gold.trial.streams[..]), (true, &[loss][..]));
        assert_eq!(gold.notes, ["stream noise: 50 of 150 departures were missed"]);
        for (streams, only) in [(&["gold"][..], false), (&["noise"], true), (&["gold", "noise"], true)] {
            let void = of(&summary, streams, only);
            assert!(
                !void.counts() && void.reasons[0].starts_with("stream noise"),
                "{streams:?}"
            );
        }
        // What the path refused is lost, of the stream that missed it.
        let refused = Summary {
            missed: 50,
            shortfall: Some(Shortfall::Refused),
            ..summary.clone()
        };
        let noise = of(&refused, &["noise"], true);
        assert_eq!((noise.trial.streams[0].due, noise.trial.streams[0].missing), (150, 52));
        // Of which nothing was due, nothing is known.
        let mut late = summary;
        (late.streams[0].tx, late.streams[0].due) = (0, Some(0));
        let void = of(&late, &["gold"], true);
        assert!(
            void.void_in_short().starts_with("no packet of gold was due"),
            "{void:?}"
        );
    }

    #[test]
    fn who_disturbed_a_trial_is_named_in_full() {
        let culprit = "other threads kept the lanes from running for 48.0 % of the sending time (cc1 (thread 7) ran \
                       for 480.0 ms meanwhile, last on core 0; ld (thread 9) ran for 40.0 ms meanwhile, last on core \
                       1)";
        let void = |sentence: &str, named| {
            let summary = Summary {
                invalid_reasons: vec![reason(sentence)],
                kept_off: Some(KeptOff {
                    by: KeptOffBy::OtherThreads,
                    sentence: culprit.to_owned(),
                    named,
                }),
                ..Summary::default()
            };
            let input = Input {
                load: 1,
                duration_ns: 1,
            };
            measured(
                Ask::of(Phase::Search, 64, input),
                &summary,
                Vec::new(),
                &Subject::default(),
            )
        };
        let missed = format!(
            "the offered rate is 14.1 % off the intended one (7 of 50 departures missed; 0.100 % are allowed): the \
             host interfered: {culprit}"
        );
        let missed = void(&missed, true);
        assert_eq!(
            missed.void_in_short(),
            format!("the offered rate is 14.1 % off the intended one: the host interfered: {culprit}")
        );
        assert_eq!(missed.disturbance(), culprit);
        let other = "a port was down (eth0 (a)): no";
        assert_eq!(void(other, false).disturbance(), other);
    }

    #[test]
    fn a_latency_is_told_of_no_more_packets_than_there_are() {
        let mut histogram = Histogram::default();
        (1..=100).for_each(|ns| histogram.record(ns));
        let told = quantiles(&histogram);
        assert_eq!(told.last(), Some(&(0.99, 99)));
        assert_eq!(told.iter().find(|(share, _)| *share == 0.5), Some(&(0.5, 50)));
    }

    #[test]
    fn phases_are_known_by_their_names() {
        for phase in Phase::ALL {
            assert_eq!(Phase::named(phase.name()), Some(phase));
        }
    }
}
