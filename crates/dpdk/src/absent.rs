//! A build without libdpdk: the same types, of which there is never a value, and an error that says what to do.

use crate::{Config, EalArgs};
use mpps_io::{Burst, Capabilities, Error, ErrorKind, Fact, Frame, Port, Queue, QueueCounters, Result, Wait};
use std::convert::Infallible;
use std::marker::PhantomData;
use std::time::Duration;

/// A port; never one in this build.
pub struct DpdkPort(Infallible);
/// Packet memory; never any in this build.
pub struct DpdkPool(Infallible);
/// A queue; never one in this build.
pub struct DpdkQueue<'p>(Infallible, PhantomData<&'p DpdkPool>);
/// A frame; never one in this build.
pub struct DpdkFrame<'p>(Infallible, PhantomData<&'p DpdkPool>);

fn missing(name: &str) -> Error {
    let cause = "this mpps was built without DPDK: `apt-get install -y libdpdk-dev pkg-config` and `make build` again";
    Error::new("open", name, cause, ErrorKind::Unsupported)
}

/// Starts DPDK for these ports.
///
/// # Errors
/// Always: this build has no DPDK.
pub fn start(configs: &[&Config], _eal: &EalArgs, _cores: &[Option<usize>]) -> Result<()> {
    Err(missing(configs.first().map_or("dpdk", |config| &config.name)))
}

/// Opens a port.
///
/// # Errors
/// Always: this build has no DPDK.
pub fn open(config: &Config, _options: &crate::Open<'_>) -> Result<DpdkPort> {
    Err(missing(&config.name))
}

impl DpdkPort {
    /// Returns notes on the port, shown before the run starts.
    pub fn remarks(&self) -> &[String] {
        match self.0 {}
    }
}

impl Port for DpdkPort {
    type Pool = DpdkPool;
    type Queue<'p> = DpdkQueue<'p>;

    fn capabilities(&self) -> &Capabilities {
        match self.0 {}
    }
    fn pool(&self, _queue: usize) -> Result<DpdkPool> {
        match self.0 {}
    }
    fn queue<'p>(&'p self, _queue: usize, _pool: &'p DpdkPool) -> Result<DpdkQueue<'p>> {
        match self.0 {}
    }
    fn counters(&self, _queue: usize) -> QueueCounters {
        match self.0 {}
    }
    fn facts(&self) -> Vec<Fact> {
        match self.0 {}
    }
}

impl<'p> Queue for DpdkQueue<'p> {
    type Frame = DpdkFrame<'p>;

    fn receive(&mut self, _burst: &mut Burst<Self::Frame>) -> Result<usize> {
        match self.0 {}
    }
    fn allocate(&mut self, _burst: &mut Burst<Self::Frame>, _n: usize) -> Result<usize> {
        match self.0 {}
    }
    fn transmit(&mut self, _burst: &mut Burst<Self::Frame>) -> Result<usize> {
        match self.0 {}
    }
    fn wait(&mut self, _what: Wait, _timeout: Duration) -> Result<()> {
        match self.0 {}
    }
}

impl Frame for DpdkFrame<'_> {
    fn bytes(&self) -> &[u8] {
        match self.0 {}
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        match self.0 {}
    }
    fn capacity(&self) -> usize {
        match self.0 {}
    }
    fn set_len(&mut self, _len: usize) {
        match self.0 {}
    }
}
