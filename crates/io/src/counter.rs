//! Names of counters that the verdict knows.
//!
//! A path that counts one of these among [`QueueCounters::other`] has it judged and explained; counters of any other
//! name are reported as they are.
//!
//! [`QueueCounters::other`]: crate::QueueCounters::other

/// Packets that the interface was to send and dropped, *the test's and all others*: the test's can't be distinguished
/// from the host's. Nor can a packet that was dropped and tried again be distinguished from one that was lost. A
/// warning.
pub const DROPPED_SENT: &str = "interface_dropped_sent";
/// Packets that the path, which chooses what it takes, left to the host because they are not the test's. A warning in
/// `forward` if they are more than the packets taken.
pub const LEFT_TO_HOST: &str = "left_to_host";
/// Packets of the test that went to the host because they came in on a queue of the device that the run does not use.
/// The run is not valid.
pub const NO_SOCKET: &str = "no_socket";
/// Packets of the test that went to the host because the driver had no room for their time of arrival. The run is not
/// valid.
pub const NO_ROOM_FOR_RX_TIME: &str = "no_room_for_rx_time";
/// Packets whose time of arrival the lane took although the kernel was to ([`RxTime::Kernel`]): it gave none, or one
/// that can't be. Not judged.
///
/// [`RxTime::Kernel`]: crate::RxTime::Kernel
pub const TIMED_BY_LANE: &str = "rx_timed_by_lane";
/// Times that the kernel reported that a packet found no room below the path: the packet was tried again.
pub const TX_REFUSED: &str = "tx_refused";
/// Queues that the device got since the run began. A warning.
pub const QUEUES_ADDED: &str = "queues_added";
/// Times that the destination reported that nobody listens there (ICMP port unreachable). Explains why nothing came
/// back.
pub const REFUSED: &str = "refused";
/// Frames that were longer than any buffer and came without their ends. A capture that has one is not valid.
pub const CUT: &str = "rx_cut";
/// Datagrams that were longer than the largest frame, and were cut.
pub const TRUNCATED: &str = "rx_truncated";
/// Merged frames (GSO, TSO, GRO) that could not be split into their packets. A warning if the packets are counted.
pub const UNSPLIT: &str = "rx_unsplit";
/// Packets of the test that the path itself lost, and knows of: at random, in a burst of losses, from a queue that was
/// full, in an outage, by changing them, or because they could not be sent back. They show where a sender's loss
/// happened.
pub const LOST: &str = "lost";
/// See [`LOST`].
pub const DROPPED_BURST: &str = "dropped_burst";
/// See [`LOST`].
pub const DROPPED_QUEUE: &str = "dropped_queue";
/// See [`LOST`].
pub const CORRUPTED: &str = "corrupted";
/// See [`LOST`].
pub const NOT_REFLECTED: &str = "not_reflected";
/// See [`LOST`].
pub const LOST_OUTAGE: &str = "lost_outage";
/// All of these.
pub const LOSSES: [&str; 6] = [
    LOST,
    DROPPED_BURST,
    DROPPED_QUEUE,
    LOST_OUTAGE,
    CORRUPTED,
    NOT_REFLECTED,
];
