//! `null`: no kernel, no device. Also the test packets that devices without a peer deliver.

use super::help::{Help, LAYER, MTU, option};
use super::{Buffers, Neighbors, Opened, Opening, Path, Traits};
use crate::fail::{Result, usage};
use crate::request::Run;
use mpps_engine::source::{SourceTemplate, TestSource};
use mpps_engine::{GeneratorLoops, ListenerLoops};
use mpps_io::null::{NoSource, NullConfig, NullPort, Sources, check};
use mpps_io::{Layer, PortSpec, Request, Task};
use mpps_sys::clock::{Clock, ClockSource};
use mpps_traffic::{Form, Traffic};
use mpps_wire::{ChecksumMode, FrameSize, Image, MacAddr, PayloadTemplate, Stamp, Template, TemplateSpec};
use std::sync::Mutex;

/// Payload bytes of the packets that the device delivers: frames of 64 bytes.
const PAYLOAD: usize = 18;
/// The device's own MAC address.
const OWN: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// MAC address that its packets come from.
const OTHER: [u8; 6] = [2, 0, 0, 0, 0, 2];

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

    fn open<'r>(ports: Vec<(&'r NullConfig, Request<'r>)>, opening: &Opening<'_>) -> Result<Opened<'r>> {
        // A task that generates packets gets none from the device.
        let generates = ports.iter().any(|(_, request)| request.task.generates());
        if let Some(streams) = opening.run.plan.selection.streams.as_ref().filter(|_| !generates) {
            check_sizes(streams, opening.run.plan.seed, ports.iter().map(|(config, _)| *config))?;
        }
        let ports = ports.into_iter();
        Ok(match generates {
            true => Opened::lanes::<GeneratorLoops, _>(
                ports
                    .map(|(config, request)| port(config, &request, NoSource))
                    .collect(),
            ),
            false => Opened::lanes::<ListenerLoops, Producer>(
                ports
                    .map(|(config, request)| port(config, &request, Producing::new(config, &request, opening.run)))
                    .collect(),
            ),
        })
    }
}

/// Refuses packets that a device can't deliver.
fn check_sizes<'c>(streams: &Traffic, seed: u64, configs: impl Iterator<Item = &'c NullConfig>) -> Result<()> {
    let most = configs.map(NullConfig::max_frame).min().unwrap_or_default() + FrameSize::FCS_LEN;
    for stream in &streams.streams {
        let form = Form::of(stream, seed, 0).map_err(|wrong| usage(format!("--packet: {}", wrong.line)))?;
        let size = form.sizes().1;
        if size > most as u64 || form.spec(size).is_none() {
            return Err(usage(format!(
                "--packet: the device delivers packets of {most} bytes at the most, whose payload does not vary"
            )));
        }
    }
    Ok(())
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
    /// Packets of any headers, by number of the queue.
    images: Vec<Image>,
    /// One clock reader per lane, made beforehand: each belongs to one thread.
    clocks: Vec<Mutex<Option<Clock>>>,
}

impl Producing {
    fn new(config: &NullConfig, request: &Request<'_>, run: &Run) -> Self {
        let clocks = ClockSource::new();
        let queues = 0..request.roles.len();
        let streams = run.plan.selection.streams.as_ref();
        let image = |queue: usize| {
            let stream = streams?.streams.first()?;
            // The flows of each queue are its own.
            let mut form = Form::of(stream, request.seed, queue as u32 * u32::from(u16::MAX)).ok()?;
            form.set_addresses([10, 99, 0, 2].into(), [10, 99, 0, 1].into());
            let mut spec = form.spec(form.sizes().0)?;
            for (at, (given, mac)) in form.macs().iter().zip([OWN, OTHER]).enumerate() {
                if given.is_none() {
                    spec.headers.get_mut(at * 6..at * 6 + 6)?.copy_from_slice(&mac);
                }
            }
            Image::new(spec)
        };
        Self {
            images: queues.clone().filter_map(image).collect(),
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
        if let Some(image) = self.images.get(queue) {
            let flows = image.flows().min(u16::MAX.into()) as u16;
            return TestSource::new(SourceTemplate::Image(Box::new(image.clone())), clock, 0, flows);
        }
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
        src_mac: MacAddr(OTHER),
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
