//! `mirror`: the sample of docs/design/adding-a-path.md. It is compiled into the tests and into no program.

#[expect(unreachable_pub, reason = "as a crate of its own would export them")]
mod port;

use super::help::{Help, option};
use super::{Buffers, Neighbors, Opened, Opening, Path, Traits};
use crate::fail::Result;
use mpps_engine::PayloadLoops;
use mpps_io::{Layer, PortSpec, Request, Task};
use port::{BUFFER, Config, MirrorPort, check};

pub(super) struct Mirror;

impl Path for Mirror {
    const NAME: &'static str = "mirror";
    const HELP: Help = Help {
        device: "",
        examples: &["mirror:"],
        options: &[option("frames", "1 to 65536", "1024", "buffers of each lane")],
        note: "",
    };

    type Config = Config;

    fn check(spec: &PortSpec, _task: Task) -> Result<Config> {
        Ok(check(spec)?)
    }

    fn traits(config: &Config) -> Traits {
        Traits {
            layer: Layer::Payload,
            neighbors: Neighbors::Nobody,
            // What a lane sends comes back to the same lane.
            split_lanes: false,
            buffers: Buffers::pool(config.frames, BUFFER),
            ..Traits::default()
        }
    }

    fn open<'r>(ports: Vec<(&'r Config, Request<'r>)>, _opening: &Opening<'_>) -> Result<Opened<'r>> {
        let open = |(config, request): &(&Config, Request<'_>)| MirrorPort::new(config, request.roles.len());
        Ok(Opened::lanes::<PayloadLoops, _>(ports.iter().map(open).collect()))
    }
}

#[cfg(test)]
mod tests;
