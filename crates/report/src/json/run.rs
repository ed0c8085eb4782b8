//! Keys of a run, and of each of its directions.

use super::keys::{Key, Kind};
use super::lane::lanes;
use super::stream::streams;
use super::{
    capture, counters, direction, expectation, housekeeping, known, latency, layer1_bps, longest_outage, loss_times,
    outside, port, program, remarks, rfc3339, sample, stage, stretches, withheld, workload_name,
};
use mpps_stats::{FieldChange, Summary, sentences};
use serde_json::{Map, Value, json};

/// Keys of a run, in the order of the output. New keys are added beside those of their subject.
pub const RUN: [Key<Summary>; 70] = [
    Key::new(
        "workload",
        Kind::Text,
        "kind of the run: `sendrecv`, `send`, `drop`, `reflect`, `forward`, `capture`",
        |s| workload_name(s.workload).into(),
    ),
    Key::new(
        "run_id",
        Kind::Text,
        "a random number of the run, 64 bits in hexadecimal, as not every reader of JSON has such integers; all trials \
         of a session or method have one",
        |s| format!("{:016x}", s.run_id).into(),
    ),
    Key::new(
        "tx_packets",
        Kind::Count,
        "packets sent ([Packets](counts.md#packets))",
        |s| s.tx.into(),
    ),
    Key::new(
        "rx_packets",
        Kind::Count,
        "packets received: each once, intact, within the settle time",
        |s| s.rx.into(),
    ),
    Key::new(
        "lost",
        Kind::Count,
        "packets lost: `tx_packets − untagged_packets − rx_packets − late`",
        |s| s.lost.into(),
    ),
    Key::new(
        "loss_stretches",
        Kind::List,
        "[when packets were lost](counts.md#when-packets-were-lost): `from_s to_s lost` of the largest stretches",
        |s| stretches(&s.loss_stretches, "lost"),
    ),
    Key::new(
        "loss_outside_stretches",
        Kind::Object,
        "the other ones: `stretches lost`, and `found_later`",
        |s| outside(&s.loss_stretches, "lost"),
    ),
    Key::or_null(
        "loss_times",
        Kind::Object,
        "[the first and the last lost packet](counts.md#the-first-and-the-last-lost-packet-and-the-longest-outage): \
         `first_lost_ns last_lost_ns received_after_ns`",
        |s| s.loss_times.as_ref().map(loss_times).into(),
    ),
    Key::or_null(
        "longest_outage",
        Kind::Object,
        "the longest time in which no packet came: `from_ns to_ns length_ns lost`",
        |s| s.longest_outage.as_ref().map(longest_outage).into(),
    ),
    Key::or_null(
        "host_dropped",
        Kind::Count,
        "[packets that this host dropped](counts.md#packets-that-this-host-dropped) before `mpps` could take them",
        |s| s.host_dropped.into(),
    ),
    Key::new(
        "host_drop_stretches",
        Kind::List,
        "when they were: `from_s to_s dropped` of the largest stretches",
        |s| stretches(&s.host_drop_stretches, "dropped"),
    ),
    Key::new(
        "host_dropped_outside_stretches",
        Kind::Object,
        "the other ones: `stretches dropped`, and `found_later`",
        |s| outside(&s.host_drop_stretches, "dropped"),
    ),
    Key::or_null(
        "kernel_drops",
        Kind::List,
        "with `--trace`: lost packets that the kernel of this host dropped, in any of its network namespaces, by its \
         own `reason`, and how many `packets`; without copies. `null`: nobody looked",
        |s| {
            let drop = |(reason, packets): &(String, u64)| json!({ "reason": reason, "packets": packets });
            s.kernel_drops
                .as_ref()
                .map(|drops| drops.iter().map(drop).collect::<Value>())
                .into()
        },
    ),
    Key::new("late", Kind::Count, "packets that came after the settle time", |s| {
        s.late.into()
    }),
    Key::new("duplicates", Kind::Count, "further copies of packets", |s| {
        s.duplicates.into()
    }),
    Key::new(
        "reordered",
        Kind::Count,
        "packets that came after a later one of their flow",
        |s| s.reordered.into(),
    ),
    Key::new(
        "corrupt",
        Kind::Count,
        "packets whose checksum, length or data was wrong",
        |s| s.corrupt.into(),
    ),
    Key::new("foreign", Kind::Count, "packets that are none of this test's", |s| {
        s.foreign.into()
    }),
    Key::new(
        "untagged_packets",
        Kind::Count,
        "packets sent [without a tag](traffic.md#without-a-tag), of which nobody knows whether they came; in no other \
         count but `tx_packets`",
        |s| s.untagged.into(),
    ),
    Key::new(
        "untagged_came",
        Kind::Count,
        "packets that came with the headers of streams without a tag, and do not say which they are",
        |s| s.untagged_came.into(),
    ),
    Key::new("missed", Kind::Count, "departures that were due and not sent", |s| {
        s.missed.into()
    }),
    Key::or_null(
        "due_packets",
        Kind::Count,
        "departures that the schedule had; `null` where no rate was asked for ([Rates](counts.md#rates))",
        |s| s.due.into(),
    ),
    Key::or_null("intended_pps", Kind::Number, "rate asked for, packets/s", |s| {
        s.intended_pps.into()
    }),
    Key::or_null("offered_pps", Kind::Number, "rate sent", |s| offered(s).into()),
    Key::or_null("received_pps", Kind::Number, "rate received, over the same time", |s| {
        received(s).into()
    }),
    Key::or_null(
        "frame_size_bytes",
        Kind::Count,
        "length of a frame with FCS, as the rates count it",
        |s| (s.frame_size > 0).then_some(s.frame_size).into(),
    ),
    Key::or_null(
        "intended_bps",
        Kind::Number,
        "`intended_pps` in bit/s on layer 1: preamble and gap are counted",
        |s| layer1(s, s.intended_pps).into(),
    ),
    Key::or_null("offered_bps", Kind::Number, "`offered_pps` likewise", |s| {
        layer1(s, offered(s)).into()
    }),
    Key::or_null("received_bps", Kind::Number, "`received_pps` likewise", |s| {
        layer1(s, received(s)).into()
    }),
    Key::new(
        "loss_ratio",
        Kind::Number,
        "`lost ÷ tx_packets`; 0 where nothing was sent",
        |s| s.loss_ratio.into(),
    ),
    Key::new(
        "duration_s",
        Kind::Number,
        "length of the time of sending, or of receiving on a receiver, as measured",
        |s| (s.duration_ns as f64 / 1e9).into(),
    ),
    Key::new(
        "latency_ns",
        Kind::Times,
        "[latency](times.md#latency) from the send time: `min mean p50 p90 p99 p999 max count`",
        |s| latency(&s.latency).into(),
    ),
    Key::or_null(
        "latency_scheduled_ns",
        Kind::Times,
        "latency from the scheduled time: a generator that falls behind can't hide it",
        |s| s.latency_scheduled.as_ref().map(latency).into(),
    ),
    Key::or_null(
        "latency_arrival_ns",
        Kind::Times,
        "latency from the send time to the [arrival](times.md#arrival) that kernel or card have noted; `null` if only \
         the lane takes times",
        |s| s.latency_arrival.as_ref().map(latency).into(),
    ),
    Key::or_null(
        "wake_up_ns",
        Kind::Times,
        "time from the arrival to the lane's reading; `null` if only one of the two is known",
        |s| s.wake_up.as_ref().map(latency).into(),
    ),
    Key::new(
        "latency_note",
        Kind::Text,
        "where latency was taken, or why there is none",
        |s| s.latency_note.as_str().into(),
    ),
    Key::new(
        "reorder_distance",
        Kind::Object,
        "how far packets came behind the latest of their flow, in packets: `max mean`",
        |s| json!({ "max": s.reorder_distance.max, "mean": Value::from(s.reorder_distance.mean) }),
    ),
    Key::or_null(
        "departure_gap_ns",
        Kind::Times,
        "[departure gaps](times.md#departure-gaps): as latency, and `intended_mean`",
        |s| s.gaps.as_ref().map(departure_gaps).into(),
    ),
    Key::new(
        "valid",
        Kind::Flag,
        "whether the test was done as asked ([the verdict](verdict.md#the-verdict)); it does not say that the path is \
         good",
        |s| s.valid.into(),
    ),
    Key::new("invalid_reasons", Kind::Texts, "why it was not, a sentence each", |s| {
        json!(sentences(&s.invalid_reasons))
    }),
    Key::new(
        "warnings",
        Kind::Texts,
        "what the reader should know although the numbers are valid",
        |s| json!(sentences(&s.warnings)),
    ),
    Key::new(
        "remarks",
        Kind::List,
        "the reasons and then the warnings, an object for each: `name` `invalid` `sentence` `values`; see \
         [Remarks](verdict.md#remarks)",
        remarks,
    ),
    Key::new(
        "known",
        Kind::List,
        "what is known of the run's surroundings, which notes and `why` rest on: `kind`, `sentence`, `packets` \
         (`null`: no number of them), `from_s` `to_s`; see [causes.md](causes.md)",
        |s| s.known.iter().map(known).collect(),
    ),
    Key::new(
        "interrupted",
        Kind::Flag,
        "ended by a signal: SIGINT, SIGTERM, SIGHUP unless the program was started with it ignored (`nohup`), or \
         SIGXCPU at a limit of CPU time (a warning names the limit)",
        |s| s.interrupted.into(),
    ),
    Key::or_null(
        "kept_off",
        Kind::Object,
        "what kept the lanes from their cores: `by` (`other_threads`; `own_threads`: lanes of this or another `mpps`, \
         or its other threads; `cpu_quota`; `real_time`: a control group's limit of real-time threads, or such \
         threads; `hypervisor`; `not_known`: threads that were not seen, or a CPU quota that can't be read), \
         `sentence`, and `named`: whether a reason or warning on missed or dropped packets names it as the cause; \
         `null`: nothing did for long enough to be named",
        |s| {
            let of = s.kept_off.as_ref();
            of.map(|of| json!({ "by": of.by.as_str(), "sentence": of.sentence, "named": of.named }))
                .into()
        },
    ),
    Key::or_null(
        "cpu_quota",
        Kind::Object,
        "the CPU quota of a control group that withheld time from the run: `group` `quota_us` `period_us` (`null`: \
         can't be read), `periods` in which the group ran, `throttled_periods` of them, `withheld_ns` (the sum over \
         cores); `null` where nothing was withheld, nothing tells, or all lanes have a real-time class (`--fifo`)",
        |s| s.withheld.as_ref().map(withheld).into(),
    ),
    Key::or_null(
        "cpu_quota_unread",
        Kind::Text,
        "the control group whose quota can't be read, so that nothing is known of it; `null`: each was read, or there \
         is none",
        |s| s.unread_quota.clone().into(),
    ),
    Key::new(
        "open_ended",
        Kind::Flag,
        "no end was asked for (`--duration`): a signal is how such a run ends",
        |s| s.open_ended.into(),
    ),
    Key::or_null(
        "housekeeping",
        Kind::Object,
        "processor time of this program's threads beside the lanes while those ran (collector, writers of files, \
         reader of the kernel's counts; `mpps-serve`: metrics and the [live page](live.md), `mpps-screen`: the view \
         on the terminal): `cpu_ns`, `core_percent` (of one core), `longest_ns` (the collector's longest stretch \
         between two sleeps), `threads` (ns by name); `null` where the kernel does not tell",
        |s| s.housekeeping.as_ref().map(housekeeping).into(),
    ),
    Key::new("reasons", Kind::Object, "counts by [reason](counts.md#reasons)", |s| {
        counters(&s.reasons).into()
    }),
    Key::or_null(
        "changes",
        Kind::List,
        "of `--packet`: [fields of the headers that arrived other than they were sent](traffic.md#changes): `field` \
         `packets`, and `pairs` of values, the first 16: `sent received packets`; `null`: headers were not compared",
        |s| {
            let pair = |(sent, received, packets): &(String, String, u64)| {
                let mut pair = json!({ "sent": sent, "received": received });
                pair["packets"] = json!(packets);
                pair
            };
            let change = |change: &FieldChange| {
                let pairs: Vec<_> = change.pairs.iter().map(pair).collect();
                json!({ "field": change.field, "packets": change.packets, "pairs": pairs })
            };
            s.changes
                .as_ref()
                .map(|changes| changes.iter().map(change).collect::<Value>())
                .into()
        },
    ),
    Key::or_null(
        "capture",
        Kind::Object,
        "of `capture`: [what became of the packets](capture.md#counts): `snap_len_bytes received taken written dropped \
         written_bytes files files_removed failure`; else `null`",
        |s| s.capture.as_ref().map(capture).into(),
    ),
    Key::or_null(
        "sample",
        Kind::Object,
        "with `--sample-pcap`: [what became of the frames](capture.md#beside-a-run): `file every snap_len_bytes \
         received sent written dropped written_bytes failure`; else `null`",
        |s| s.sample.as_ref().map(sample).into(),
    ),
    Key::new("lanes", Kind::List, "[an object for each lane](times.md#lanes)", |s| {
        lanes(&s.lanes)
    }),
    Key::new(
        "stages",
        Kind::List,
        "[what each lane did with its time](times.md#stages), an object for each lane and stage",
        |s| s.stages.iter().map(stage).collect(),
    ),
    Key::new(
        "programs",
        Kind::List,
        "what programs in the kernel took, with `--trace` on `xdp`: `program` `device` `runs` `timed` (of them) \
         `packets` `total_ns` `share` (of one core), `packets_per_run` `ns_per_packet` `ns_per_run`; see \
         [trace.md](trace.md#programs-in-the-kernel)",
        |s| s.programs.iter().map(program).collect(),
    ),
    Key::or_null(
        "stage_cost",
        Kind::Object,
        "what it cost to know the stages: `readings` of the clock, `reading_ns` each, their `share` of the lanes' \
         time; `lost`: records of rounds that were overwritten before they could be kept; `null` where no lane goes \
         through a loop",
        |s| json!(s.stage_cost),
    ),
    Key::new(
        "expectations",
        Kind::List,
        "what `--expect` asked for, and what came of it: see [Expectations](verdict.md#expectations)",
        |s| s.expectations.iter().map(expectation).collect(),
    ),
    Key::new(
        "why",
        Kind::List,
        "why packets were lost or late, bursts slow and departures missed (of losses and misses the 100 largest \
         stretches), the worst first of each `subject` (`loss`, `late`, `slow`, `missed`): `at_ns`, `took_ns`, `lane`, \
         `packets`, a `sentence`, and its `parts` (`what`, `amount`), which add up to `took_ns`, or to `packets` of \
         `loss` and `missed`; [a trace](trace.md) has more of them",
        |s| json!(s.causes),
    ),
    Key::or_null(
        "started_utc",
        Kind::Text,
        "time of day at the start of the run, RFC 3339 with ns; `start_utc_ns` of the first row",
        |s| (s.started.utc_ns > 0).then(|| rfc3339(s.started.utc_ns)).into(),
    ),
    Key::or_null(
        "start_monotonic_ns",
        Kind::Count,
        "the same by `CLOCK_MONOTONIC`: the zero of `time_s`, and the clock of stamps on this host",
        |s| (s.started.monotonic_ns > 0).then_some(s.started.monotonic_ns).into(),
    ),
    Key::or_null(
        "start_error_ns",
        Kind::Count,
        "with `--start-at`: [how far from the instant](times.md#a-start-at-an-instant) the last lane may have begun; \
         else `null`",
        |s| s.start_error_ns.into(),
    ),
    Key::new(
        "command",
        Kind::Texts,
        "the command line, a word each; the options of a file of `--config` stand in its place, so it makes the same \
         run without the file",
        |s| json!(s.command),
    ),
    Key::or_null(
        "plan",
        Kind::Object,
        "the run as a value, which `mpps run` repeats: [plans.md](plans.md); `null` where no command ran it",
        |s| {
            s.plan
                .as_deref()
                .and_then(|text| serde_json::from_str(text).ok())
                .unwrap_or_default()
        },
    ),
    Key::new(
        "ports",
        Kind::List,
        "of `forward`: [what came in and went out at each port](forwarding.md#what-is-counted); else empty",
        |s| s.ports.iter().map(port).collect(),
    ),
    Key::new(
        "directions",
        Kind::List,
        "of `sendrecv A B --both-ways`: an object for each [way](#both-ways), with its `name` and all keys of this \
         table but `command`, `plan` and `directions`; else empty",
        |s| s.directions.iter().map(direction).collect(),
    ),
    Key::new(
        "streams",
        Kind::List,
        "of `--traffic`, of `sendrecv` and `send` of `--packet`, too: an object for each [stream](#streams), in the \
         order of the file; else empty",
        |s| streams(&s.streams),
    ),
    Key::new(
        "groups",
        Kind::List,
        "the same for each [group of streams](#streams), in the order of their first use",
        |s| streams(&s.groups),
    ),
    Key::new(
        "sizes",
        Kind::List,
        "the same for the [frames of each size](#streams), the smallest first; empty where all have one size, and of \
         `drop`",
        |s| streams(&s.sizes),
    ),
    Key::new(
        "host",
        Kind::Object,
        "what was measured on what: version, kernel, CPU, clock, port, `source` and `destination` (addresses and ports \
         in use), `flows` and the memory that they take (`flow_memory_bytes`), `link_bps`: speed of the sender's link \
         where the device tells it (virtual devices tell one that they do not keep), sizes, real buffer and ring \
         sizes, `run_s`, `interval_ms`, `settle_ms`, `burst`, `seed`, `steal_ms`; `privileges`: what the run kept of \
         its own while packets moved (`given up`, or who kept what), not there where the user had none; \
         `lane_priority`: what `--nice` or `--fifo` asked for. All values are strings",
        |s| {
            let facts = s
                .host
                .iter()
                .map(|fact| (fact.name.clone(), Value::from(fact.value.as_str())));
            facts.collect::<Map<_, _>>().into()
        },
    ),
];

/// Returns the rate sent. A sender has one however short the run was: the verdict says so if it was too short.
fn offered(s: &Summary) -> Option<f64> {
    (s.workload.generates() || s.tells_rate()).then_some(s.offered_pps)
}

/// Returns the rate received, likewise.
fn received(s: &Summary) -> Option<f64> {
    (s.workload.generates() || s.tells_rate()).then_some(s.received_pps)
}

fn layer1(s: &Summary, pps: Option<f64>) -> Option<f64> {
    layer1_bps(pps?, s.frame_size)
}

fn departure_gaps(gaps: &mpps_stats::Gaps) -> Map<String, Value> {
    let mut object = latency(&gaps.measured);
    let intended = (gaps.intended_mean > 0.0).then_some(gaps.intended_mean);
    object.insert("intended_mean".to_owned(), intended.into());
    object
}
