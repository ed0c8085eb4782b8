//! A descriptor of a memif's client that does not close, by itself: a test beside this one that starts a program would
//! have that program hold the descriptor for a moment, and be the one that closes it last.

use std::fs::{read_dir, read_to_string};
use std::io::{ErrorKind, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use mpps_tests::{Own, Scratch, add_region, listen_by, mpps, no_dpdk, wait_until};
use rustix::process::Signal;

/// A connection whose one end, once nobody has it open any more, is closed only when the other (the second) goes: what
/// was sent has no room there.
fn lingering() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut near = TcpStream::connect(listener.local_addr().expect("a name")).expect("a connection");
    let (far, _) = listener.accept().expect("a connection");
    near.set_nonblocking(true).expect("our socket");
    loop {
        match near.write(&[0; 65_536]) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
    }
    near.set_nonblocking(false).expect("our socket");
    rustix::net::sockopt::set_socket_linger(&near, Some(Duration::from_secs(3600))).expect("our socket");
    (near, far)
}

/// Lines of `/proc/PID/stat` of all processes, or of one's threads, behind the name: state, parent, …
fn stats(folder: &str) -> Vec<(u32, String)> {
    let entries = read_dir(folder).into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let stat = |id: u32| {
        let text = read_to_string(format!("{folder}/{id}/stat")).ok()?;
        Some((id, text.rsplit_once(") ")?.1.to_owned()))
    };
    numbers.filter_map(stat).collect()
}

#[test]
fn a_descriptor_that_does_not_close_keeps_nothing_open_after_the_run() {
    if no_dpdk() {
        return;
    }
    let (own, scratch) = (Own::new(), Scratch::new());
    let mut server = listen_by(&scratch, mpps(&format!("reflect {}", own.port(0, "server"))));
    let (near, far) = lingering();
    let mut peer = own.introducing();
    // Ours is not the last to be closed: the server may not close its own before.
    server.signal(Signal::STOP);
    let threads = format!("/proc/{}/task", server.id());
    wait_until("a server that stands still", || {
        stats(&threads).iter().all(|(_, stat)| stat.starts_with('T'))
    });
    assert!(peer.say(&add_region(0, 4096), Some(near.as_fd())));
    drop(near);
    server.signal(Signal::CONT);
    while peer.receive().0 != 0 {}
    let parent = server.id().to_string();
    let closer = || {
        let all = stats("/proc");
        let own = all.iter().find(|(_, stat)| stat.split(' ').nth(1) == Some(&parent));
        own.map(|(id, _)| *id)
    };
    let mut waits = None;
    wait_until("a process that waits for the end of it", || {
        waits = closer();
        waits.is_some() || !server.running()
    });
    let waits = format!("/proc/{}/fd", waits.expect("a process"));
    server.signal(Signal::INT);
    wait_until("the end of the run", || !server.running());
    let left = read_dir(&waits).map(|entries| entries.flatten().count());
    drop(far);
    assert_eq!(left.ok(), Some(0));
    let reflected = scratch.read(server.finish());
    assert_eq!(reflected.finished.code, Some(0), "{}", reflected.said());
}
