//! Lanes, pacing and the workloads: send, receive, reflect, drop, capture.
//!
//! A lane is one thread and the queues it owns; lanes share nothing on the packet path. A lane's loop is compiled for
//! each type of [`mpps_io::Port`]; all around it knows ports as [`AnyPort`]. `run` contains the parts that every run
//! has: threads, the start, the collector, the end. `lane` is a thread's loop, `send` and `receive` are its two halves.
//! `workload` is the use that each subcommand makes of them, `kernel` the same with programs in the kernel. `verdict`
//! decides whether a run's numbers can be trusted.

#![forbid(unsafe_code)]

mod books;
mod codec;
mod error;
pub mod footprint;
mod headers;
mod kernel;
mod lane;
mod outcome;
mod plan;
mod receive;
mod run;
mod send;
mod stamped;
mod streams;
mod verdict;
mod workload;

/// Types that lanes share with other threads, apart so that `tests/orders.rs` can replace them by those of loom.
mod sync {
    pub(crate) use mpps_stats::Counter;
    pub(crate) use mpps_trace::Round;
    pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};
}

pub use books::{MOST_RANKED, size_classes};
pub use error::RunError;
pub use headers::numbered::Numbered;
pub use kernel::{run_drop_in_kernel, run_forward_in_kernel, run_reflect_in_kernel, run_traffic_in_kernel};
pub use lane::control::Control;
pub use mpps_io::{FlowSet, OnFull, Pacing, Rate, RateStep, Rates, Step, Work};
pub use plan::{
    CapturePlan, Common, DropPlan, ForwardPlan, ForwardPort, ForwardSeat, Hop, KnownBy, LEFT_TO_HOST_PORTS, LanePlan,
    Link, MOST_BESIDE, Nobody, Opened, Owner, PacketStream, Packets, ReflectPlan, Replay, SampleOptions, StreamLoad,
    TraceOptions, TrafficPlan,
};
pub use run::any_port::{AnyPort, LaneStart, Only, Start, pair};
pub use run::entries::{Join, run_capture, run_drop, run_forward, run_reflect, run_traffic};
pub use run::session::{Trials, session};
pub use send::source;
pub use stamped::StampMemory;
pub use streams::{At, Do, OrderError, StreamCounts, StreamId, Streams};
pub use workload::loops::{AllLoops, FrameLoops, GeneratorLoops, ListenerLoops, Loops, PayloadLoops};
