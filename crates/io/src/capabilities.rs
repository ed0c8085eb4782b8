//! Capabilities of a path on a device.

/// Layer at which the bytes of a frame start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// Whole Ethernet frames, without FCS.
    Ethernet,
    /// UDP payloads only: addresses, ports and checksums are the kernel's.
    Payload,
}

/// Capabilities of a path on a device; known once the port is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Name of the path (`udp`, `af_packet`, …).
    pub path: &'static str,
    /// Layer at which a frame's bytes start.
    pub layer: Layer,
    /// Largest frame in bytes: Ethernet header to end of payload, no FCS; or largest UDP payload.
    pub max_frame: usize,
    /// The device's own MAC address (Ethernet paths).
    pub mac: Option<[u8; 6]>,
    /// The device computes UDP checksums on transmit: the generator writes the pseudo-header's sum only.
    pub tx_checksum: bool,
    /// Frames of one burst should belong to one flow (a system call serves one socket).
    pub one_flow_per_burst: bool,
    /// Link speed in bit/s, if the device reports it.
    pub link_bps: Option<u64>,
    /// Frames in one transmit call that serve best when the sender is not paced.
    pub preferred_burst: usize,
}
