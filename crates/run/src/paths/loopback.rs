//! `loop`: a device with known faults, whose far end is in this process.

use super::help::{Help, LAYER, MTU, SWITCH, option};
use super::{Buffers, Neighbors, Opened, Opening, Path, Traits, untagged};
use crate::fail::Result;
use mpps_engine::{GeneratorLoops, ListenerLoops};
use mpps_io::loopback::{LoopConfig, LoopPort, Now, Turn, check};
use mpps_io::selection::Headers;
use mpps_io::{PortSpec, Request, Selection, Task};
use mpps_sys::clock::monotonic_ns;
use mpps_wire::{ReflectFilter, Reflector};

pub(super) struct Loop;

impl Path for Loop {
    const NAME: &'static str = "loop";
    const HELP: Help = Help {
        device: "",
        examples: &["loop:delay=1ms,loss=0.001", "loop:capacity=1Mpps,queue=1000"],
        options: &[
            option(
                "capacity",
                "1pps to 1000Gbps",
                "none",
                "what the device serves: packets or layer-1 bits a second, over all lanes",
            ),
            option(
                "queue",
                "1 to 1000000",
                "1000",
                "packets that the device holds, others are dropped; needs capacity",
            ),
            option("delay", "0 to 60s", "0", "from departure to arrival"),
            option(
                "jitter",
                "0 to 60s, :uniform or :exp behind it",
                "0",
                "random delay of each packet, on top: up to this much, or (exp) this much on average",
            ),
            option(
                "jitter_reorder",
                SWITCH,
                "off",
                "packets with less jitter overtake others",
            ),
            option(
                "burst_loss",
                "0:1 to 0.5:65536, or percent",
                "0:1",
                "packets lost in bursts, and the bursts' mean length",
            ),
            option(
                "outage",
                "0-1us to 59s-60s",
                "none",
                "nothing comes back that departs between these times after the lane's first packet",
            ),
            option("loss", "0 to 1, or percent", "0", "packets that do not come back"),
            option("duplicate", "0 to 1, or percent", "0", "packets that come back twice"),
            option(
                "reorder",
                "0 to 1, or percent",
                "0",
                "packets that others of their flow overtake",
            ),
            option("corrupt", "0 to 1, or percent", "0", "packets with one bit flipped"),
            option(
                "reorder_distance",
                "1 to 65536",
                "1",
                "by how many packets they are overtaken",
            ),
            option("seed", "0 to 18446744073709551615", "1", "seed of the random choices"),
            option("reflect", SWITCH, "on", "exchange addresses and ports"),
            LAYER,
            option("frames", "1 to 1048576", "16384", "buffers of each lane"),
            MTU,
        ],
        note: "",
    };

    type Config = LoopConfig;

    fn check(spec: &PortSpec, _task: Task) -> Result<LoopConfig> {
        Ok(check(spec)?)
    }

    fn traits(config: &LoopConfig) -> Traits {
        Traits {
            layer: config.buffers.layer,
            neighbors: Neighbors::Nobody,
            returns_by_tag: true,
            // Each queue is a separate loop.
            split_lanes: false,
            times_arrivals: config.takes_time(),
            buffers: Buffers::pool(config.buffers.frames, config.buffers.max_frame()),
            ..Traits::default()
        }
    }

    fn open<'r>(ports: Vec<(&'r LoopConfig, Request<'r>)>, _opening: &Opening<'_>) -> Result<Opened<'r>> {
        for (config, request) in &ports {
            config.check_lanes(request.roles.len())?;
        }
        let generates = ports.iter().any(|(_, request)| request.task.generates());
        let ports = ports.into_iter();
        Ok(match generates {
            true => Opened::lanes::<GeneratorLoops, _>(
                ports
                    .map(|(config, request)| {
                        port(
                            config,
                            &request,
                            Reflecting::new(tags_of(&request), headers_of(&request)),
                        )
                    })
                    .collect(),
            ),
            false => Opened::lanes::<ListenerLoops, Returner>(
                ports
                    .map(|(config, request)| port(config, &request, Returning))
                    .collect(),
            ),
        })
    }
}

/// Returns the seed of the tags that packets have, if they are known by them.
fn tags_of(request: &Request<'_>) -> Option<u64> {
    match request.selection {
        Selection::Tagged { seed, .. } => Some(seed),
        _ => None,
    }
}

/// Returns the packets without a tag that come back.
fn headers_of(request: &Request<'_>) -> Vec<Headers> {
    match &request.selection {
        Selection::Tagged { headers, .. } => headers.clone(),
        _ => Vec::new(),
    }
}

fn port<T: Turn>(config: &LoopConfig, request: &Request<'_>, far_end: T) -> LoopPort<Monotonic, T> {
    let config = LoopConfig {
        tagged: tags_of(request).is_some(),
        ..config.clone()
    };
    LoopPort::new(config, request.roles.len(), Monotonic, far_end)
}

/// A device for tasks that receive the packets of others.
pub(super) type Returner = LoopPort<Monotonic, Returning>;

/// The clock of the loop.
pub(super) struct Monotonic;

impl Now for Monotonic {
    #[inline]
    fn now_ns(&self) -> u64 {
        monotonic_ns()
    }
}

/// Far end of a loop that sends every frame back unchanged.
pub(super) struct Returning;

impl Turn for Returning {
    type Memory<'p> = ();

    fn memory(&self) {}

    #[inline]
    fn turn<'p>(_memory: &mut (), _frame: &mut [u8]) -> bool
    where
        Self: 'p,
    {
        true
    }
}

/// Far end of a loop for test traffic, as fast as a reflector. It answers no other traffic, so it needs no secret.
pub(super) struct Reflecting(ReflectFilter);

impl Reflecting {
    /// Returns a far end that turns UDP packets or, given the seed of their tags, test packets of any headers, beside
    /// those without a tag that come back with these.
    pub(super) fn new(tagged: Option<u64>, headers: Vec<Headers>) -> Self {
        Self(ReflectFilter {
            tagged,
            // What comes back is what was sent, turned.
            untagged: untagged(headers.into_iter().map(Headers::turned)),
            ..ReflectFilter::default()
        })
    }
}

impl Turn for Reflecting {
    type Memory<'p> = Reflector<'p>;

    fn memory(&self) -> Reflector<'_> {
        Reflector::new(&self.0, [0; 2])
    }

    #[inline]
    fn turn<'p>(reflector: &mut Reflector<'p>, frame: &mut [u8]) -> bool
    where
        Self: 'p,
    {
        reflector.turn(frame, false).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpps_wire::{Mark, Tag};

    #[test]
    fn the_far_end_turns_tagged_frames_of_any_headers_if_it_knows_their_seed() {
        let tag = Tag {
            number: 1,
            run: 2,
            flow: 3,
            time_ns: 4,
            mark: Mark::Sent,
        };
        let sent = [&[2; 6][..], &[4; 6], &[0x88, 0xb5], &[0; 40], &tag.bytes(7)].concat();
        let turn = |far_end: Reflecting, frame: &mut [u8]| Reflecting::turn(&mut far_end.memory(), frame);
        let mut frame = sent.clone();
        assert!(
            !turn(Reflecting::new(None, Vec::new()), &mut frame)
                && !turn(Reflecting::new(Some(8), Vec::new()), &mut frame)
        );
        assert_eq!(frame, sent);
        assert!(turn(Reflecting::new(Some(7), Vec::new()), &mut frame));
        assert_eq!((&frame[..6], &frame[6..12]), (&[4; 6][..], &[2; 6][..]));
        assert_eq!(Tag::read(&frame, 7).map(|tag| tag.mark), Some(Mark::Returned));
    }
}
