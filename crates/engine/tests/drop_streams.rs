//! Results of streams at a receiver without a sender.

mod plans;

use mpps_engine::{Common, DropPlan, LanePlan, Packets, run_drop};
use mpps_io::null::{NullConfig, NullPort, Source};
use mpps_stats::{Event, Sink, StreamKind, StreamSummary, Summary, Wants};
use mpps_sys::clock::monotonic_ns;
use mpps_traffic::{Form, Moment, Traffic};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SEED: u64 = 11;

const FILE: &str = r#"
[[stream]]
name = "web"
group = "load"
packet = "eth / ipv4 / tcp src=1..3"
size = "128*1 256*1"

[[stream]]
name = "calls"
group = "load"
packet = "eth / vlan vid=1..2 / ipv6 / udp"

[[stream]]
name = "probe"
packet = "eth / ipv4 / icmp"
size = "202"

[[stream]]
name = "unknown"
packet = "eth / ipv4 / udp src=1..4"
"#;

fn forms() -> Vec<Form> {
    let traffic = Traffic::parse(FILE, &[]).expect("a file");
    traffic.forms(SEED).expect("forms")
}

/// The streams of the file but the last.
fn streams() -> Packets {
    let (forms, load) = (forms(), Some("load"));
    Packets {
        streams: vec![
            plans::stream(&forms[0], "web", load),
            plans::stream(&forms[1], "calls", load),
            plans::stream(&forms[2], "probe", None),
        ],
        stripped: [false; 2],
        turned: false,
        hops: Vec::new(),
    }
}

fn packet(form: &Form, n: u64) -> Vec<u8> {
    let time_ns = monotonic_ns() - 1_000_000;
    form.packet(n, Moment { run: 9, time_ns })
}

/// Frames, one after the other.
struct Frames(std::vec::IntoIter<Vec<u8>>);

impl Source for Frames {
    fn fill(&mut self, frame: &mut [u8]) -> usize {
        let Some(next) = self.0.next() else { return 0 };
        frame[..next.len()].copy_from_slice(&next);
        next.len()
    }
}

/// Packets sent and received by stream and group, as the rows say.
type OfRows = Arc<Mutex<Vec<(StreamKind, String, u64, u64)>>>;

struct Rows(OfRows);

impl Sink for Rows {
    fn wants(&self) -> Wants {
        Wants {
            streams: true,
            ..Wants::default()
        }
    }

    fn event(&mut self, event: &Event<'_>) {
        let Event::Streams(rows) = event else { return };
        let mut all = self.0.lock().expect("no panic");
        for ((kind, name), row) in rows.of.iter().zip(rows.rows) {
            match all.iter_mut().find(|of| of.0 == *kind && of.1 == *name) {
                Some(of) => (of.2, of.3) = (of.2 + row.tx, of.3 + row.rx),
                None => all.push((*kind, name.clone(), row.tx, row.rx)),
            }
        }
    }
}

fn drop_of(frames: Vec<Vec<u8>>, streams: Option<Packets>, max_flows: u32) -> (Summary, OfRows) {
    let port = NullPort::new(NullConfig::default(), 1, [2, 0, 0, 0, 0, 2], move |_: usize| {
        Frames(frames.clone().into_iter())
    });
    let plan = DropPlan {
        common: Common {
            lanes: vec![LanePlan {
                rx: true,
                tx: false,
                core: None,
            }],
            duration: Some(Duration::from_millis(250)),
            share_cores: true,
            seed: SEED,
            ..Common::default()
        },
        ip: None,
        ports: None,
        excluded_ports: Box::default(),
        verify: true,
        tagged: Some(0),
        streams: streams.map(Arc::new),
        max_flows,
        link: Some(plans::link()),
    };
    let rows = OfRows::default();
    let mut sinks: Vec<Box<dyn Sink>> = vec![Box::new(Rows(Arc::clone(&rows)))];
    let summary = run_drop(&port, &plan, &mut sinks, &|| 0).expect("a run");
    (summary, rows)
}

/// Returns packets sent, received, lost, copied, overtaken and corrupt.
fn counts(of: &StreamSummary) -> [u64; 6] {
    [of.tx, of.rx, of.lost, of.duplicates, of.reordered, of.corrupt]
}

fn reason(summary: &Summary, name: &str) -> u64 {
    let found = summary.reasons.iter().find(|(reason, _)| reason == name);
    found.map_or(0, |(_, n)| *n)
}

/// Packets of all streams in turns, with losses, copies, damage and packets that are overtaken.
fn faulty() -> Vec<Vec<u8>> {
    let forms = forms();
    let mut frames = Vec::new();
    for n in 0..300 {
        let [web, calls, probe, unknown] = [0, 1, 2, 3].map(|of: usize| packet(&forms[of], n));
        if ![40, 41, 77].contains(&n) {
            frames.push(web);
        }
        frames.push(calls.clone());
        if n % 100 == 50 {
            frames.push(calls);
        }
        let mut damaged = probe.clone();
        let data = forms[2].header_len() + 3;
        damaged[data] ^= 1;
        frames.push(if n % 100 == 20 { damaged } else { probe });
        if n < 10 {
            frames.push(unknown);
        }
    }
    // Packets of the second and third stream are beside each other: one overtakes the next of its own flow.
    let of = |stream: usize, n: u64| {
        let wanted = packet(&forms[stream], n);
        let header = forms[stream].header_len();
        frames
            .iter()
            .position(|frame| frame[header..header + 8] == wanted[header..header + 8])
    };
    let (early, late) = (of(2, 150).expect("a packet"), of(2, 151).expect("a packet"));
    frames.swap(early, late);
    // Not of the test: without a tag.
    let mut untagged = packet(&forms[0], 0);
    let last = untagged.len() - 1;
    untagged[last] ^= 1;
    frames.push(untagged);
    frames
}

#[test]
fn loss_copies_order_and_damage_are_counted_for_the_stream_of_each_packet() {
    let (summary, rows) = drop_of(faulty(), Some(streams()), 16);
    let names: Vec<&str> = summary.streams.iter().map(|of| of.name.as_str()).collect();
    assert_eq!(names, ["web", "calls", "probe"]);
    let [web, calls, probe] = [0, 1, 2].map(|of: usize| counts(&summary.streams[of]));
    assert_eq!(web, [300, 297, 3, 0, 0, 0], "{:?}", summary.reasons);
    assert_eq!(calls, [300, 300, 0, 3, 0, 0]);
    assert_eq!(probe, [300, 297, 3, 0, 1, 3]);
    // Ten packets are of a stream that is not in the plan.
    let sums: [u64; 6] = std::array::from_fn(|at| [web, calls, probe].iter().map(|of| of[at]).sum());
    let all = [
        summary.tx,
        summary.rx,
        summary.lost,
        summary.duplicates,
        summary.reordered,
        summary.corrupt,
    ];
    assert_eq!(all, [sums[0] + 10, sums[1] + 10, sums[2], sums[3], sums[4], sums[5]]);
    assert_eq!((summary.foreign, reason(&summary, "unnamed_flow_packets")), (1, 10));
    let flows: Vec<u64> = summary.streams.iter().map(|of| of.flows).collect();
    assert_eq!((flows, reason(&summary, "flows")), (vec![3, 2, 1], 10));

    let [group] = &summary.groups[..] else {
        panic!("{:?}", summary.groups)
    };
    assert_eq!((group.name.as_str(), group.streams, group.flows), ("load", 2, 5));
    assert_eq!(counts(group), [600, 597, 3, 3, 0, 0]);
    assert!(summary.sizes.is_empty(), "{:?}", summary.sizes);

    for of in summary.streams.iter().chain(&summary.groups) {
        assert_eq!(
            (of.due, of.intended_pps, of.missed, of.lanes),
            (None, None, 0, 0),
            "{of:?}"
        );
        assert!(of.latency_scheduled.is_none(), "{of:?}");
        assert_eq!(
            (of.latency.count, of.latency.percentiles.is_some()),
            (of.rx, true),
            "{of:?}"
        );
        assert_eq!((of.valid, of.invalid_reasons.len()), (summary.valid, 0), "{of:?}");
        assert!((of.loss_ratio - of.lost as f64 / of.tx as f64).abs() < 1e-12, "{of:?}");
        let rows = rows.lock().expect("no panic");
        let of_rows = rows.iter().filter(|row| row.1 == of.name).map(|row| (row.2, row.3));
        assert_eq!(of_rows.collect::<Vec<_>>(), [(of.tx, of.rx)], "{}", of.name);
    }
    assert!((summary.streams[0].frame_size - 192.0).abs() < 1e-9);
    assert!((summary.streams[2].frame_size - 202.0).abs() < 1e-9);
}

#[test]
fn without_streams_the_totals_are_the_same_and_nothing_is_by_stream() {
    let (with, _) = drop_of(faulty(), Some(streams()), 16);
    let (without, rows) = drop_of(faulty(), None, 16);
    let all = |of: &Summary| {
        [
            of.tx,
            of.rx,
            of.lost,
            of.duplicates,
            of.reordered,
            of.corrupt,
            of.foreign,
        ]
    };
    assert_eq!(all(&without), all(&with));
    assert_eq!(reason(&without, "unnamed_flow_packets"), 0);
    assert!(without.streams.is_empty() && without.groups.is_empty() && without.sizes.is_empty());
    assert!(rows.lock().expect("no panic").is_empty());
}

#[test]
fn packets_of_flows_without_room_are_of_their_streams_too() {
    let form = &forms()[0];
    let frames = (0..90).map(|n| packet(form, n)).collect();
    let (summary, _) = drop_of(frames, Some(streams()), 2);
    assert_eq!(reason(&summary, "untracked_flow_packets"), 30, "{:?}", summary.reasons);
    assert_eq!(counts(&summary.streams[0]), [90, 90, 0, 0, 0, 0]);
    assert_eq!(counts(&summary.streams[1]), [0; 6]);
}

#[test]
fn several_sources_and_runs_of_one_stream_are_counted_together() {
    let form = &forms()[2];
    let mut frames = Vec::new();
    for n in 0..40 {
        for run in 1..=3 {
            let time_ns = monotonic_ns() - 1_000_000;
            // Each run has lost another packet.
            if n != 10 + u64::from(run) {
                frames.push(form.packet(n, Moment { run, time_ns }));
            }
        }
    }
    let (summary, _) = drop_of(frames, Some(streams()), 16);
    assert_eq!(
        counts(&summary.streams[2]),
        [120, 117, 3, 0, 0, 0],
        "{:?}",
        summary.reasons
    );
    assert_eq!(reason(&summary, "flows"), 3);
}
