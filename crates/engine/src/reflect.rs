//! The loop of a lane that turns packets round and sends them back.

use crate::echo::{Echo, probe_frames};
use crate::loop_clock::LoopClock;
use crate::loop_guard::{Sampler, secret};
use crate::outcome::LaneOutcome;
use crate::room::Room;
use crate::traffic::Lane;
use mpps_io::{Burst, Frame, Layer, MAX_BURST, Queue, Reason, RxChecksum, Wait};
use mpps_stats::Recorder;
use mpps_wire::{Finish, Left, ReflectFilter, Reflector, parse_udp};

pub(crate) struct Counts {
    /// Why each frame of the burst at hand was left; `None`: it was turned. All `None` between bursts.
    pub(crate) marks: [Option<Left>; MAX_BURST],
    pub(crate) left: [u64; Left::COUNT],
    /// For each of the filter's excluded ports.
    host_ports: Box<[u64]>,
    service: u64,
    not_sent: u64,
}

/// Runs the lane until the end of the run.
pub(crate) fn run<Q: Queue>(
    mut lane: Lane<'_>,
    queue: &mut Q,
    filter: &ReflectFilter,
    layer: Layer,
    mut recorder: Recorder<'_>,
) -> LaneOutcome {
    let preempted = mpps_sys::sched::preemptions();
    let mut counts = Counts {
        marks: [None; MAX_BURST],
        left: [0; Left::COUNT],
        host_ports: vec![0; filter.excluded_ports.len()].into_boxed_slice(),
        service: 0,
        not_sent: 0,
    };
    let mut reflector = Reflector::new(filter, secret());
    let mut echo = Echo::new(filter, secret());
    let mut sampler = Sampler::default();
    let mut burst = Burst::new(lane.burst);
    let mut answers = Burst::new(lane.burst);
    let mut turned = Burst::new(lane.burst);
    let mut time = LoopClock::default();
    loop {
        let (now, fresh) = time.now(&lane.clock);
        if fresh {
            recorder.flush();
            recorder.advance(now);
            lane.idle.look(now);
        }
        let end_ns = lane.control.end_ns();
        let mut moved = false;
        match queue.receive(&mut burst) {
            Ok(0) => {
                lane.count_rx(0, now);
                if let Err(error) = lane
                    .idle
                    .rest(queue, now, end_ns, Wait { rx: true, tx: false }, lane.counters)
                {
                    lane.trouble(&error);
                }
            }
            Ok(frames) => {
                lane.count_rx(frames, now);
                lane.idle.worked();
                moved = true;
                if layer == Layer::Ethernet {
                    turn(
                        &lane,
                        &mut burst,
                        &mut answers,
                        &mut turned,
                        &mut reflector,
                        filter,
                        &mut counts,
                    );
                    if !filter.keep_ttl {
                        probe_frames(&mut burst, &mut reflector, &mut sampler, &mut counts);
                    }
                } else {
                    echo.turn(&mut burst, &mut sampler, &mut counts);
                }
                recorder.arrived_n(now, burst.len() as u32, None);
                lane.counters.rx_test.add(burst.len() as u64);
                send_back(&lane, queue, &mut burst, now, &mut counts, &mut recorder);
                lane.answer(queue, &mut answers);
            }
            Err(error) => lane.trouble(&error),
        }
        time.moved(moved);
        if now >= end_ns {
            break;
        }
    }
    let _ = queue.flush();
    lane.counters.phase.set(2);
    recorder.end();
    let mut reasons: Vec<_> = Left::ALL
        .iter()
        .map(|&left| (reason(left), counts.left[left.index()]))
        .collect();
    reasons.push((Reason::NeighborService, counts.service));
    reasons.push((Reason::TxFull, counts.not_sent));
    reasons.retain(|(_, n)| *n > 0);
    let host_ports = filter.excluded_ports.iter().copied().zip(counts.host_ports);
    LaneOutcome {
        reasons,
        host_ports: host_ports.filter(|(_, n)| *n > 0).collect(),
        preempted: mpps_sys::sched::preemptions() - preempted,
        ..LaneOutcome::default()
    }
}

/// Turns every frame of the burst that is to be turned; the others leave it.
#[inline]
fn turn<F: Frame>(
    lane: &Lane<'_>,
    burst: &mut Burst<F>,
    answers: &mut Burst<F>,
    turned: &mut Burst<F>,
    reflector: &mut Reflector<'_>,
    filter: &ReflectFilter,
    counts: &mut Counts,
) {
    let frames = burst.as_mut_slice();
    let (mut at, mut left_any) = (0, false);
    loop {
        let other = |frame: &mut F| !frame.is_plain() || !reflector.turn_alike(frame.bytes_mut());
        at += frames[at..].iter_mut().position(other).unwrap_or(frames.len() - at);
        let Some(frame) = frames.get_mut(at) else { break };
        counts.marks[at] = turn_other(frame, reflector).err();
        left_any |= counts.marks[at].is_some();
        at += 1;
    }
    if left_any {
        sort_out(lane, burst, answers, turned, filter, counts);
    }
}

/// A frame whose headers are not those that are looked at first.
#[inline(never)]
fn turn_other<F: Frame>(frame: &mut F, reflector: &mut Reflector<'_>) -> Result<(), Left> {
    let finish = match frame.rx_checksum() {
        RxChecksum::Unmarked => Finish::Look,
        RxChecksum::Partial => Finish::Compute,
        _ => Finish::Keep,
    };
    reflector.turn_other(frame.bytes_mut(), finish)
}

/// Takes the frames that were not turned out of the burst: answers those that ask, counts the others by reason.
#[cold]
fn sort_out<F: Frame>(
    lane: &Lane<'_>,
    burst: &mut Burst<F>,
    answers: &mut Burst<F>,
    turned: &mut Burst<F>,
    filter: &ReflectFilter,
    counts: &mut Counts,
) {
    let all = burst.len();
    for (i, mut frame) in burst.drain(all).enumerate() {
        let Some(left) = counts.marks[i].take() else {
            let _ = turned.push(frame);
            continue;
        };
        if left == Left::HostPort
            && let Ok(packet) = parse_udp(frame.bytes())
            && let Ok(place) = filter.excluded_ports.binary_search(&packet.dst_port)
            && let Some(count) = counts.host_ports.get_mut(place)
        {
            *count += 1;
        }
        let question = matches!(left, Left::NotIp | Left::NotUdp | Left::Multicast);
        match lane
            .neighbor
            .as_ref()
            .filter(|_| question)
            .and_then(|n| n.attend(&mut frame))
        {
            Some(answer) => {
                counts.service += 1;
                if answer {
                    let _ = answers.push(frame);
                }
            }
            None => counts.left[left.index()] += 1,
        }
    }
    burst.swap(turned);
}

/// Sends the burst; waits for room a little, and gives up what the path still refuses then.
#[inline]
fn send_back<Q: Queue>(
    lane: &Lane<'_>,
    queue: &mut Q,
    burst: &mut Burst<Q::Frame>,
    now: u64,
    counts: &mut Counts,
    recorder: &mut Recorder<'_>,
) {
    let mut room = Room::default();
    while !burst.is_empty() {
        let offered = burst.len();
        let result = queue.transmit(burst);
        let taken = (offered - burst.len()) as u64;
        if taken > 0 {
            recorder.sent(now, taken);
            lane.counters.tx_packets.add(taken);
            lane.counters.tx_bursts.add(1);
            room.found();
        }
        if let Err(error) = result {
            lane.trouble(&error);
            counts.not_sent += burst.len() as u64;
            burst.clear();
        } else if taken == 0 {
            let waited = room.wait(lane, recorder, |timeout| {
                queue.wait(Wait { rx: false, tx: true }, timeout)
            });
            if !waited {
                counts.not_sent += burst.len() as u64;
                burst.clear();
            }
        }
    }
}

/// The reason by which a frame is counted that is not reflected.
pub(crate) fn reason(left: Left) -> Reason {
    match left {
        Left::TooShort => Reason::TooShort,
        Left::NotIp => Reason::NotIp,
        Left::BadIpHeader => Reason::BadIpHeader,
        Left::Fragment => Reason::Fragment,
        Left::SourceRouted => Reason::SourceRouted,
        Left::NotUdp => Reason::NotUdp,
        Left::BadUdpLength => Reason::BadUdpLength,
        Left::Multicast => Reason::Multicast,
        Left::BadSource => Reason::BadSource,
        Left::WrongMac => Reason::WrongMac,
        Left::WrongAddress => Reason::WrongAddress,
        Left::WrongPort => Reason::WrongPort,
        Left::HostPort => Reason::HostPort,
        Left::OwnSource => Reason::OwnSource,
        Left::TtlExpired => Reason::TtlExpired,
        Left::Returned => Reason::Returned,
        Left::Probed => Reason::Probed,
    }
}
