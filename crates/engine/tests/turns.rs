//! Streams that take turns on a loop: what each has sent comes back to it, and to the size that it had.

mod plans;

use mpps_engine::{Common, FlowSet, LanePlan, PacketStream, Packets, TrafficPlan, run_traffic};
use mpps_io::loopback::{LoopConfig, LoopPort};
use mpps_sys::clock::monotonic_ns;
use mpps_traffic::Traffic;
use mpps_wire::{ReflectFilter, reflect_in_place};
use std::time::Duration;

const SEED: u64 = 5;

#[test]
fn streams_that_take_turns_count_what_each_of_them_sent() {
    let stream = |port: u16, size: &str| {
        let packet = format!("eth / ipv4 src=10.0.0.1 dst=10.0.0.2 / udp src={port} dst=9000");
        format!("[[stream]]\npacket = '{packet}'\nsize = '{size}'\n")
    };
    let text = [stream(1, "64"), stream(2, "64*2 128*1"), stream(3, "128")].concat();
    let forms = Traffic::parse(&text, &[]).expect("traffic").forms(SEED).expect("forms");
    let streams = forms.iter().map(|form| PacketStream {
        kernel_headers: 0,
        to_next_hop: Some(0),
        from_port: true,
        ..plans::stream(form, "of three", Some("all"))
    });
    let packets = Packets {
        streams: streams.collect(),
        stripped: [false; 2],
        turned: false,
        hops: Vec::new(),
    };
    let common = Common {
        lanes: vec![LanePlan {
            rx: true,
            tx: true,
            core: None,
        }],
        duration: Some(Duration::from_millis(200)),
        settle: Duration::from_secs(5),
        share_cores: true,
        seed: SEED,
        ..Common::default()
    };
    let plan = TrafficPlan {
        flows: FlowSet::new(1..=3, 9000..=9000, None),
        packets: Some(packets),
        ..plans::traffic(common)
    };
    let filter = ReflectFilter {
        tagged: Some(SEED),
        ..ReflectFilter::default()
    };
    let turn = move |frame: &mut [u8]| reflect_in_place(frame, &filter, false).is_ok();
    let port = LoopPort::new(LoopConfig::default(), 1, monotonic_ns, turn);
    let summary = run_traffic(&[&port], &plan, &mut [], &|| 0).expect("a run");
    assert!(summary.rx > 1000 && summary.rx == summary.tx, "{summary:?}");
    let tables = [
        ("streams", &summary.streams),
        ("groups", &summary.groups),
        ("sizes", &summary.sizes),
    ];
    for (what, table) in tables {
        assert_eq!(table.iter().map(|of| of.rx).sum::<u64>(), summary.rx, "{what}");
        assert!(table.iter().all(|of| of.rx == of.tx && of.rx > 0), "{what}");
    }
}
