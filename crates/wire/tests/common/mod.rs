//! Shared by the tests, the corpus generator and the fuzz targets.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part")]

pub mod checks;
pub mod frames;
