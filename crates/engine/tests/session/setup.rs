//! Ports and plans of sessions.
#![allow(dead_code, reason = "each test program uses a part")]

#[path = "../plans/mod.rs"]
mod plans;

use mpps_engine::{Common, FlowSet, LanePlan, Rate, TrafficPlan};
use mpps_io::Port;
use mpps_io::loopback::{LoopConfig, LoopPort};
use mpps_stats::{Event, Row, Sink, Summary};
use mpps_sys::clock::monotonic_ns;
use mpps_wire::{ReflectFilter, reflect_in_place};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(crate) const MS: Duration = Duration::from_millis(1);

/// Rows of a trial.
#[derive(Clone, Default)]
pub(crate) struct Kept(pub(crate) Arc<Mutex<Vec<Row>>>);

impl Sink for Kept {
    fn event(&mut self, event: &Event<'_>) {
        if let Event::Row(row) = event {
            self.0.lock().unwrap().push((*row).clone());
        }
    }
}

pub(crate) fn loop_port(config: LoopConfig, lanes: usize) -> impl Port {
    let filter = ReflectFilter::default();
    LoopPort::new(config, lanes, monotonic_ns, move |frame: &mut [u8]| {
        reflect_in_place(frame, &filter, false).is_ok()
    })
}

pub(crate) fn traffic(lanes: usize, flows: u32, payload_len: usize) -> TrafficPlan {
    let common = Common {
        lanes: vec![LanePlan::BOTH; lanes],
        duration: Some(Duration::from_millis(10)),
        interval: Duration::from_millis(1),
        settle: Duration::from_millis(50),
        share_cores: true,
        ..Common::default()
    };
    TrafficPlan {
        flows: FlowSet::new(10_000..=10_000 + (flows - 1) as u16, 9000..=9000, None),
        packets: None,
        payload_len,
        frame_size: payload_len + 46,
        rate: Rate::new(10_000, 1),
        ..plans::traffic(common)
    }
}

pub(crate) fn reason(summary: &Summary, name: &str) -> u64 {
    let reasons = summary.reasons.iter();
    reasons.filter(|(n, _)| n == name).map(|(_, n)| n).sum()
}
