//! Whoever is at the other end of a memif writes what it likes into the shared memory and the control channel: mpps
//! never dies of it, touches no memory but what was shared, and says what happened.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use mpps_tests::{
    Background, Finished, Group, Hierarchy, Memif, MemifPeer, Own, REGION, Scratch, add_region, add_ring, init,
    listen_by, message, mpps, no_dpdk, packed, wait_until,
};
use rustix::event::{EventfdFlags, eventfd};
use rustix::process::Signal;

/// From 10.99.0.1:10000 to 10.99.0.2:9000, 18 bytes of data, no UDP checksum.
fn frame() -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    let mut ip = [0x45, 0, 0, 46, 0, 1, 0, 0, 64, 17, 0, 0, 10, 99, 0, 1, 10, 99, 0, 2];
    let sum: u32 = ip
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]))
        .sum();
    let folded = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&folded.to_be_bytes());
    bytes.extend(ip);
    bytes.extend([0x27, 0x10, 0x23, 0x28, 0, 26, 0, 0]);
    bytes.extend([0; 18]);
    bytes
}

/// It has ended by itself, and says in one line what the other end did.
fn assert_told(finished: &Finished, scratch: &Scratch, context: &str) {
    let json = std::fs::read_to_string(scratch.file("run.json")).unwrap_or_default();
    let said = format!("{json}{}", finished.stderr);
    assert!(
        matches!(finished.code, Some(1 | 3)),
        "{context}: {:?}: {said}",
        finished.code
    );
    assert!(said.contains("broke its rules"), "{context}: {said}");
}

type Forge = fn(&MemifPeer);

/// Everything that a client can write wrong about packets it sends, with whatever makes the server look at it.
const SENT: [(&str, Forge); 10] = [
    ("a region that there is not", |peer| {
        peer.describe_all(0, (0, 1, 60, 0));
        peer.set_head(0, 8);
    }),
    ("a region beyond any", |peer| {
        peer.describe_all(0, (0, 65535, 60, 0));
        peer.set_head(0, 8);
    }),
    ("an offset beyond the memory", |peer| {
        peer.describe_all(0, (0, 0, 60, 0xffff_ff00));
        peer.set_head(0, 8);
    }),
    ("a packet that begins in the memory and ends behind it", |peer| {
        peer.describe_all(0, (0, 0, 2048, REGION as u32 - 60));
        peer.set_head(0, 8);
    }),
    ("a length beyond the memory", |peer| {
        peer.describe_all(0, (0, 0, 0xffff_ffff, 0));
        peer.set_head(0, 8);
    }),
    ("a bad descriptor behind good ones of one packet", |peer| {
        peer.describe(0, 0, (1, 0, 60, 0x10000));
        peer.describe(0, 1, (1, 0, 60, 0x10000));
        peer.describe(0, 2, (0, 9, 60, 0x10000));
        peer.set_head(0, 8);
    }),
    ("a packet without an end", |peer| {
        peer.describe_all(0, (1, 0, 60, 0x10000));
        peer.set_head(0, 1024);
    }),
    ("a packet of two halves that are too long together", |peer| {
        peer.describe_all(0, (0, 0, 40_000, 0x10000));
        peer.describe(0, 0, (1, 0, 40_000, 0x10000));
        peer.set_head(0, 8);
    }),
    ("a head further than the ring is long", |peer| peer.set_head(0, 40_000)),
    ("memory that is cut short", |peer| {
        peer.set_head(0, 8);
        peer.memory.set_len(0).expect("our file");
    }),
];

/// Likewise about the buffers that it offers to the server.
const OFFERED: [(&str, Forge); 5] = [
    ("a region that there is not", |peer| {
        peer.describe_all(1, (0, 1, 2048, 0));
        peer.set_head(1, 1024);
    }),
    ("an offset beyond the memory", |peer| {
        peer.describe_all(1, (0, 0, 2048, 0xffff_ff00));
        peer.set_head(1, 1024);
    }),
    ("small buffers beyond the memory", |peer| {
        peer.describe_all(1, (0, 0, 7, REGION as u32 - 3));
        peer.set_head(1, 1024);
    }),
    ("a head further than the ring is long", |peer| peer.set_head(1, 40_000)),
    ("memory that is cut short", |peer| {
        peer.set_head(1, 1024);
        peer.memory.set_len(4096).expect("our file");
    }),
];

#[test]
fn a_listener_that_is_sent_forged_packets_ends_and_says_why() {
    if no_dpdk() {
        return;
    }
    for command in ["reflect", "drop --no-verify", "forward", "capture -o /dev/null"] {
        for (what, forge) in SENT {
            let (own, other, scratch) = (Own::new(), Own::new(), Scratch::new());
            let mut words = format!("{command} {}", own.port(0, "server"));
            if command == "forward" {
                words = format!("{command} {} {}", own.port(0, "server"), other.port(1, "server"));
            }
            let listener = listen_by(&scratch, mpps(&words));
            let peer = own.introduced();
            forge(&peer);
            assert_told(&listener.finish(), &scratch, &format!("{command}: {what}"));
        }
    }
}

#[test]
fn whoever_sends_into_forged_buffers_ends_and_says_why() {
    if no_dpdk() {
        return;
    }
    for (what, forge) in OFFERED {
        let (own, scratch) = (Own::new(), Scratch::new());
        let reflector = listen_by(&scratch, mpps(&format!("reflect {}", own.port(0, "server"))));
        let peer = own.introduced();
        // Something to send back.
        peer.put(&frame());
        forge(&peer);
        peer.set_head(0, 1);
        assert_told(&reflector.finish(), &scratch, &format!("reflect: {what}"));

        let (own, scratch) = (Own::new(), Scratch::new());
        let words =
            "--src 10.99.0.1 --dest 10.99.0.2:9000 --dest-mac 02:00:00:00:00:02 --rate 20kpps --duration 1h --quiet";
        let command = scratch.results(mpps(&format!("sendrecv {} {words}", own.port(0, "server"))));
        let sender = Background::start(command);
        let peer = own.introduced();
        forge(&peer);
        assert_told(&sender.finish(), &scratch, &format!("sendrecv: {what}"));
    }
}

/// What a server can write wrong into its client's memory.
const ANSWERED: [(&str, Forge); 7] = [
    ("a packet in a region that there is not", |peer| {
        peer.describe_all(1, (0, 3, 60, 0));
        peer.set_tail(1, 8);
    }),
    ("a packet beyond the memory", |peer| {
        peer.describe_all(1, (0, 0, 60, 0xffff_ff00));
        peer.set_tail(1, 8);
    }),
    ("a packet longer than the memory", |peer| {
        peer.describe_all(1, (0, 0, 0x8000_0000, 0));
        peer.set_tail(1, 8);
    }),
    ("a packet without an end", |peer| {
        peer.describe_all(1, (1, 0, 60, 0x10000));
        peer.set_tail(1, 1024);
    }),
    ("more packets than there are buffers", |peer| peer.set_tail(1, 50_000)),
    ("packets sent that never were", |peer| peer.set_tail(0, 50_000)),
    ("a buffer of the client's beyond the memory", |peer| {
        peer.describe_all(0, (0, 0, 2048, 0xffff_ff00));
        peer.set_tail(0, peer.tail(0));
    }),
];

#[test]
fn a_client_whose_server_forges_ends_and_says_why() {
    if no_dpdk() {
        return;
    }
    let send = "--src 10.99.0.1 --dest 10.99.0.2:9000 --dest-mac 02:00:00:00:00:02 --rate 20kpps --duration 1h";
    for (what, forge) in ANSWERED {
        let (own, scratch) = (Own::new(), Scratch::new());
        let words = format!("sendrecv {} {send} --quiet", own.port(0, "client"));
        let path = PathBuf::from(own.name());
        let server = thread::spawn(move || MemifPeer::serve(&path));
        let client = Background::start(scratch.results(mpps(&words)));
        let mut peer = server.join().expect("a client");
        assert!(peer.say(&packed(message::CONNECTED, &[]), None));
        wait_until("packets of the client", || client_has_sent(&peer));
        forge(&peer);
        assert_told(&client.finish(), &scratch, &format!("sendrecv as a client: {what}"));
    }
}

/// The client has moved the head of the ring that it sends by, or it has no room: either way it runs.
fn client_has_sent(peer: &MemifPeer) -> bool {
    peer.head(0) > 0
}

type Said = fn(&mut MemifPeer, BorrowedFd<'_>);

/// Messages that break the protocol, or ask for what would be wrong; each after a good `HELLO` of the server.
const MESSAGES: [(&str, Said); 17] = [
    ("a region before anything", |peer, fd| {
        let _ = peer.say(&add_region(0, REGION), Some(fd));
    }),
    ("a hello to a server", |peer, _| {
        let _ = peer.say(&packed(message::HELLO, &[]), None);
    }),
    ("a message cut short", |peer, _| {
        let _ = peer.say(&init()[..40], None);
    }),
    ("connected, as if it were the server", |peer, _| {
        let _ = peer.ask(&init(), None) && peer.say(&packed(message::CONNECTED, &[]), None);
    }),
    ("a region larger than its file", |peer, fd| {
        let _ = peer.ask(&init(), None) && peer.ask(&add_region(0, 1 << 40), Some(fd));
    }),
    ("a region without a file", |peer, _| {
        let _ = peer.ask(&init(), None) && peer.ask(&add_region(0, REGION), None);
    }),
    ("a region that is no file", |peer, _| {
        let event = eventfd(0, EventfdFlags::NONBLOCK).expect("an eventfd");
        let _ = peer.ask(&init(), None) && peer.ask(&add_region(0, REGION), Some(event.as_fd()));
    }),
    ("regions out of order", |peer, fd| {
        let _ = peer.ask(&init(), None) && peer.ask(&add_region(7, REGION), Some(fd));
    }),
    ("a ring outside its region", |peer, fd| {
        ring(peer, fd, &[add_ring(0, 0, 0, REGION as u32 - 64, 10)])
    }),
    ("a ring in no region", |peer, fd| {
        ring(peer, fd, &[add_ring(0, 0, 60_000, 0, 10)])
    }),
    ("a ring of 2^200", |peer, fd| {
        ring(peer, fd, &[add_ring(0, 0, 0, 0, 200)])
    }),
    ("a region a thousand times as large as its rings need", |peer, fd| {
        connect_with(peer, fd, &[1 << 34])
    }),
    ("a region of a TiB", |peer, fd| connect_with(peer, fd, &[1 << 40])),
    ("regions that are too large together", |peer, fd| {
        connect_with(peer, fd, &[1 << 20; 40])
    }),
    ("the same ring again and again", |peer, fd| {
        ring(peer, fd, &[add_ring(0, 0, 0, 0, 10); 300])
    }),
    ("memory that is cut short before it connects", |peer, fd| {
        let _ = peer.ask(&init(), None)
            && peer.ask(&add_region(0, REGION), Some(fd))
            && peer.ask(&add_ring(0, 0, 0, 0, 10), Some(fd));
        peer.memory.set_len(0).expect("our file");
        let _ = peer.say(&packed(message::CONNECT, &[]), None);
    }),
    ("a ring that moves once connected", |peer, fd| {
        if peer.introduce() {
            let _ = peer.ask(&add_ring(0, 0, 0, REGION as u32 - 64, 10), Some(fd));
        }
    }),
];

/// All that a good client says, with regions of these sizes in a file that has room for the largest.
fn connect_with(peer: &mut MemifPeer, fd: BorrowedFd<'_>, sizes: &[u64]) {
    let largest = sizes.iter().max().expect("a region");
    peer.memory.set_len(*largest).expect("a file with a hole");
    let good = peer.ask(&init(), None)
        && (0..)
            .zip(sizes)
            .all(|(index, &size)| peer.ask(&add_region(index, size), Some(fd)))
        && [0, 1].into_iter().all(|kind| {
            let event = eventfd(0, EventfdFlags::NONBLOCK).expect("an eventfd");
            let ring = add_ring(kind, 0, 0, 0x8000 * u32::from(kind), 10);
            peer.ask(&ring, Some(event.as_fd()))
        });
    assert!(good, "all of that is in order");
    assert!(!peer.say(&packed(message::CONNECT, &[]), None) || peer.receive().0 != message::CONNECTED);
}

#[test]
fn a_client_may_share_what_its_rings_need_and_a_hole_beyond_it_is_no_memory_of_the_listeners() {
    if no_dpdk() {
        return;
    }
    let (own, scratch) = (Own::new(), Scratch::new());
    let reflector = listen_by(&scratch, mpps(&format!("reflect {},bsize=9216", own.port(0, "server"))));
    for (size, may) in [(32 << 20, true), (33 << 20, false)] {
        let mut peer = own.client();
        let memory = peer.memory.try_clone().expect("a descriptor");
        memory.set_len(size).expect("a file with a hole");
        let good = peer.ask(&init(), None) && peer.ask(&add_region(0, size), Some(memory.as_fd()));
        let event = eventfd(0, EventfdFlags::NONBLOCK).expect("an eventfd");
        let mut ring = |kind: u16| peer.ask(&add_ring(kind, 0, 0, 0x8000 * u32::from(kind), 10), Some(event.as_fd()));
        assert!(good && ring(0) && ring(1), "{size}");
        let connected = peer.say(&packed(message::CONNECT, &[]), None) && peer.receive().0 == message::CONNECTED;
        assert_eq!(connected, may, "{size}");
    }
    let reflected = scratch.read(reflector.end(Signal::INT));
    assert_eq!(
        reflected.json["lanes"][0]["path_counters"]["memif_refused"], 1,
        "{:#}",
        reflected.json
    );
}

#[test]
fn a_client_that_the_memory_limit_of_the_listener_has_no_room_for_is_refused() {
    if no_dpdk() {
        return;
    }
    let Some(group) = Group::new("memory", "memif") else {
        return;
    };
    let limit = match group.hierarchy {
        Hierarchy::One => "memory.limit_in_bytes",
        Hierarchy::Two => "memory.max",
    };
    let (own, scratch) = (Own::new(), Scratch::new());
    let words = format!("reflect {},bsize=9216", own.port(0, "server"));
    let reflector = listen_by(&scratch, group.hold(&mpps(&words)));
    // What an earlier client has kept counts as used: here as if that had been all but 20 MiB.
    if !group.put(limit, &(group.memory_used() + (20 << 20)).to_string()) {
        return;
    }
    for (size, may) in [(16 << 20, false), (1 << 20, true)] {
        let mut peer = own.client();
        let memory = peer.memory.try_clone().expect("a descriptor");
        memory.set_len(size).expect("a file with a hole");
        let good = peer.ask(&init(), None) && peer.ask(&add_region(0, size), Some(memory.as_fd()));
        let event = eventfd(0, EventfdFlags::NONBLOCK).expect("an eventfd");
        let mut ring = |kind: u16| peer.ask(&add_ring(kind, 0, 0, 0x8000 * u32::from(kind), 10), Some(event.as_fd()));
        assert!(good && ring(0) && ring(1), "{size}");
        let connected = peer.say(&packed(message::CONNECT, &[]), None) && peer.receive().0 == message::CONNECTED;
        assert_eq!(connected, may, "{size}");
    }
    let reflected = scratch.read(reflector.end(Signal::INT));
    let refused = &reflected.json["lanes"][0]["path_counters"]["memif_refused"];
    assert_eq!(*refused, 1, "{:#}", reflected.json);
}

fn ring(peer: &mut MemifPeer, fd: BorrowedFd<'_>, rings: &[[u8; 128]]) {
    let _ = peer.ask(&init(), None) && peer.ask(&add_region(0, REGION), Some(fd));
    for ring in rings {
        if !peer.ask(ring, Some(fd)) {
            return;
        }
    }
    let _ = peer.say(&packed(message::CONNECT, &[]), None) && peer.receive().0 != 0;
}

#[test]
fn a_server_that_is_told_nonsense_lets_go_of_who_said_it_and_takes_the_next() {
    if no_dpdk() {
        return;
    }
    let (own, scratch) = (Own::new(), Scratch::new());
    let mut reflector = listen_by(
        &scratch,
        mpps(&format!("reflect {} --ip 10.99.0.2", own.port(0, "server"))),
    );
    for (what, say) in MESSAGES {
        let mut peer = own.client();
        let memory = peer.memory.try_clone().expect("a descriptor");
        say(&mut peer, memory.as_fd());
        // It has let go.
        while peer.receive().0 != 0 {}
        assert!(reflector.running(), "{what}: {}", reflector.stderr());
    }
    let send = "--src 10.99.0.1 --dest 10.99.0.2:9000 --rate 20kpps --duration 200ms --quiet";
    let report = Scratch::new().measure(mpps(&format!("sendrecv {} {send}", own.port(0, "client"))));
    report.assert_accounted();
    assert_eq!(
        report.count("rx_packets"),
        report.count("tx_packets"),
        "{:#}",
        report.json
    );
    let reflected = scratch.read(reflector.end(Signal::INT));
    assert_eq!(reflected.finished.code, Some(0), "{}", reflected.said());
    let refused = reflected.json["lanes"][0]["path_counters"]["memif_refused"].as_u64();
    assert!(refused >= Some(10), "{:#}", reflected.json);
}

#[test]
fn a_server_outlives_clients_that_go_before_it_has_spoken() {
    if no_dpdk() {
        return;
    }
    let (own, scratch) = (Own::new(), Scratch::new());
    let mut reflector = listen_by(&scratch, mpps(&format!("reflect {}", own.port(0, "server"))));
    for _ in 0..3 {
        reflector.signal(Signal::STOP);
        assert!(MemifPeer::come_and_go(&PathBuf::from(own.name())));
        reflector.signal(Signal::CONT);
        let rows = scratch.rows_so_far();
        wait_until("rows after it", || {
            scratch.rows_so_far() >= rows + 3 || !reflector.running()
        });
        assert!(reflector.running(), "{}", reflector.stderr());
    }
    drop(own.introduced());
    let reflected = scratch.read(reflector.end(Signal::INT));
    assert_eq!(reflected.finished.code, Some(0), "{}", reflected.said());
}

#[test]
fn a_server_ends_in_good_order_while_clients_come_and_go_and_say_nothing() {
    if no_dpdk() {
        return;
    }
    for _ in 0..6 {
        let (own, scratch) = (Own::new(), Scratch::new());
        let reflector = listen_by(&scratch, mpps(&format!("reflect {}", own.port(0, "server"))));
        let (connected, silent) = (own.introduced(), own.client());
        let ended = AtomicBool::new(false);
        let path = PathBuf::from(own.name());
        let finished = thread::scope(|scope| {
            scope.spawn(|| {
                // One disconnects as the server does.
                thread::sleep(Duration::from_millis(1));
                drop(connected);
                while !ended.load(Ordering::Relaxed) {
                    let _ = MemifPeer::come_and_go(&path);
                }
            });
            let finished = reflector.end(Signal::INT);
            ended.store(true, Ordering::Relaxed);
            finished
        });
        drop(silent);
        let reflected = scratch.read(finished);
        assert_eq!(reflected.finished.code, Some(0), "{}", reflected.said());
    }
}

#[test]
fn a_client_waits_for_a_server_that_is_stopped_no_longer_than_it_says() {
    if no_dpdk() {
        return;
    }
    let (own, scratch) = (Own::new(), Scratch::new());
    let reflector = listen_by(&scratch, mpps(&format!("reflect {}", own.port(0, "server"))));
    reflector.signal(Signal::STOP);
    let words = "--src 10.99.0.1 --dest 10.99.0.2:9000 --dest-mac 02:00:00:00:00:02 --duration 100ms --quiet";
    // The socket takes a few connections that nobody accepts.
    for _ in 0..4 {
        let port = own.port(0, "client");
        let finished = mpps_tests::run_command(mpps(&format!("sendrecv {port},link_wait=1 {words}")));
        assert_eq!(finished.code, Some(1), "{}", finished.stderr);
    }
    reflector.signal(Signal::CONT);
    reflector.end(Signal::INT);
}

#[test]
fn two_processes_of_one_user_meet_without_a_name_and_a_killed_server_does_not_stand_in_the_way() {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt};
    if no_dpdk() {
        return;
    }
    // A folder of the test's own in place of the session's, where nobody else's memif is. Root has none but /run/mpps.
    let session = Scratch::new();
    std::fs::set_permissions(session.path(), std::fs::Permissions::from_mode(0o777)).expect("our folder");
    let as_nobody = rustix::process::geteuid().is_root() && mpps_tests::has("setpriv");
    if rustix::process::geteuid().is_root() && !as_nobody {
        return mpps_tests::skip("setpriv is not installed (package util-linux)");
    }
    let copy = session.file("program");
    std::fs::copy(mpps_tests::program(), &copy).expect("a copy of the program");
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o755)).expect("our copy");
    let folder = session.file("session");
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).expect("our folder");
    if as_nobody {
        std::os::unix::fs::chown(&folder, Some(65534), Some(65534)).expect("our folder");
    }
    let run = |words: &str| {
        let mut command = match as_nobody {
            true => {
                let mut command = Command::new("setpriv");
                command.args([
                    "--reuid",
                    "65534",
                    "--regid",
                    "65534",
                    "--clear-groups",
                    "--inh-caps=-all",
                ]);
                command.arg(&copy);
                command
            }
            false => Command::new(&copy),
        };
        command.env("XDG_RUNTIME_DIR", &folder).args(words.split_whitespace());
        command.args(["--eal", "--no-huge"]);
        command
    };
    let socket = folder.join("mpps/memif.sock");
    for end in [Signal::KILL, Signal::INT] {
        let reflector = Background::ready(run("reflect dpdk:net_memif0,role=server --ip 10.99.0.2 --plain"));
        let meta = std::fs::metadata(&socket).expect("a socket");
        assert!(meta.file_type().is_socket());
        assert_eq!(meta.permissions().mode() & 0o777, 0o600);
        let folder_mode = std::fs::metadata(folder.join("mpps"))
            .expect("a folder")
            .permissions()
            .mode();
        assert_eq!(folder_mode & 0o777, 0o700);
        let words = "sendrecv dpdk:net_memif0 --src 10.99.0.1 --dest 10.99.0.2:9000 --rate 10kpps --duration 100ms \
                     --json - --quiet";
        let sent = mpps_tests::run_command(run(words));
        let json: serde_json::Value = serde_json::from_str(&sent.stdout).unwrap_or_else(|_| panic!("{}", sent.stderr));
        assert!(json["rx_packets"].as_u64() > Some(0), "{json:#}");
        assert_eq!(json["rx_packets"], json["tx_packets"], "{json:#}");
        assert!(!reflector.stderr().contains("every user"), "{}", reflector.stderr());
        reflector.end(end);
    }
    assert!(!socket.exists());
}

#[test]
fn a_socket_that_every_user_can_reach_is_remarked_on() {
    if no_dpdk() {
        return;
    }
    let memif = Memif::new();
    let reflector = Background::ready(mpps(&format!("reflect {}", memif.server(0))));
    assert!(
        reflector.stderr().contains("every user of this host can connect"),
        "{}",
        reflector.stderr()
    );
    reflector.end(Signal::INT);
}
