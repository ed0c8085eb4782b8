//! `mpps doctor`: abilities of this host, and commands that would make it faster.
//!
//! The doctor only reads. It tests the kernel by making the smallest object of each kind and dropping it, because a
//! version number does not show what a container's filter, a sysctl or a build option forbids. Facts that can't be seen
//! without root are reported as unseen, not guessed.
//!
//! Reading and judging are separate: a [`machine::Machine`] reads files, tools and probes under a root directory, which
//! in the tests is a tree of samples; [`parse`] and [`ethtool`] turn text into values.

mod bind;
mod cpu;
mod dpdk;
#[cfg(test)]
mod dpdk_tests;
mod drawing;
mod ethtool;
mod finding;
mod hidden;
mod isolation;
mod kernel;
mod machine;
mod memory;
mod net;
mod nic;
mod parse;
mod paths;
mod pci;
mod privileges;
#[cfg(test)]
mod tests;
mod xdp;

pub(crate) use parse::kernel_version;

/// Returns the command that adds arguments to the kernel's command line for the next start; `None` if it is not known
/// how this host boots.
pub(crate) fn boot_command(tree: &crate::isolate::Tree, arguments: &str) -> Option<String> {
    cpu::boot_command(&Machine::of(tree), arguments)
}

pub use finding::{Counts, Finding, Report, Status};
use machine::Machine;

/// Parts of the host to examine.
#[derive(Clone, Debug)]
pub struct Options {
    /// Interfaces to examine; empty: all but loopback.
    pub interfaces: Vec<String>,
    /// Paths in this build of mpps, by name (`udp`, `af_packet`, …). Other paths are described as what the host could
    /// do.
    pub built_paths: Vec<String>,
    /// Version of the DPDK that this build was made with (`22.11.4`); `None`: without.
    pub dpdk: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            interfaces: Vec::new(),
            built_paths: vec!["udp".into(), "af_packet".into()],
            dpdk: None,
        }
    }
}

/// Examines the host. Takes well under a second, changes nothing, and needs no privilege: findings that would need one
/// are reported as unseen.
pub fn examine(options: &Options) -> Report {
    examine_machine(&Machine::live(), options)
}

/// Draws the host as SVG: memory nodes, cores, caches, network devices and their interrupts. Only reads, like
/// [`examine`].
pub fn draw(tree: &crate::isolate::Tree) -> String {
    drawing::draw(&Machine::of(tree))
}

fn examine_machine(machine: &Machine, options: &Options) -> Report {
    let mut report = Report::default();
    let facts = dpdk::Facts::of(machine, options.dpdk.as_deref());
    paths::examine(machine, &options.built_paths, &facts, &mut report);
    privileges::examine(machine, &options.built_paths, &mut report);
    cpu::examine(machine, &mut report);
    isolation::examine(machine, &mut report);
    memory::examine(machine, &mut report);
    net::examine(machine, &mut report);
    dpdk::examine(&facts, &mut report);
    nic::examine(machine, &options.interfaces, &facts, &mut report);
    bind::by_address(&facts, &options.interfaces, &mut report);
    hidden::examine(machine, &mut report);
    report.drop_impossible(|path| machine.can_be_set(path));
    report
}
