//! Descriptors that a memif's client passes: none stays with the server that it does not need, and none has it wait.

use std::fs::{read_dir, read_link, read_to_string};
use std::io::pipe;
use std::os::fd::{AsFd, BorrowedFd};

use mpps_tests::{
    Background, Call, MemifPeer, Own, PASSED, REGION, Scratch, add_region, add_ring, denied, init, listen_by, message,
    mpps, no_dpdk, packed, skip, wait_until,
};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::{read, write};
use rustix::process::Signal;

fn reflector(own: &Own, scratch: &Scratch) -> Background {
    listen_by(
        scratch,
        mpps(&format!("reflect {} --ip 10.99.0.2", own.port(0, "server"))),
    )
}

/// What a process has open, by what each is.
fn open(process: &Background) -> Vec<String> {
    let entries = read_dir(format!("/proc/{}/fd", process.id())).expect("a process of ours");
    let names = entries.flatten().filter_map(|entry| read_link(entry.path()).ok());
    names.map(|name| name.display().to_string()).collect()
}

/// Pieces of memory that clients of these tests have passed and that a process has mapped.
fn mapped(process: &Background) -> usize {
    let maps = read_to_string(format!("/proc/{}/maps", process.id())).expect("a process of ours");
    maps.lines().filter(|line| line.contains("memfd:hostile")).count()
}

/// Waits until it has no more open than before, and nothing of a client's mapped.
fn lets_go(process: &mut Background, before: usize) {
    wait_until("a server that has let go of all", || {
        !process.running() || (open(process).len() <= before && mapped(process) == 0)
    });
    assert!(process.running(), "{}", process.stderr());
}

/// It still serves, and ends in good order.
fn assert_well(own: &Own, scratch: &Scratch, reflector: Background) {
    let send = "--src 10.99.0.1 --dest 10.99.0.2:9000 --rate 20kpps --duration 200ms --quiet";
    let report = Scratch::new().measure(mpps(&format!("sendrecv {} {send}", own.port(0, "client"))));
    report.assert_accounted();
    assert!(report.count("rx_packets") > 0, "{:#}", report.json);
    assert_eq!(
        report.count("rx_packets"),
        report.count("tx_packets"),
        "{:#}",
        report.json
    );
    let reflected = scratch.read(reflector.end(Signal::INT));
    assert_eq!(reflected.finished.code, Some(0), "{}", reflected.said());
}

/// The server has ended the connection.
fn ended(peer: &mut MemifPeer) {
    while peer.receive().0 != 0 {}
}

#[test]
fn what_messages_bring_that_take_no_descriptor_is_not_kept() {
    if no_dpdk() {
        return;
    }
    let (own, scratch) = (Own::new(), Scratch::new());
    let mut server = reflector(&own, &scratch);
    let before = open(&server).len();
    let fds = memfd_create("hostile", MemfdFlags::CLOEXEC).expect("memory");
    let many: Vec<BorrowedFd<'_>> = vec![fds.as_fd(); PASSED];
    let mut peers = Vec::new();
    for kind in [message::HELLO, message::INIT, message::ACK, message::CONNECT, 77] {
        let mut peer = own.client();
        let bytes = if kind == message::INIT {
            init()
        } else {
            packed(kind, &[])
        };
        // Each answered or refused, while the connections that it does not end are still there.
        let _ = peer.say_with(&bytes, &many);
        if kind != message::ACK {
            let _ = peer.receive();
        }
        assert!(open(&server).iter().all(|name| !name.contains("hostile")), "{kind}");
        peers.push(peer);
    }
    // Where one is taken, one is.
    drop(peers);
    let mut peer = own.introducing();
    let memory = peer.memory.try_clone().expect("a descriptor");
    let mut with: Vec<BorrowedFd<'_>> = vec![memory.as_fd()];
    with.extend(&many[1..]);
    let _ = peer.say_with(&add_region(0, REGION), &with);
    assert_eq!(peer.receive().0, message::ACK);
    assert!(open(&server).iter().all(|name| !name.contains("hostile")));
    drop(peer);
    lets_go(&mut server, before);
    assert_well(&own, &scratch, server);
}

#[test]
fn a_client_that_leaves_before_it_has_connected_leaves_nothing() {
    if no_dpdk() {
        return;
    }
    let (own, scratch) = (Own::new(), Scratch::new());
    let mut server = reflector(&own, &scratch);
    let before = open(&server).len();
    for round in 0..30 {
        let mut peer = own.introducing();
        let memory = peer.memory.try_clone().expect("a descriptor");
        let event = eventfd(0, EventfdFlags::NONBLOCK).expect("an eventfd");
        for region in 0..4 {
            assert!(peer.ask(&add_region(region, REGION), Some(memory.as_fd())));
        }
        if round % 2 == 0 {
            assert!(peer.ask(&add_ring(0, 0, 0, 0, 10), Some(event.as_fd())));
            assert!(peer.ask(&add_ring(1, 0, 0, 0x8000, 10), Some(event.as_fd())));
        }
    }
    lets_go(&mut server, before);
    assert_well(&own, &scratch, server);
}

#[test]
fn memory_of_huge_pages_is_let_go_of_whatever_length_was_said() {
    if no_dpdk() {
        return;
    }
    let Ok(huge) = memfd_create("hostile", MemfdFlags::CLOEXEC | MemfdFlags::HUGETLB) else {
        return skip("this kernel has no huge pages");
    };
    let page = rustix::fs::fstatfs(&huge).expect("its file system").f_bsize as u64;
    ftruncate(&huge, page).expect("a length");
    let (own, scratch) = (Own::new(), Scratch::new());
    let mut server = reflector(&own, &scratch);
    let before = open(&server).len();
    let mut peer = own.client();
    assert!(peer.ask(&init(), None));
    assert!(peer.ask(&add_region(0, page / 2 + 4096), Some(huge.as_fd())));
    let _ = peer.say(&add_region(1, page + 4096), Some(huge.as_fd()));
    ended(&mut peer);
    lets_go(&mut server, before);
    assert_well(&own, &scratch, server);
}

#[test]
fn what_is_no_memory_or_no_eventfd_is_refused() {
    if no_dpdk() {
        return;
    }
    let (own, scratch) = (Own::new(), Scratch::new());
    let mut server = reflector(&own, &scratch);
    let before = open(&server).len();
    let (reader, writer) = pipe().expect("a pipe");
    let file = std::fs::File::open("/proc/version").expect("a file");
    let on_disk = std::fs::File::open(mpps_tests::program()).expect("the program");
    let event = eventfd(0, EventfdFlags::NONBLOCK).expect("an eventfd");
    for fd in [
        reader.as_fd(),
        writer.as_fd(),
        file.as_fd(),
        on_disk.as_fd(),
        event.as_fd(),
    ] {
        let mut peer = own.introducing();
        assert!(!peer.ask(&add_region(0, 4096), Some(fd)));
        ended(&mut peer);
    }
    for fd in [reader.as_fd(), writer.as_fd(), file.as_fd(), on_disk.as_fd()] {
        let mut peer = own.introducing();
        let memory = peer.memory.try_clone().expect("a descriptor");
        assert!(peer.ask(&add_region(0, REGION), Some(memory.as_fd())));
        assert!(!peer.ask(&add_ring(1, 0, 0, 0, 10), Some(fd)));
        ended(&mut peer);
    }
    lets_go(&mut server, before);
    assert_well(&own, &scratch, server);
}

/// From 10.99.0.1:10000 to 10.99.0.2:9000, to the MAC address 02:00:00:00:00:02, 18 bytes of data.
const SEND: &str =
    "--src 10.99.0.1 --dest 10.99.0.2:9000 --dest-mac 02:00:00:00:00:02 --rate 2kpps --duration 1h --quiet";

#[test]
fn a_reader_that_sleeps_is_woken_and_a_full_eventfd_holds_no_lane_up() {
    if no_dpdk() {
        return;
    }
    let (own, scratch) = (Own::new(), Scratch::new());
    let command = scratch.results(mpps(&format!("sendrecv {} {SEND}", own.port(0, "server"))));
    let mut sender = Background::start(command);
    let peer = own.introduced();
    // Buffers for what the server sends; its reader has not said that it polls.
    peer.set_head(1, 1024);
    let event = &peer.events[1];
    let mut count = [0; 8];
    wait_until("a wake", || read(event, &mut count).is_ok() || !sender.running());
    assert!(sender.running(), "{}", sender.stderr());
    // More than this it never can hold.
    let full = (u64::MAX - 1).to_ne_bytes();
    wait_until("an eventfd that is full", || {
        let _ = read(event, &mut count);
        write(event, &full).is_ok()
    });
    rustix::fs::fcntl_setfl(event, rustix::fs::OFlags::empty()).expect("our descriptor");
    let begun = peer.tail(1);
    wait_until("packets all the same", || {
        peer.set_head(1, peer.tail(1).wrapping_add(1024));
        peer.tail(1).wrapping_sub(begun) > 200 || !sender.running()
    });
    assert!(sender.running(), "{}", sender.stderr());
    sender.end(Signal::INT);
}

#[test]
fn clients_that_say_nothing_are_few_and_do_not_stay() {
    if no_dpdk() {
        return;
    }
    let (own, scratch) = (Own::new(), Scratch::new());
    let mut server = reflector(&own, &scratch);
    let before = open(&server).len();
    let mut silent: Vec<MemifPeer> = Vec::new();
    for _ in 0..100 {
        silent.push(own.client());
    }
    // Half way, as far as one may get without a word about memory.
    let mut half = own.introducing();
    wait_until("a server that keeps few", || {
        open(&server).len() <= before + 20 || !server.running()
    });
    // None of the first is there any more, and in time none at all.
    ended(&mut half);
    silent.iter_mut().for_each(ended);
    lets_go(&mut server, before);
    assert_well(&own, &scratch, server);
}

#[test]
fn where_nobody_can_be_woken_a_run_says_so_and_goes_on() {
    if no_dpdk() {
        return;
    }
    let (own, scratch) = (Own::new(), Scratch::new());
    let command = scratch.results(mpps(&format!("sendrecv {} {SEND}", own.port(0, "server"))));
    let Some(command) = denied(Call::IoSetup, &command) else {
        return;
    };
    let mut sender = Background::start(command);
    let peer = own.introduced();
    let begun = peer.tail(1);
    // It has not said that it polls.
    wait_until("packets all the same", || {
        peer.set_head(1, peer.tail(1).wrapping_add(1024));
        peer.tail(1).wrapping_sub(begun) > 200 || !sender.running()
    });
    assert!(sender.running(), "{}", sender.stderr());
    let finished = sender.end(Signal::INT);
    assert!(finished.stderr.contains("fs.aio-max-nr"), "{}", finished.stderr);
    assert!(!finished.stderr.contains("broke its rules"), "{}", finished.stderr);
}

#[test]
fn where_no_process_can_be_had_to_close_a_descriptor_the_run_ends_by_that() {
    if no_dpdk() {
        return;
    }
    let (own, scratch) = (Own::new(), Scratch::new());
    let Some(command) = denied(Call::CloneShared, &mpps(&format!("reflect {}", own.port(0, "server")))) else {
        return;
    };
    let mut server = listen_by(&scratch, command);
    let mut peer = own.introducing();
    let file = std::fs::File::open("/proc/version").expect("a file");
    let _ = peer.say(&add_region(0, 4096), Some(file.as_fd()));
    ended(&mut peer);
    wait_until("the end of the run", || !server.running());
    let reflected = scratch.read(server.finish());
    assert_eq!(reflected.finished.code, Some(3), "{}", reflected.said());
    assert!(reflected.said().contains("no process left"), "{}", reflected.said());
}
