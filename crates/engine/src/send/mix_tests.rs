use super::*;
use crate::books::Layout;
use crate::codec::Reader;
use crate::plan::{Common, KnownBy, PacketStream, StreamLoad};
use crate::send::generate::tests::Packet;
use mpps_io::{FlowSet, Pacing};
use mpps_stats::{Collector, Timing, Workload};
use mpps_wire::MacAddr;
use mpps_wire::image::Place;
use std::sync::Arc;
use std::time::Duration;

/// Three streams that take turns: of one flow, of sizes in turn, and of headers that no loop is made for.
const STREAMS: &str = "
    [[stream]]
    packet = 'eth / ipv4 / udp dst=9000'
    size = 64
    [[stream]]
    packet = 'eth / ipv4 src=10.0.0.1*3 dst=10.1.0.1*5 / udp src=1..200 dst=9'
    size = 'imix'
    [[stream]]
    packet = 'eth / vlan vid=5 / ipv6 / tcp src=1..7'
    size = 130
";

/// `counts`: how many packets each stream sends, if not as many as there is time for.
fn packets(counts: Option<[u64; 3]>) -> Packets {
    let forms = mpps_traffic::Traffic::parse(STREAMS, &[])
        .and_then(|traffic| traffic.forms(7))
        .expect("streams");
    let stream = |(place, (form, weight)): (usize, (&mpps_traffic::Form, u32))| {
        let (sizes, order) = form.size_order();
        PacketStream {
            replay: None,
            name: weight.to_string(),
            back: false,
            group: None,
            tracked: false,
            specs: sizes
                .iter()
                .map(|size| Arc::new(form.spec(*size).expect("a spec")))
                .collect(),
            kernel_headers: 0,
            sizes: order,
            mean_size: form.mean_size(),
            to_next_hop: None,
            from_port: false,
            packet_len: 0,
            ends: Default::default(),
            known_by: KnownBy::Tag,
            fields: Arc::default(),
            load: Some(StreamLoad {
                rate: None,
                pacing: Pacing::Constant,
                weight,
                start_ns: 0,
                packets: counts.map(|counts| counts[place]),
            }),
            lanes: Vec::new(),
        }
    };
    Packets {
        streams: forms.iter().zip([3, 2, 1]).enumerate().map(stream).collect(),
        stripped: [false; 2],
        turned: false,
        hops: Vec::new(),
    }
}

/// Returns how many packets each stream sends in bursts of 1 to 32, which are checked. Of each third burst the path
/// takes one half first.
fn sent(counts: Option<[u64; 3]>) -> [u64; 3] {
    let packets = packets(counts);
    let plan = TrafficPlan {
        common: Common::default(),
        receive: false,
        src: [10, 99, 0, 1].into(),
        dst: [10, 99, 0, 2].into(),
        flows: FlowSet::new(1..=1, 9..=9, None),
        packets: None,
        payload_len: 64,
        frame_size: 110,
        rate: None,
        then: None,
        pacing: Pacing::Constant,
        tx_burst: 32,
        catch_up: Duration::ZERO,
        tolerance: 1.0,
        ttl: 64,
        dscp: 0,
        link: None,
        far: None,
        back: None,
        beside: Vec::new(),
    };
    let logs = [1, 3000, 7].map(|flows| SentLog::of_blocks(flows, 0));
    let share = |stream| MixShare {
        stream,
        seat: (0, 1),
        slips: None,
        log: Some(&logs[stream]),
        rings: None,
    };
    let mut mix = Mix::new(&plan, &packets, (0..3).map(share).collect(), 0);
    let codec = MixCodec::new(&packets, 3, (&[], MacAddr::BROADCAST, None), false, &[]);
    let layout = Arc::new(Layout::of(&packets));
    let timing = Timing {
        start_ns: 0,
        interval_ns: 100_000_000,
        settle_ns: 0,
    };
    let series = layout.series(timing, false, false);
    let mut books = Books::new(Arc::clone(&layout), &series);
    let mut sent = [0u64; 3];
    for round in 0..200 {
        // In 20 rows.
        let now = round * 10_000_000;
        let mut burst = Burst::new(32);
        burst
            .array_mut()
            .extend((0..1 + round % 32).map(|_| Packet(Vec::new(), 0)));
        let written = mix.write(&codec, &mut burst, now);
        assert!(written == burst.len() || counts.is_some());
        burst.array_mut().truncate(written);
        let are_right = |mix: &Mix, frames: &[Packet], sent: &mut [u64; 3], at_ns| {
            for (frame, written) in frames.iter().zip(&mix.written[mix.left..]) {
                let stream = mix.parts[written.part as usize].stream;
                let flows = u64::from(packets.streams[stream].flows());
                let (flow, number) = ((sent[stream] % flows) as u32, sent[stream] / flows);
                sent[stream] += 1;
                let image = codec.image_of(stream, flow, number);
                let mut right = vec![0; codec.image(image).frame_len()];
                codec.image(image).write(&mut right, Place { flow, number }, at_ns);
                let of_all = mix.parts[written.part as usize].first_flow + flow;
                assert_eq!((&frame.0, frame.1), (&right, of_all), "round {round}");
            }
        };
        let taken = if round % 3 == 2 { written / 2 } else { written };
        are_right(&mix, &burst.as_slice()[..taken], &mut sent, now);
        mix.book(&mut books, taken, now);
        mix.left += taken;
        burst.array_mut().drain(..taken);
        if !burst.is_empty() {
            let (pending, mut given_back) = (burst.len(), 0);
            mix.pending_of_parts(&codec, pending, |_, left, written| given_back += written - left);
            assert_eq!(given_back, pending as u64);
            let later = now + 1_000;
            mix.restamp(&codec, &mut burst, later);
            are_right(&mix, burst.as_slice(), &mut sent, later);
            mix.book(&mut books, pending, later);
        }
        assert!(mix.parts.iter().all(|part| part.noted == part.written));
        books.flush();
        books.advance(now);
    }
    books.end();
    let booked = |track: usize| {
        let mut collector = Collector::new(vec![&series[track]], Workload::Send, false);
        collector.set_end(2_000_000_000);
        collector.finish(&mut []).tally.tx
    };
    assert_eq!([0, 1, 2].map(booked), sent);
    let all: u64 = sent.iter().sum();
    assert_eq!((3..series.len()).map(booked).sum::<u64>(), all, "by size");
    sent
}

#[test]
fn a_burst_has_the_packets_of_each_stream_in_their_order_and_all_are_booked() {
    let all: u64 = sent(None).iter().sum();
    assert_eq!(all, (0..200).map(|round| 1 + round % 32).sum::<u64>());
}

#[test]
fn streams_that_end_within_a_burst_send_as_many_as_they_are_to() {
    for counts in [[900, 700, 800], [1, 33, 640], [500, 64, 32]] {
        assert_eq!(sent(Some(counts)), counts);
    }
}
