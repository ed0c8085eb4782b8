//! Two hosts that a test makes for itself: namespaces `a` and `b` with one or more veth pairs between them.
//!
//! Without the right to make them a test says SKIPPED and why. They go when the test ends, by a panic as well; those of
//! a test that was killed go when the next one starts.

// Each test program uses a part of this.
#![allow(dead_code, unreachable_pub, reason = "each test program uses a part")]

use std::fs::File;
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use xsk::{Filter, Pool, Program, ProgramConfig, ProgramMode, Rx, Socket, SocketConfig, Tx, Umem, UmemConfig};

pub const PORTS: std::ops::RangeInclusive<u16> = 9000..=9100;

pub struct Lab {
    prefix: String,
}

/// Which of the two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    A,
    B,
}

pub fn skip(why: &str) {
    println!("SKIPPED: {why}");
}

/// Runs a command line; its words are separated by white space.
pub fn run(line: &str) -> Result<String, String> {
    let mut words = line.split_whitespace();
    let output = Command::new(words.next().expect("a program"))
        .args(words)
        .output()
        .map_err(|e| format!("{line}: {e}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("{line}: {}", String::from_utf8_lossy(&output.stderr).trim()))
    }
}

impl Lab {
    /// One pair, `veth0` on both hosts, with this many queues and this MTU, IPv4 10.9.0.1 and .2, IPv6 fd09::1 and ::2.
    /// `None`, and said, where that is impossible.
    pub fn new(queues: u32, mtu: u32) -> Option<Lab> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        remove_stale();
        let prefix = format!("xsk-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let lab = Lab { prefix };
        for host in [Host::A, Host::B] {
            if let Err(e) = run(&format!("ip netns add {}", lab.name(host))) {
                skip(&format!("network namespaces can't be made ({e})"));
                return None;
            }
        }
        lab.pair("veth0", queues, mtu);
        for (host, number) in [(Host::A, 1), (Host::B, 2)] {
            lab.ip(host, &format!("addr add 10.9.0.{number}/24 dev veth0"));
            lab.ip(host, &format!("addr add fd09::{number}/64 dev veth0 nodad"));
        }
        Some(lab)
    }

    /// The namespace's name.
    pub fn name(&self, host: Host) -> String {
        format!("{}-{}", self.prefix, if host == Host::A { "a" } else { "b" })
    }

    /// Another pair, of the same name on both hosts.
    pub fn pair(&self, device: &str, queues: u32, mtu: u32) {
        let (a, b) = (self.name(Host::A), self.name(Host::B));
        let shape = format!("mtu {mtu} numrxqueues {queues} numtxqueues {queues}");
        run(&format!(
            "ip -n {a} link add {device} {shape} type veth peer name {device} netns {b} {shape}"
        ))
        .expect("a veth pair");
        for host in [Host::A, Host::B] {
            // Nobody speaks up by himself: router solicitations and the like.
            run(&format!(
                "ip netns exec {} sysctl -qw net.ipv6.conf.{device}.router_solicitations=0 \
                 net.ipv6.conf.{device}.mldv2_unsolicited_report_interval=0",
                self.name(host)
            ))
            .ok();
            self.ip(host, &format!("link set {device} addrgenmode none"));
            self.ip(host, &format!("link set {device} up"));
        }
    }

    /// `ip` on a host.
    pub fn ip(&self, host: Host, words: &str) {
        run(&format!("ip -n {} {words}", self.name(host))).expect("ip");
    }

    /// A command on a host.
    pub fn command(&self, host: Host, line: &str) -> Command {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &self.name(host)])
            .args(line.split_whitespace());
        command
    }

    /// Takes the calling thread to a host.
    pub fn enter(&self, host: Host) {
        let file = File::open(format!("/var/run/netns/{}", self.name(host))).expect("the namespace");
        // SAFETY: moves this thread to the namespace behind the descriptor, and touches no memory.
        assert_eq!(unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) }, 0);
    }

    /// The address of a host's device.
    pub fn mac(&self, host: Host, device: &str) -> [u8; 6] {
        self.enter(host);
        xsk::Device::named(device).unwrap().mac().unwrap()
    }

    /// A socket with a program in front of it.
    pub fn end(&self, host: Host, device: &str, queue: u32, make: &Make) -> End {
        let umem = Umem::new(&make.umem).unwrap();
        self.end_over(&umem, host, device, queue, make)
    }

    /// The same over a UMEM that is there.
    pub fn end_over(&self, umem: &Arc<Umem>, host: Host, device: &str, queue: u32, make: &Make) -> End {
        self.enter(host);
        let socket = Socket::bind(umem, device, queue, &make.socket).unwrap();
        let program = Program::attach(device, &make.program).unwrap();
        program.insert(queue, &socket).unwrap();
        End {
            umem: umem.clone(),
            socket,
            program,
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for host in [Host::A, Host::B] {
            run(&format!("ip netns del {}", self.name(host))).ok();
        }
    }
}

/// Namespaces of test programs that don't run any more.
fn remove_stale() {
    for entry in std::fs::read_dir("/var/run/netns").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = name.strip_prefix("xsk-").and_then(|rest| rest.split('-').next());
        if let Some(pid) = pid.and_then(|p| p.parse::<u32>().ok())
            && !std::path::Path::new(&format!("/proc/{pid}")).exists()
        {
            run(&format!("ip netns del {name}")).ok();
        }
    }
}

/// How an end is made.
#[derive(Clone)]
pub struct Make {
    pub umem: UmemConfig,
    pub socket: SocketConfig,
    pub program: ProgramConfig,
}

impl Default for Make {
    fn default() -> Make {
        Make {
            umem: UmemConfig {
                frames: 4096,
                ..UmemConfig::default()
            },
            socket: SocketConfig {
                fill_ring: 1024,
                ..SocketConfig::default()
            },
            program: ProgramConfig::new(Filter::udp(PORTS, [])),
        }
    }
}

impl Make {
    pub fn mode(mut self, mode: ProgramMode) -> Make {
        self.program.mode = mode;
        self
    }
}

/// A socket and its program.
pub struct End {
    pub umem: Arc<Umem>,
    pub socket: Socket,
    pub program: Program,
}

impl End {
    pub fn pool(&self) -> Pool {
        Pool::new(&self.umem, self.umem.config().frames).unwrap()
    }
}

/// Both halves of a socket over a pool, ready to receive.
pub fn over<'p>((socket, pool): (&Socket, &'p Pool)) -> (Rx<'p>, Tx<'p>) {
    let (rx, tx) = socket.split().unwrap();
    let (mut rx, tx) = (rx.over(pool).unwrap(), tx.over(pool).unwrap());
    rx.refill();
    (rx, tx)
}

/// Sends one frame of these bytes.
pub fn send_one<'p>(tx: &mut Tx<'p>, pool: &'p Pool, bytes: &[u8]) {
    let mut frame = pool.allocate_one().unwrap();
    frame.set_len(bytes.len());
    frame.bytes_mut().copy_from_slice(bytes);
    assert_eq!(tx.send([frame]), 1);
    tx.kick().unwrap();
}

/// Pseudo-random numbers (xorshift64*), the same in each run.
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

/// FNV-1a of a frame.
pub fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, &b| {
        (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
    })
}

/// Ethernet, IPv4, UDP (without a checksum) and a random payload, `len` bytes in all.
pub fn udp4(destination: [u8; 6], ip: [u8; 4], port: u16, len: usize, random: &mut Random) -> Vec<u8> {
    assert!(len >= 42);
    let mut frame = vec![0; len];
    frame[0..6].copy_from_slice(&destination);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14..23].copy_from_slice(&[0x45, 0, ((len - 14) >> 8) as u8, (len - 14) as u8, 0, 0, 0, 0, 64]);
    frame[23] = 17;
    frame[26..30].copy_from_slice(&[10, 9, 0, 77]);
    frame[30..34].copy_from_slice(&ip);
    let checksum = checksum(&frame[14..34], 0);
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame[34..36].copy_from_slice(&9999_u16.to_be_bytes());
    frame[36..38].copy_from_slice(&port.to_be_bytes());
    frame[38..40].copy_from_slice(&((len - 34) as u16).to_be_bytes());
    for chunk in frame[42..].chunks_mut(8) {
        let bytes = random.next().to_le_bytes();
        chunk.copy_from_slice(&bytes[..chunk.len()]);
    }
    frame
}

/// RFC 1071, over bytes and what was summed before.
pub fn checksum(bytes: &[u8], start: u32) -> u16 {
    let mut sum = start;
    for pair in bytes.chunks(2) {
        sum += u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Calls until true, at most for a minute.
#[track_caller]
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < end, "not within a minute: {what}");
        std::thread::yield_now();
    }
}

/// An address from text.
pub fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Whether a program can be started.
pub fn has(program: &str) -> bool {
    let there = Command::new("which")
        .arg(program)
        .output()
        .is_ok_and(|o| o.status.success());
    if !there {
        skip(&format!("{program} is not installed"));
    }
    there
}
