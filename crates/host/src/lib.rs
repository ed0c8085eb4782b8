//! The host that mpps runs on: its abilities ([`doctor`]) and the two-host lab that it can be given ([`lab`]).
//!
//! Nothing here moves packets, and nothing here prints: callers get data and write it where they like. Both parts
//! speak to the kernel through text (sysfs, procfs, `ip`, `ethtool`), so the parsing is pure and tested on samples,
//! and only thin readers touch the machine.
#![forbid(unsafe_code)]

pub mod doctor;
pub mod isolate;
pub mod lab;
pub mod left;
pub mod privilege;
mod tool;

pub use tool::why_not;
