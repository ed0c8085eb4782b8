//! The loop of a lane that only receives: verifies, counts by sequence number, and drops.
//!
//! Nobody tells this end what was sent; the sequence numbers do. A flow's first packet is where counting begins. What
//! the numbers skip is lost until it comes after all, so the lost of one row can be negative.

mod verifier;

use crate::DropPlan;
use crate::codec::{Class, Foreign, class_of_reject};
use crate::outcome::LaneOutcome;
use crate::traffic::Lane;
use mpps_io::{Burst, Frame, Layer, Queue, Wait};
use mpps_stats::Recorder;
use mpps_wire::parse_udp;
use verifier::Verifier;

pub(crate) use verifier::flow_bytes;

/// Runs the lane until the end of the run.
pub(crate) fn run<Q: Queue>(
    mut lane: Lane<'_>,
    queue: &mut Q,
    plan: &DropPlan,
    layer: Layer,
    mut recorder: Recorder<'_>,
) -> LaneOutcome {
    let preempted = mpps_sys::sched::preemptions();
    let mut verifier = Verifier::new(plan, layer, lane.clock.now_ns() ^ plan.common.seed.rotate_left(32));
    let mut incoming = Burst::new(lane.burst);
    let mut answers = Burst::new(lane.burst);
    loop {
        let now = lane.clock.now_ns();
        lane.idle.look(now);
        let end_ns = lane.control.end_ns();
        match queue.receive(&mut incoming) {
            Ok(frames) => {
                lane.count_rx(frames, now);
                if frames > 0 {
                    let at = lane.clock.now_ns();
                    let slow = verifier.burst(incoming.as_slice(), at, &mut recorder);
                    lane.counters.rx_test.add((frames - slow) as u64);
                    if slow > 0 {
                        attend(
                            &lane,
                            queue,
                            &mut incoming,
                            &mut answers,
                            &mut verifier,
                            at,
                            &mut recorder,
                        );
                    }
                    queue.discard(&mut incoming);
                    lane.idle.worked();
                } else if let Err(error) =
                    lane.idle
                        .rest(queue, now, end_ns, Wait { rx: true, tx: false }, lane.counters)
                {
                    lane.trouble(&error);
                }
            }
            Err(error) => lane.trouble(&error),
        }
        recorder.flush();
        recorder.advance(now);
        if now >= end_ns {
            break;
        }
    }
    lane.counters.phase.set(2);
    recorder.end();
    LaneOutcome {
        reasons: verifier.reasons(),
        preempted: mpps_sys::sched::preemptions() - preempted,
        ..LaneOutcome::default()
    }
}

/// Answers those frames of a burst that ask, and counts the rest of those that are not UDP.
#[cold]
fn attend<Q: Queue>(
    lane: &Lane<'_>,
    queue: &mut Q,
    incoming: &mut Burst<Q::Frame>,
    answers: &mut Burst<Q::Frame>,
    verifier: &mut Verifier<'_>,
    now_ns: u64,
    recorder: &mut Recorder<'_>,
) {
    let all = incoming.len();
    for mut frame in incoming.drain(all) {
        let Err(reject) = parse_udp(frame.bytes()) else {
            continue;
        };
        if !matches!(class_of_reject(reject), Class::SlowPath) {
            continue;
        }
        match lane.neighbor.as_ref().and_then(|n| n.attend(&mut frame)) {
            Some(answer) => {
                verifier.service += 1;
                if answer {
                    let _ = answers.push(frame);
                }
            }
            None => verifier.foreign(Foreign::NotUdp, now_ns, recorder),
        }
    }
    lane.answer(queue, answers);
}
