//! A lane that only receives: verifies, counts by sequence number, and drops.
//!
//! This end does not know what was sent, except from the sequence numbers. Counting begins at a flow's first packet.
//! Skipped numbers are lost until they come after all, so the lost packets of one row can be negative.

mod ledger;
mod verifier;

use crate::DropPlan;
use crate::codec::{Class, Foreign, class_of_reject};
use crate::lane::{Lane, Round, Rounds};
use crate::outcome::LaneOutcome;
use crate::outcome::RINGS;
use ledger::ByStream;
use mpps_io::{Burst, Frame, Layer, Queue, Reason, Result, RxRoom, Wait};
use mpps_stats::Recorder;
use mpps_trace::Stage;
use mpps_wire::parse_udp;
use std::time::Duration;
use verifier::Verifier;

pub(crate) use verifier::flow_bytes;

/// Runs the lane until the end of the run.
#[inline(never)]
pub(crate) fn run<'r, Q: Queue>(
    lane: Lane<'r>,
    queue: &mut Q,
    plan: &DropPlan,
    layer: Layer,
    recorder: Recorder<'r>,
) -> LaneOutcome {
    let receive = Drop {
        by_stream: plan
            .streams
            .as_deref()
            .filter(|_| plan.tagged.is_some())
            .map(|packets| ByStream::new(packets, lane.books())),
        verifier: Verifier::new(plan, layer, lane.clock.now_ns() ^ plan.common.seed.rotate_left(32)),
        incoming: Burst::new(lane.burst),
        answers: Burst::new(lane.burst),
        queue,
    };
    lane.run(receive, recorder)
}

struct Drop<'l, 'r, Q: Queue> {
    queue: &'l mut Q,
    verifier: Verifier<'l>,
    /// Entries by stream; `None`: there are no results of streams.
    by_stream: Option<ByStream<'r>>,
    incoming: Burst<Q::Frame>,
    answers: Burst<Q::Frame>,
}

impl<'r, Q: Queue> Rounds<'r> for Drop<'_, 'r, Q> {
    #[inline(always)]
    fn round(&mut self, lane: &Lane<'_>, now: u64, end_ns: u64, recorder: &mut Recorder<'r>) -> Round {
        let came = lane.receive(lane.port, self.queue, &mut self.incoming);
        if let Ok(frames) = came {
            lane.count_rx(frames, now);
            if frames > 0 {
                let at = lane.clock.now_ns();
                lane.mark_at(Stage::Receive, at);
                let frames = self.incoming.as_slice();
                let slow = match &mut self.by_stream {
                    None => self.verifier.burst(frames, at, recorder),
                    Some(by_stream) => {
                        let mut ledger = by_stream.with(recorder);
                        let slow = self.verifier.tagged_burst(frames, at, &mut ledger);
                        by_stream.books.flush();
                        slow
                    }
                };
                lane.counters.rx_test.add((frames.len() - slow) as u64);
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

    #[inline]
    fn fresh(&mut self, now_ns: u64, _recorder: &mut Recorder<'r>) {
        if let Some(by_stream) = &mut self.by_stream {
            by_stream.books.advance(now_ns);
        }
    }

    fn finish(self) -> LaneOutcome {
        let mut reasons = self.verifier.reasons();
        if let Some(by_stream) = self.by_stream {
            reasons.extend((by_stream.strays > 0).then_some((Reason::UnnamedFlow, by_stream.strays)));
            by_stream.books.end();
        }
        LaneOutcome {
            reasons,
            ..LaneOutcome::default()
        }
    }
}

impl<Q: Queue> Drop<'_, '_, Q> {
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
