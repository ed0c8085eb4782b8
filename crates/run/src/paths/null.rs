//! `null`: no kernel, no device. Also the test packets that devices without a peer deliver.

use super::help::{Help, LAYER, MTU, option};
use super::{Buffers, Neighbors, Opened, Opening, Path, Traits};
use crate::fail::Result;
use mpps_engine::source::{SourceTemplate, TestSource};
use mpps_engine::{GeneratorLoops, ListenerLoops};
use mpps_io::null::{NoSource, NullConfig, NullPort, Sources, check};
use mpps_io::{Layer, PortSpec, Request, Task};
use mpps_sys::clock::{Clock, ClockSource};
use mpps_wire::{ChecksumMode, MacAddr, PayloadTemplate, Stamp, Template, TemplateSpec};
use std::sync::Mutex;

/// Payload bytes of the packets that the device delivers: frames of 64 bytes.
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

    fn open<'r>(ports: Vec<(&'r NullConfig, Request<'r>)>, _opening: &Opening<'_>) -> Result<Opened<'r>> {
        // A task that generates packets gets none from the device.
        let generates = ports.iter().any(|(_, request)| request.task.generates());
        let ports = ports.into_iter();
        Ok(match generates {
            true => Opened::lanes::<GeneratorLoops, _>(
                ports
                    .map(|(config, request)| port(config, &request, NoSource))
                    .collect(),
            ),
            false => Opened::lanes::<ListenerLoops, Producer>(
                ports
                    .map(|(config, request)| port(config, &request, Producing::new(config, &request)))
                    .collect(),
            ),
        })
    }
}

fn port<S: Sources>(config: &NullConfig, request: &Request<'_>, sources: S) -> NullPort<S> {
    NullPort::new(config.clone(), request.roles.len(), OWN, sources)
}

/// A device for tasks that receive the packets of others.
pub(super) type Producer = NullPort<Producing>;

/// Source of endless test packets on each queue.
pub(super) struct Producing {
    layer: Layer,
    seed: u64,
    /// One clock reader per lane, made beforehand: each belongs to one thread.
    clocks: Vec<Mutex<Option<Clock>>>,
}

impl Producing {
    fn new(config: &NullConfig, request: &Request<'_>) -> Self {
        let clocks = ClockSource::new();
        let queues = 0..request.roles.len();
        Self {
            layer: config.layer,
            seed: request.seed,
            clocks: queues.map(|_| Mutex::new(Some(clocks.clock()))).collect(),
        }
    }
}

impl Sources for Producing {
    type Source = TestSource;

    fn source(&self, queue: usize) -> TestSource {
        let clock = self.clocks[queue].lock().ok().and_then(|mut c| c.take());
        let clock = clock.unwrap_or_else(|| ClockSource::new().clock());
        // A payload does not contain its flow, so there is one flow.
        let flows = if self.layer == Layer::Payload { 1 } else { 64 };
        TestSource::new(
            template(self.layer, self.seed),
            clock,
            10_000 + queue as u16 * 64,
            flows,
        )
    }
}

/// Returns a test packet, for ports that deliver their buffers unchanged.
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
