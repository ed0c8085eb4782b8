//! The host: doctor's findings, the two-host lab.
