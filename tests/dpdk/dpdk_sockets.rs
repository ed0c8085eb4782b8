//! The file of a memif's socket: only what a server of this user's has left there is removed, and nobody is waited for.

use std::os::unix::fs::{FileTypeExt, chown};
use std::os::unix::net::UnixListener;
use std::path::Path;

use mpps_tests::{Own, Scratch, listen_by, mpps, no_dpdk, run_command};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, accept, bind, connect, listen, socket};
use rustix::process::Signal;

/// A server that is to make its socket at a file where something is: refused, with the name.
fn assert_refused(own: &Own, code: i32, said: &str) {
    let finished = run_command(mpps(&format!("reflect {} --duration 1h", own.port(0, "server"))));
    assert_eq!(finished.code, Some(code), "{}", finished.stderr);
    let line = format!("socket={}: ", own.name());
    assert!(
        finished.stderr.contains(&line) && finished.stderr.contains(said),
        "{}",
        finished.stderr
    );
    assert!(std::fs::symlink_metadata(own.name()).is_ok(), "{said}");
}

#[test]
fn what_is_no_socket_stays() {
    if no_dpdk() {
        return;
    }
    let own = Own::new();
    std::fs::write(own.name(), "precious").expect("a file");
    assert_refused(&own, 2, "no socket");
    assert_eq!(std::fs::read_to_string(own.name()).expect("a file"), "precious");
    std::fs::remove_file(own.name()).expect("our file");
    let target = Scratch::new();
    std::fs::write(target.file("x"), "precious").expect("a file");
    std::os::unix::fs::symlink(target.file("x"), own.name()).expect("a link");
    assert_refused(&own, 2, "no socket");
    assert!(target.file("x").exists());
}

#[test]
fn a_socket_that_somebody_listens_on_stays_whatever_its_type_and_whether_or_not_they_accept() {
    if no_dpdk() {
        return;
    }
    let own = Own::new();
    let stream = UnixListener::bind(own.name()).expect("a listener");
    assert_refused(&own, 1, "another process listens there");
    drop(stream);
    std::fs::remove_file(own.name()).expect("our socket");
    let new = |kind| socket(AddressFamily::UNIX, kind, None).expect("a socket");
    let address = SocketAddrUnix::new(own.name()).expect("a path");
    let datagrams = new(SocketType::DGRAM);
    bind(&datagrams, &address).expect("a free name");
    assert_refused(&own, 1, "another process listens there");
    drop(datagrams);
    std::fs::remove_file(own.name()).expect("our socket");
    let packets = new(SocketType::SEQPACKET);
    bind(&packets, &address).expect("a free name");
    listen(&packets, 0).expect("a listener");
    // Nobody has come to it: DPDK 22.11 aborts when one comes and goes.
    assert_refused(&own, 1, "another process listens there");
    rustix::io::ioctl_fionbio(&packets, true).expect("our socket");
    assert_eq!(accept(&packets).map(drop), Err(Errno::AGAIN));
    // Its queue is full: the next would wait.
    let queued = new(SocketType::SEQPACKET);
    connect(&queued, &address).expect("a place");
    assert_refused(&own, 1, "another process listens there");
}

#[test]
fn several_servers_of_one_run_share_a_socket_and_each_has_its_client() {
    if no_dpdk() {
        return;
    }
    let (own, scratch, there) = (Own::new(), Scratch::new(), Scratch::new());
    let server = own.port(0, "server");
    let second = format!("{},id=1", own.port(1, "server"));
    let forwarder = listen_by(&scratch, mpps(&format!("forward {server} {second}")));
    let client = format!("{},id=1", own.port(0, "client"));
    let reflector = listen_by(&there, mpps(&format!("reflect {client} --ip 10.99.0.2")));
    let send = "--src 10.99.0.1 --dest 10.99.0.2:9000 --rate 20kpps --duration 200ms --quiet";
    let report = Scratch::new().measure(mpps(&format!("sendrecv {} {send}", own.port(0, "client"))));
    report.assert_accounted();
    assert!(report.count("rx_packets") > 0, "{:#}", report.json);
    for (scratch, program) in [(&there, reflector), (&scratch, forwarder)] {
        let ended = scratch.read(program.end(Signal::INT));
        assert_eq!(ended.finished.code, Some(0), "{}", ended.said());
    }
    assert!(!Path::new(&own.name()).exists());
}

#[test]
fn a_socket_of_another_users_stays() {
    if no_dpdk() {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        return mpps_tests::skip("only root can give a file away");
    }
    let own = Own::new();
    drop(UnixListener::bind(own.name()).expect("a listener"));
    chown(own.name(), Some(65_534), Some(65_534)).expect("root may give away");
    assert_refused(&own, 1, "a socket of user 65534");
}

#[test]
fn a_socket_that_a_killed_server_has_left_is_replaced() {
    if no_dpdk() {
        return;
    }
    for kind in [SocketType::SEQPACKET, SocketType::STREAM] {
        let (own, scratch) = (Own::new(), Scratch::new());
        let left = socket(AddressFamily::UNIX, kind, None).expect("a socket");
        bind(&left, &SocketAddrUnix::new(own.name()).expect("a path")).expect("a free name");
        drop(left);
        let reflector = listen_by(&scratch, mpps(&format!("reflect {}", own.port(0, "server"))));
        let there = std::fs::symlink_metadata(own.name()).expect("a socket");
        assert!(there.file_type().is_socket());
        drop(own.introduced());
        let reflected = scratch.read(reflector.end(Signal::INT));
        assert_eq!(reflected.finished.code, Some(0), "{}", reflected.said());
        assert!(!Path::new(&own.name()).exists());
    }
}

#[test]
fn a_secret_stands_neither_in_the_results_nor_in_what_is_said() {
    if no_dpdk() {
        return;
    }
    let (own, scratch) = (Own::new(), Scratch::new());
    let port = format!("{},secret=xyzzy", own.port(0, "server"));
    let reflector = listen_by(&scratch, mpps(&format!("reflect {port}")));
    let finished = reflector.end(Signal::INT);
    let json = std::fs::read_to_string(scratch.file("run.json")).expect("results");
    assert!(json.contains("secret=…"), "{json}");
    let wrong = run_command(mpps(&format!("reflect {port},rolle=x")));
    let twice = run_command(mpps(&format!("reflect {port},secret=xyzzy")));
    for said in [json, finished.stdout, finished.stderr, wrong.stderr, twice.stderr] {
        assert!(!said.contains("xyzzy"), "{said}");
    }
}
