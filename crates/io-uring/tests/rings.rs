//! What can go wrong with rings, and that no packet and no buffer is lost by it.

#[path = "../../udp/tests/common/mod.rs"]
mod common;
/// The path that the tests are of.
mod path {
    pub(crate) const NAME: &str = "io_uring";
    pub(crate) use mpps_io_uring::{Mode, UringPort as PathPort, check, open};
}
use common::*;
use mpps_io::{Burst, ErrorKind, Frame, Port, Queue, Roles, Wait};
use mpps_io_uring::{Mode, UringPool, UringPort, UringQueue};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

/// A listener of these options on a free port, and where it is.
fn listener(options: &str, roles: &[Roles]) -> (UringPort, SocketAddr) {
    let listen = free_port("127.0.0.1");
    let port = port(&format!("127.0.0.1:{listen}{options}"), Mode::Listening, roles);
    (port, SocketAddr::from(([127, 0, 0, 1], listen)))
}

fn sender(options: &str, to: SocketAddr, flows: usize) -> UringPort {
    port(
        &format!("127.0.0.1{options}"),
        connected("127.0.0.1", to, flows),
        &[BOTH],
    )
}

fn assert_exact(queue: &UringQueue<'_>) {
    let audit = queue.audit();
    assert!(audit.is_exact(), "{audit}");
}

fn assert_all_free(pool: &UringPool) {
    assert_eq!(pool.free_buffers().count(), pool.buffers() as usize);
    let mut free: Vec<_> = pool.free_buffers().collect();
    free.sort_unstable();
    free.dedup();
    assert_eq!(free.len(), pool.buffers() as usize);
}

#[test]
fn completions_that_overflow_bring_every_packet_all_the_same() {
    for way in ["interrupt", "coop", "defer"] {
        let (rx, to) = listener(&format!(",cq=16,sends=1,buffers=1024,taskrun={way}"), &[RX]);
        let pool = rx.pool(0).expect("pool");
        let mut queue = rx.queue(0, &pool).expect("queue");
        let client = UdpSocket::bind("127.0.0.1:0").expect("bind");
        // More than completions fit, while nobody takes them. Each call of this thread lets the kernel work for it.
        for i in 0..700 {
            client.send_to(&pattern(i, 60), to).expect("send");
        }
        let got = receive_all(&mut queue, 700);
        assert!(
            got.iter().enumerate().all(|(i, (_, bytes))| *bytes == pattern(i, 60)),
            "{way}"
        );
        assert_exact(&queue);
        assert_eq!(rx.counters(0).rx_dropped, 0);
        if way == "interrupt" {
            assert!(other(&rx, 0, "cq_overflows") > 0, "{:?}", rx.counters(0));
        }
        assert_eq!(other(&rx, 0, "completions_lost"), 0);
        drop(queue);
        assert_all_free(&pool);
    }
}

#[test]
fn a_burst_has_all_that_the_socket_keeps() {
    let ways = ["taskrun=interrupt", "taskrun=coop", "taskrun=defer", "multishot=off"];
    for way in ways {
        let (rx, to) = listener(&format!(",{way}"), &[RX]);
        let pool = rx.pool(0).expect("pool");
        let mut queue = rx.queue(0, &pool).expect("queue");
        let client = UdpSocket::bind("127.0.0.1:0").expect("bind");
        // On the loopback device a datagram is in the socket when the call that sends it returns.
        for i in 0..200 {
            client.send_to(&pattern(i, 60), to).expect("send");
        }
        let mut burst = Burst::new(256);
        assert_eq!(queue.receive(&mut burst).expect("receive"), 200, "{way}");
        assert!(
            (0..)
                .zip(burst.as_slice())
                .all(|(i, frame)| frame.bytes() == pattern(i, 60)),
            "{way}"
        );
        assert_exact(&queue);
        // And no more than there is room for.
        drop(burst);
        for i in 0..100 {
            client.send_to(&pattern(i, 60), to).expect("send");
        }
        let mut burst = Burst::new(40);
        assert_eq!(queue.receive(&mut burst).expect("receive"), 40, "{way}");
        assert_eq!(receive_all(&mut queue, 60).len(), 60, "{way}");
    }
}

#[test]
fn buffers_that_run_dry_hold_packets_back_in_the_socket_and_are_counted() {
    for options in [",buffers=16", ",buffers=16,gro=on", ",buffers=16,multishot=off"] {
        let (rx, to) = listener(options, &[RX]);
        let pool = rx.pool(0).expect("pool");
        let mut queue = rx.queue(0, &pool).expect("queue");
        let client = UdpSocket::bind("127.0.0.1:0").expect("bind");
        let mut next = 0;
        for round in 0..5 {
            let first = round * 2500;
            for i in first..first + 2500 {
                client.send_to(&pattern(i, 20), to).expect("send");
            }
            // All that come are held, so that none can be provided again.
            let mut held = Vec::new();
            loop {
                let mut burst = Burst::new(64);
                if queue.receive(&mut burst).expect("receive") == 0 && queue.receive(&mut burst).expect("receive") == 0
                {
                    break;
                }
                held.push(burst);
            }
            assert_exact(&queue);
            let here: Vec<Vec<u8>> = held
                .iter()
                .flat_map(|b| b.as_slice().iter().map(|f| f.bytes().to_vec()))
                .collect();
            assert!(here.len() < 2500, "{options}: {} held", here.len());
            drop(held);
            let rest = receive_all(&mut queue, 2500 - here.len());
            for bytes in here.into_iter().chain(rest.into_iter().map(|(_, bytes)| bytes)) {
                assert_eq!(bytes, pattern(next, 20), "{options}");
                next += 1;
            }
            assert_exact(&queue);
        }
        // A single request is armed when there is a buffer for it, and not before.
        let dry = other(&rx, 0, "no_buffers");
        assert_eq!(
            dry > 0,
            !options.contains("multishot=off"),
            "{options}: {:?}",
            rx.counters(0)
        );
        assert_eq!(rx.counters(0).rx_dropped, 0);
        drop(queue);
        assert_all_free(&pool);
    }
}

#[test]
fn a_queue_that_is_dropped_gives_every_buffer_back_and_leaves_packets_in_the_socket() {
    for options in ["", ",zerocopy=1", ",sqpoll=20", ",multishot=off,direct=off"] {
        let (echo, to) = listener(options, &[BOTH]);
        let client = sender(options, to, 3);
        let (echo_pool, pool) = (echo.pool(0).expect("pool"), client.pool(0).expect("pool"));
        let mut got = Vec::new();
        // Every queue is dropped with requests armed, sends under way and packets received and not handed out.
        for round in 0..30usize {
            let mut queue = client.queue(0, &pool).expect("queue");
            let sent: Vec<_> = (0..100)
                .map(|i| (i % 3, pattern(round * 100 + i as usize, 80)))
                .collect();
            send_all(&mut queue, &sent);
            let mut echo_queue = echo.queue(0, &echo_pool).expect("queue");
            reflect_once(&mut echo_queue);
            let mut burst = Burst::new(5);
            queue.receive(&mut burst).expect("receive");
            got.extend(burst.as_slice().iter().map(|f| f.bytes().to_vec()));
            assert_exact(&queue);
            assert_exact(&echo_queue);
            drop(burst);
            drop((queue, echo_queue));
            assert_all_free(&pool);
            assert_all_free(&echo_pool);
        }
        // None was refused, and none sent by halves.
        let (c, e) = (client.counters(0), echo.counters(0));
        assert_eq!(
            (c.tx_failed, e.tx_failed, c.rx_dropped, e.rx_dropped),
            (0, 0, 0, 0),
            "{options}"
        );
    }
}

/// Descriptors that are open, and bytes of memory that are there.
fn possessions() -> (usize, usize) {
    let descriptors = std::fs::read_dir("/proc/self/fd").expect("a list").count();
    let statm = std::fs::read_to_string("/proc/self/statm").expect("statm");
    let pages: usize = statm.split(' ').nth(1).expect("a number").parse().expect("a number");
    (descriptors, pages * 4096)
}

#[test]
fn a_thousand_ports_opened_and_closed_leave_no_descriptor_and_no_memory_behind() {
    // Alone in its process: other tests open and close theirs.
    let name = "a_thousand_ports_opened_and_closed_leave_no_descriptor_and_no_memory_behind";
    if std::env::var_os("MPPS_URING_TEST_CHILD").is_none() {
        let me = std::env::current_exe().expect("own program");
        let output = std::process::Command::new(me)
            .args(["--exact", name, "--test-threads", "1", "--nocapture"])
            .env("MPPS_URING_TEST_CHILD", "1")
            .output()
            .expect("child");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let listen = free_port("127.0.0.1");
    let to = SocketAddr::from(([127, 0, 0, 1], listen));
    let flows = connected("127.0.0.1", to, 2);
    let cycle = |i: usize| {
        // The same ports of the host each time: a ring that outlived its queue would hold them.
        let rx = port(&format!("127.0.0.1:{listen}"), Mode::Listening, &[RX]);
        let options = ["", ",zerocopy=1", ",gso=on,gro=on", ",multishot=off"][i % 4];
        let tx = port(&format!("127.0.0.1{options}"), flows.clone(), &[BOTH]);
        let (rx_pool, tx_pool) = (rx.pool(0).expect("pool"), tx.pool(0).expect("pool"));
        let mut rx_queue = rx.queue(0, &rx_pool).expect("queue");
        let mut tx_queue = tx.queue(0, &tx_pool).expect("queue");
        send_all(&mut tx_queue, &[(0, pattern(i, 64)), (1, pattern(i, 64))]);
        if !i.is_multiple_of(3) {
            receive_all(&mut rx_queue, 2);
        }
    };
    (0..50).for_each(cycle);
    let before = possessions();
    (0..1000).for_each(cycle);
    let after = possessions();
    assert_eq!(before.0, after.0, "descriptors");
    assert!(after.1 < before.1 + (2 << 20), "{} bytes became {}", before.1, after.1);
}

#[test]
fn a_full_socket_holds_the_lane_back_and_every_packet_goes_once_there_is_room() {
    let name = "a_full_socket_holds_the_lane_back_and_every_packet_goes_once_there_is_room";
    if !in_own_network(name) {
        return;
    }
    ip("link add name mpps-a type veth peer name mpps-b");
    ip("addr add 10.0.0.1/24 dev mpps-a");
    ip("link set mpps-a up");
    ip("link set mpps-b address 02:00:00:00:00:02 up");
    let received = || {
        let text = std::fs::read_to_string("/proc/net/dev").expect("statistics");
        let (_, line) = text.split_once("mpps-b:").expect("the interface");
        line.split_whitespace()
            .next()
            .expect("a number")
            .parse::<u64>()
            .expect("a number")
    };
    let to = SocketAddr::from(([10, 0, 0, 2], 9));
    for options in ["", ",sqpoll=20", ",taskrun=interrupt"] {
        ip("neigh flush dev mpps-a");
        let tx = port(
            &format!("10.0.0.1,sndbuf=8K{options}"),
            connected("10.0.0.1", to, 1),
            &[TX],
        );
        let pool = tx.pool(0).expect("pool");
        let mut queue = tx.queue(0, &pool).expect("queue");
        // Nobody answers for the address: packets wait for that, and count against the socket's buffer.
        let mut burst = Burst::new(40);
        queue.allocate(&mut burst, 40).expect("allocate");
        burst.as_mut_slice().iter_mut().for_each(|f| f.set_len(1000));
        until("the socket is full", || {
            queue.transmit(&mut burst).expect("transmit");
            queue.flush().expect("flush");
            other(&tx, 0, "tx_again") > 0
        });
        let audit = queue.audit();
        assert!(audit.is_exact() && audit.sending > 0, "{options}: {audit}");
        // Nothing new is taken, and the wait ends when its time is over.
        let left = burst.len();
        assert_eq!(queue.transmit(&mut burst).expect("transmit"), 0);
        queue
            .wait(Wait { rx: false, tx: true }, Duration::from_millis(1))
            .expect("wait");
        assert_eq!(burst.len(), left);
        let before = received();
        ip("neigh replace 10.0.0.2 lladdr 02:00:00:00:00:02 nud permanent dev mpps-a");
        until("all are sent", || {
            queue.transmit(&mut burst).expect("transmit");
            queue
                .wait(Wait { rx: false, tx: true }, Duration::from_millis(10))
                .expect("wait");
            queue.flush().expect("flush");
            burst.is_empty() && queue.audit().sending == 0
        });
        until("all have arrived", || received() >= before + 40 * 1042);
        assert_eq!(tx.counters(0).tx_failed, 0, "{options}");
        drop(queue);
        assert_all_free(&pool);
        ip("neigh del 10.0.0.2 dev mpps-a");
    }
}

#[test]
fn what_was_never_sent_when_the_queue_goes_is_counted_as_not_sent() {
    let name = "what_was_never_sent_when_the_queue_goes_is_counted_as_not_sent";
    if !in_own_network(name) {
        return;
    }
    ip("link add name mpps-a type veth peer name mpps-b");
    ip("addr add 10.0.0.1/24 dev mpps-a");
    ip("link set mpps-a up");
    ip("link set mpps-b up");
    let to = SocketAddr::from(([10, 0, 0, 2], 9));
    let tx = port("10.0.0.1,sndbuf=8K", connected("10.0.0.1", to, 1), &[TX]);
    let pool = tx.pool(0).expect("pool");
    let mut queue = tx.queue(0, &pool).expect("queue");
    let mut burst = Burst::new(40);
    queue.allocate(&mut burst, 40).expect("allocate");
    burst.as_mut_slice().iter_mut().for_each(|f| f.set_len(1000));
    queue.transmit(&mut burst).expect("transmit");
    let waiting = queue.audit().sending;
    assert!(waiting > 0);
    drop(burst);
    drop(queue);
    assert_eq!(tx.counters(0).tx_failed, waiting);
    assert_eq!(other(&tx, 0, "unsent_at_close"), waiting);
    assert_all_free(&pool);
}

#[test]
fn a_socket_that_the_host_destroys_ends_the_run_with_an_error() {
    let name = "a_socket_that_the_host_destroys_ends_the_run_with_an_error";
    if !in_own_network(name) {
        return;
    }
    ip("link set lo up");
    let (rx, to) = listener("", &[RX]);
    let pool = rx.pool(0).expect("pool");
    let mut queue = rx.queue(0, &pool).expect("queue");
    let filter = format!("( sport = :{} )", to.port());
    let killed = std::process::Command::new("ss")
        .args(["-K", "-u", "-a", &filter])
        .output();
    let client = UdpSocket::bind("127.0.0.1:0").expect("bind");
    client.send_to(b"is it there", to).expect("send");
    let mut burst = Burst::new(8);
    let mut error = None;
    until("a packet or an error", || match queue.receive(&mut burst) {
        Ok(n) => n > 0,
        Err(e) => {
            error = Some(e);
            true
        }
    });
    if let Some(error) = error {
        assert_ne!(error.kind, ErrorKind::LinkDown, "{error}");
    } else {
        println!("SKIPPED: {name}: ss -K destroyed no socket (CONFIG_INET_DIAG_DESTROY): {killed:?}");
    }
    assert_exact(&queue);
    drop(burst);
    drop(queue);
    assert_all_free(&pool);
}

/// Puts /dev/null in the place of the socket's descriptor.
fn close_behind_its_back(socket: SocketAddr) {
    let text = std::fs::read_to_string("/proc/self/net/udp").expect("the sockets");
    let local = format!(":{:04X}", socket.port());
    let line = text.lines().find(|line| {
        let address = line.split_whitespace().nth(1);
        address.is_some_and(|address| address.ends_with(&local))
    });
    let inode = line
        .and_then(|line| line.split_whitespace().nth(9))
        .expect("the socket");
    let link = format!("socket:[{inode}]");
    let mut descriptors = std::fs::read_dir("/proc/self/fd").expect("a list").flatten();
    let found = descriptors.find(|entry| std::fs::read_link(entry.path()).is_ok_and(|to| to.as_os_str() == &*link));
    let name = found.expect("a descriptor").file_name();
    let descriptor: i32 = name.to_str().and_then(|name| name.parse().ok()).expect("a number");
    let null = std::fs::File::open("/dev/null").expect("/dev/null");
    // SAFETY: both descriptors are open, and whoever owns the second closes it once.
    let moved = unsafe { libc::dup2(std::os::fd::AsRawFd::as_raw_fd(&null), descriptor) };
    assert_eq!(moved, descriptor);
}

#[test]
fn a_socket_that_is_closed_behind_a_lane_ends_the_run_with_an_error_unless_the_ring_has_it() {
    // Alone in its process: no other test may get the descriptor.
    let name = "a_socket_that_is_closed_behind_a_lane_ends_the_run_with_an_error_unless_the_ring_has_it";
    if !in_own_network(name) {
        return;
    }
    ip("link set lo up");
    // What is under way when the descriptor goes still ends as it should; what is asked for afterwards can't.
    for (options, packets) in [(",direct=off,multishot=off", 1), (",direct=on,multishot=off", 10)] {
        let (rx, to) = listener(options, &[RX]);
        let pool = rx.pool(0).expect("pool");
        let mut queue = rx.queue(0, &pool).expect("queue");
        close_behind_its_back(to);
        let client = UdpSocket::bind("127.0.0.1:0").expect("bind");
        for i in 0..packets {
            client.send_to(&pattern(i, 60), to).expect("send");
            let got = receive_all(&mut queue, 1);
            assert_eq!(got[0].1, pattern(i, 60), "{options}");
        }
        let mut burst = Burst::new(8);
        if packets == 1 {
            until("an error", || match queue.receive(&mut burst) {
                Ok(received) => received > 0,
                Err(error) => {
                    assert!(error.to_string().contains("receive on io_uring socket"), "{error}");
                    true
                }
            });
        }
        assert!(burst.is_empty());
        assert_exact(&queue);
        drop(queue);
        assert_all_free(&pool);
    }
}

#[test]
fn rings_come_and_go_while_packets_arrive() {
    let (rx, to) = listener("", &[RX]);
    let pool = rx.pool(0).expect("pool");
    const ALL: usize = 20_000;
    let sending = std::thread::spawn(move || {
        let client = UdpSocket::bind("127.0.0.1:0").expect("bind");
        for i in 0..ALL {
            client.send_to(&(i as u32).to_be_bytes(), to).expect("send");
        }
    });
    let mut seen = vec![false; ALL];
    let mut burst = Burst::new(64);
    until("all sent", || {
        let mut queue = rx.queue(0, &pool).expect("queue");
        for _ in 0..20 {
            queue.receive(&mut burst).expect("receive");
            for frame in burst.as_slice() {
                let i = u32::from_be_bytes(frame.bytes().try_into().expect("four bytes")) as usize;
                assert!(!std::mem::replace(&mut seen[i], true), "{i} came twice");
            }
            burst.clear();
        }
        drop(queue);
        assert_all_free(&pool);
        sending.is_finished()
    });
    sending.join().expect("sender");
    // What a queue had received and not handed out goes with it, and is counted; the rest is still in the socket, or
    // the socket says that it dropped it.
    let mut queue = rx.queue(0, &pool).expect("queue");
    while queue.receive(&mut burst).expect("receive") > 0 {
        for frame in burst.as_slice() {
            let i = u32::from_be_bytes(frame.bytes().try_into().expect("four bytes")) as usize;
            assert!(!std::mem::replace(&mut seen[i], true), "{i} came twice");
        }
        burst.clear();
    }
    let came = seen.iter().filter(|seen| **seen).count() as u64;
    let known = came + rx.counters(0).rx_dropped + other(&rx, 0, "rx_unread_at_close");
    assert_eq!(known, ALL as u64);
}

#[test]
fn what_a_kernel_or_a_datagram_can_not_have_is_refused_by_name() {
    let refused = |options: &str| {
        let to = SocketAddr::from(([127, 0, 0, 1], 9));
        let refused = try_port(&format!("127.0.0.1{options}"), connected("127.0.0.1", to, 1), &[BOTH]);
        refused.err().expect(options)
    };
    let error = refused(",zerocopy_rx=on");
    assert_eq!(error.kind, ErrorKind::Unsupported);
    let text = error.to_string();
    assert!(text.contains("zerocopy_rx=on") && text.contains("TCP"), "{text}");
    let text = refused(",taskrun=defer,sqpoll=10").to_string();
    assert!(text.contains("taskrun=defer") && text.contains("sqpoll="), "{text}");
    let text = refused(",sqpoll=10,sqpoll_cpu=4000").to_string();
    assert!(!text.contains('\n') && text.contains("io_uring"), "{text}");
}

#[test]
fn many_sockets_complete_in_one_ring() {
    let (echo, to) = listener("", &[BOTH]);
    let client = sender(",sockets=500", to, 400);
    let (echo_pool, pool) = (echo.pool(0).expect("pool"), client.pool(0).expect("pool"));
    let mut echo_queue = echo.queue(0, &echo_pool).expect("queue");
    let mut queue = client.queue(0, &pool).expect("queue");
    for round in 0..3 {
        let sent: Vec<_> = (0..400).map(|f| (f, pattern(round * 400 + f as usize, 30))).collect();
        send_all(&mut queue, &sent);
        let mut echoed = 0;
        until("echoed", || {
            echoed += reflect_once(&mut echo_queue);
            echoed == 400
        });
        let mut got = receive_all(&mut queue, 400);
        got.sort();
        for (f, (flow, bytes)) in (0..).zip(got) {
            assert_eq!((flow, bytes), (Some(f), pattern(round * 400 + f as usize, 30)));
        }
    }
    assert_exact(&queue);
    // One call for a burst, not one for each socket: 3 rounds of 400 packets sent and received.
    assert!(other(&client, 0, "system_calls") < 400, "{:?}", client.counters(0));
}
