//! How full the receive buffers of a lane's sockets are.

use crate::sockets::{Lane, Sockets};
use mpps_io::{RoomUnit, RxRoom};
use std::time::Duration;

/// How often the fill of sockets is looked at, at most: each look is a system call or, of several sockets, some.
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
    /// What the buffers hold at most. The kernel grants all sockets of a port the same.
    pub fn room(sockets: &Sockets, lane: &Lane) -> Option<RxRoom> {
        let (_, size) = sockets.filled(*lane.rx.first()?)?;
        Some(RxRoom {
            size,
            count: lane.rx.len(),
            unit: RoomUnit::Bytes,
            every: LOOK_AT_FILL,
        })
    }

    /// Bytes taken in the fullest of the buffers that this look asks for.
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
