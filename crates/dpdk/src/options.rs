//! How a port is opened: what the plan knows and the specification does not say.

use mpps_flow::Rule;
use mpps_io::Roles;

/// Settings with which a port is opened.
pub struct Open<'a> {
    /// Roles of each lane; lane `i` drives queue `i`.
    pub roles: &'a [Roles],
    /// Core of each lane, if it is pinned: its buffers come from that core's NUMA node. As long as `roles`.
    pub cores: &'a [Option<usize>],
    /// Receive frames for other MAC addresses too.
    pub promisc: bool,
    /// Wait for the link before the port counts as open: senders do, listeners come first.
    pub wait_for_link: bool,
    /// A packet that every buffer holds from the start: drivers that receive nothing from anywhere (`net_null`) deliver
    /// buffers as they are.
    pub prefill: Option<&'a [u8]>,
    /// Flow rules of this port; removed when it is closed.
    pub rules: &'a [Rule],
    /// The run is not wanted any more; asked while waiting for the link.
    pub interrupted: &'a dyn Fn() -> bool,
}
