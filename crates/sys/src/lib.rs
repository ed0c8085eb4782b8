//! Small safe wrappers over the operating system: clock, threads, scheduling, signals.
