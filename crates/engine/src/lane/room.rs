//! A lane that reflects or forwards packets while the path takes none. It waits a little for room and receives nothing
//! meanwhile. The cost is counted: packets that the host drops in that time are dropped because of the wait. A lane
//! that drops in place of waiting looks at that only once the path has left some of a burst.

use crate::lane::Lane;
use mpps_io::OnFull;
use mpps_io::Result;
use mpps_stats::Recorder;
use mpps_trace::Stage;
use std::time::Duration;

/// Time for which the path may refuse everything before the burst is given up, ns.
const PATIENCE_NS: u64 = 10_000_000;
/// Longest sleep between two tries.
const TRY_AGAIN: Duration = Duration::from_millis(1);

/// The wait for room for one burst.
#[derive(Debug)]
pub(crate) struct Room {
    on_full: OnFull,
    /// Time in ns when the burst is given up; 0: the path took some on the last try.
    give_up_at: u64,
}

impl Room {
    #[inline]
    pub(crate) fn new(on_full: OnFull) -> Self {
        Self { on_full, give_up_at: 0 }
    }

    /// Returns whether the frames that the path left are given up at once, after it took `taken` frames.
    #[cold]
    pub(crate) fn gives_up(&self, lane: &Lane<'_>, taken: u64) -> bool {
        let drops = self.on_full == OnFull::Drop;
        if drops && taken == 0 {
            lane.counters.tx_full.add(1);
        }
        drops
    }

    /// Notes that the path took some frames.
    #[inline]
    pub(crate) fn found(&mut self) {
        self.give_up_at = 0;
    }

    /// Waits for room in `wait`, as the path took no frame. False: the path had no room for long enough, the burst is
    /// to be given up.
    #[cold]
    pub(crate) fn wait(
        &mut self,
        lane: &Lane<'_>,
        recorder: &mut Recorder<'_>,
        wait: impl FnOnce(Duration) -> Result<()>,
    ) -> bool {
        lane.counters.tx_full.add(1);
        let since = lane.clock.now_ns();
        if self.give_up_at == 0 {
            self.give_up_at = since + PATIENCE_NS;
        }
        if since >= self.give_up_at {
            return false;
        }
        // The lane is at its clock, and chose this sleep.
        lane.idle.away.look(since);
        lane.mark_at(Stage::Transmit, since);
        lane.idle.away.sleeps_until(since + TRY_AGAIN.as_nanos() as u64);
        if let Err(error) = wait(TRY_AGAIN) {
            lane.trouble(&error);
        }
        let now = lane.clock.now_ns();
        lane.idle.away.look(now);
        lane.stages.chose_to_sleep();
        lane.mark_at(Stage::Asleep, now);
        lane.counters.stages.naps.add(1);
        lane.counters.blocked_ns.add(now.saturating_sub(since));
        recorder.blocked(now, now.saturating_sub(since));
        true
    }
}
