//! Two ports joined by a cable of known faults, both ways at the same time: each track has its own counts, rows and
//! verdict, and they add up to those of the run.

mod plans;

use mpps_engine::{Common, FlowSet, LanePlan, Link, Rate, TrafficPlan, run_traffic};
use mpps_io::{Burst, Capabilities, Fact, Frame, Layer, Port, Queue, QueueCounters, Result, Wait};
use mpps_stats::{Event, HostFact, Remark, RemarkName, Row, Sink, Summary, TRACK};
use mpps_wire::MacAddr;
use plans::{link, traffic};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Frames on their way from one end of a cable to the other.
type Strand = Arc<Mutex<VecDeque<Vec<u8>>>>;

/// One end of a cable.
struct End {
    capabilities: Capabilities,
    /// By queue: where frames go, and where they come from.
    strands: Vec<(Strand, Strand)>,
    /// Every so many-th frame that it sends is lost; 0: none is.
    loses: u64,
}

/// A cable with so many strands each track, and what each end loses of what it sends.
fn cable(queues: usize, loses: [u64; 2]) -> [End; 2] {
    let strand = |_| (Strand::default(), Strand::default());
    let there: Vec<(Strand, Strand)> = (0..queues).map(strand).collect();
    let back = there.iter().map(|(a, b)| (Arc::clone(b), Arc::clone(a))).collect();
    let end = |strands, loses, last| End {
        capabilities: Capabilities {
            path: "cable",
            layer: Layer::Ethernet,
            max_frame: 1514,
            mac: Some([2, 0, 0, 0, 0, last]),
            tx_checksum: false,
            one_flow_per_burst: false,
            link_bps: None,
            preferred_burst: 32,
        },
        strands,
        loses,
    };
    [end(there, loses[0], 1), end(back, loses[1], 2)]
}

struct Packet {
    data: Vec<u8>,
    len: usize,
}

impl Frame for Packet {
    fn bytes(&self) -> &[u8] {
        &self.data[..self.len]
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.data[..self.len]
    }
    fn capacity(&self) -> usize {
        self.data.len()
    }
    fn set_len(&mut self, len: usize) {
        self.len = len.min(self.data.len());
    }
}

struct Strands<'p> {
    out: &'p Strand,
    come: &'p Strand,
    loses: u64,
    sent: u64,
}

impl Port for End {
    type Pool = ();
    type Queue<'p> = Strands<'p>;

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }
    fn pool(&self, _queue: usize) -> Result<()> {
        Ok(())
    }
    fn queue<'p>(&'p self, queue: usize, _pool: &'p ()) -> Result<Strands<'p>> {
        let (out, come) = &self.strands[queue];
        Ok(Strands {
            out,
            come,
            loses: self.loses,
            sent: 0,
        })
    }
    fn counters(&self, _queue: usize) -> QueueCounters {
        QueueCounters::default()
    }
    fn facts(&self) -> Vec<Fact> {
        Vec::new()
    }
}

impl Queue for Strands<'_> {
    type Frame = Packet;

    fn receive(&mut self, burst: &mut Burst<Packet>) -> Result<usize> {
        let mut come = self.come.lock().unwrap();
        let n = burst.room().min(come.len());
        let packet = |data: Vec<u8>| Packet { len: data.len(), data };
        burst.array_mut().extend(come.drain(..n).map(packet));
        Ok(n)
    }
    fn allocate(&mut self, burst: &mut Burst<Packet>, n: usize) -> Result<usize> {
        let n = n.min(burst.room());
        let packet = |_| Packet {
            data: vec![0; 1514],
            len: 1514,
        };
        burst.array_mut().extend((0..n).map(packet));
        Ok(n)
    }
    fn transmit(&mut self, burst: &mut Burst<Packet>) -> Result<usize> {
        let n = burst.len();
        for packet in burst.drain(n) {
            self.sent += 1;
            if self.loses == 0 || !self.sent.is_multiple_of(self.loses) {
                self.out.lock().unwrap().push_back(packet.bytes().to_vec());
            }
        }
        Ok(n)
    }
    fn wait(&mut self, what: Wait, timeout: Duration) -> Result<()> {
        if what.rx && self.come.lock().unwrap().is_empty() {
            std::thread::sleep(timeout.min(Duration::from_micros(200)));
        }
        Ok(())
    }
}

/// Rows of both together, and of each track.
#[derive(Clone, Default)]
struct Rows(Arc<Mutex<[Vec<Row>; 3]>>);

impl Sink for Rows {
    fn event(&mut self, event: &Event<'_>) {
        let mut rows = self.0.lock().unwrap();
        match event {
            Event::Row(row) => rows[2].push((*row).clone()),
            Event::RowOfTrack(track, row) => rows[*track].push((*row).clone()),
            _ => {}
        }
    }
}

fn plan(lanes: usize, flows: FlowSet) -> TrafficPlan {
    let common = Common {
        lanes: vec![LanePlan::BOTH; 2 * lanes],
        duration: Some(Duration::from_millis(300)),
        interval: Duration::from_millis(50),
        settle: Duration::from_millis(500),
        share_cores: true,
        seed: 7,
        host: vec![HostFact::new("port", "cable:a")],
        ..Common::default()
    };
    TrafficPlan {
        src: [198, 18, 0, 1].into(),
        dst: [198, 18, 0, 2].into(),
        flows,
        packets: None,
        payload_len: 18,
        frame_size: 64,
        rate: Rate::new(20_000, 1),
        // All departures are made, however busy the host is.
        tx_burst: 32,
        catch_up: Duration::from_secs(10),
        tolerance: 0.01,
        far: Some(Link {
            mac: MacAddr([2, 0, 0, 0, 0, 2]),
            dest_mac: Some(MacAddr([2, 0, 0, 0, 0, 1])),
            ..link()
        }),
        back: Some(vec![HostFact::new("port", "cable:b")]),
        ..traffic(common)
    }
}

/// Runs it; the summary, and the rows of each track and of both.
fn run(lanes: usize, flows: FlowSet, [a, b]: &[End; 2]) -> (Summary, [Vec<Row>; 3]) {
    let rows = Rows::default();
    let mut sinks: Vec<Box<dyn Sink>> = vec![Box::new(rows.clone())];
    let summary = run_traffic(&[a, b], &plan(lanes, flows), &mut sinks, &|| 0).unwrap();
    let rows = rows.0.lock().unwrap().clone();
    (summary, rows)
}

/// Each track's rows add up to its summary, and both to that of the run.
fn assert_sums(all: &Summary, rows: &[Vec<Row>; 3]) {
    let tracks: Vec<&Summary> = all.directions.iter().map(|track| &track.summary).collect();
    assert_eq!(
        all.directions.iter().map(|track| track.name).collect::<Vec<_>>(),
        ["A to B", "B to A"]
    );
    for (summary, rows) in tracks.iter().copied().chain([all]).zip(rows) {
        assert_eq!(rows.iter().map(|row| row.tx).sum::<u64>(), summary.tx);
        assert_eq!(rows.iter().map(|row| row.rx).sum::<u64>(), summary.rx);
        assert_eq!(rows.iter().map(|row| row.lost).sum::<i64>(), summary.lost as i64);
        assert_eq!(summary.tx, summary.rx + summary.lost + summary.late);
        assert_eq!(
            summary.lanes.iter().map(|lane| lane.tx_packets).sum::<u64>(),
            summary.tx
        );
        assert_eq!(summary.latency.count, summary.rx);
        assert!(summary.latency.percentiles.is_some());
        assert!(
            !summary
                .invalid_reasons
                .iter()
                .any(|why| why.sentence.contains("internal")),
            "{summary:#?}"
        );
    }
    let counts = |s: &Summary| [s.tx, s.rx, s.lost, s.late, s.duplicates, s.foreign];
    let [there, back] = [counts(tracks[0]), counts(tracks[1])];
    assert_eq!(counts(all), std::array::from_fn(|i| there[i] + back[i]));
    for (i, row) in rows[2].iter().enumerate() {
        assert_eq!(
            (row.tx, row.rx),
            (rows[0][i].tx + rows[1][i].tx, rows[0][i].rx + rows[1][i].rx)
        );
        assert_eq!(row.latency.count, rows[0][i].latency.count + rows[1][i].latency.count);
    }
    assert_eq!(
        all.latency.min,
        tracks.iter().map(|track| track.latency.min).min().unwrap()
    );
    assert_eq!(
        all.latency.max,
        tracks.iter().map(|track| track.latency.max).max().unwrap()
    );
}

#[test]
fn each_way_has_its_own_loss_rows_and_verdict_and_the_sum_has_both() {
    // Ranges of different lengths, cut short: the flows back are those there, turned round.
    for (lanes, flows) in [
        (1, FlowSet::new(10_000..=10_006, 9000..=9002, Some(17))),
        (2, FlowSet::new(10_000..=10_063, 9000..=9000, None)),
    ] {
        let ends = cable(lanes, [0, 10]);
        let (all, rows) = run(lanes, flows, &ends);
        assert_sums(&all, &rows);
        let [there, back] = [0, 1].map(|track| &all.directions[track].summary);
        assert_eq!((there.tx, there.rx, there.lost), (6_000, 6_000, 0), "{there:#?}");
        // Each lane loses every tenth of its own.
        assert_eq!((back.tx, back.lost), (6_000, 600), "{back:#?}");
        for track in [there, back] {
            assert_eq!(
                (track.duplicates, track.corrupt, track.foreign, track.missed),
                (0, 0, 0, 0),
                "{track:#?}"
            );
            assert_eq!(track.intended_pps, Some(20_000.0));
        }
        assert_eq!(all.intended_pps, Some(40_000.0));
        assert_eq!(all.loss_ratio, 0.05);
        assert!(
            !there.warnings.iter().any(|note| note.sentence.contains("lost packets")),
            "{there:#?}"
        );
        let of_back = |note: &Remark| {
            note.sentence.starts_with("B to A: ")
                && note.sentence.contains("600 lost")
                && note.name == RemarkName::WhereLost
                && note.value(TRACK) == Some(&"B to A".into())
        };
        assert!(all.warnings.iter().any(of_back), "{:?}", all.warnings);
        let port = |summary: &Summary| {
            summary
                .host
                .iter()
                .find(|fact| fact.name == "port")
                .unwrap()
                .value
                .clone()
        };
        assert_eq!([port(&all), port(there), port(back)], ["cable:a", "cable:a", "cable:b"]);
    }
}

#[test]
fn a_packet_that_is_turned_round_on_the_way_is_not_taken_for_one_of_the_other_way() {
    // The far end of A is a reflector: what A sent comes back to A, addresses and ports exchanged. B is not there.
    let [a, b] = cable(1, [0, 0]);
    let (out, come) = (Arc::clone(&a.strands[0].0), Arc::clone(&a.strands[0].1));
    let filter = mpps_wire::ReflectFilter::default();
    let away = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let turning = {
        let away = Arc::clone(&away);
        std::thread::spawn(move || {
            while !away.load(std::sync::atomic::Ordering::Relaxed) {
                let frames: Vec<_> = out.lock().unwrap().drain(..).collect();
                for mut frame in frames {
                    mpps_wire::reflect_in_place(&mut frame, &filter, false).unwrap();
                    come.lock().unwrap().push_back(frame);
                }
                std::thread::sleep(Duration::from_micros(100));
            }
        })
    };
    // B's end is a cable of its own: what it sends is gone.
    let [lonely, _other] = cable(1, [1, 1]);
    let flows = FlowSet::new(10_000..=10_003, 9000..=9000, None);
    let (all, rows) = run(1, flows, &[a, lonely]);
    away.store(true, std::sync::atomic::Ordering::Relaxed);
    turning.join().unwrap();
    drop(b);
    assert_sums_without_latency(&all, &rows);
    let [there, back] = [0, 1].map(|track| &all.directions[track].summary);
    assert_eq!((there.rx, there.lost), (0, 6_000), "{there:#?}");
    // Two bytes of data tell them apart: one in 65,536 may be taken for another.
    assert!(back.rx < 6 && back.corrupt > 5_900, "{back:#?}");
}

fn assert_sums_without_latency(all: &Summary, rows: &[Vec<Row>; 3]) {
    for (summary, rows) in all.directions.iter().map(|track| &track.summary).chain([all]).zip(rows) {
        assert_eq!(rows.iter().map(|row| row.tx).sum::<u64>(), summary.tx);
        assert_eq!(rows.iter().map(|row| row.corrupt).sum::<u64>(), summary.corrupt);
        assert_eq!(summary.tx, summary.rx + summary.lost + summary.late);
    }
}
