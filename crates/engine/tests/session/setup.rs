//! Ports and plans of sessions.

use mpps_engine::{Common, FlowSet, LanePlan, Link, Pacing, Rate, TrafficPlan};
use mpps_io::Port;
use mpps_io::loopback::{LoopConfig, LoopPort};
use mpps_stats::Summary;
use mpps_sys::clock::monotonic_ns;
use mpps_wire::{MacAddr, ReflectFilter, reflect_in_place};
use std::time::Duration;

pub(crate) fn loop_port(config: LoopConfig, lanes: usize) -> impl Port {
    let filter = ReflectFilter::default();
    LoopPort::new(config, lanes, monotonic_ns, move |frame: &mut [u8]| {
        reflect_in_place(frame, &filter, false).is_ok()
    })
}

pub(crate) fn traffic(lanes: usize, flows: u32, payload_len: usize) -> TrafficPlan {
    let lane = LanePlan {
        rx: true,
        tx: true,
        core: None,
    };
    TrafficPlan {
        common: Common {
            lanes: vec![lane; lanes],
            duration: Some(Duration::from_millis(10)),
            interval: Duration::from_millis(1),
            settle: Duration::from_millis(50),
            burst: 32,
            busy_poll: false,
            priority: None,
            share_cores: true,
            seed: 1,
            host: Vec::new(),
            warnings: Vec::new(),
            give_up: |_| Ok(()),
            trace: None,
        },
        receive: true,
        src: [10, 99, 0, 1].into(),
        dst: [10, 99, 0, 2].into(),
        flows: FlowSet::new(10_000..=10_000 + (flows - 1) as u16, 9000..=9000, None),
        payload_len,
        frame_size: payload_len + 46,
        rate: Rate::new(10_000, 1),
        then: None,
        pacing: Pacing::Constant,
        // However busy the host is: all that is due is sent.
        tx_burst: 32,
        catch_up: Duration::from_secs(5),
        tolerance: 1.0,
        ttl: 64,
        dscp: 0,
        link: Some(Link {
            mac: MacAddr([2, 0, 0, 0, 0, 1]),
            vlan: None,
            answer_for: Vec::new(),
            unanswered: Vec::new(),
            dest_mac: Some(MacAddr([2, 0, 0, 0, 0, 2])),
            next_hop: None,
        }),
        far: None,
        back: None,
    }
}

pub(crate) fn reason(summary: &Summary, name: &str) -> u64 {
    let reasons = summary.reasons.iter();
    reasons.filter(|(n, _)| n == name).map(|(_, n)| n).sum()
}
