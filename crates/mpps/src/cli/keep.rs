//! The arguments that say what is kept of what the lanes did.

use clap::Args;
use mpps_plan::values::capture;
use mpps_plan::values::keep::{Triggers, Window, triggers, window};
use mpps_run::Trace;
use std::path::PathBuf;

/// The flight recorder.
#[derive(Args, Debug, Default, Clone)]
pub(crate) struct Keep {
    /// Keep what each lane did round by round, and what the kernel did on its core, around whatever is worth it
    /// (--trace-on), and write it to FILE: a Perfetto trace (gzipped), which `mpps trace FILE` reads, too
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Cause of a window of the trace: stall=TIME (a round that took longer), late=TIME (a packet that left so late),
    /// loss (a row that lost packets), drop (this host dropped some), invalid (the end of a run that is not valid)
    #[arg(
        long, value_name = "WHAT,…", default_value = "stall=1ms,late=1ms,loss,drop,invalid", value_parser = triggers,
        requires = "trace"
    )]
    pub(crate) trace_on: Triggers,
    /// Time before the cause at which a window begins, and time after it at which the window ends
    #[arg(long, value_name = "BEFORE:AFTER", default_value = "5ms:1ms", value_parser = window, requires = "trace")]
    pub(crate) trace_window: Window,
    /// Keep all rounds of the run, not windows
    #[arg(long, requires = "trace", conflicts_with = "trace_on")]
    pub(crate) trace_all: bool,
    /// Memory for what is kept, 1MiB to 16GiB; what does not fit is left out, and the trace says so
    #[arg(
        long, value_name = "SIZE", default_value = "256MiB", value_parser = capture::buffer, requires = "trace",
        allow_hyphen_values = true
    )]
    pub(crate) trace_memory: u64,
}

impl Keep {
    /// Returns the settings of a trace, if one is asked for.
    pub(crate) fn trace(&self) -> Option<Trace> {
        self.trace.is_some().then(|| Trace {
            on: self.trace_on.clone(),
            window: self.trace_window.clone(),
            all: self.trace_all,
            memory: self.trace_memory,
        })
    }
}
