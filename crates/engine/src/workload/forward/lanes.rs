//! The lanes of `forward`: on the queue of one port, or on a queue of each of two.

use super::way::{Step, Way};
use super::{Alone, Pair, run};
use crate::lane::Lane;
use crate::outcome::LaneOutcome;
use crate::plan::{ForwardPlan, ForwardSeat};
use mpps_io::Queue;
use mpps_stats::Recorder;
use std::time::Instant;

/// Runs a lane whose frames go back out of the port that they came in by.
#[inline(never)]
pub(crate) fn alone<Q: Queue>(
    lane: Lane<'_>,
    queue: &mut Q,
    plan: &ForwardPlan,
    seat: ForwardSeat,
    max_frame: usize,
    recorder: Recorder<'_>,
) -> LaneOutcome {
    let port = (&plan.ports[seat.first], seat.first);
    let passing = (plan.drain, plan.on_full, plan.work);
    let alone = Alone::new(queue, port, max_frame, lane.burst, passing);
    run(lane, alone, recorder, seat, plan.ports.len())
}

/// Runs lane `index` between two ports, with the ways that it serves. `max_frames`: the largest frame of each port.
#[inline(never)]
pub(crate) fn between<A: Queue, B: Queue, S>(
    lane: Lane<'_>,
    (a, b): &mut (A, B),
    plan: &ForwardPlan,
    index: usize,
    max_frames: [usize; 2],
    recorder: Recorder<'_>,
) -> LaneOutcome
where
    S: Step<A::Frame, B> + Step<B::Frame, A>,
{
    let (seat, burst) = (plan.seat(index), lane.burst);
    let places @ [a_place, b_place] = [seat.first, seat.second.unwrap_or(seat.first)];
    let [first, second] = places.map(|place| &plan.ports[place]);
    let [there, back] = plan.directions(index);
    let plain = [a.gives_plain(), b.gives_plain()];
    let passing = (plan.drain, plan.on_full, plan.work);
    let pair = Pair::<_, _, S> {
        a,
        b,
        there: there.then(|| Way::new((first, plain[0]), second, places, max_frames[1], burst, passing)),
        back: back.then(|| {
            Way::new(
                (second, plain[1]),
                first,
                [b_place, a_place],
                max_frames[0],
                burst,
                passing,
            )
        }),
        turns: 0,
        awake: Instant::now(),
        wait_for_b: false,
    };
    run(lane, pair, recorder, seat, plan.ports.len())
}
