//! The sample's device, as it would be a crate of its own: a mirror. What a lane sends comes back to it, in order.

use mpps_io::{Burst, Capabilities, Fact, Frame, Layer, Port, PortSpec, Queue, QueueCounters, Result, SpecError, Wait};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Bytes of a buffer: the largest UDP payload that an Ethernet frame holds.
pub const BUFFER: usize = 1472;

/// The options of a port, checked.
#[derive(Debug)]
pub struct Config {
    pub frames: usize,
}

/// Reads the options of `mirror:[frames=N]`.
pub fn check(spec: &PortSpec) -> std::result::Result<Config, SpecError> {
    if !spec.device.is_empty() {
        return Err(SpecError(format!(
            "port '{spec}': a mirror has no device: want mirror:"
        )));
    }
    let mut options = spec.take_options();
    let frames = options.number("frames", 1..=65536)?.unwrap_or(1024) as usize;
    options.finish()?;
    Ok(Config { frames })
}

/// Opened once, by the main thread; shared by all lanes and the collector.
pub struct MirrorPort {
    frames: usize,
    /// By queue; each is written by its lane alone.
    mirrored: Vec<AtomicU64>,
    capabilities: Capabilities,
}

impl MirrorPort {
    pub fn new(config: &Config, queues: usize) -> Self {
        let capabilities = Capabilities {
            path: "mirror",
            layer: Layer::Payload,
            max_frame: BUFFER,
            mac: None,
            tx_checksum: false,
            one_flow_per_burst: false,
            link_bps: None,
            preferred_burst: 32,
        };
        Self {
            frames: config.frames,
            mirrored: (0..queues).map(|_| AtomicU64::new(0)).collect(),
            capabilities,
        }
    }
}

impl Port for MirrorPort {
    type Pool = MirrorPool;
    type Queue<'p> = MirrorQueue<'p>;

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// On the lane's own thread, so that the memory lies on its node: all of it is made, and touched, here.
    fn pool(&self, _queue: usize) -> Result<MirrorPool> {
        let buffers = (0..self.frames).map(|_| vec![1; BUFFER].into_boxed_slice());
        Ok(MirrorPool(RefCell::new(buffers.collect())))
    }

    fn queue<'p>(&'p self, queue: usize, pool: &'p MirrorPool) -> Result<MirrorQueue<'p>> {
        Ok(MirrorQueue {
            pool,
            inside: VecDeque::with_capacity(self.frames),
            mirrored: &self.mirrored[queue],
        })
    }

    fn counters(&self, queue: usize) -> QueueCounters {
        QueueCounters {
            other: vec![("mirrored", self.mirrored[queue].load(Ordering::Relaxed))],
            ..QueueCounters::default()
        }
    }

    fn facts(&self) -> Vec<Fact> {
        vec![Fact::shown("mirror_frames", self.frames.to_string())]
    }
}

/// Packet memory of one lane. Not `Sync`, so a queue can't be shared by mistake.
pub struct MirrorPool(RefCell<Vec<Box<[u8]>>>);

/// One buffer: borrows its pool, and goes back to it when dropped.
pub struct MirrorFrame<'p> {
    pool: &'p MirrorPool,
    data: Box<[u8]>,
    len: usize,
    flow: Option<u32>,
}

impl Drop for MirrorFrame<'_> {
    fn drop(&mut self) {
        self.pool.0.borrow_mut().push(std::mem::take(&mut self.data));
    }
}

impl Frame for MirrorFrame<'_> {
    fn bytes(&self) -> &[u8] {
        &self.data[..self.len]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.data[..self.len]
    }

    fn capacity(&self) -> usize {
        self.data.len()
    }

    fn set_len(&mut self, len: usize) {
        self.len = len.min(self.data.len());
    }

    /// A payload has no addresses in it: the path has to know whose it is.
    fn flow(&self) -> Option<u32> {
        self.flow
    }

    fn set_flow(&mut self, flow: u32) {
        self.flow = Some(flow);
    }
}

/// One lane's queue. Nothing here locks, allocates or blocks, but for `wait`.
pub struct MirrorQueue<'p> {
    pool: &'p MirrorPool,
    inside: VecDeque<MirrorFrame<'p>>,
    mirrored: &'p AtomicU64,
}

impl<'p> Queue for MirrorQueue<'p> {
    type Frame = MirrorFrame<'p>;

    fn receive(&mut self, burst: &mut Burst<MirrorFrame<'p>>) -> Result<usize> {
        let n = burst.room().min(self.inside.len());
        burst.array_mut().extend(self.inside.drain(..n));
        Ok(n)
    }

    fn allocate(&mut self, burst: &mut Burst<MirrorFrame<'p>>, n: usize) -> Result<usize> {
        let mut free = self.pool.0.borrow_mut();
        let n = n.min(burst.room()).min(free.len());
        let keep = free.len() - n;
        let frame = |data: Box<[u8]>| MirrorFrame {
            pool: self.pool,
            len: data.len(),
            data,
            flow: None,
        };
        burst.array_mut().extend(free.drain(keep..).map(frame));
        Ok(n)
    }

    /// Takes what there is room for. The rest stays in the burst, in order: that is how a path says that it is full.
    fn transmit(&mut self, burst: &mut Burst<MirrorFrame<'p>>) -> Result<usize> {
        let n = burst.len().min(self.inside.capacity() - self.inside.len());
        self.inside.extend(burst.drain(n));
        self.mirrored
            .store(self.mirrored.load(Ordering::Relaxed) + n as u64, Ordering::Relaxed);
        Ok(n)
    }

    fn wait(&mut self, what: Wait, timeout: Duration) -> Result<()> {
        if !what.tx && self.inside.is_empty() {
            std::thread::sleep(timeout.min(Duration::from_micros(100)));
        }
        Ok(())
    }
}
