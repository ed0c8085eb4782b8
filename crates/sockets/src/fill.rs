//! How full the receive buffers of a lane's sockets are.

use crate::sockets::{Lane, Sockets};
use mpps_io::{RoomUnit, RxRoom};
use std::time::Duration;

/// How often the fill of sockets is looked at, at most: each look is a system call, or some if there are several
/// sockets.
const LOOK_AT_FILL: Duration = Duration::from_millis(1);
/// Sockets that one look asks, in turn.
const SOCKETS_A_LOOK: usize = 4;

/// Looks at the receive buffers of a lane's sockets, a few of them at a time.
#[derive(Debug, Default)]
pub struct Fill {
    /// The socket that is asked next.
    next: usize,
}

impl Fill {
    /// Returns the number and size of a lane's receive buffers. The kernel grants all sockets of a port the same size.
    pub fn room(sockets: &Sockets, lane: &Lane) -> Option<RxRoom> {
        let (_, size) = sockets.filled(*lane.rx.first()?)?;
        Some(RxRoom {
            size,
            count: lane.rx.len(),
            unit: RoomUnit::Bytes,
            every: LOOK_AT_FILL,
        })
    }

    /// Returns the bytes taken in the fullest of the buffers that this look reads.
    pub fn look(&mut self, sockets: &Sockets, lane: &Lane) -> Option<u64> {
        let looks = lane.rx.len().min(SOCKETS_A_LOOK);
        let fill = |i: usize| {
            let (taken, _) = sockets.filled(lane.rx[(self.next + i) % lane.rx.len()])?;
            Some(taken)
        };
        let fullest = (0..looks).filter_map(fill).max();
        self.next = (self.next + looks) % lane.rx.len().max(1);
        fullest
    }
}
