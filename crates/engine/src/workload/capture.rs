//! A lane that copies received packets into a ring, for a thread that writes them to a file.
//!
//! The lane never waits for that thread: a packet that finds the ring full is dropped and counted. It copies no more
//! than the snap length, and shows the ring's other end a burst at a time.

use crate::CapturePlan;
use crate::lane::{Lane, Round, Rounds};
use crate::outcome::LaneOutcome;
use crate::outcome::RINGS;
use mpps_io::packet_ring::{PacketProducer, RingPacket};
use mpps_io::{Burst, Frame, Queue, Reason, Result, RxRoom, Wait, counter};
use mpps_stats::{CaptureSummary, Recorder, Remark, RemarkName, Summary, count};
use mpps_trace::Stage;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    stored: u64,
    ring_full: u64,
    not_taken: u64,
    after_count: u64,
}

/// Packets that the lanes may still take; `u64::MAX`: as many as come.
#[derive(Debug)]
pub(crate) struct Quota(AtomicU64);

impl Quota {
    pub(crate) fn new(count: Option<u64>) -> Self {
        Self(AtomicU64::new(count.unwrap_or(u64::MAX)))
    }

    /// Takes one packet from the quota; false when none is left. Lanes share a cache line only if packets are counted
    /// out.
    #[inline]
    fn claim(&self) -> bool {
        let left = self.0.load(Ordering::Relaxed);
        left == u64::MAX || self.claim_counted()
    }

    #[inline(never)]
    fn claim_counted(&self) -> bool {
        let one_less = |left: u64| left.checked_sub(1);
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less)
            .is_ok()
    }

    fn is_used_up(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

/// Runs the lane until the end of the run.
#[inline(never)]
pub(crate) fn run<Q: Queue>(
    lane: Lane<'_>,
    queue: &mut Q,
    plan: &CapturePlan,
    quota: &Quota,
    ring: PacketProducer,
    recorder: Recorder<'_>,
) -> LaneOutcome {
    let capture = Capture {
        burst: Burst::new(lane.burst),
        total: Counts::default(),
        queue,
        plan,
        quota,
        ring,
    };
    lane.run(capture, recorder)
}

struct Capture<'l, Q: Queue> {
    queue: &'l mut Q,
    plan: &'l CapturePlan,
    quota: &'l Quota,
    ring: PacketProducer,
    burst: Burst<Q::Frame>,
    total: Counts,
}

impl<'r, Q: Queue> Rounds<'r> for Capture<'_, Q> {
    #[inline(always)]
    fn round(&mut self, lane: &Lane<'_>, now: u64, end_ns: u64, recorder: &mut Recorder<'r>) -> Round {
        let came = self.queue.receive(&mut self.burst);
        if let Ok(frames) = came {
            lane.count_rx(frames, now);
            if frames > 0 {
                let at = lane.clock.now_ns();
                lane.mark_at(Stage::Receive, at);
                let counts = store(self.burst.as_slice(), self.plan, self.quota, &mut self.ring, at);
                self.queue.discard(&mut self.burst);
                lane.mark(Stage::Classify);
                let taken = counts.stored + counts.ring_full;
                lane.counters.rx_test.add(taken);
                recorder.event(at, |t| {
                    t.rx += counts.stored;
                    t.expected += taken as i64;
                    t.foreign += counts.not_taken + counts.after_count;
                });
                self.total.ring_full += counts.ring_full;
                self.total.not_taken += counts.not_taken;
                self.total.after_count += counts.after_count;
                if self.quota.is_used_up() {
                    lane.control.end_at(at + 1);
                }
            }
            // The next packets are received after `now`.
            self.ring.publish(now);
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
        let mut reasons = vec![
            (Reason::RingFull, self.total.ring_full),
            (Reason::NotTaken, self.total.not_taken),
            (Reason::AfterCount, self.total.after_count),
        ];
        reasons.retain(|(_, n)| *n > 0);
        LaneOutcome {
            reasons,
            ..LaneOutcome::default()
        }
    }
}

/// Copies packets that the filter takes, of a burst received at `at_ns`, into the ring.
#[inline]
fn store<F: Frame>(frames: &[F], plan: &CapturePlan, quota: &Quota, ring: &mut PacketProducer, at_ns: u64) -> Counts {
    let mut counts = Counts::default();
    for frame in frames {
        let bytes = frame.bytes();
        if !plan.filter.takes(bytes) {
            counts.not_taken += 1;
        } else if !quota.claim() {
            counts.after_count += 1;
        } else {
            let packet = RingPacket {
                time_ns: frame.rx_time_ns().unwrap_or(at_ns),
                wire_len: frame.wire_len().try_into().unwrap_or(u32::MAX),
                tag: 0,
            };
            if ring.push(packet, &bytes[..bytes.len().min(plan.snap_len)]) {
                counts.stored += 1;
            } else {
                counts.ring_full += 1;
            }
        }
    }
    counts
}

/// Returns the counts of the lanes, before the writer has ended.
pub(crate) fn counted(summary: &Summary, plan: &CapturePlan) -> CaptureSummary {
    CaptureSummary {
        snap_len: plan.snap_len as u64,
        received: summary.lanes.iter().map(|l| l.rx_packets).sum(),
        taken: summary.tx,
        dropped_ring: Reason::RingFull.of(&summary.reasons),
        ..CaptureSummary::default()
    }
}

/// Returns the reason why the file lacks the ends of frames that the path itself has cut, for any `--snap-len`.
fn cut_frames(summary: &Summary) -> Option<Remark> {
    let counters = summary.lanes.iter().flat_map(|lane| &lane.path_counters);
    let cut: u64 = counters.filter(|(name, _)| name == counter::CUT).map(|(_, n)| n).sum();
    let interface = summary.host.iter().find(|fact| fact.name == "interface");
    let interface = interface.map_or("INTERFACE", |fact| &fact.value);
    (cut > 0).then(|| {
        let text = format!(
            "{} frames are in the file without their ends: merged frames (GSO, TSO, GRO) of more than 64 KiB, or more \
             long ones at a time than there is memory for: ethtool -K {interface} gro off here, and ethtool -K \
             INTERFACE tso off gso off at their sender, keep packets apart",
            count(cut)
        );
        Remark::new(RemarkName::CutFrames, text).with("frames", cut)
    })
}

/// Completes the verdict with the fate of the packets after the ring.
pub(crate) fn judge(summary: &mut Summary, capture: CaptureSummary) {
    let cut = cut_frames(summary);
    let reasons = &mut summary.invalid_reasons;
    reasons.extend(cut);
    if capture.dropped_ring > 0 {
        let text = format!(
            "{} packets are not in the file because it was written more slowly than they came: enlarge the buffer \
             (--buffer), keep less (--snap-len, a filter), or write to something faster",
            count(capture.dropped_ring)
        );
        reasons.push(Remark::new(RemarkName::FileTooSlow, text).with("packets", capture.dropped_ring));
    }
    if let Some(failure) = &capture.failure {
        let text = match capture.dropped_write {
            0 => failure.clone(),
            n => format!("{failure}; {} packets that came later are not in the file", count(n)),
        };
        reasons.push(Remark::new(RemarkName::FileFailed, text).with("packets", capture.dropped_write));
    }
    let accounted = capture.written + capture.dropped_write + capture.dropped_ring;
    if capture.taken != accounted {
        let text = format!(
            "internal: {} packets were taken, {accounted} are accounted for",
            capture.taken
        );
        let remark = Remark::new(RemarkName::CaptureUnaccounted, text)
            .with("taken_packets", capture.taken)
            .with("accounted_packets", accounted);
        reasons.push(remark);
    }
    summary.valid = reasons.is_empty();
    summary.capture = Some(capture);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_gives_out_exactly_what_it_has_to_all_lanes_together() {
        let quota = Quota::new(Some(1000));
        let claimed: usize = std::thread::scope(|scope| {
            let lanes: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| (0..600).filter(|_| quota.claim()).count()))
                .collect();
            lanes.into_iter().map(|lane| lane.join().unwrap()).sum()
        });
        assert_eq!(claimed, 1000);
        assert!(quota.is_used_up() && !Quota::new(None).is_used_up());
        assert!(!Quota::new(Some(0)).claim());
    }
}
