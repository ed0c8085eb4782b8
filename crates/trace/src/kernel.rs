//! What the kernel and other programs did on the lanes' cores.

use serde::{Deserialize, Serialize};

/// Something that happened on a core, ns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelEvent {
    /// When, ns.
    pub at_ns: u64,
    /// On which core.
    pub cpu: u32,
    /// What.
    pub event: Event,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The core went from one thread to another.
    Switch {
        /// The thread that left it. Id 0 is the idle task.
        prev_tid: i32,
        /// Its name.
        prev_comm: String,
        /// Its state as the kernel has it (`TASK_RUNNING` is 0: it was preempted).
        prev_state: i64,
        /// Its priority (0–99 real time, 120 normal).
        prev_prio: i32,
        /// The thread that got it.
        next_tid: i32,
        /// Its name.
        next_comm: String,
        /// Its priority.
        next_prio: i32,
    },
    /// A thread was woken.
    Waking {
        /// Which.
        tid: i32,
        /// Its name.
        comm: String,
        /// The core that it is to run on.
        target_cpu: u32,
    },
    /// A device's interrupt was handled up to [`at_ns`](KernelEvent::at_ns) and had begun `took_ns` before.
    Irq {
        /// Its number.
        irq: u32,
        /// Of the device's driver.
        name: String,
        /// For how long, ns.
        took_ns: u64,
    },
    /// A soft interrupt, as [`Irq`](Self::Irq): the vector's number (0 HI, 1 TIMER, 2 NET_TX, 3 NET_RX, 4 BLOCK,
    /// 5 IRQ_POLL, 6 TASKLET, 7 SCHED, 8 HRTIMER, 9 RCU).
    Softirq {
        /// Which.
        vector: u32,
        /// For how long, ns.
        took_ns: u64,
    },
    /// An interrupt of the processor's own, as [`Irq`](Self::Irq): timer, reschedule, function call.
    Vector {
        /// `local_timer`, `reschedule`, `call_function`, `call_function_single`, `irq_work`, …
        name: String,
        /// For how long, ns.
        took_ns: u64,
    },
    /// A signal was delivered to a thread.
    Signal {
        /// Its number.
        signal: i32,
        /// To whom.
        tid: i32,
    },
    /// The kernel dropped a packet (`skb:kfree_skb`).
    Drop(Drop),
    /// The thread of a lane was switched out (known without the other's name).
    SwitchedOut {
        /// Which.
        tid: i32,
        /// It wanted to go on.
        preempted: bool,
    },
    /// It was switched in again.
    SwitchedIn {
        /// Which.
        tid: i32,
    },
    /// The kernel polled a device (`napi:napi_poll`).
    Poll {
        /// The device's name.
        device: String,
        /// Packets that it took.
        work: u32,
        /// As many as it may take.
        budget: u32,
    },
}

/// A packet that the kernel dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drop {
    /// The kernel's reason, e.g. `SOCKET_RCVBUFF`, `NO_SOCKET`.
    pub reason: String,
    /// The function that dropped it, where its name is known, else its address in hexadecimal.
    pub place: String,
    /// The device on which it was, where known.
    pub device: String,
    /// It is a packet of the test.
    pub ours: bool,
    /// How many packets it was, of a super-packet more than one; 0 in files that do not tell.
    #[serde(default)]
    pub packets: u32,
}

/// Who held a lane's core.
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
    /// Nobody: the lane was stopped by a signal or a debugger.
    Stopped,
    /// Nobody: the lane slept in the kernel where it did not mean to (a page fault, a lock, a disk).
    Asleep,
    /// Nobody: a CPU quota kept the lane off its core.
    Withheld,
    /// No event tells: the hypervisor, the firmware or a page fault.
    Unexplained,
}

/// A row of the table of what took a core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taker {
    /// Which core.
    pub cpu: u32,
    /// The lane whose core it is.
    pub lane: u32,
    /// What kind of thing took it.
    pub kind: TakerKind,
    /// Name of the thread, device, vector.
    pub name: String,
    /// Thread id ([`thread_number`]); 0 where it is none.
    pub tid: i32,
    /// Visits.
    pub count: u64,
    /// For how long in all, ns.
    pub total_ns: u64,
    /// Longest visit, ns.
    pub max_ns: u64,
    /// When the longest began, ns.
    pub max_at_ns: u64,
}

/// Added to the host's number of a thread that has none in the recorded program's own pid namespace (a container):
/// above all numbers that there are, so that it is never taken for a thread of that namespace.
pub const OF_HOST: i32 = 1 << 22;

/// A thread's number as users know it: `77`, or `77 of the host`.
pub fn thread_number(tid: i32) -> String {
    match tid.checked_sub(OF_HOST) {
        Some(number) if number > 0 => format!("{number} of the host"),
        _ => tid.to_string(),
    }
}

/// The cores that have events, in order.
pub(crate) fn cores(events: &[KernelEvent]) -> Vec<u32> {
    let mut cores: Vec<u32> = events.iter().map(|event| event.cpu).collect();
    cores.sort_unstable();
    cores.dedup();
    cores
}
