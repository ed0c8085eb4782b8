//! A lane that turns packets round and sends them back.

use crate::lane::room::Room;
use crate::lane::{Lane, Round, Rounds};
use crate::outcome::LaneOutcome;
use crate::outcome::RINGS;
use crate::workload::echo::{Echo, probe_frames};
use crate::workload::loop_guard::{Sampler, secret};
use mpps_io::OnFull;
use mpps_io::{Burst, Frame, Layer, MAX_BURST, Queue, Reason, Result, RxChecksum, RxRoom, Wait};
use mpps_stats::Recorder;
use mpps_trace::Stage;
use mpps_wire::{Finish, Left, ReflectFilter, Reflector, parse_udp};
use std::time::Duration;

pub(crate) struct Counts {
    /// Reason why each frame of the burst at hand was left; `None`: it was turned. All `None` between bursts.
    pub(crate) marks: [Option<Left>; MAX_BURST],
    pub(crate) left: [u64; Left::COUNT],
    /// Frames for each of the filter's excluded ports.
    host_ports: Box<[u64]>,
    service: u64,
    not_sent: u64,
}

/// Runs the lane until the end of the run.
#[inline(never)]
pub(crate) fn run<Q: Queue>(
    lane: Lane<'_>,
    queue: &mut Q,
    filter: &ReflectFilter,
    layer: Layer,
    on_full: OnFull,
    recorder: Recorder<'_>,
) -> LaneOutcome {
    let reflect = Reflect {
        counts: Counts {
            marks: [None; MAX_BURST],
            left: [0; Left::COUNT],
            host_ports: vec![0; filter.excluded_ports.len()].into_boxed_slice(),
            service: 0,
            not_sent: 0,
        },
        reflector: Reflector::new(filter, secret()),
        echo: Echo::new(filter, secret()),
        sampler: Sampler::default(),
        // A tag's mark limits how often its packet goes round.
        probes: !filter.keep_ttl && filter.tagged.is_none(),
        burst: Burst::new(lane.burst),
        answers: Burst::new(lane.burst),
        turned: Burst::new(lane.burst),
        queue,
        filter,
        layer,
        on_full,
    };
    lane.run(reflect, recorder)
}

struct Reflect<'l, Q: Queue> {
    queue: &'l mut Q,
    filter: &'l ReflectFilter,
    layer: Layer,
    on_full: OnFull,
    reflector: Reflector<'l>,
    echo: Echo<'l>,
    sampler: Sampler,
    /// Whether some packets are looked at for loops, and probes sent.
    probes: bool,
    counts: Counts,
    burst: Burst<Q::Frame>,
    answers: Burst<Q::Frame>,
    turned: Burst<Q::Frame>,
}

impl<'r, Q: Queue> Rounds<'r> for Reflect<'_, Q> {
    #[inline(always)]
    fn round(&mut self, lane: &Lane<'_>, now: u64, end_ns: u64, recorder: &mut Recorder<'r>) -> Round {
        let came = lane.receive(lane.port, self.queue, &mut self.burst);
        if let Ok(frames) = came {
            lane.count_rx(frames, now);
            if frames > 0 {
                lane.mark(Stage::Receive);
                if self.layer == Layer::Ethernet {
                    self.turn(lane);
                    if self.probes {
                        probe_frames(
                            &mut self.burst,
                            &mut self.reflector,
                            &mut self.sampler,
                            &mut self.counts,
                        );
                    }
                } else {
                    self.echo.turn(&mut self.burst, &mut self.sampler, &mut self.counts);
                }
                recorder.arrived_n(now, self.burst.len() as u32, None);
                lane.counters.rx_test.add(self.burst.len() as u64);
                lane.mark(Stage::Classify);
                let room = Room::new(self.on_full);
                send_back(
                    lane,
                    self.queue,
                    (&mut self.burst, room),
                    now,
                    &mut self.counts,
                    recorder,
                );
                lane.answer(self.queue, &mut self.answers);
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
        let _ = self.queue.flush();
        let counts = self.counts;
        let mut reasons: Vec<_> = Left::ALL
            .iter()
            .map(|&left| (reason(left), counts.left[left.index()]))
            .collect();
        reasons.push((Reason::NeighborService, counts.service));
        reasons.push((Reason::TxFull, counts.not_sent));
        reasons.retain(|(_, n)| *n > 0);
        let host_ports = self.filter.excluded_ports.iter().copied().zip(counts.host_ports);
        LaneOutcome {
            reasons,
            host_ports: host_ports.filter(|(_, n)| *n > 0).collect(),
            ..LaneOutcome::default()
        }
    }
}

impl<Q: Queue> Reflect<'_, Q> {
    /// Turns every frame of the burst that is to be turned; the others leave it.
    #[inline]
    fn turn(&mut self, lane: &Lane<'_>) {
        let left_any = match self.filter.tagged {
            None => self.turn_udp(),
            Some(_) => self.turn_tagged(),
        };
        if left_any {
            let (burst, answers) = (&mut self.burst, &mut self.answers);
            sort_out(lane, burst, answers, &mut self.turned, self.filter, &mut self.counts);
        }
    }

    /// Turns UDP packets, and marks the other frames of the burst. Returns whether there are any.
    #[inline(always)]
    fn turn_udp(&mut self) -> bool {
        let (frames, counts) = (self.burst.as_mut_slice(), &mut self.counts);
        let (mut at, mut left_any) = (0, false);
        loop {
            let other = |frame: &mut Q::Frame| !frame.is_plain() || !self.reflector.turn_alike(frame.bytes_mut());
            at += frames[at..].iter_mut().position(other).unwrap_or(frames.len() - at);
            let Some(frame) = frames.get_mut(at) else {
                return left_any;
            };
            counts.marks[at] = turn_other(frame, &mut self.reflector);
            left_any |= counts.marks[at].is_some();
            at += 1;
        }
    }

    /// Does the same as [`Reflect::turn_udp`] for tagged packets.
    #[inline(never)]
    fn turn_tagged(&mut self) -> bool {
        let mut left_any = false;
        for (frame, mark) in self.burst.as_mut_slice().iter_mut().zip(&mut self.counts.marks) {
            let finish = finish(frame);
            *mark = self.reflector.turn_any(frame.bytes_mut(), finish).err();
            left_any |= mark.is_some();
        }
        left_any
    }
}

/// Turns a frame whose headers are not the most common ones; returns why it was not turned, if it was not.
#[inline(never)]
fn turn_other<F: Frame>(frame: &mut F, reflector: &mut Reflector<'_>) -> Option<Left> {
    let finish = finish(frame);
    reflector.turn_other(frame.bytes_mut(), finish).err()
}

/// Returns the treatment of a frame's UDP checksum, by what the path knows of it.
#[inline]
fn finish<F: Frame>(frame: &F) -> Finish {
    match frame.rx_checksum() {
        RxChecksum::Unmarked => Finish::Look,
        RxChecksum::Partial => Finish::Compute,
        _ => Finish::Keep,
    }
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
        let question = matches!(left, Left::NotIp | Left::NotUdp | Left::Multicast | Left::NotTagged);
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

/// Sends the burst; waits for room a little, or not at all, and gives up frames that the path still refuses then.
#[inline]
fn send_back<Q: Queue>(
    lane: &Lane<'_>,
    queue: &mut Q,
    (burst, mut room): (&mut Burst<Q::Frame>, Room),
    now: u64,
    counts: &mut Counts,
    recorder: &mut Recorder<'_>,
) {
    while !burst.is_empty() {
        let offered = burst.len();
        let result = lane.transmit(lane.port, queue, burst);
        lane.mark(Stage::Transmit);
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
        } else if !burst.is_empty() && room.gives_up(lane, taken) {
            give_up(lane, burst, counts);
        } else if taken == 0 {
            let waited = room.wait(lane, recorder, |timeout| {
                queue.wait(Wait { rx: false, tx: true }, timeout)
            });
            if !waited {
                give_up(lane, burst, counts);
            }
        }
    }
}

/// Drops frames that the path did not take.
#[cold]
fn give_up<F: Frame>(lane: &Lane<'_>, burst: &mut Burst<F>, counts: &mut Counts) {
    let left = burst.len() as u64;
    counts.not_sent += left;
    lane.counters.tx_given_up.add(left);
    burst.clear();
}

/// Returns the reason by which a frame that is not reflected is counted.
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
        Left::NotTagged => Reason::NotTagged,
    }
}
