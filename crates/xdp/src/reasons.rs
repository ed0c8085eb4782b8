//! Names of what is counted by reason: `enum left` in `xdp/udp.h`, and the enumerations in `xdp/test.h` and
//! `xdp/run.h`.

use crate::load::Which;
use mpps_io::Reason;

/// Lists of places and names.
pub(crate) type Names = &'static [&'static [(usize, Reason)]];

const LISTENER: [(usize, Reason); 15] = [
    (0, Reason::TooShort),
    (1, Reason::NotIp),
    (2, Reason::BadIpHeader),
    (3, Reason::Fragment),
    (4, Reason::SourceRouted),
    (5, Reason::NotUdp),
    (6, Reason::BadUdpLength),
    (7, Reason::Multicast),
    (8, Reason::BadSource),
    (9, Reason::WrongMac),
    (10, Reason::WrongAddress),
    (11, Reason::WrongPort),
    (12, Reason::HostPort),
    (13, Reason::NeighborService),
    (14, Reason::NotTagged),
];

const REFLECTOR: [(usize, Reason); 4] = [
    (28, Reason::OwnSource),
    (29, Reason::TtlExpired),
    (30, Reason::Returned),
    (31, Reason::Probed),
];

const FORWARDER: [(usize, Reason); 1] = [(15, Reason::NoPort)];

const UNNAMED: [(usize, Reason); 1] = [(15, Reason::UnnamedFlow)];

const SERVICE: [(usize, Reason); 1] = [(13, Reason::NeighborService)];

const RECEIVER: [(usize, Reason); 12] = [
    (16, Reason::ForeignNotStamped),
    (17, Reason::ForeignOtherRun),
    (18, Reason::ForeignWrongAddress),
    (19, Reason::ForeignWrongPort),
    (20, Reason::ForeignFragment),
    (21, Reason::BeyondWindow),
    (22, Reason::FlowMoved),
    (23, Reason::Untracked),
    (24, Reason::SenderRestarts),
    (25, Reason::LatencyNotMeasurable),
    (26, Reason::FlowContended),
    (31, Reason::ForeignLooped),
];

/// Counted up and down, by one source or another.
const DOUBTS: [(usize, Reason); 4] = [
    (27, Reason::ImplausibleSequence),
    (28, Reason::UnconfirmedGap),
    (29, Reason::GapAfterFirst),
    (30, Reason::ContestedGap),
];

/// Returns the reasons that the programs of a workload count: place and name.
pub(crate) fn of(which: Which) -> Names {
    match which {
        Which::Reflect => &[&LISTENER, &REFLECTOR],
        // Frames that are not taken are the host's: they are counted in `left_to_host`.
        Which::Forward => &[&FORWARDER],
        Which::Traffic => &[&SERVICE, &RECEIVER],
        Which::Drop => &[&LISTENER, &UNNAMED, &RECEIVER, &DOUBTS],
    }
}
