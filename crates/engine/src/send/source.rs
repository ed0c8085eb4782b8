//! A source of test packets for the `null` path, which `drop null:` receives.

use mpps_io::null::Source;
use mpps_sys::clock::Clock;
use mpps_wire::image::Place;
use mpps_wire::{Image, PayloadTemplate, Stamp, Template};

/// Writes packets of one flow after another, each burst with a new stamp, as fast as they are asked for.
#[derive(Debug)]
pub struct TestSource {
    template: SourceTemplate,
    clock: Clock,
    now_ns: u64,
    seq: u64,
    flow: u16,
    flows: u16,
    first_port: u16,
}

/// Template of the packets that the source writes.
#[derive(Debug)]
pub enum SourceTemplate {
    /// Template of whole frames.
    Frame(Box<Template>),
    /// Packets of any headers, with a tag.
    Image(Box<Image>),
    /// Template of payloads only.
    Payload(PayloadTemplate),
}

impl TestSource {
    /// Makes a source of `flows` flows from source port `first_port` on.
    pub fn new(template: SourceTemplate, clock: Clock, first_port: u16, flows: u16) -> Self {
        Self {
            template,
            clock,
            now_ns: 0,
            seq: 0,
            flow: 0,
            flows: flows.max(1),
            first_port,
        }
    }
}

impl Source for TestSource {
    #[inline]
    fn begin(&mut self, room: usize) -> usize {
        self.now_ns = self.clock.now_ns();
        room
    }

    #[inline]
    fn fill(&mut self, frame: &mut [u8]) -> usize {
        let stamp = Stamp {
            seq: self.seq,
            time_ns: self.now_ns,
        };
        let len = match &self.template {
            SourceTemplate::Frame(template) => {
                let len = template.frame_len();
                template.write(&mut frame[..len], self.first_port.wrapping_add(self.flow), 9000, stamp);
                len
            }
            SourceTemplate::Image(image) => {
                let len = image.frame_len();
                let place = Place {
                    flow: self.flow.into(),
                    number: self.seq,
                };
                image.write_next(&mut frame[..len], place, self.now_ns);
                len
            }
            SourceTemplate::Payload(template) => {
                let len = template.payload_len();
                template.write(&mut frame[..len], stamp);
                len
            }
        };
        self.flow += 1;
        if self.flow == self.flows {
            self.flow = 0;
            self.seq += 1;
        }
        len
    }
}
