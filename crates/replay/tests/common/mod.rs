//! Shared by the tests and the fuzz target.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part")]

pub mod checks;
pub mod files;
