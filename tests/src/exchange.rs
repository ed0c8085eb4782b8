//! Frames for a forwarder: numbered, of random length, their content a function of the number, sent and received
//! through AF_XDP sockets of the test's own, each compared byte by byte with what it must be.
//!
//! Millions of frames shall pass in seconds, also in an unoptimised build: contents are slices of one random table, so
//! that making and comparing a frame are a `memcpy` and a `memcmp`.

use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use xsk::{Filter, Frame, Pool, Program, ProgramConfig, Rx, Socket, SocketConfig, Tx, Umem, UmemConfig};

/// Shortest and longest frame in bytes, FCS not counted: those of an MTU of 1500.
const SHORTEST: u64 = 64;
const LONGEST: u64 = 1514;
/// MAC addresses, type, number of the way, number of the frame.
const HEAD: usize = 24;
/// An EtherType for experiments (IEEE 802), which no host's stack takes up.
const TYPE: [u8; 2] = [0x88, 0xb5];
const BURST: usize = 32;
/// Nothing has come for so long: what is under way still is lost.
const STALL: Duration = Duration::from_secs(3);

/// A queue of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The interface.
    pub device: &'static str,
    /// The queue.
    pub queue: u32,
}

/// Where frames go in, and where and with which MAC addresses they must come out.
#[derive(Clone, Debug)]
pub struct Way {
    /// Sent here.
    pub from: End,
    /// Received here, in order; `None`: not by us.
    pub to: Option<End>,
    /// Destination and source as sent.
    pub sent: [u8; 12],
    /// Destination and source as received.
    pub arrives: [u8; 12],
}

/// What passed on one way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Passed {
    /// Frames given to the kernel.
    pub sent: u64,
    /// Frames received, every one as it must be.
    pub received: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Numbers that never came.
    pub lost: u64,
    /// Of the lost, those that reached the receiving socket and found no room in it.
    pub dropped: u64,
}

impl Passed {
    fn under_way(&self, way: &Way) -> u64 {
        way.to.map_or(0, |_| self.sent - self.received - self.lost)
    }
}

/// What frames look like.
pub struct Frames {
    table: Vec<u8>,
}

impl Default for Frames {
    fn default() -> Self {
        let words = (0..1_u64 << 17).flat_map(|i| mix(i).to_le_bytes());
        Self { table: words.collect() }
    }
}

impl Frames {
    /// Length and content behind the head of a frame.
    fn shape(&self, way: u16, number: u64) -> (usize, &[u8]) {
        let random = mix(number << 8 | u64::from(way));
        let len = (SHORTEST + random % (LONGEST - SHORTEST + 1)) as usize;
        let start = (random >> 32) as usize % (self.table.len() - LONGEST as usize);
        (len, &self.table[start..start + len - HEAD])
    }

    fn write(&self, frame: &mut Frame<'_>, mac: &[u8; 12], way: u16, number: u64) {
        let (len, data) = self.shape(way, number);
        frame.set_len(len);
        let bytes = frame.bytes_mut();
        bytes[..12].copy_from_slice(mac);
        bytes[12..14].copy_from_slice(&TYPE);
        bytes[14..16].copy_from_slice(&way.to_le_bytes());
        bytes[16..HEAD].copy_from_slice(&number.to_le_bytes());
        bytes[HEAD..].copy_from_slice(data);
    }

    /// The number of a frame of this way; `None` for a frame that nobody here has sent.
    ///
    /// # Panics
    /// When it is one of ours, and not bit for bit what it must be.
    pub fn number(&self, bytes: &[u8], mac: &[u8; 12], way: u16) -> Option<u64> {
        if bytes.len() < HEAD || bytes[12..14] != TYPE {
            return None;
        }
        let number = u64::from_le_bytes(bytes[16..HEAD].try_into().ok()?);
        let (len, data) = self.shape(way, number);
        let same = bytes[14..16] == way.to_le_bytes() && bytes.len() == len;
        assert!(
            same && bytes[..12] == *mac && bytes[HEAD..] == *data,
            "frame {number} of way {way}, {len} bytes, came as {} bytes {:02x?}",
            bytes.len(),
            &bytes[..bytes.len().min(64)]
        );
        Some(number)
    }
}

/// SplitMix64: a hash of a number that looks random.
fn mix(number: u64) -> u64 {
    let a = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let b = (a ^ a >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let c = (b ^ b >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    c ^ c >> 31
}

/// Sends frames on all ways at once, until each has had so many or the time is up, and receives them, with no more than
/// `window` under way on each. In the network namespace of this name.
///
/// # Panics
/// When a socket can't be had, or a frame arrives that is not what it must be, twice, or before one sent earlier.
pub fn exchange(namespace: String, ways: Vec<Way>, frames: u64, window: u64, limit: Duration) -> Vec<Passed> {
    // A thread of its own, which enters the namespace and ends there.
    let run = move || {
        let file = File::open(format!("/run/netns/{namespace}")).expect("the namespace");
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).expect("to enter the namespace");
        run(&ways, frames, window, limit)
    };
    thread::spawn(run)
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn run(ways: &[Way], frames: u64, window: u64, limit: Duration) -> Vec<Passed> {
    let mut ends: Vec<End> = Vec::new();
    for end in ways.iter().flat_map(|way| [Some(way.from), way.to]).flatten() {
        if !ends.contains(&end) {
            ends.push(end);
        }
    }
    let sockets: Vec<Socket> = ends.iter().map(open).collect();
    let pools: Vec<Pool> = sockets
        .iter()
        .map(|s| Pool::new(s.umem(), s.umem().config().frames).expect("a pool"))
        .collect();
    let mut halves: Vec<(Rx<'_>, Tx<'_>)> = sockets
        .iter()
        .zip(&pools)
        .map(|(socket, pool)| {
            let (rx, tx) = socket.split().expect("both halves");
            (rx.over(pool).expect("its pool"), tx.over(pool).expect("its pool"))
        })
        .collect();
    let mut programs: Vec<Program> = Vec::new();
    for (end, socket) in ends.iter().zip(&sockets) {
        if !programs.iter().any(|program| **program.device().name() == *end.device) {
            programs.push(Program::attach(end.device, &ProgramConfig::new(Filter::all())).expect("an XDP program"));
        }
        let program = programs.iter().find(|program| **program.device().name() == *end.device);
        program
            .expect("just made")
            .insert(end.queue, socket)
            .expect("a place in its map");
    }

    let place = |end: End| ends.iter().position(|e| *e == end).expect("gathered above");
    let contents = Frames::default();
    let mut passed = vec![Passed::default(); ways.len()];
    let mut batch: Vec<Frame<'_>> = Vec::with_capacity(BURST);
    let began = Instant::now();
    let (mut last, mut idle) = (began, 0);
    loop {
        let sending = began.elapsed() < limit;
        let (mut moved, mut finished) = (false, true);
        for (number, (way, passed)) in ways.iter().zip(&mut passed).enumerate() {
            let under_way = passed.under_way(way);
            let (_, tx) = &mut halves[place(way.from)];
            if sending && passed.sent < frames && under_way < window {
                let want = (window - under_way).min(frames - passed.sent).min(BURST as u64) as usize;
                let n = want.min(tx.room());
                pools[place(way.from)].allocate(n, |frame| batch.push(frame));
                for (frame, i) in batch.iter_mut().zip(passed.sent..) {
                    contents.write(frame, &way.sent, number as u16, i);
                }
                passed.sent += tx.send(batch.drain(..)) as u64;
                moved |= n > 0;
            }
            // What the kernel has not sent yet is sent by asking again.
            let empty = tx.kick().expect("to send");
            finished &= empty && passed.under_way(way) == 0 && (!sending || passed.sent == frames);
            let Some(to) = way.to else { continue };
            let came = halves[place(to)].0.receive(2 * BURST, |frame| {
                let Some(i) = contents.number(frame.bytes(), &way.arrives, number as u16) else {
                    return;
                };
                let expected = passed.received + passed.lost;
                assert!(
                    i >= expected && i < passed.sent,
                    "way {number}: frame {i} after {expected}: twice, or out of order"
                );
                passed.lost += i - expected;
                passed.received += 1;
                passed.bytes += frame.len() as u64;
            });
            moved |= came > 0;
        }
        if finished {
            break;
        }
        if moved {
            (last, idle) = (Instant::now(), 0);
            continue;
        }
        if last.elapsed() > STALL {
            passed.iter_mut().for_each(|p| p.lost = p.sent - p.received);
            last = Instant::now();
        }
        idle += 1;
        if idle > 100 {
            thread::sleep(Duration::from_micros(50));
        } else {
            thread::yield_now();
        }
    }
    for (way, passed) in ways.iter().zip(&mut passed) {
        if let Some(to) = way.to {
            // A frame for which there was no chunk counts in rx_dropped.
            let counts = sockets[place(to)].statistics().expect("statistics");
            passed.dropped = counts.rx_dropped + counts.rx_ring_full;
        }
    }
    passed
}

fn open(end: &End) -> Socket {
    let umem: Arc<Umem> = Umem::new(&UmemConfig {
        frames: 8192,
        ..UmemConfig::default()
    })
    .expect("a UMEM");
    let config = SocketConfig {
        rx_ring: 2048,
        tx_ring: 1024,
        fill_ring: 4096,
        completion_ring: 1024,
        ..SocketConfig::default()
    };
    Socket::bind(&umem, end.device, end.queue, &config).expect("a socket")
}
