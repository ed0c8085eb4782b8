//! The run that tests of the engine begin with; each changes what it is about.
#![allow(dead_code, reason = "each test program uses a part")]

use mpps_engine::{Common, FlowSet, KnownBy, Link, Pacing, PacketStream, TrafficPlan};
use mpps_traffic::Form;
use mpps_wire::MacAddr;
use std::sync::Arc;
use std::time::Duration;

/// Layer 2 from the first of two stations to the second.
pub(crate) fn link() -> Link {
    Link {
        mac: MacAddr([2, 0, 0, 0, 0, 1]),
        vlan: None,
        answer_for: Vec::new(),
        unanswered: Vec::new(),
        dest_mac: Some(MacAddr([2, 0, 0, 0, 0, 2])),
        next_hop: None,
        hint: String::new(),
    }
}

/// Packets of 64 flows there and back, as fast as the path takes them; however busy the host is, all that is due is
/// sent and the trial is valid.
pub(crate) fn traffic(common: Common) -> TrafficPlan {
    TrafficPlan {
        common,
        receive: true,
        src: [10, 99, 0, 1].into(),
        dst: [10, 99, 0, 2].into(),
        flows: FlowSet::new(10_000..=10_063, 9000..=9000, None),
        packets: None,
        payload_len: 64,
        frame_size: 110,
        rate: None,
        then: None,
        pacing: Pacing::Constant,
        tx_burst: 32,
        catch_up: Duration::from_secs(5),
        tolerance: 1.0,
        ttl: 64,
        dscp: 0,
        link: Some(link()),
        far: None,
        back: None,
        beside: Vec::new(),
    }
}

/// A stream of a form, without a load.
pub(crate) fn stream(form: &Form, name: &str, group: Option<&str>) -> PacketStream {
    let (sizes, order) = form.size_order();
    let spec = |size: &u64| Arc::new(form.spec(*size).expect("a spec"));
    PacketStream {
        kernel_headers: 0,
        name: name.to_owned(),
        back: false,
        group: group.map(str::to_owned),
        tracked: false,
        specs: sizes.iter().map(spec).collect(),
        replay: None,
        sizes: order,
        mean_size: form.mean_size(),
        to_next_hop: None,
        from_port: false,
        packet_len: 0,
        ends: Default::default(),
        known_by: KnownBy::Tag,
        fields: Arc::default(),
        load: None,
        lanes: Vec::new(),
    }
}
