//! What the tests of the paths over UDP sockets share: opening ports on loopback, and moving frames with a deadline.
//! Each test program says in its `path` which path that is.
#![allow(dead_code, reason = "each test program uses a part")]

use crate::path::{Mode, NAME, PathPort, check, open};
use mpps_io::{Burst, Frame, Port, Queue, Roles, Wait};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub(crate) const RX: Roles = Roles { rx: true, tx: false };
pub(crate) const TX: Roles = Roles { rx: false, tx: true };
pub(crate) const BOTH: Roles = Roles { rx: true, tx: true };

/// After this a test has failed; far beyond what any of them takes.
const DEADLINE: Duration = Duration::from_secs(20);

/// Opens a port of the path; `device` is what stands behind the path's name.
pub(crate) fn port(device: &str, mode: Mode, roles: &[Roles]) -> PathPort {
    try_port(device, mode, roles).expect(device)
}

/// As [`port`], where opening may be refused.
pub(crate) fn try_port(device: &str, mode: Mode, roles: &[Roles]) -> mpps_io::Result<PathPort> {
    let spec = format!("{NAME}:{device}").parse().expect(device);
    open(check(&spec).expect(device), mode, roles)
}

/// A port number of `ip` that nobody uses, and that no other test of this process is given. Below the range that the
/// kernel picks from, so that no socket bound to port 0 takes it.
pub(crate) fn free_port(ip: &str) -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let ip: IpAddr = ip.parse().expect(ip);
    loop {
        let n = NEXT.fetch_add(1, Ordering::Relaxed) + std::process::id() * 611;
        let port = (2000 + n % 30_000) as u16;
        if UdpSocket::bind((ip, port)).is_ok() {
            return port;
        }
    }
}

/// Flows from free ports of `ip` to `to`.
pub(crate) fn connected(ip: &str, to: SocketAddr, flows: usize) -> Mode {
    let src: IpAddr = ip.parse().expect(ip);
    Mode::Connected(
        (0..flows)
            .map(|_| (SocketAddr::new(src, free_port(ip)), to).into())
            .collect(),
    )
}

/// Calls `step` until it is true; panics with `what` after the deadline.
pub(crate) fn until(what: &str, mut step: impl FnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !step() {
        assert!(Instant::now() < end, "deadline passed: {what}");
    }
}

/// The bytes of datagram `i`: `len` of them, no two datagrams alike.
pub(crate) fn pattern(i: usize, len: usize) -> Vec<u8> {
    (0..len)
        .map(|k| (i.wrapping_mul(31) + k.wrapping_mul(7) + (k >> 8) + (i >> 5)) as u8)
        .collect()
}

/// Sends one datagram for each of `frames`: flow and bytes.
pub(crate) fn send_all<Q: Queue>(queue: &mut Q, frames: &[(u32, Vec<u8>)]) {
    let mut burst = Burst::new(mpps_io::MAX_BURST);
    let mut next = 0;
    until("all frames sent", || {
        let n = queue.allocate(&mut burst, frames.len() - next).expect("allocate");
        let first = burst.len() - n;
        for frame in &mut burst.as_mut_slice()[first..] {
            let (flow, bytes) = &frames[next];
            frame.set_flow(*flow);
            frame.set_len(bytes.len());
            frame.bytes_mut().copy_from_slice(bytes);
            next += 1;
        }
        if queue.transmit(&mut burst).expect("transmit") == 0 && !burst.is_empty() {
            queue
                .wait(Wait { rx: false, tx: true }, Duration::from_millis(10))
                .expect("wait");
        }
        next == frames.len() && burst.is_empty()
    });
}

/// Receives `n` datagrams and returns flow and bytes of each.
pub(crate) fn receive_all<Q: Queue>(queue: &mut Q, n: usize) -> Vec<(Option<u32>, Vec<u8>)> {
    receive_while(queue, n, || {})
}

/// As [`receive_all`], while something else is kept going.
pub(crate) fn receive_while<Q: Queue>(queue: &mut Q, n: usize, mut step: impl FnMut()) -> Vec<(Option<u32>, Vec<u8>)> {
    let mut got = Vec::new();
    let mut burst = Burst::new(64);
    until("all frames received", || {
        step();
        if queue.receive(&mut burst).expect("receive") == 0 {
            queue
                .wait(Wait { rx: true, tx: false }, Duration::from_millis(10))
                .expect("wait");
        }
        got.extend(burst.as_slice().iter().map(|f| (f.flow(), f.bytes().to_vec())));
        burst.clear();
        got.len() >= n
    });
    got
}

/// Sends back what has come, once; returns how many datagrams.
pub(crate) fn reflect_once<Q: Queue>(queue: &mut Q) -> usize {
    let mut burst = Burst::new(256);
    queue.receive(&mut burst).expect("receive");
    let n = burst.len();
    until("reflected", || {
        queue.transmit(&mut burst).expect("transmit");
        burst.is_empty()
    });
    n
}

/// A further counter of the path.
pub(crate) fn other(port: &PathPort, queue: usize, name: &str) -> u64 {
    port.counters(queue)
        .other
        .iter()
        .find(|(n, _)| *n == name)
        .map(|(_, v)| *v)
        .expect(name)
}

/// Runs the test `name` again in a network namespace of its own, which goes away with it. True in there; false (or
/// `SKIPPED` printed) outside, where there is nothing more to do.
pub(crate) fn in_own_network(name: &str) -> bool {
    if std::env::var_os("MPPS_SOCKETS_TEST_CHILD").is_some() {
        return true;
    }
    let possible = Command::new("unshare")
        .args(["-n", "ip", "link", "set", "lo", "up"])
        .output();
    if !possible.is_ok_and(|o| o.status.success()) {
        println!("SKIPPED: {name}: no network namespace to be had: needs root, unshare and ip");
        return false;
    }
    let me = std::env::current_exe().expect("own program");
    let output = Command::new("unshare")
        .args(["-n".as_ref(), me.as_os_str()])
        .args(["--exact", name, "--test-threads", "1", "--nocapture"])
        .env("MPPS_SOCKETS_TEST_CHILD", "1")
        .output()
        .expect("child");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // What the child skipped is to be read in the parent's output, too.
    let said = String::from_utf8_lossy(&output.stdout);
    for line in said
        .lines()
        .filter_map(|line| line.find("SKIPPED").map(|at| &line[at..]))
    {
        println!("{line}");
    }
    false
}

/// Runs `ip` with these words.
pub(crate) fn ip(words: &str) {
    assert!(
        Command::new("ip")
            .args(words.split(' '))
            .status()
            .expect("ip")
            .success(),
        "ip {words}"
    );
}
