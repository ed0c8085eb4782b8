//! State of one run beside its packets: privileges that its threads keep, and what watches it.

use crate::privilege::{self, Keeps};
use crate::profile;
use crate::record::{self, Events, Programs};
use mpps_engine::{Opened, Owner, StampMemory};
use mpps_sys::privilege::CapabilitySet;
use mpps_trace::KernelDrops;
use std::fmt;
use std::io;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// State of one run beside its packets. All trials of a session share it.
#[derive(Default)]
pub struct Watchers {
    /// Privileges that the run's threads keep; not set: they give up none.
    pub(crate) keeps: OnceLock<Keeps>,
    /// Privileges that the thread has kept which writes the run's files.
    pub(crate) clerk: OnceLock<CapabilitySet>,
    /// True if lanes can have the priority that is asked for, as the first check found it.
    pub(crate) priority: OnceLock<bool>,
    profile: Mutex<profile::State>,
    events: Mutex<Events>,
    programs: Mutex<Programs>,
}

impl Watchers {
    pub(crate) fn profile(&self) -> MutexGuard<'_, profile::State> {
        self.profile.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn events(&self) -> MutexGuard<'_, Events> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn programs(&self) -> MutexGuard<'_, Programs> {
        self.programs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Watchers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watchers")
            .field("keeps", &self.keeps)
            .finish_non_exhaustive()
    }
}

impl Owner for Watchers {
    fn opened(&self, thread: Opened) -> io::Result<()> {
        profile::opened(self, thread);
        record::opened(self, thread);
        let given_up = privilege::give_up(self, thread);
        if thread == Opened::Main {
            profile::begin(self);
            record::begin(self);
        }
        given_up
    }

    fn stamps(&self, lane: usize) -> Option<StampMemory> {
        record::stamps(self, lane)
    }

    fn kernel_drops(&self) -> Option<KernelDrops> {
        record::kernel_drops(self)
    }
}
