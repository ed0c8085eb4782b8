//! One lane's io_uring: set-up with what this kernel has, submissions, and the calls that hand them over.

use crate::buf_ring::BufRing;
use crate::config::{Config, TaskRun};
use crate::counters::RingCounters;
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use mpps_io::{Error, ErrorKind, Result};
use mpps_sys::privilege::Keep;
use mpps_sys::uring::Features;
use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

/// The group of the lane's one ring of buffers.
pub(crate) const GROUP: u16 = 0;

/// How a ring is set up: what was asked for, and what the kernel has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) taskrun: TaskRun,
    pub(crate) multishot: bool,
    pub(crate) sqpoll: Option<(u32, Option<u32>)>,
    pub(crate) sq: u32,
    pub(crate) cq: u32,
}

fn lacking(option: &str, cause: &str) -> Error {
    Error::new("open", option.to_owned(), cause.to_owned(), ErrorKind::Unsupported)
}

impl Setup {
    /// Refuses by name what the kernel lacks. `buffers` are those provided to the kernel, `sends` are those under way
    /// at the most, `sockets` those that one lane receives from.
    pub(crate) fn new(config: &Config, features: &Features, buffers: u16, sends: u16, sockets: usize) -> Result<Self> {
        if config.zerocopy_rx {
            return Err(lacking(
                "zerocopy_rx=on",
                "zero-copy receive (IORING_OP_RECV_ZC) takes TCP connections alone, from a NIC that splits headers \
                 off: datagrams can't be had by it",
            ));
        }
        if !features.suffices() {
            let release = mpps_sys::probe::kernel_release();
            // Some kernels after 5.19 refuse them as well: the kernel's own answer is shown, not its release judged.
            let cause = match mpps_sys::uring::try_buffer_rings() {
                Err(error) => format!(
                    "this kernel ({release}) refuses provided buffer rings (Linux 5.19 has them): {error}: use udp"
                ),
                Ok(()) => format!("this kernel ({release}) has no waits with a timeout (Linux 5.11): use udp"),
            };
            return Err(lacking("io_uring", &cause));
        }
        if config.multishot == Some(true) && !features.multishot_receive {
            return Err(lacking(
                "multishot=on",
                "this kernel has no multishot receive (Linux 6.0)",
            ));
        }
        if config.zerocopy.is_some() && !(features.send_zc && features.sendmsg_zc) {
            return Err(lacking("zerocopy", "this kernel has no zero-copy sends (Linux 6.1)"));
        }
        if config.sqpoll.is_some() && !features.sqpoll {
            return Err(lacking("sqpoll", "this kernel gives us no submission thread"));
        }
        let taskrun = match config.taskrun {
            // The kernel's own thread does the work.
            None | Some(TaskRun::Interrupt) if config.sqpoll.is_some() => TaskRun::Interrupt,
            Some(way) if config.sqpoll.is_some() => {
                let cause = "with sqpoll= a thread of the kernel does the work: want none";
                return Err(lacking(&format!("taskrun={}", way.name()), cause));
            }
            Some(TaskRun::Defer) if !features.defer_taskrun => {
                return Err(lacking(
                    "taskrun=defer",
                    "this kernel has no deferred task work (Linux 6.1)",
                ));
            }
            Some(TaskRun::Coop) if !features.coop_taskrun => {
                return Err(lacking(
                    "taskrun=coop",
                    "this kernel has no cooperative task work (Linux 5.19)",
                ));
            }
            Some(way) => way,
            None if features.defer_taskrun => TaskRun::Defer,
            None if features.coop_taskrun => TaskRun::Coop,
            None => TaskRun::Interrupt,
        };
        // Every completion that there can be at a time: each buffer filled, each receive request ended, each send with
        // its result and its notification, and a few of ours.
        let all = usize::from(buffers) + sockets + 2 * usize::from(sends) + 8;
        Ok(Self {
            taskrun,
            multishot: config.multishot.unwrap_or(features.multishot_receive),
            sqpoll: config.sqpoll.map(|idle| (idle, config.sqpoll_cpu)),
            sq: u32::from(sends).next_power_of_two().max(64),
            cq: config
                .cq
                .unwrap_or_else(|| u32::try_from(all).unwrap_or(u32::MAX))
                .min(65_536),
        })
    }

    /// The flags of the ring, as the report has them.
    pub(crate) fn flags(&self) -> String {
        let mut names = vec!["SUBMIT_ALL"];
        match self.taskrun {
            TaskRun::Defer => names.extend(["SINGLE_ISSUER", "DEFER_TASKRUN"]),
            TaskRun::Coop => names.push("COOP_TASKRUN"),
            TaskRun::Interrupt => {}
        }
        if self.sqpoll.is_some() {
            names.push("SQPOLL");
        }
        names.join(" ")
    }

    /// Entries of the completion queue, as the kernel makes them: a power of two, more than submissions fit.
    pub(crate) fn completions(&self) -> u32 {
        self.cq.max(self.sq).next_power_of_two()
    }

    fn build(&self) -> io::Result<IoUring> {
        let mut builder = IoUring::builder();
        builder.dontfork().setup_submit_all();
        builder.setup_cqsize(self.completions()).setup_clamp();
        match self.taskrun {
            TaskRun::Defer => {
                builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
            }
            TaskRun::Coop => {
                builder.setup_coop_taskrun().setup_taskrun_flag();
            }
            TaskRun::Interrupt => {}
        }
        if let Some((idle, cpu)) = self.sqpoll {
            builder.setup_sqpoll(idle);
            if let Some(cpu) = cpu {
                builder.setup_sqpoll_cpu(cpu);
            }
            // The kernel's thread keeps for good the privileges of the thread that makes the ring, and no signal of
            // ours reaches it. So a thread that has given up all privileges makes the ring.
            let make = || Keep::NOTHING.apply().and_then(|()| builder.build(self.sq));
            return mpps_sys::thread::apart(make)?;
        }
        builder.build(self.sq)
    }
}

/// A lane's ring, made on the lane's own thread: `SINGLE_ISSUER` binds it to that.
pub(crate) struct Ring {
    uring: IoUring,
    /// A thread of the kernel takes what is written.
    polled: bool,
    buffers: Option<BufRing>,
    registered: bool,
}

impl Ring {
    /// Sets up a ring with these registered descriptors (none: sockets are named by their own) and `buffers` entries
    /// in its ring of buffers (0: none).
    pub(crate) fn new(setup: &Setup, descriptors: &[RawFd], buffers: u16) -> Result<Self> {
        let failed = |op| move |e: io::Error| explained(op, &e);
        let uring = setup.build().map_err(failed("set up"))?;
        if !descriptors.is_empty() {
            uring
                .submitter()
                .register_files(descriptors)
                .map_err(failed("register sockets with"))?;
        }
        let buffers = match buffers {
            0 => None,
            n => {
                let ring = BufRing::new(n).map_err(failed("map buffers of"))?;
                // SAFETY: the memory has `n` entries and lives as long as `self`, which unregisters it or closes the
                // io_uring first (the order of the fields, and `close`).
                unsafe {
                    uring
                        .submitter()
                        .register_buf_ring_with_flags(ring.address(), ring.entries(), GROUP, 0)
                }
                .map_err(failed("register buffers with"))?;
                Some(ring)
            }
        };
        Ok(Self {
            uring,
            polled: setup.sqpoll.is_some(),
            buffers,
            registered: !descriptors.is_empty(),
        })
    }

    /// Whether a thread of the kernel takes what is written, and does a chain to its end.
    #[inline]
    pub(crate) fn polled(&self) -> bool {
        self.polled
    }

    /// The ring of provided buffers.
    #[inline]
    pub(crate) fn buffers(&mut self) -> Option<&mut BufRing> {
        self.buffers.as_mut()
    }

    /// Returns the completions that are there.
    #[inline]
    pub(crate) fn completions(&mut self) -> cqueue::CompletionQueue<'_> {
        self.uring.completion()
    }

    /// Completions that the kernel had no memory to keep.
    pub(crate) fn lost(&mut self) -> u32 {
        self.uring.completion().overflow()
    }

    /// Writes a submission; false: there is no room.
    ///
    /// # Safety
    /// The memory that the entry points at lives, unused by others, until the entry completes (a receive or a send:
    /// until its last completion).
    #[inline]
    pub(crate) unsafe fn push(&mut self, entry: &squeue::Entry) -> bool {
        // SAFETY: by the caller.
        unsafe { self.uring.submission().push(entry) }.is_ok()
    }

    /// Room for submissions.
    #[inline]
    pub(crate) fn room(&mut self) -> usize {
        let queue = self.uring.submission();
        queue.capacity() - queue.len()
    }

    /// Whether a call would bring something: submissions are written, work waits for this thread, or completions have
    /// overflowed.
    #[inline]
    pub(crate) fn has_work(&mut self, counters: &RingCounters) -> bool {
        let queue = self.uring.submission();
        if queue.cq_overflow() {
            counters.cq_overflows.add(1);
            return true;
        }
        queue.taskrun() || !queue.is_empty() && (!self.polled || queue.need_wakeup())
    }

    /// Hands over what is written, without waiting.
    #[inline]
    pub(crate) fn submit(&mut self, counters: &RingCounters) -> Result<()> {
        if self.polled {
            let mut queue = self.uring.submission();
            queue.sync();
            if !queue.need_wakeup() {
                return Ok(());
            }
        }
        counters.system_calls.add(1);
        judged(self.uring.submit())
    }

    /// Hands over what is written and has the kernel do the work that waits for this thread.
    #[inline]
    pub(crate) fn work(&mut self, counters: &RingCounters) -> Result<()> {
        self.work_until(0, counters)
    }

    /// Does the same as [`Ring::work`], until so many completions are there. A chain needs this: each of its sends is
    /// such work once the send before it has ended, and a call that asks for no completions does one piece of it. The
    /// caller asks for no more than will complete without waiting.
    #[inline]
    pub(crate) fn work_until(&mut self, completions: usize, counters: &RingCounters) -> Result<()> {
        counters.system_calls.add(1);
        const GETEVENTS: u32 = 1;
        const SQ_WAKEUP: u32 = 2;
        let n = {
            let mut queue = self.uring.submission();
            queue.sync();
            queue.len() as u32
        };
        let flags = if self.polled { GETEVENTS | SQ_WAKEUP } else { GETEVENTS };
        // SAFETY: no argument is passed; the kernel takes `n` entries that are written.
        let result = unsafe {
            let submitter = self.uring.submitter();
            submitter.enter::<libc::sigset_t>(n, completions as u32, flags, None)
        };
        judged(result)
    }

    /// Hands over what is written and sleeps until something completes or the time is over.
    pub(crate) fn wait(&mut self, timeout: Duration, counters: &RingCounters) -> Result<()> {
        counters.system_calls.add(1);
        let time = types::Timespec::from(timeout);
        let arguments = types::SubmitArgs::new().timespec(&time);
        judged(self.uring.submitter().submit_with_args(1, &arguments))
    }

    /// Writes the request that ends all others.
    pub(crate) fn cancel_all(&mut self, user_data: u64) -> bool {
        let cancel = opcode::AsyncCancel2::new(types::CancelBuilder::any())
            .build()
            .user_data(user_data);
        // SAFETY: the entry points at nothing.
        unsafe { self.push(&cancel) }
    }

    /// Gives up what is registered, so that sockets are free as soon as the port closes them: the kernel puts a closed
    /// ring away some time later. To be called once nothing is under way.
    pub(crate) fn unregister(&mut self) {
        // Errors are those of a ring that has nothing registered, or of a kernel that does it when the ring closes.
        if self.registered {
            let _ = self.uring.submitter().unregister_files();
        }
        if self.buffers.is_some() {
            let _ = self.uring.submitter().unregister_buf_ring(GROUP);
        }
    }
}

/// The result of a call that hands over submissions. What it could not take stays written and goes with the next call.
fn judged(result: io::Result<usize>) -> Result<()> {
    match result {
        Ok(_) => Ok(()),
        Err(e) => match e.raw_os_error() {
            // Time is over, a signal came, completions have overflowed (the next call brings them), no memory just now.
            Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
            _ => Err(Error::os("enter", "io_uring", &e)),
        },
    }
}

#[cold]
pub(crate) fn explained(op: &'static str, error: &io::Error) -> Error {
    let forbidden = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES | libc::ENOSYS | libc::EOPNOTSUPP) => mpps_sys::uring::forbidden(),
        _ => None,
    };
    if let Some(why) = forbidden {
        let cause = format!("{why}: want the path udp, which needs no io_uring");
        return Error::new(op, "io_uring", cause, ErrorKind::Permission);
    }
    let (cause, kind) = match error.raw_os_error() {
        Some(libc::ENOMEM) => (
            format!("{error}: locked memory (ulimit -l) may be too little: want smaller buffers=, sends= or cq="),
            ErrorKind::Unsupported,
        ),
        _ => return Error::os(op, "io_uring", error),
    };
    Error::new(op, "io_uring", cause, kind)
}
