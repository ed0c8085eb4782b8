//! Two hosts joined by a veth pair: anonymous network namespaces, which are gone with the process however it ends.
#![allow(dead_code, unreachable_pub)] // each test binary uses its part

use mpps_af_packet::{AfPacketFrame, AfPacketPort, AfPacketQueue, GuardFilter, check};
use mpps_io::{Burst, Frame, PortSpec, Queue, Roles, Wait};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

pub const MAC_A: [u8; 6] = [2, 0, 0, 0, 0, 0xa];
pub const MAC_B: [u8; 6] = [2, 0, 0, 0, 0, 0xb];
pub const IP_A: [u8; 4] = [10, 88, 0, 1];
pub const IP_B: [u8; 4] = [10, 88, 0, 2];
pub const BOTH: Roles = Roles { rx: true, tx: true };

/// Longest that any condition is waited for.
pub const DEADLINE: Duration = Duration::from_secs(10);

/// Host A with interface `va`, host B with `vb`.
pub struct Lab {
    pub a: Namespace,
    pub b: Namespace,
}

pub struct Namespace {
    file: File,
    tid: i32,
    // Dropping the sender ends the thread that keeps the thread id, by which `ip` names the namespace.
    _keep: mpsc::Sender<()>,
}

impl Namespace {
    fn new() -> Option<Self> {
        let (send, receive) = mpsc::channel();
        let (keep, kept) = mpsc::channel::<()>();
        thread::spawn(move || {
            // SAFETY: affects this thread only; no memory is passed.
            let made = unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0;
            let file = made.then(|| File::open("/proc/thread-self/ns/net").expect("open own namespace"));
            // SAFETY: no preconditions.
            let _ = send.send((file, unsafe { libc::gettid() }));
            let _ = kept.recv();
        });
        let (file, tid) = receive.recv().expect("namespace thread");
        Some(Self {
            file: file?,
            tid,
            _keep: keep,
        })
    }

    /// Runs `f` on this thread, inside the namespace.
    pub fn run<T>(&self, f: impl FnOnce() -> T) -> T {
        let home = File::open("/proc/thread-self/ns/net").expect("open own namespace");
        enter(&self.file);
        let result = f();
        enter(&home);
        result
    }

    /// Runs `ip ARGS` inside.
    pub fn ip(&self, args: &str) {
        let out = self.run(|| {
            Command::new("ip")
                .args(args.split_whitespace())
                .output()
                .expect("run ip")
        });
        assert!(
            out.status.success(),
            "ip {args}: {}",
            String::from_utf8_lossy(&out.stderr)
        );
    }

    /// A command that will run inside: `run` it there.
    pub fn output(&self, program: &str, args: &str) -> (bool, String) {
        let out = self.run(|| {
            Command::new(program)
                .args(args.split_whitespace())
                .output()
                .expect(program)
        });
        (out.status.success(), String::from_utf8_lossy(&out.stdout).into_owned())
    }

    pub fn open(&self, spec: &str, roles: &[Roles], guard: Option<GuardFilter>) -> mpps_io::Result<AfPacketPort> {
        let config = check(&spec.parse::<PortSpec>().expect("spec")).expect("config");
        self.run(|| AfPacketPort::open(&config, roles, guard.as_slice()))
    }
}

fn enter(namespace: &File) {
    // SAFETY: a descriptor that we own; affects this thread only.
    let entered = unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) };
    assert_eq!(entered, 0, "setns: {}", std::io::Error::last_os_error());
}

impl Lab {
    /// The lab with the addresses assigned; `None` after printing why when this host or user can't have it.
    pub fn new() -> Option<Self> {
        let lab = Self::bare()?;
        lab.a.ip("address add 10.88.0.1/24 dev va");
        lab.b.ip("address add 10.88.0.2/24 dev vb");
        Some(lab)
    }

    /// The lab without addresses: the hosts' stacks have nothing to say.
    pub fn bare() -> Option<Self> {
        let Some((a, b)) = Namespace::new().zip(Namespace::new()) else {
            println!("SKIPPED: network namespaces need root (CAP_SYS_ADMIN)");
            return None;
        };
        a.ip(&format!(
            "link add va address 02:00:00:00:00:0a type veth peer name vb address 02:00:00:00:00:0b netns {}",
            b.tid
        ));
        // No IPv6: its own chatter would mix with the test's packets.
        for (host, name) in [(&a, "va"), (&b, "vb")] {
            host.ip(&format!("link set {name} addrgenmode none"));
            host.ip(&format!("link set {name} up"));
            host.ip("link set lo up");
        }
        Some(Self { a, b })
    }

    /// Both ends open, one queue each, guard off.
    pub fn ports(&self, options: &str) -> (AfPacketPort, AfPacketPort) {
        let open = |host: &Namespace, name| {
            host.open(&format!("af_packet:{name}{options}"), &[BOTH], None)
                .expect("open")
        };
        (open(&self.a, "va"), open(&self.b, "vb"))
    }
}

/// An Ethernet frame with IPv4 and UDP; `id` fills the payload. No UDP checksum.
pub fn udp(dst_mac: [u8; 6], dst: [u8; 4], sport: u16, dport: u16, payload: usize, id: u64) -> Vec<u8> {
    let mut f = Vec::new();
    f.extend(dst_mac);
    f.extend(MAC_A);
    f.extend([8, 0]);
    let total = (28 + payload) as u16;
    let mut ip = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0];
    ip[2..4].copy_from_slice(&total.to_be_bytes());
    ip.extend(IP_A);
    ip.extend(dst);
    let sum: u32 = ip
        .chunks_exact(2)
        .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])))
        .sum();
    let folded = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&folded.to_be_bytes());
    f.extend(ip);
    f.extend(sport.to_be_bytes());
    f.extend(dport.to_be_bytes());
    f.extend((total - 20).to_be_bytes());
    f.extend([0, 0]);
    f.extend(id.to_le_bytes().iter().cycle().take(payload));
    f
}

/// Sends all of `frames`, waiting for room; panics after the deadline.
pub fn send(queue: &mut AfPacketQueue<'_>, frames: &[Vec<u8>]) {
    let end = Instant::now() + DEADLINE;
    for chunk in frames.chunks(64) {
        let mut burst = Burst::new(64);
        assert_eq!(queue.allocate(&mut burst, chunk.len()).expect("allocate"), chunk.len());
        for (frame, bytes) in burst.as_mut_slice().iter_mut().zip(chunk) {
            frame.set_len(bytes.len());
            frame.bytes_mut().copy_from_slice(bytes);
        }
        while !burst.is_empty() {
            assert!(Instant::now() < end, "could not send");
            if queue.transmit(&mut burst).expect("transmit") == 0 {
                queue
                    .wait(Wait { rx: false, tx: true }, Duration::from_millis(10))
                    .expect("wait");
            }
        }
    }
}

/// Receives until `n` frames are there, or the deadline, or for `n` = 0 nothing came for 100 ms.
pub fn receive<T>(queue: &mut AfPacketQueue<'_>, n: usize, mut each: impl FnMut(&AfPacketFrame<'_>) -> T) -> Vec<T> {
    let end = Instant::now() + if n == 0 { Duration::from_millis(100) } else { DEADLINE };
    let mut got = Vec::new();
    let mut burst = Burst::new(64);
    while (n == 0 || got.len() < n) && Instant::now() < end {
        if queue.receive(&mut burst).expect("receive") == 0 {
            queue
                .wait(Wait { rx: true, tx: false }, Duration::from_millis(10))
                .expect("wait");
        }
        got.extend(burst.as_slice().iter().map(&mut each));
        burst.clear();
    }
    got
}
