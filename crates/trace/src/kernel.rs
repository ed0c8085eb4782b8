//! Events of the kernel and of other programs on the lanes' cores.

use serde::{Deserialize, Serialize};

/// An event on a core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelEvent {
    /// Time of the event, ns.
    pub at_ns: u64,
    /// Core of the event.
    pub cpu: u32,
    /// Kind of the event, with its data.
    pub event: Event,
}

/// Kind of an event, with its data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The core switched from one thread to another.
    Switch {
        /// Thread that left the core. Id 0 is the idle task.
        prev_tid: i32,
        /// Name of that thread.
        prev_comm: String,
        /// State of that thread in the kernel (`TASK_RUNNING` is 0: it was preempted).
        prev_state: i64,
        /// Priority of that thread (0–99 real time, 120 normal).
        prev_prio: i32,
        /// Thread that got the core.
        next_tid: i32,
        /// Name of that thread.
        next_comm: String,
        /// Priority of that thread.
        next_prio: i32,
    },
    /// A thread was woken.
    Waking {
        /// Thread that was woken.
        tid: i32,
        /// Name of the thread.
        comm: String,
        /// Core that the thread is to run on.
        target_cpu: u32,
    },
    /// A device's interrupt was handled up to [`at_ns`](KernelEvent::at_ns) and had begun `took_ns` before.
    Irq {
        /// Number of the interrupt.
        irq: u32,
        /// Name of the device's driver.
        name: String,
        /// Length, ns.
        took_ns: u64,
    },
    /// A soft interrupt, as [`Irq`](Self::Irq): the vector's number (0 HI, 1 TIMER, 2 NET_TX, 3 NET_RX, 4 BLOCK,
    /// 5 IRQ_POLL, 6 TASKLET, 7 SCHED, 8 HRTIMER, 9 RCU).
    Softirq {
        /// Number of the vector.
        vector: u32,
        /// Length, ns.
        took_ns: u64,
    },
    /// An interrupt of the processor's own, as [`Irq`](Self::Irq): timer, reschedule, function call.
    Vector {
        /// `local_timer`, `reschedule`, `call_function`, `call_function_single`, `irq_work`, …
        name: String,
        /// Length, ns.
        took_ns: u64,
    },
    /// A signal was delivered to a thread.
    Signal {
        /// Number of the signal.
        signal: i32,
        /// Thread that got the signal.
        tid: i32,
    },
    /// The kernel dropped a packet (`skb:kfree_skb`).
    Drop(Drop),
    /// The thread of a lane was switched out. The name of the next thread is not known.
    SwitchedOut {
        /// Thread of the lane.
        tid: i32,
        /// Whether the thread wanted to go on.
        preempted: bool,
    },
    /// The thread of a lane was switched in again.
    SwitchedIn {
        /// Thread of the lane.
        tid: i32,
    },
    /// The kernel polled a device (`napi:napi_poll`).
    Poll {
        /// Name of the device.
        device: String,
        /// Packets that the poll took.
        work: u32,
        /// Most packets that the poll may take.
        budget: u32,
    },
}

/// A packet that the kernel dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drop {
    /// Reason in the kernel's words, for example `SOCKET_RCVBUFF`, `NO_SOCKET`.
    pub reason: String,
    /// Function that dropped the packet if its name is known, else its address in hexadecimal.
    pub place: String,
    /// Device that the packet was on, if known.
    pub device: String,
    /// Whether the packet is of the test.
    pub ours: bool,
    /// Number of packets; more than one for a super-packet. 0 in files that do not have this number.
    #[serde(default)]
    pub packets: u32,
}

/// Kind of thing that held a lane's core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TakerKind {
    /// Another thread.
    Thread,
    /// A thread of this program.
    Own,
    /// An interrupt of a device.
    Irq,
    /// A soft interrupt.
    Softirq,
    /// An interrupt of the processor's own.
    Vector,
    /// Nothing: the lane was stopped by a signal or a debugger.
    Stopped,
    /// Nothing: the lane slept in the kernel without having chosen to (a page fault, a lock, a disk).
    Asleep,
    /// Nothing: a CPU quota kept the lane off its core.
    Withheld,
    /// No event shows it: the hypervisor, the firmware or a page fault.
    Unexplained,
}

/// A row of the table of what took a core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taker {
    /// Number of the core.
    pub cpu: u32,
    /// Lane whose core it is.
    pub lane: u32,
    /// Kind of thing that took the core.
    pub kind: TakerKind,
    /// Name of the thread, device, vector.
    pub name: String,
    /// Thread id ([`thread_number`]); 0 if it is not a thread.
    pub tid: i32,
    /// Number of visits to the core.
    pub count: u64,
    /// Total time of the visits, ns.
    pub total_ns: u64,
    /// Longest visit, ns.
    pub max_ns: u64,
    /// Start of the longest visit, ns.
    pub max_at_ns: u64,
}

/// Offset added to the host's number of a thread that has no number in the recorded program's own pid namespace (a
/// container). It is above all numbers in use, so such a thread is never taken for a thread of that namespace.
pub const OF_HOST: i32 = 1 << 22;

/// Returns a thread's number as users know it: `77`, or `77 of the host`.
pub fn thread_number(tid: i32) -> String {
    match tid.checked_sub(OF_HOST) {
        Some(number) if number > 0 => format!("{number} of the host"),
        _ => tid.to_string(),
    }
}

/// Returns the cores that have events, in order.
pub(crate) fn cores(events: &[KernelEvent]) -> Vec<u32> {
    let mut cores: Vec<u32> = events.iter().map(|event| event.cpu).collect();
    cores.sort_unstable();
    cores.dedup();
    cores
}
