use super::*;
use crate::codec::PayloadCodec;
use mpps_io::{Pacing, RateStep, Rates};
use mpps_wire::{PayloadTemplate, Stamp};

/// A frame in memory, and its flow.
#[derive(Debug)]
pub(crate) struct Packet(pub(crate) Vec<u8>, pub(crate) u32);

impl Frame for Packet {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
    fn capacity(&self) -> usize {
        64
    }
    fn set_len(&mut self, len: usize) {
        self.0.resize(len, 0);
    }
    fn set_flow(&mut self, flow: u32) {
        self.1 = flow;
    }
}

/// One of two lanes with so many flows, 100 packets of 1 ns each and then some of 3 ns.
fn generator<'r>(flows: u32, by_burst: bool, slips: &'r Slips, log: &'r SentLog) -> Generator<'r> {
    let rate = |pps| Rate::new(pps, 1).unwrap();
    let then = Some(RateStep {
        after_ns: 100,
        rate: rate(333_333_333),
    });
    let rates = Rates {
        first: rate(1_000_000_000),
        then,
    };
    let all = FlowSet::new(1000..=999 + 2 * flows as u16, 9000..=9000, None);
    Generator {
        flows: LaneFlows::new(&all, (1, 2), by_burst || flows == 1, false),
        pacer: Some(Pacer::new(1_000, None, rates, Pacing::Constant, (0, 1), 0)),
        orders: None,
        look_ns: u64::MAX,
        stopped_ns: u64::MAX,
        holds: false,
        unpaced: 32,
        slips: Some(slips),
        log: Some(log),
        catch_up_ns: u64::MAX,
        burst: 32,
        left_of_count: u64::MAX,
        by_burst: by_burst || flows == 1,
        departures: None,
        unsent: 0,
        written_bursts: 0,
        written_packets: 0,
        gaps: Gaps::default(),
        done: false,
        written: Box::new([(0, 0, 0); MAX_BURST]),
        left: 0,
        newest: (0, 0),
        blocked: false,
    }
}

#[test]
fn each_packet_is_noted_under_its_own_flow_number_and_time() {
    let template = PayloadTemplate::new(18, 7).unwrap();
    let codec = PayloadCodec {
        template,
        flows: 1 << 16,
        seed: 7,
    };
    for (flows, by_burst) in [1, 3, 32, 34].into_iter().flat_map(|n| [(n, false), (n, true)]) {
        let slips = Slips::new(2 * flows, 1e9, 10_000);
        let log = SentLog::new(u64::from(flows), by_burst, (2, 1), Some(1.0), 1_000_000_000);
        let mut generator = generator(flows, by_burst, &slips, &log);
        // By the definition of the rate and its step.
        let mut due = (0..100)
            .map(|k| 1_000 + k)
            .chain((0..).map(|k| 1_100 + 3 * k + k / 333_333_333));
        let mut packets = 0;
        for round in 1..=70 {
            let now = 1_000_000 + round;
            let want = generator.pacer.as_ref().unwrap().due(now, 32);
            let mut burst = Burst::new(32);
            burst.array_mut().extend((0..want).map(|_| Packet(Vec::new(), 0)));
            generator.write(&codec, &mut burst, now);
            for (packet, &(flow, seq, scheduled)) in burst.as_slice().iter().zip(generator.written.iter()) {
                let about = format!("{flows} flows, by burst {by_burst}, packet {packets}");
                let stamp = Stamp::read(packet.bytes()).unwrap();
                assert_eq!(
                    (packet.1, stamp.seq, due.next().unwrap()),
                    (flow, seq, scheduled),
                    "{about}"
                );
                assert_eq!(stamp.time_ns, now, "{about}");
                assert_eq!(slips.of(flow, seq), Some(now - scheduled), "{about}");
                packets += 1;
            }
        }
        // All bursts are full but the one that ends with the first rate.
        assert_eq!(packets, 4 + 69 * 32);
    }
}

#[test]
fn departures_that_are_missed_while_nothing_may_leave_are_booked_in_the_rows_in_which_they_are() {
    let timing = mpps_stats::Timing {
        start_ns: 1_000,
        interval_ns: 1_000,
        settle_ns: 0,
    };
    let series = mpps_stats::LaneSeries::new(timing, true);
    let lanes = vec![&series];
    let mut collector = mpps_stats::Collector::new(lanes, mpps_stats::Workload::Send, true);
    let mut recorder = series.recorder();
    let (slips, log) = (
        Slips::new(2, 1e9, 10_000),
        SentLog::new(1, true, (2, 1), Some(1.0), 1_000_000_000),
    );
    let mut generator = generator(1, true, &slips, &log);
    generator.catch_up_ns = 0;
    // 100 in the first 100 ns, then one every 3 ns.
    for now in (1_100..=4_000).step_by(100) {
        generator.skip_late(now, &mut recorder);
    }
    recorder.end();
    collector.set_end(4_000);
    let totals = collector.finish(&mut []);
    assert_eq!(totals.tally.missed, 100 + 2_900_u64.div_ceil(3));
    let spread = &totals.missed.largest;
    assert!(
        spread.iter().all(|of| of.packets < 1_100) && !spread.is_empty(),
        "{spread:?}"
    );
    let first = spread[0];
    assert!(first.from_ns == 0 && first.to_ns >= 3_000, "{spread:?}");
}
