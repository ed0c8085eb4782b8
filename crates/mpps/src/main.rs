//! The program `mpps`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mpps_sys::memory::Plain = mpps_sys::memory::Plain;

fn main() -> ExitCode {
    mpps::program()
}
