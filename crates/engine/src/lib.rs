//! Lanes, pacing and the workloads: send, receive, reflect, drop, capture.
//!
//! A lane is one thread and the queues it owns; lanes share nothing on the packet path. The engine is generic over
//! [`mpps_io::Port`] and monomorphised for each path. What is common to every run (threads, the start, the collector,
//! the end) is in `crew`; what a packet goes through is in the modules named after it.

#![forbid(unsafe_code)]

mod across;
mod away;
mod capture;
mod codec;
mod collect;
mod control;
mod crew;
mod directions;
mod drop;
mod echo;
mod error;
mod flow_table;
pub mod footprint;
mod forward;
mod generate;
mod host_drops;
mod idle;
mod job;
mod kernel;
mod lane;
mod live;
mod loop_clock;
mod loop_guard;
mod meanwhile;
mod neighbor;
mod outcome;
mod pacing;
mod path_counters;
mod plan;
mod rate;
mod receive;
mod reflect;
mod remarks;
mod room;
mod run;
mod session;
mod slip;
pub mod source;
mod summary;
mod traces;
mod traffic;
mod verdict;
mod work;

pub use across::run_traffic_across;
pub use control::Control;
pub use error::RunError;
pub use forward::{run_forward, run_forward_pair};
pub use kernel::{run_drop_in_kernel, run_forward_in_kernel, run_reflect_in_kernel, run_traffic_in_kernel};
pub use mpps_io::{FlowSet, Step};
pub use pacing::Pacing;
pub use plan::{
    CapturePlan, Common, DropPlan, ForwardPlan, ForwardPort, ForwardSeat, GiveUp, LEFT_TO_HOST_PORTS, LanePlan, Link,
    Opened, ReflectPlan, TrafficPlan,
};
pub use rate::Rate;
pub use run::{run_capture, run_drop, run_reflect, run_traffic};
pub use session::{Trials, session, session_across};
