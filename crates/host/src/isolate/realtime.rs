//! The trap of real-time priority: how much of a core the kernel leaves to other threads beside a thread of
//! `SCHED_FIFO` that never sleeps.
//!
//! Up to Linux 6.11 the real-time threads of a core run for `kernel.sched_rt_runtime_us` of each `sched_rt_period_us`
//! and then pause, even if no other thread waits for the core. From 6.12 on a *fair server* does this
//! (`kernel/sched/deadline.c`): normal threads that wait get their part, and only then does the real-time thread lose
//! that part. The sysctl does not switch the fair server off; files of debugfs do.

use super::tree::Tree;

/// Share of a core for normal threads beside a real-time thread that never sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// No time: the limit is switched off, and such a thread may keep the core for ever.
    Nothing,
    /// This part of each period, µs, whether or not a normal thread waits: the real-time thread pauses.
    Always {
        /// Time that the real-time thread loses of each period, µs.
        lost_us: u64,
        /// Length of a period, µs.
        period_us: u64,
    },
    /// This part of each period, µs, if a normal thread waits.
    WhereOneWaits {
        /// Time that the real-time thread loses of each period, µs.
        lost_us: u64,
        /// Length of a period, µs.
        period_us: u64,
        /// Whether both were read. If not, they are Linux's defaults, because debugfs is not mounted.
        read: bool,
    },
    /// The share is not known.
    Unknown,
}

/// The first Linux with a fair server.
const FAIR_SERVER: (u32, u32) = (6, 12);
/// Runtime and period of a fair server if debugfs does not show them, µs: 50 ms of each second.
const FAIR_DEFAULT: (u64, u64) = (50_000, 1_000_000);

impl Share {
    /// Returns the share on this host.
    pub fn live() -> Self {
        Self::of(&Tree::live())
    }

    /// Returns the share on a host whose files are in `tree`, from core 0: the cores are alike unless somebody changed
    /// one.
    pub fn of(tree: &Tree) -> Self {
        let release = match tree.is_live() {
            true => mpps_sys::probe::kernel_release(),
            false => tree.read("proc/sys/kernel/osrelease").unwrap_or_default(),
        };
        let number = |path: &str| tree.read(path).ok().and_then(|text| text.trim().parse::<i64>().ok());
        if crate::doctor::kernel_version(&release).is_some_and(|version| version >= FAIR_SERVER) {
            let file = |key: &str| number(&format!("sys/kernel/debug/sched/fair_server/cpu0/{key}"));
            let us = |ns: i64| u64::try_from(ns / 1000).unwrap_or(0);
            let found = file("runtime").zip(file("period"));
            let read = found.is_some();
            let (lost_us, period_us) = found.map_or(FAIR_DEFAULT, |(runtime, period)| (us(runtime), us(period)));
            return match lost_us {
                0 => Self::Nothing,
                _ => Self::WhereOneWaits {
                    lost_us,
                    period_us,
                    read,
                },
            };
        }
        let of_sysctl = |key: &str| number(&format!("proc/sys/kernel/sched_rt_{key}_us"));
        let Some((runtime, period)) = of_sysctl("runtime").zip(of_sysctl("period")) else {
            return Self::Unknown;
        };
        match u64::try_from(runtime) {
            Ok(runtime) if (runtime as i64) < period => Self::Always {
                lost_us: period as u64 - runtime,
                period_us: period as u64,
            },
            _ => Self::Nothing,
        }
    }

    /// Returns a sentence on the time that a thread of `SCHED_FIFO` that never sleeps loses, and when; `None`: no time.
    pub fn told(&self) -> Option<String> {
        let ms = |us: u64| us as f64 / 1e3;
        match *self {
            Self::Nothing => None,
            Self::Always { lost_us, period_us } => Some(format!(
                "the kernel stops a real-time thread that never sleeps for {} ms of each {} ms \
                 (kernel.sched_rt_runtime_us)",
                ms(lost_us),
                ms(period_us)
            )),
            Self::WhereOneWaits {
                lost_us,
                period_us,
                read,
            } => Some(format!(
                "where a normal thread waits for its core, the kernel takes the core from a real-time thread that \
                 never sleeps for {} ms of each {} ms (fair server{})",
                ms(lost_us),
                ms(period_us),
                if read {
                    ""
                } else {
                    ", unless /sys/kernel/debug/sched, which can't be read here, has other values"
                }
            )),
            Self::Unknown => Some(
                "how long the kernel stops a real-time thread that never sleeps can't be read here \
                 (kernel.sched_rt_runtime_us)"
                    .to_owned(),
            ),
        }
    }

    /// Returns the command that switches the limit off; `None` if it is off, or not known.
    pub fn off(&self) -> Option<&'static str> {
        match self {
            Self::Nothing | Self::Unknown => None,
            Self::Always { .. } => Some("sysctl -w kernel.sched_rt_runtime_us=-1"),
            Self::WhereOneWaits { .. } => {
                Some("for f in /sys/kernel/debug/sched/fair_server/cpu*/runtime; do echo 0 > $f; done")
            }
        }
    }
}

impl Share {
    /// Returns the command of [`off`](Self::off) if the file that it writes exists here, and root may write it.
    pub fn off_here(&self) -> Option<&'static str> {
        let path = match self {
            Self::Nothing | Self::Unknown => return None,
            Self::Always { .. } => "/proc/sys/kernel/sched_rt_runtime_us",
            // A file of debugfs, which is often not mounted.
            Self::WhereOneWaits { .. } => "/sys/kernel/debug/sched/fair_server/cpu0/runtime",
        };
        let refused = rustix::fs::access(path, rustix::fs::Access::WRITE_OK).err();
        // Users other than root get the command that root may run.
        let possible = matches!(
            refused,
            None | Some(rustix::io::Errno::ACCESS | rustix::io::Errno::PERM)
        );
        self.off().filter(|_| possible)
    }
}

/// Returns the reason why a nice value below 0 may gain nothing on this host; `None`: it works as documented.
pub fn nice_trap(tree: &Tree) -> Option<String> {
    let on = tree
        .read("proc/sys/kernel/sched_autogroup_enabled")
        .is_ok_and(|text| text == "1");
    // `man 7 sched`, "The autogroup feature": each session has a share of its own, whatever its threads' nice values.
    let trap = "a nice value ranks only threads of one session among each other here \
                (kernel.sched_autogroup_enabled=1): others keep their share of the core";
    on.then(|| trap.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isolate::fake::Fake;

    #[test]
    fn old_kernels_stop_a_real_time_thread_always_and_new_ones_where_another_waits() {
        let fake = Fake::new();
        fake.put("proc/sys/kernel/osrelease", "6.1.0-18-amd64");
        fake.put("proc/sys/kernel/sched_rt_runtime_us", "950000");
        fake.put("proc/sys/kernel/sched_rt_period_us", "1000000");
        let (lost_us, period_us) = (50_000, 1_000_000);
        assert_eq!(Share::of(&fake.tree()), Share::Always { lost_us, period_us });
        fake.put("proc/sys/kernel/sched_rt_runtime_us", "-1");
        assert_eq!(Share::of(&fake.tree()), Share::Nothing);
        fake.put("proc/sys/kernel/osrelease", "6.18.44");
        let fair = |read| Share::WhereOneWaits {
            lost_us,
            period_us,
            read,
        };
        assert_eq!(Share::of(&fake.tree()), fair(false));
        assert!(fair(false).told().expect("a share").contains("can't be read here"));
        fake.put("sys/kernel/debug/sched/fair_server/cpu0/runtime", "0");
        fake.put("sys/kernel/debug/sched/fair_server/cpu0/period", "1000000000");
        assert_eq!(Share::of(&fake.tree()), Share::Nothing);
        assert_eq!((Share::Nothing.told(), Share::Nothing.off()), (None, None));
        let hidden = Share::of(&Fake::new().tree());
        assert_eq!((hidden, hidden.off()), (Share::Unknown, None));
    }
}
