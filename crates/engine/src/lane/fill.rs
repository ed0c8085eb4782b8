//! How full the receive rings of a lane are: looked at now and then, before the lane asks for packets.
//!
//! A look is due some time after the last one ([`RxRoom::every`]), by the readings that the loop takes anyway. So a
//! lane that was away looks as soon as it is back, when its rings are at their fullest. If no path knows its fill, all
//! this costs one comparison per reading.

use crate::outcome::RINGS;
use mpps_io::{RoomUnit, RxRoom};
use mpps_stats::{FillGauge, LaneCounters};
use std::num::NonZeroU64;

/// State of the looks at one lane's rings.
#[derive(Debug)]
pub(crate) struct Fill<'r> {
    gauges: &'r [FillGauge; RINGS],
    every_ns: u64,
    /// Time in ns when the next look is due; `u64::MAX`: never.
    due_ns: u64,
    /// Bytes that the last look found, and the packets that the lane had received by then. The memory per packet is
    /// known once these bytes have been received.
    waits: Option<(NonZeroU64, u64)>,
    /// The lane has one receive ring, and its fill is measured in bytes.
    weighs: bool,
    burst: u64,
}

impl<'r> Fill<'r> {
    /// `rooms`: the lane's rings; `None`: there is none, or its fill can't be read.
    pub(crate) fn new(counters: &'r LaneCounters, rooms: [Option<RxRoom>; RINGS], burst: usize) -> Self {
        for (gauge, room) in counters.fill.iter().zip(&rooms) {
            if let Some(room) = room {
                gauge.size.set(room.size);
                gauge.rings.set(room.count as u64);
                gauge.in_bytes.set(u64::from(room.unit == RoomUnit::Bytes));
            }
        }
        let every_ns = rooms.iter().flatten().map(|room| room.every.as_nanos() as u64).max();
        Self {
            gauges: &counters.fill,
            every_ns: every_ns.unwrap_or(u64::MAX),
            due_ns: every_ns.map_or(u64::MAX, |_| 0),
            waits: None,
            weighs: matches!(&rooms, [Some(room), None] if room.unit == RoomUnit::Bytes && room.count == 1),
            burst: burst as u64,
        }
    }

    /// Returns whether it is time for [`Fill::look`].
    #[inline(always)]
    pub(crate) fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.due_ns
    }

    /// Notes the fill of each ring, once a look is due; `received`: packets so far. Returns the fill and the share,
    /// ppm, of the fullest ring; `None`: no fill was found.
    #[cold]
    pub(crate) fn look(
        &mut self,
        now_ns: u64,
        received: u64,
        fills: impl FnOnce() -> [Option<u64>; RINGS],
    ) -> Option<(u64, u64)> {
        if let Some((fill, before)) = self.waits.take() {
            self.due_ns = now_ns + self.every_ns;
            let came = received.wrapping_sub(before);
            // The path had no more: what came is what was there, but for the little that came in between.
            if (1..self.burst).contains(&came) {
                self.gauges[0].taken.add(fill.get());
                self.gauges[0].taken_by.add(came);
            }
            return None;
        }
        self.due_ns = now_ns + self.every_ns;
        let fills = fills();
        if self.weighs {
            self.waits = fills[0].and_then(NonZeroU64::new).map(|fill| (fill, received));
            // Right after the round at hand.
            if self.waits.is_some() {
                self.due_ns = now_ns + 1;
            }
        }
        let shares = self.gauges.iter().zip(fills);
        let shares = shares.filter_map(|(gauge, fill)| fill.map(|fill| (fill, gauge.look(fill))));
        shares.max_by_key(|(_, ppm)| *ppm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn room(unit: RoomUnit) -> RxRoom {
        RxRoom {
            size: 1000,
            count: 1,
            unit,
            every: Duration::from_nanos(100),
        }
    }

    #[test]
    fn a_look_is_due_some_time_after_the_one_before_and_never_where_no_path_can_tell() {
        let counters = LaneCounters::default();
        assert!(!Fill::new(&counters, [None, None], 32).is_due(u64::MAX - 1));
        let mut fill = Fill::new(&counters, [Some(room(RoomUnit::Packets)), None], 32);
        let mut looks = 0;
        for now in 1..=1000 {
            if fill.is_due(now) {
                looks += 1;
                assert_eq!(fill.look(now, 0, || [Some(500), None]), Some((500, 500_000)));
            }
        }
        assert_eq!(
            (looks, counters.fill[0].looks.get(), counters.fill[1].looks.get()),
            (10, 10, 0)
        );
    }

    #[test]
    fn of_two_rings_the_fuller_one_is_told() {
        let counters = LaneCounters::default();
        let small = RxRoom {
            size: 10,
            ..room(RoomUnit::Packets)
        };
        let mut fill = Fill::new(&counters, [Some(room(RoomUnit::Packets)), Some(small)], 32);
        assert_eq!(fill.look(1, 0, || [Some(400), Some(9)]), Some((9, 900_000)));
        assert_eq!(fill.look(2, 0, || [Some(400), None]), Some((400, 400_000)));
        assert_eq!(counters.fill.each_ref().map(|gauge| gauge.highest.get()), [400, 9]);
    }

    #[test]
    fn what_a_packet_takes_is_known_where_all_were_received_right_after_the_look() {
        let counters = LaneCounters::default();
        let mut fill = Fill::new(&counters, [Some(room(RoomUnit::Bytes)), None], 32);
        fill.look(1, 0, || [Some(70), None]);
        assert!(fill.is_due(2), "the round after it tells");
        assert_eq!(fill.look(2, 7, || unreachable!()), None);
        assert!(!fill.is_due(101) && fill.is_due(102));
        // A whole burst: there may be more. Nothing: it came to nobody.
        fill.look(102, 7, || [Some(900), None]);
        fill.look(103, 39, || unreachable!());
        fill.look(300, 39, || [Some(10), None]);
        fill.look(301, 39, || unreachable!());
        assert!(fill.look(500, 39, || [Some(0), None]).is_some());
        assert!(!fill.is_due(501), "there was nothing to weigh");
        let gauge = &counters.fill[0];
        assert_eq!((gauge.taken.get(), gauge.taken_by.get(), gauge.looks.get()), (70, 7, 4));
    }
}
