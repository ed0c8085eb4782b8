//! `null`: no kernel, no device; and the packets that devices without a peer deliver.

use super::help::{Help, LAYER, MTU, option};
use super::{Buffers, Kind, Neighbors, Opening, Path, Traits, Use};
use crate::fail::Result;
use mpps_engine::source::{SourceTemplate, TestSource};
use mpps_io::null::{NoSource, NullConfig, NullPort, check};
use mpps_io::{Layer, PortSpec, Request, Task};
use mpps_sys::clock::ClockSource;
use mpps_wire::{ChecksumMode, MacAddr, PayloadTemplate, Stamp, Template, TemplateSpec};

/// Payload of the packets that it produces: frames of 64 bytes.
const PAYLOAD: usize = 18;
/// The device's own MAC address.
const OWN: [u8; 6] = [2, 0, 0, 0, 0, 1];

pub(super) struct Null;

impl Path for Null {
    const NAME: &'static str = "null";
    const HELP: Help = Help {
        device: "",
        examples: &["null:"],
        options: &[
            LAYER,
            option("frames", "1 to 1048576", "1024", "buffers of each lane"),
            MTU,
        ],
        note: "",
    };

    const KIND: Kind = Kind::Synthetic;

    type Config = NullConfig;

    fn check(spec: &PortSpec, _task: Task) -> Result<NullConfig> {
        Ok(check(spec)?)
    }

    fn traits(config: &NullConfig) -> Traits {
        Traits {
            layer: config.layer,
            neighbors: Neighbors::Nobody,
            buffers: Buffers::pool(config.frames, config.max_frame()),
            ..Traits::default()
        }
    }

    fn open<U: Use>(ports: &[(&NullConfig, Request<'_>)], _opening: &Opening<'_>, user: U) -> Result<U::Out> {
        if const { U::GENERATES } {
            let silent = |(config, request): &(&NullConfig, Request<'_>)| {
                NullPort::new((*config).clone(), request.roles.len(), OWN, NoSource)
            };
            user.frames(&ports.iter().map(silent).collect::<Vec<_>>())
        } else {
            let producing = |(config, request): &(&NullConfig, Request<'_>)| producing(config, request);
            user.frames(&ports.iter().map(producing).collect::<Vec<_>>())
        }
    }
}

/// A port whose queues produce test packets for ever.
fn producing(config: &NullConfig, request: &Request<'_>) -> NullPort<impl Fn(usize) -> TestSource + use<>> {
    let (layer, queues, seed) = (config.layer, request.roles.len(), request.seed);
    let clocks = ClockSource::new();
    // Readers of the clock belong to one thread each: they are made for the lanes beforehand.
    let clocks: Vec<_> = (0..queues)
        .map(|_| std::sync::Mutex::new(Some(clocks.clock())))
        .collect();
    let source = move |queue: usize| {
        let clock = clocks[queue].lock().ok().and_then(|mut c| c.take());
        let clock = clock.unwrap_or_else(|| ClockSource::new().clock());
        // A payload does not tell its flow: there is one.
        let flows = if layer == Layer::Payload { 1 } else { 64 };
        TestSource::new(template(layer, seed), clock, 10_000 + queue as u16 * 64, flows)
    };
    NullPort::new(config.clone(), queues, OWN, source)
}

/// A test packet, for ports whose buffers come back as they are.
pub(super) fn test_packet() -> Vec<u8> {
    let template = frame_template(1);
    let mut frame = vec![0; template.frame_len()];
    template.write(&mut frame, 10_000, 9000, Stamp { seq: 0, time_ns: 0 });
    frame
}

fn template(layer: Layer, seed: u64) -> SourceTemplate {
    if layer == Layer::Payload {
        return SourceTemplate::Payload(PayloadTemplate::new(PAYLOAD, seed).expect("18 bytes hold a stamp"));
    }
    SourceTemplate::Frame(Box::new(frame_template(seed)))
}

fn frame_template(seed: u64) -> Template {
    let spec = TemplateSpec {
        src_mac: MacAddr([2, 0, 0, 0, 0, 2]),
        dst_mac: MacAddr(OWN),
        vlan: None,
        src: [10, 99, 0, 2].into(),
        dst: [10, 99, 0, 1].into(),
        payload_len: PAYLOAD,
        ttl: 64,
        dscp: 0,
        seed,
        checksum: ChecksumMode::Software,
    };
    Template::new(&spec).expect("constant addresses of one family")
}
