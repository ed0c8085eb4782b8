//! A lane that only receives: verifies, counts by sequence number, and drops.
//!
//! This end does not know what was sent, except from the sequence numbers. Counting begins at a flow's first packet.
//! Skipped numbers are lost until they come after all, so the lost packets of one row can be negative.

mod verifier;

use crate::DropPlan;
use crate::codec::{Class, Foreign, class_of_reject};
use crate::lane::{Lane, Round, Rounds};
use crate::outcome::LaneOutcome;
use crate::outcome::RINGS;
use mpps_io::{Burst, Frame, Layer, Queue, Result, RxRoom, Wait};
use mpps_stats::Recorder;
use mpps_trace::Stage;
use mpps_wire::parse_udp;
use std::time::Duration;
use verifier::Verifier;

pub(crate) use verifier::flow_bytes;

/// Runs the lane until the end of the run.
#[inline(never)]
pub(crate) fn run<Q: Queue>(
    lane: Lane<'_>,
    queue: &mut Q,
    plan: &DropPlan,
    layer: Layer,
    recorder: Recorder<'_>,
) -> LaneOutcome {
    let receive = Drop {
        verifier: Verifier::new(plan, layer, lane.clock.now_ns() ^ plan.common.seed.rotate_left(32)),
        incoming: Burst::new(lane.burst),
        answers: Burst::new(lane.burst),
        queue,
    };
    lane.run(receive, recorder)
}

struct Drop<'l, Q: Queue> {
    queue: &'l mut Q,
    verifier: Verifier<'l>,
    incoming: Burst<Q::Frame>,
    answers: Burst<Q::Frame>,
}

impl<'r, Q: Queue> Rounds<'r> for Drop<'_, Q> {
    #[inline(always)]
    fn round(&mut self, lane: &Lane<'_>, now: u64, end_ns: u64, recorder: &mut Recorder<'r>) -> Round {
        let came = lane.receive(lane.port, self.queue, &mut self.incoming);
        if let Ok(frames) = came {
            lane.count_rx(frames, now);
            if frames > 0 {
                let at = lane.clock.now_ns();
                lane.mark_at(Stage::Receive, at);
                let slow = self.verifier.burst(self.incoming.as_slice(), at, recorder);
                lane.counters.rx_test.add((frames - slow) as u64);
                if slow > 0 {
                    self.attend(lane, at, recorder);
                }
                self.queue.discard(&mut self.incoming);
                lane.mark(Stage::Classify);
            }
        }
        Round::of_receiver(lane, came, now, end_ns)
    }

    fn sleep(&mut self, what: Wait, timeout: Duration) -> Result<()> {
        self.queue.wait(what, timeout)
    }

    fn rx_rooms(&self) -> [Option<RxRoom>; RINGS] {
        [self.queue.rx_room(), None]
    }

    fn rx_fills(&mut self) -> [Option<u64>; RINGS] {
        [self.queue.rx_fill(), None]
    }

    fn finish(self) -> LaneOutcome {
        LaneOutcome {
            reasons: self.verifier.reasons(),
            ..LaneOutcome::default()
        }
    }
}

impl<Q: Queue> Drop<'_, Q> {
    /// Answers those frames of the burst that ask, and counts the other frames that are not UDP.
    #[cold]
    fn attend(&mut self, lane: &Lane<'_>, now_ns: u64, recorder: &mut Recorder<'_>) {
        let all = self.incoming.len();
        for mut frame in self.incoming.drain(all) {
            let Err(reject) = parse_udp(frame.bytes()) else {
                continue;
            };
            if !matches!(class_of_reject(reject), Class::SlowPath) || self.verifier.is_tagged(frame.bytes()) {
                continue;
            }
            match lane.neighbor.as_ref().and_then(|n| n.attend(&mut frame)) {
                Some(answer) => {
                    self.verifier.service += 1;
                    if answer {
                        let _ = self.answers.push(frame);
                    }
                }
                None => self.verifier.foreign(Foreign::NotUdp, now_ns, recorder),
            }
        }
        lane.answer(self.queue, &mut self.answers);
    }
}
