//! A lane that reflects or forwards packets while the path takes none. It waits a little for room and receives nothing
//! meanwhile. The cost is counted: packets that the host drops in that time are dropped because of the wait.

use crate::lane::Lane;
use mpps_io::Result;
use mpps_stats::Recorder;
use std::time::Duration;

/// How long the path may refuse everything before the burst is given up.
const PATIENCE_NS: u64 = 10_000_000;
/// Longest sleep between two tries.
const TRY_AGAIN: Duration = Duration::from_millis(1);

/// The wait for room for one burst.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// 0: the path took some on the last try.
    give_up_at: u64,
}

impl Room {
    /// The path took some.
    #[inline]
    pub(crate) fn found(&mut self) {
        self.give_up_at = 0;
    }

    /// The path took none: waits for room in `wait`. False: it did so for long enough, the burst is to be given up.
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
        // It is at its clock, and chose this sleep.
        lane.idle.away.look(since);
        lane.idle.away.sleeps_until(since + TRY_AGAIN.as_nanos() as u64);
        if let Err(error) = wait(TRY_AGAIN) {
            lane.trouble(&error);
        }
        let now = lane.clock.now_ns();
        lane.idle.away.look(now);
        lane.counters.blocked_ns.add(now.saturating_sub(since));
        recorder.blocked(now, now.saturating_sub(since));
        true
    }
}
