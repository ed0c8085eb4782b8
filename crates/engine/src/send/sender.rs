//! The interface between a lane and its sending half, and the results of that half.

use crate::books::Books;
use crate::lane::Lane;
use crate::lane::control::Control;
use crate::outcome::departures::Departures;
use mpps_io::{Burst, Frame, Queue, Result};
use mpps_stats::{Histogram, Moments, Recorder};

/// Time before the end of a run, ns, from which on the time is read again wherever it matters.
pub(crate) const NEAR_NS: u64 = 100_000;
/// Rows that missed departures of one stretch are booked in, at the most: the stretch may be hours.
pub(crate) const MISSED_ROWS: u64 = 1_000;

/// Gaps between departures.
#[derive(Debug)]
pub(crate) struct Gaps {
    gaps: Histogram,
    moments: Moments,
    /// Time of the last departure, ns; 0: there was none.
    pub(crate) last_ns: u64,
    /// Instant of a start, ns: the time since the departure before it is no gap. `u64::MAX`: none to come.
    pub(crate) started_ns: u64,
}

impl Default for Gaps {
    fn default() -> Self {
        Self {
            gaps: Histogram::default(),
            moments: Moments::default(),
            last_ns: 0,
            started_ns: u64::MAX,
        }
    }
}

impl Gaps {
    /// Notes packets that departed together.
    #[inline]
    pub(crate) fn departed(&mut self, now: u64, packets: u64) {
        if now >= self.started_ns {
            self.started_ns = u64::MAX;
        } else if self.last_ns != 0 {
            let gap = now - self.last_ns;
            self.gaps.record(gap);
            self.moments.record(gap);
        }
        if packets > 1 {
            self.gaps.record_n(0, packets - 1);
            self.moments.record_n(0, packets - 1);
        }
        self.last_ns = now;
    }

    /// Returns the gaps.
    pub(crate) fn into_parts(self) -> (Histogram, Moments) {
        (self.gaps, self.moments)
    }
}

/// Results of a generator, read after it has stopped.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    /// Gaps between departures.
    pub(crate) gaps: Option<(Histogram, Moments)>,
    /// Departure times of packets.
    pub(crate) departures: Option<Departures>,
    /// Bursts written, and their packets.
    pub(crate) written: (u64, u64),
}

/// The sending half of a lane: of one stream of one size, or of several.
pub(crate) trait Sender<C> {
    /// Returns the most packets of a burst.
    fn burst(&self) -> usize;
    /// Returns whether nothing more will be sent.
    fn done(&self) -> bool;
    /// Returns whether the path took nothing on the last try.
    fn is_blocked(&self) -> bool;
    /// Returns when the next departure is due, ns; 0: at once.
    fn next_due(&self) -> u64;
    /// Returns when the lane sends its last packet at the latest, as far as is known, if the run ends at `end_ns`.
    fn end_ns(&self, end_ns: u64) -> u64;
    /// Returns whether there is a packet to send by now.
    fn has_due<F>(&self, now: u64, pending: &Burst<F>) -> bool;
    /// Sends packets that are due. The first time is the loop's reading, some µs old, the second the end of the run.
    /// `pending` holds frames that were written before and not taken. Returns true if a packet left.
    fn step<Q: Queue>(
        &mut self,
        queue: &mut Q,
        codec: &C,
        pending: &mut Burst<Q::Frame>,
        lane: &Lane<'_>,
        times: (u64, u64),
        booked: (&mut Recorder<'_>, &mut Books<'_>),
    ) -> Result<bool>;
    /// Books departures that are too late to be caught up.
    fn skip(&mut self, now: u64, booked: (&mut Recorder<'_>, &mut Books<'_>));
    /// Gives up, as the device has gone or nothing can leave to the end: departures that were due by `now` count as
    /// missed.
    fn give_up<F: Frame>(
        &mut self,
        now: u64,
        pending: &mut Burst<F>,
        control: &Control,
        booked: (&mut Recorder<'_>, &mut Books<'_>),
    );
    /// Returns the results.
    fn into_sent(self) -> Sent;
}
