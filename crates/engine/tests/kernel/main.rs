//! Runs whose packets a kernel handles: every packet that it counted is in a row and in the totals, however it ends.

mod fake;
#[path = "../plans/mod.rs"]
mod plans;

use fake::{Config, Fake, Fate, LATENCY_NS};
use mpps_engine::{
    Common, DropPlan, FlowSet, ForwardPlan, ForwardPort, LanePlan, OnFull, Pacing, Rate, ReflectPlan, RunError,
    TrafficPlan, Work, run_drop_in_kernel, run_forward_in_kernel, run_reflect_in_kernel, run_traffic_in_kernel,
};
use mpps_io::Reason;
use mpps_stats::{Event, Remark, RemarkName, Row, Sink, Snapshot, Summary};
use mpps_wire::{ReflectFilter, Rewrite, SlowPath, TakeFilter, parse_slow_path};
use std::cell::OnceCell;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<(Vec<Row>, Vec<Snapshot>)>>);

impl Sink for Kept {
    fn event(&mut self, event: &Event<'_>) {
        let mut kept = self.0.lock().unwrap();
        match event {
            Event::Row(row) => kept.0.push((*row).clone()),
            Event::Live(snapshot) => kept.1.push((*snapshot).clone()),
            _ => {}
        }
    }
}

fn common(senders: usize, duration_ms: u64) -> Common {
    let lane = |tx: bool| LanePlan {
        rx: !tx,
        tx,
        core: None,
    };
    let mut lanes = vec![lane(true); senders];
    lanes.push(lane(false));
    Common {
        lanes,
        duration: Some(Duration::from_millis(duration_ms)),
        settle: Duration::from_millis(20),
        burst: 64,
        share_cores: true,
        ..Common::default()
    }
}

fn traffic(pps: u64, duration_ms: u64) -> TrafficPlan {
    TrafficPlan {
        src: "10.0.0.1".parse().unwrap(),
        dst: "10.0.0.2".parse().unwrap(),
        flows: FlowSet::new(1000..=1003, 9..=9, None),
        packets: None,
        payload_len: 18,
        frame_size: 64,
        rate: Rate::new(pps, 1),
        catch_up: Duration::from_millis(20),
        tolerance: 0.001,
        ..plans::traffic(common(2, duration_ms))
    }
}

/// Runs `sendrecv`; the rows add up to the totals, whatever happens.
fn sendrecv(port: &Fake, plan: &TrafficPlan, interruptions: &dyn Fn() -> u32) -> (Summary, Vec<Row>) {
    let kept = Kept::default();
    let mut sinks: Vec<Box<dyn Sink>> = vec![Box::new(kept.clone())];
    let summary = run_traffic_in_kernel(&[port], plan, &mut sinks, interruptions).expect("a run");
    let rows = kept.0.lock().unwrap().0.clone();
    let sum = |f: fn(&Row) -> u64| rows.iter().map(f).sum::<u64>();
    assert_eq!(sum(|r| r.tx), summary.tx);
    assert_eq!(sum(|r| r.rx), summary.rx);
    assert_eq!(sum(|r| r.late), summary.late);
    assert_eq!(sum(|r| r.missed), summary.missed);
    let arrived: Vec<u64> = rows.iter().filter_map(|row| row.rx_by_arrival).collect();
    // They are counted at the ends of rows, where these are not too short for that.
    let long = plan.common.interval >= Duration::from_millis(100);
    assert_eq!(arrived.len(), if long { rows.len() } else { 0 });
    assert_eq!(arrived.iter().sum::<u64>(), if long { summary.rx } else { 0 });
    assert_eq!(rows.iter().map(|r| r.lost).sum::<i64>(), summary.lost as i64);
    assert_eq!(summary.tx, summary.rx + summary.lost + summary.late);
    assert_eq!(sent(&summary), summary.tx);
    (summary, rows)
}

fn sent(summary: &Summary) -> u64 {
    summary.lanes.iter().map(|lane| lane.tx_packets).sum()
}

#[test]
fn every_packet_is_counted_and_loss_stands_in_the_rows_of_its_sending() {
    let port = Fake::new(Config {
        fate: |number, row| match (number % 50, row) {
            (_, 5 | 6) => Fate::Lost,
            (7, _) => Fate::Twice,
            _ => Fate::Back,
        },
        ..Config::default()
    });
    let (summary, rows) = sendrecv(&port, &traffic(50_000, 400), &|| 0);
    assert!(summary.valid, "{:?}", summary.invalid_reasons);
    assert_eq!((summary.tx, summary.lost, summary.missed), (20_000, 1_000, 0));
    assert_eq!(rows.len(), 40);
    for row in &rows {
        let lost = if matches!(row.index, 5 | 6) { 500 } else { 0 };
        assert_eq!((row.tx, row.lost), (500, lost), "row {}", row.index);
    }
    assert_eq!(summary.duplicates, 380);
    assert_eq!((summary.latency.min, summary.latency.max), (LATENCY_NS, LATENCY_NS));
    assert_eq!(summary.latency.count, summary.rx);
    assert_eq!(summary.latency.percentiles.map(|p| p.p99), Some(LATENCY_NS));
    assert_eq!(summary.latency_scheduled.map(|l| l.count), Some(summary.rx));
    assert!(
        summary.latency_note.contains("in the kernel"),
        "{}",
        summary.latency_note
    );
    assert_eq!(summary.gaps.map(|g| g.measured.count), Some(20_000));
    // A line a sending lane, and one per source that received.
    let lanes: Vec<_> = summary
        .lanes
        .iter()
        .map(|l| (l.lane, l.tx_role, l.rx_role, l.tx_packets))
        .collect();
    assert_eq!(
        lanes,
        [(0, true, false, 10_000), (1, true, false, 10_000), (2, false, true, 0)]
    );
    let line = &summary.lanes[2];
    assert_eq!(
        (line.rx_packets, line.rx_bursts, line.rx_empty_polls),
        (19_000, 19_000, 0)
    );
    assert_eq!((line.rx_dropped, line.busy_ratio, line.run_delay_ns), (0, None, None));
    assert_eq!(line.path_counters, [("port".to_owned(), 5)]);
    assert_eq!(line.at_full_load(), Err("it has no thread whose time is known"));
    assert_eq!(summary.lanes[0].waits, 7);
}

#[test]
fn the_live_view_sees_what_the_kernel_counts() {
    let kept = Kept::default();
    let mut sinks: Vec<Box<dyn Sink>> = vec![Box::new(kept.clone())];
    let port = Fake::new(Config::default());
    let summary = run_traffic_in_kernel(&[&port], &traffic(20_000, 600), &mut sinks, &|| 0).expect("a run");
    let kept = kept.0.lock().unwrap();
    let last = kept.1.last().expect("a run longer than it takes to the first");
    assert!(last.tx > 0 && last.rx > 0 && last.tx <= summary.tx, "{last:?}");
}

#[test]
fn who_comes_late_is_late_and_not_lost() {
    let port = Fake::new(Config {
        fate: |number, _| if number % 40 == 3 { Fate::Late } else { Fate::Back },
        ..Config::default()
    });
    let (summary, _) = sendrecv(&port, &traffic(20_000, 200), &|| 0);
    assert_eq!((summary.tx, summary.late, summary.lost), (4_000, 100, 0));
    assert!(summary.valid, "{:?}", summary.invalid_reasons);
}

#[test]
fn an_interrupted_run_has_its_full_result() {
    for rate in [Rate::new(20_000, 1), None] {
        let mut plan = traffic(20_000, 0);
        (plan.common.duration, plan.rate) = (None, rate);
        let port = Fake::new(Config::default());
        // A run of less than 100 ms has no rate.
        let under_way = OnceCell::new();
        let long = || under_way.get_or_init(Instant::now).elapsed() > Duration::from_millis(150);
        let asked = || u32::from(port.lane_packets() > 1_000 && long());
        let (summary, _) = sendrecv(&port, &plan, &asked);
        assert!(summary.interrupted);
        let slow = |reason: &Remark| reason.name == RemarkName::MissedDepartures;
        assert!(
            summary.invalid_reasons.iter().all(slow),
            "{:?}",
            summary.invalid_reasons
        );
        if let Some(rate) = rate {
            // All that was due by the end which the programs were told.
            let state = port.now();
            assert_eq!(summary.tx, rate.packets_in(state.end_ns - state.start_ns));
        }
    }
}

#[test]
fn a_device_that_vanishes_ends_the_run_with_what_was_counted() {
    let port = Fake::new(Config {
        gone_after: 2_000,
        ..Config::default()
    });
    let (summary, _) = sendrecv(&port, &traffic(20_000, 60_000), &|| 0);
    assert_eq!((summary.tx, summary.rx), (2_000, 2_000));
    assert_eq!(
        summary.tx + summary.missed,
        Rate::new(20_000, 1).unwrap().packets_in(summary.duration_ns)
    );
    assert!(
        summary.invalid_reasons[0].sentence.contains("vanished"),
        "{:?}",
        summary.invalid_reasons
    );
}

#[test]
fn a_device_that_was_down_is_told_once() {
    let port = Fake::new(Config {
        down_checks: 3,
        ..Config::default()
    });
    let (summary, _) = sendrecv(&port, &traffic(1_000, 400), &|| 0);
    let trying_on = |note: &&Remark| note.name == RemarkName::DeviceError && note.sentence.contains("trying on");
    let told = summary.warnings.iter().filter(trying_on).count();
    assert_eq!(told, 1, "{:?}", summary.warnings);
    assert!(summary.valid);
}

#[test]
fn lanes_that_are_done_leave_and_the_run_goes_on() {
    // The last departure is long before the end.
    let port = Fake::new(Config::default());
    let mut plan = traffic(10, 250);
    plan.pacing = Pacing::Bursts(2);
    let (summary, rows) = sendrecv(&port, &plan, &|| 0);
    assert_eq!((summary.tx, rows.len(), summary.missed), (3, 25, 0));
    assert!(summary.valid, "{:?}", summary.invalid_reasons);
}

#[test]
fn a_reader_that_was_held_up_loses_places_but_no_packets() {
    for overwrites in [false, true] {
        let port = Fake::new(Config {
            rows: 16,
            overwrites,
            stall: Duration::from_millis(400),
            ..Config::default()
        });
        let (summary, _) = sendrecv(&port, &traffic(20_000, 700), &|| 0);
        assert_eq!((summary.tx, summary.rx), (14_000, 14_000), "{overwrites}");
        assert!(summary.valid, "{:?}", summary.invalid_reasons);
        let told =
            |note: &Remark| note.name == RemarkName::CollectorLate && note.sentence.contains("kept from running");
        assert!(summary.warnings.iter().any(told), "{:?}", summary.warnings);
    }
}

#[test]
fn sending_alone_needs_no_line_for_who_receives() {
    let port = Fake::new(Config {
        fate: |_, _| Fate::Lost,
        ..Config::default()
    });
    let mut plan = traffic(10_000, 100);
    plan.receive = false;
    let (summary, _) = kept_rows(|sinks| run_traffic_in_kernel(&[&port], &plan, sinks, &|| 0));
    assert_eq!((summary.tx, summary.lost, summary.lanes.len()), (1_000, 0, 2));
    assert_eq!(summary.lanes[0].path_counters, [("port".to_owned(), 5)]);
    assert!(summary.valid, "{:?}", summary.invalid_reasons);
}

#[test]
fn the_next_hop_is_asked_until_it_is_heard_and_known_before_the_run_begins() {
    let port = Fake::new(Config {
        answers_at: 2,
        ..Config::default()
    });
    let mut plan = traffic(1_000, 50);
    let link = plan.link.as_mut().unwrap();
    (link.dest_mac, link.next_hop) = (None, Some(plan.dst));
    sendrecv(&port, &plan, &|| 0);
    let state = port.now();
    assert_eq!(state.mac_at_begin, Some([2, 0, 0, 0, 0, 9]));
    assert_eq!(state.injected.len(), 2);
    let Some(SlowPath::ArpRequest { target_ip, .. }) = parse_slow_path(&state.injected[0]) else {
        panic!("a question");
    };
    assert_eq!(target_ip, std::net::Ipv4Addr::new(10, 0, 0, 2));
}

#[test]
fn a_known_next_hop_is_not_asked() {
    let port = Fake::new(Config::default());
    sendrecv(&port, &traffic(1_000, 50), &|| 0);
    assert_eq!(port.now().mac_at_begin, Some([2, 0, 0, 0, 0, 2]));
    assert!(port.now().injected.is_empty());
}

#[test]
fn a_next_hop_that_never_answers_ends_the_run_before_it_begins() {
    let mut plan = traffic(1_000, 50);
    let link = plan.link.as_mut().unwrap();
    (link.dest_mac, link.next_hop) = (None, Some(plan.dst));
    let fail = |interruptions: u32| {
        let port = Fake::new(Config::default());
        let mut sinks: Vec<Box<dyn Sink>> = Vec::new();
        run_traffic_in_kernel(&[&port], &plan, &mut sinks, &|| interruptions).expect_err("nobody answers")
    };
    let unresolved = fail(0);
    assert!(
        unresolved.to_string().starts_with("nobody answered for 10.0.0.2"),
        "{unresolved}"
    );
    assert!(matches!(fail(1), RunError::Interrupted));
}

impl Fake {
    fn lane_packets(&self) -> u64 {
        use mpps_io::kernel::KernelPort;
        (0..self.lanes()).map(|lane| self.lane_totals(lane).packets).sum()
    }
}

fn listener(reasons: Vec<(Reason, u64)>, sources: Vec<usize>) -> Fake {
    Fake::new(Config {
        lanes: 0,
        arrivals: true,
        sources,
        reasons,
        ..Config::default()
    })
}

fn kept_rows(run: impl FnOnce(&mut [Box<dyn Sink>]) -> Result<Summary, RunError>) -> (Summary, Vec<Row>) {
    let kept = Kept::default();
    let mut sinks: Vec<Box<dyn Sink>> = vec![Box::new(kept.clone())];
    let summary = run(&mut sinks).expect("a run");
    let rows = kept.0.lock().unwrap().0.clone();
    (summary, rows)
}

#[test]
fn what_a_reflector_in_the_kernel_turned_is_told_by_source() {
    let port = listener(vec![(Reason::Short, 4), (Reason::Cut, 0)], vec![0, 0, 0]);
    let plan = ReflectPlan {
        common: common(0, 200),
        filter: ReflectFilter::default(),
        link: None,
        on_full: OnFull::Wait,
    };
    let (summary, rows) = kept_rows(|sinks| run_reflect_in_kernel(&port, &plan, sinks, &|| 0));
    assert_eq!((summary.rx, summary.tx, summary.lost), (10_000, 9_000, 1_000));
    assert!(rows.iter().all(|row| (row.rx, row.tx) == (500, 450)));
    assert_eq!(summary.reasons, [("short".to_owned(), 4)]);
    // The source between them saw nothing.
    let lanes: Vec<_> = summary.lanes.iter().map(|l| (l.lane, l.queue, l.rx_packets)).collect();
    assert_eq!(lanes, [(0, 0, 5_000), (1, 2, 5_000)]);
    assert_eq!(sent(&summary), 9_000);
    assert!(summary.valid, "{:?}", summary.invalid_reasons);
    assert!(summary.duration_ns < 200_000_000, "from the first packet to the last");
}

#[test]
fn a_dropping_kernel_whose_flows_moved_is_believed_unless_two_counted_at_once() {
    let plan = DropPlan {
        common: common(0, 100),
        ip: None,
        ports: None,
        excluded_ports: Box::default(),
        verify: true,
        tagged: None,
        streams: None,
        max_flows: 16,
        link: None,
    };
    for (moved, contended) in [(0, 0), (2, 0), (2, 1)] {
        let port = listener(
            vec![(Reason::FlowMoved, moved), (Reason::FlowContended, contended)],
            vec![0],
        );
        let (summary, _) = kept_rows(|sinks| run_drop_in_kernel(&port, &plan, sinks, &|| 0));
        assert_eq!((summary.tx, summary.rx, summary.lost), (5_000, 5_000, 0));
        assert_eq!(summary.valid, contended == 0, "{:?}", summary.invalid_reasons);
    }
}

#[test]
fn what_was_forwarded_is_told_by_port() {
    let port = listener(vec![(Reason::NotTaken, 2)], vec![0, 0, 1]);
    let named = |name: &str| ForwardPort {
        name: name.to_owned(),
        take: TakeFilter::All,
        rewrite: Rewrite::Io,
    };
    let plan = ForwardPlan {
        common: common(0, 100),
        ports: vec![named("a"), named("b")],
        split_directions: false,
        drain: Duration::ZERO,
        on_full: OnFull::Wait,
        work: Work::default(),
    };
    let (summary, _) = kept_rows(|sinks| run_forward_in_kernel(&port, &plan, sinks, &|| 0));
    assert_eq!((summary.rx, summary.tx, summary.lost), (5_000, 4_500, 500));
    let ports: Vec<_> = summary
        .ports
        .iter()
        .map(|p| (p.port.as_str(), p.rx_packets, p.tx_packets))
        .collect();
    // Every 10th is not sent on; all of those come in by the second port, and so are missing at the first.
    assert_eq!(ports, [("a", 2_500, 2_000), ("b", 2_500, 2_500)]);
    assert_eq!(summary.ports[0].rx_bytes, 150_000);
    assert_eq!(summary.ports[0].reasons, [("not_taken".to_owned(), 2)]);
    let lanes: Vec<_> = summary.lanes.iter().map(|l| (l.queue, l.path_counters[0].1)).collect();
    assert_eq!(lanes, [(0, 5), (2, 5)]);
}

#[test]
fn long_rows_tell_what_arrived_in_them_whatever_was_lost() {
    let port = Fake::new(Config {
        fate: loses_a_tenth,
        ..Config::default()
    });
    let mut plan = traffic(20_000, 400);
    plan.common.interval = Duration::from_millis(100);
    let (summary, rows) = sendrecv(&port, &plan, &|| 0);
    assert_eq!((rows.len(), summary.lost), (4, summary.tx / 10));
}

/// Two lanes that send in each track, and a reader of each; or one way.
fn across(both: bool) -> TrafficPlan {
    let mut plan = traffic(20_000, 300);
    let lane = |tx: bool| LanePlan {
        rx: !tx,
        tx,
        core: None,
    };
    let tracks = if both { 2 } else { 1 };
    plan.common.lanes = [vec![lane(true); 2 * tracks], vec![lane(false); tracks]].concat();
    plan.far = plan.link.clone();
    plan.back = both.then(Vec::new);
    plan
}

fn loses_a_tenth(number: u64, _row: u64) -> Fate {
    if number % 10 == 3 { Fate::Lost } else { Fate::Back }
}

#[test]
fn both_ways_have_readers_and_counts_of_their_own_that_add_up() {
    let ports = [loses_a_tenth, |_, _| Fate::Back].map(|fate| {
        Fake::new(Config {
            fate,
            ..Config::default()
        })
    });
    let (summary, rows) =
        kept_rows(|sinks| run_traffic_in_kernel(&[&ports[0], &ports[1]], &across(true), sinks, &|| 0));
    let [there, back] = &summary.directions[..] else {
        panic!("{} directions", summary.directions.len());
    };
    assert_eq!((there.name, back.name), ("A to B", "B to A"));
    let (there, back) = (&there.summary, &back.summary);
    for (track, other) in [(there, back), (back, there)] {
        assert_eq!(track.tx, track.rx + track.lost + track.late);
        assert_eq!(sent(track), track.tx, "its own lanes alone");
        assert_eq!(track.tx + other.tx, summary.tx);
        assert_eq!(track.lost + other.lost, summary.lost);
    }
    assert!(there.tx > 0 && back.tx > 0 && there.lost > 0);
    assert_eq!(back.lost, 0);
    assert_eq!(sent(&summary), summary.tx);
    assert_eq!(rows.iter().map(|row| row.tx).sum::<u64>(), summary.tx);
}

#[test]
fn one_way_between_two_devices_the_second_port_answers_and_hears() {
    let with = |lanes, answers_at| {
        Fake::new(Config {
            lanes,
            answers_at,
            sources: vec![0],
            reasons: if lanes == 0 {
                vec![(mpps_io::Reason::NeighborService, 3)]
            } else {
                Vec::new()
            },
            ..Config::default()
        })
    };
    let ports = [with(2, 0), with(0, 0)];
    let (summary, _) = kept_rows(|sinks| run_traffic_in_kernel(&[&ports[0], &ports[1]], &across(false), sinks, &|| 0));
    assert_eq!((summary.rx, summary.lost), (summary.tx, 0));
    assert!(summary.tx > 0 && summary.directions.is_empty());
    assert!(
        summary.reasons.contains(&("neighbor_service".to_owned(), 3)),
        "{:?}",
        summary.reasons
    );
}
