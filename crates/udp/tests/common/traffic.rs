//! Datagrams arrive as they were sent, where they should: what holds for each path over UDP sockets.

use crate::common::*;
use crate::path::Mode;
use mpps_io::{Burst, Frame, Port, Queue, RoomUnit};
use mpps_sys::clock::monotonic_ns;
use std::collections::HashSet;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

pub(crate) fn one_way(ip: &str, tx_options: &str, rx_options: &str, sizes: &[usize]) {
    let bracketed = if ip.contains(':') {
        format!("[{ip}]")
    } else {
        ip.to_owned()
    };
    let listen = free_port(ip);
    let rx = port(&format!("{bracketed}:{listen}{rx_options}"), Mode::Listening, &[RX]);
    let to = SocketAddr::new(ip.parse().expect(ip), listen);
    let tx = port(&format!("{ip}{tx_options}"), connected(ip, to, 1), &[TX]);
    let (rx_pool, tx_pool) = (rx.pool(0).expect("pool"), tx.pool(0).expect("pool"));
    let (mut rx_queue, mut tx_queue) = (
        rx.queue(0, &rx_pool).expect("queue"),
        tx.queue(0, &tx_pool).expect("queue"),
    );
    for (round, part) in sizes.chunks(200).enumerate() {
        let sent: Vec<_> = part
            .iter()
            .enumerate()
            .map(|(i, &len)| (0, pattern(round * 200 + i, len)))
            .collect();
        send_all(&mut tx_queue, &sent);
        let got = receive_while(&mut rx_queue, sent.len(), || tx_queue.flush().expect("flush"));
        assert_eq!(got.len(), sent.len());
        for (i, (sent, got)) in sent.iter().zip(&got).enumerate() {
            assert_eq!(got.0, None);
            assert!(
                sent.1 == got.1,
                "datagram {i} of round {round}: {} bytes sent, {} came",
                sent.1.len(),
                got.1.len()
            );
        }
    }
    assert_eq!(rx.counters(0).rx_dropped, 0);
}

/// Every size from 16 to 1472, first in runs of equal ones, then all mixed, empty and single-byte ones among them.
pub(crate) fn all_sizes() -> Vec<usize> {
    let runs = (16..=1472).step_by(56).flat_map(|len| std::iter::repeat_n(len, 130));
    let mixed = (0..1457).map(|i| 16 + i * 613 % 1457);
    let pairs = (16..=1472).flat_map(|len| [len, len]);
    let odd = [0, 0, 1, 0, 1, 1, 1472, 0, 64, 64, 64, 0, 64, 64, 63, 64, 65, 65];
    runs.chain(mixed).chain(pairs).chain(odd).collect()
}

#[test]
fn datagrams_arrive_bit_identical_and_in_order() {
    one_way("127.0.0.1", "", "", &all_sizes());
}

#[test]
fn datagrams_arrive_bit_identical_over_ipv6() {
    one_way("::1", "", "", &all_sizes());
}

#[test]
fn segmented_and_coalesced_datagrams_of_all_sizes_arrive_bit_identical() {
    one_way("127.0.0.1", ",gso=on", ",gro=on", &all_sizes());
}

#[test]
fn segmented_and_coalesced_datagrams_arrive_bit_identical_over_ipv6() {
    one_way("::1", ",gso=on", ",gro=on", &all_sizes());
}

#[test]
fn segmented_datagrams_arrive_at_a_socket_that_does_not_coalesce() {
    one_way("127.0.0.1", ",gso=on", "", &all_sizes());
}

#[test]
fn single_datagrams_arrive_at_a_socket_that_coalesces() {
    one_way("127.0.0.1", "", ",gro=on", &all_sizes());
}

#[test]
fn the_largest_datagram_passes() {
    one_way("127.0.0.1", "", "", &[65_507, 65_507]);
    one_way(
        "127.0.0.1",
        ",gso=on",
        ",gro=on",
        &[65_507, 65_507, 30_000, 30_000, 30_000],
    );
}

#[test]
fn many_flows_over_two_lanes_come_back_to_the_lane_that_owns_them() {
    let listen = free_port("127.0.0.1");
    let echo = port(&format!("127.0.0.1:{listen}"), Mode::Listening, &[BOTH]);
    let to = SocketAddr::from(([127, 0, 0, 1], listen));
    for roles in [vec![BOTH, BOTH], vec![TX, RX, TX, RX]] {
        let port = port("127.0.0.1", connected("127.0.0.1", to, 64), &roles);
        let pools: Vec<_> = (0..roles.len()).map(|i| port.pool(i).expect("pool")).collect();
        let mut queues: Vec<_> = pools
            .iter()
            .enumerate()
            .map(|(i, p)| port.queue(i, p).expect("queue"))
            .collect();
        let echo_pool = echo.pool(0).expect("pool");
        let mut echo_queue = echo.queue(0, &echo_pool).expect("queue");
        let senders: Vec<usize> = (0..roles.len()).filter(|&i| roles[i].tx).collect();
        let receivers: Vec<usize> = (0..roles.len()).filter(|&i| roles[i].rx).collect();
        for (nth, &lane) in senders.iter().enumerate() {
            let flows = (0..64).filter(|f| f % 2 == nth as u32);
            let sent: Vec<_> = flows
                .flat_map(|f| (0..3).map(move |i| (f, pattern(f as usize * 3 + i, 64))))
                .collect();
            send_all(&mut queues[lane], &sent);
        }
        let mut echoed = 0;
        until("echoed", || {
            echoed += reflect_once(&mut echo_queue);
            echoed == 192
        });
        let mut seen = HashSet::new();
        for (nth, &lane) in receivers.iter().enumerate() {
            for (flow, bytes) in receive_all(&mut queues[lane], 96) {
                let flow = flow.expect("flow");
                assert_eq!(flow % 2, nth as u32, "flow {flow} came to lane {lane}");
                let i = (0..3)
                    .find(|i| pattern(flow as usize * 3 + i, 64) == bytes)
                    .expect("bytes of this flow");
                assert!(seen.insert((flow, i)), "twice: flow {flow} datagram {i}");
            }
        }
        assert_eq!(seen.len(), 192);
    }
}

pub(crate) fn comes_back(bind: &str, hit: &str, options: &str) {
    let listen = free_port(hit);
    let echo = port(&format!("{bind}:{listen}{options}"), Mode::Listening, &[BOTH]);
    let pool = echo.pool(0).expect("pool");
    let mut queue = echo.queue(0, &pool).expect("queue");
    let to = SocketAddr::new(hit.parse().expect(hit), listen);
    let clients: Vec<UdpSocket> = (0..3)
        .map(|_| {
            let any = if to.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" };
            let socket = UdpSocket::bind(any).expect("bind");
            // Connected: an answer from another address than the one hit would not be delivered.
            socket.connect(to).expect("connect");
            socket.set_nonblocking(true).expect("nonblocking");
            socket
        })
        .collect();
    for i in 0..60 {
        clients[i % 3].send(&pattern(i, 100 + i % 2)).expect("send");
    }
    let mut echoed = 0;
    until("echoed", || {
        echoed += reflect_once(&mut queue);
        echoed == 60
    });
    let mut buffer = [0; 2048];
    for i in 0..60 {
        until("answer", || match clients[i % 3].recv(&mut buffer) {
            Ok(n) => {
                assert_eq!(buffer[..n], pattern(i, 100 + i % 2));
                true
            }
            Err(_) => false,
        });
    }
}

#[test]
fn what_a_listener_sends_back_returns_to_its_sender() {
    comes_back("127.0.0.1", "127.0.0.1", "");
    comes_back("[::1]", "::1", "");
}

#[test]
fn what_a_segmenting_listener_sends_back_returns_to_its_sender() {
    comes_back("127.0.0.1", "127.0.0.1", ",gso=on,gro=on");
}

#[test]
fn a_wildcard_listener_answers_from_the_address_that_was_hit() {
    comes_back("0.0.0.0", "127.0.0.7", "");
    comes_back("0.0.0.0", "127.0.0.7", ",gso=on,gro=on");
    comes_back("[::]", "::1", "");
}

#[test]
fn a_segmented_round_trip_is_bit_identical() {
    let listen = free_port("127.0.0.1");
    let echo = port(&format!("127.0.0.1:{listen},gso=on,gro=on"), Mode::Listening, &[BOTH]);
    let to = SocketAddr::from(([127, 0, 0, 1], listen));
    let client = port("127.0.0.1,gso=on,gro=on", connected("127.0.0.1", to, 2), &[BOTH]);
    let (echo_pool, pool) = (echo.pool(0).expect("pool"), client.pool(0).expect("pool"));
    let mut echo_queue = echo.queue(0, &echo_pool).expect("queue");
    let mut queue = client.queue(0, &pool).expect("queue");
    for round in 0..20 {
        let sent: Vec<_> = (0..240)
            .map(|i| (i as u32 / 120, pattern(i, 16 + round * 70 + (i / 7) % 2)))
            .collect();
        send_all(&mut queue, &sent);
        let mut echoed = 0;
        until("echoed", || {
            echoed += reflect_once(&mut echo_queue);
            echoed == 240
        });
        let got = receive_all(&mut queue, 240);
        for flow in 0..2 {
            let of_flow: Vec<_> = got.iter().filter(|(f, _)| *f == Some(flow)).map(|(_, b)| b).collect();
            let wanted: Vec<_> = sent.iter().filter(|(f, _)| *f == flow).map(|(_, b)| b).collect();
            assert_eq!(of_flow, wanted, "flow {flow}, round {round}");
        }
    }
}

#[test]
fn a_received_frame_tells_its_sender() {
    let listen = free_port("127.0.0.1");
    let rx = port(&format!("127.0.0.1:{listen}"), Mode::Listening, &[RX]);
    let pool = rx.pool(0).expect("pool");
    let mut queue = rx.queue(0, &pool).expect("queue");
    let client = UdpSocket::bind("127.0.0.1:0").expect("bind");
    client
        .send_to(b"sixteen bytes ..", ("127.0.0.1", listen))
        .expect("send");
    let mut burst = Burst::new(8);
    until("received", || queue.receive(&mut burst).expect("receive") > 0);
    assert_eq!(burst.as_slice()[0].peer(), client.local_addr().ok());
}

/// Receives a datagram, and the time to live or hop limit that it came with.
fn receive_with_ttl(socket: &UdpSocket, v6: bool) -> (Vec<u8>, u8) {
    use std::os::fd::AsRawFd;
    let (level, option, kind) = match v6 {
        true => (libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, libc::IPV6_HOPLIMIT),
        false => (libc::IPPROTO_IP, libc::IP_RECVTTL, libc::IP_TTL),
    };
    let (on, mut bytes, mut control): (libc::c_int, _, _) = (1, [0u8; 2048], [0u64; 16]);
    let mut vector = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: `msghdr` consists of integers and pointers; zero is a valid value of each. The kernel reads an int, and
    // writes to the three areas, of the sizes given, which outlive the calls; it has written whole control messages.
    unsafe {
        let size = size_of_val(&on) as libc::socklen_t;
        assert_eq!(
            libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const on).cast(), size),
            0
        );
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &mut vector;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control) as _;
        let n = libc::recvmsg(socket.as_raw_fd(), &mut header, 0);
        assert!(n >= 0, "{}", std::io::Error::last_os_error());
        let message = libc::CMSG_FIRSTHDR(&header);
        assert!(!message.is_null() && ((*message).cmsg_level, (*message).cmsg_type) == (level, kind));
        let ttl = libc::CMSG_DATA(message).cast::<libc::c_int>().read_unaligned();
        (bytes[..n as usize].to_vec(), u8::try_from(ttl).expect("a time to live"))
    }
}

#[test]
fn what_is_sent_back_has_one_hop_less_however_senders_differ() {
    for (ip, v6) in [("127.0.0.1", false), ("::1", true)] {
        for options in ["", ",gso=on,gro=on"] {
            let listen = free_port(ip);
            let bracketed = if v6 { format!("[{ip}]") } else { ip.to_owned() };
            let port = port(&format!("{bracketed}:{listen}{options}"), Mode::Listening, &[BOTH]);
            let pool = port.pool(0).expect("pool");
            let mut queue = port.queue(0, &pool).expect("queue");
            let senders = [64, 17, 255, 2].map(|ttl| {
                let socket = UdpSocket::bind((ip, 0)).expect("a socket");
                if v6 {
                    use std::os::fd::AsRawFd;
                    let (hops, fd): (libc::c_int, _) = (ttl, socket.as_raw_fd());
                    let size = size_of_val(&hops) as libc::socklen_t;
                    let hops = (&raw const hops).cast();
                    // SAFETY: the kernel reads an int that outlives the call.
                    let set = unsafe { libc::setsockopt(fd, libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, hops, size) };
                    assert_eq!(set, 0);
                } else {
                    socket.set_ttl(ttl as u32).expect("a time to live");
                }
                socket.connect((ip, listen)).expect("connect");
                // The kernel then says the time to live of what comes from now on.
                (socket, ttl as u8)
            });
            // One sender for long, so that the socket takes its time to live over; then each in turn; then several at
            // once.
            let turns = (0..40).map(|i| vec![i / 20]).chain((0..40).map(|i| vec![i % 4]));
            for turn in turns.chain((0..20).map(|i| vec![i % 4, 3, 3, 1, 0])) {
                for &i in &turn {
                    senders[i].0.send(&[i as u8; 40]).expect("send");
                }
                let mut burst = Burst::new(mpps_io::MAX_BURST);
                let mut left = turn.len();
                until("what was sent", || {
                    left -= queue.receive(&mut burst).expect("receive");
                    for frame in burst.as_slice() {
                        let i = usize::from(frame.bytes()[0]);
                        assert_eq!(frame.ttl(), Some(senders[i].1));
                        assert!(!frame.to_group());
                    }
                    queue.transmit(&mut burst).expect("transmit");
                    left == 0 && burst.is_empty()
                });
                for &i in &turn {
                    let (socket, ttl) = &senders[i];
                    assert_eq!(
                        receive_with_ttl(socket, v6),
                        (vec![i as u8; 40], ttl - 1),
                        "{ip}{options}"
                    );
                }
            }
        }
    }
}

#[test]
fn the_fill_of_a_buffer_grows_with_what_waits_there_and_is_none_once_it_was_received() {
    let listen = free_port("127.0.0.1");
    let rx = port(&format!("127.0.0.1:{listen},rcvbuf=256K"), Mode::Listening, &[RX]);
    let to = SocketAddr::from(([127, 0, 0, 1], listen));
    let tx = port("127.0.0.1", connected("127.0.0.1", to, 1), &[TX]);
    let (rx_pool, tx_pool) = (rx.pool(0).expect("pool"), tx.pool(0).expect("pool"));
    let mut rx_queue = rx.queue(0, &rx_pool).expect("queue");
    let mut tx_queue = tx.queue(0, &tx_pool).expect("queue");
    let room = rx_queue.rx_room().expect("the kernel tells it");
    assert_eq!((room.unit, room.count), (RoomUnit::Bytes, 1));
    assert_eq!(rx_queue.rx_fill(), Some(0));
    let mut before = 0;
    for n in 1..=10 {
        send_all(&mut tx_queue, &[(0, pattern(n, 64))]);
        until("the datagram is there", || rx_queue.rx_fill() > Some(before));
        before = rx_queue.rx_fill().expect("as before");
    }
    assert!((640..room.size).contains(&before), "{before} of {}", room.size);
    receive_all(&mut rx_queue, 10);
    until("nothing waits", || rx_queue.rx_fill() == Some(0));
    assert_eq!(
        (tx_queue.rx_room(), tx_queue.rx_fill()),
        (None, None),
        "it receives nothing"
    );
}

/// Takes `n` datagrams that were sent from `since` on, 50 ms later than they came, and sends them back if it is to.
/// Checks that their times of arrival are the kernel's, not those of taking; returns how many had one.
fn take_late<Q: Queue>(queue: &mut Q, n: usize, since: u64, back: bool) -> usize {
    std::thread::sleep(Duration::from_millis(50));
    let (mut taken, mut timed) = (0, 0);
    let mut burst = Burst::new(64);
    until("what was sent", || {
        let read = monotonic_ns();
        taken += queue.receive(&mut burst).expect("receive");
        for at in burst.as_slice().iter().filter_map(Frame::rx_time_ns) {
            assert!((since..read - 40_000_000).contains(&at), "{at} of {since} to {read}");
            timed += 1;
        }
        if back {
            while !burst.is_empty() {
                queue.transmit(&mut burst).expect("transmit");
            }
            queue.flush().expect("flush");
        }
        burst.clear();
        taken == n
    });
    timed
}

/// Sends datagrams to a listener and back, which both look late; returns how many times of arrival were the kernel's.
fn late_round_trip(bind: &str, options: &str) -> usize {
    const DATAGRAMS: usize = 4;
    let listen = free_port("127.0.0.1");
    let server = port(&format!("{bind}:{listen}{options}"), Mode::Listening, &[BOTH]);
    let to = SocketAddr::from(([127, 0, 0, 1], listen));
    let client = port(&format!("127.0.0.1{options}"), connected("127.0.0.1", to, 1), &[BOTH]);
    let (server_pool, client_pool) = (server.pool(0).expect("pool"), client.pool(0).expect("pool"));
    let mut server_queue = server.queue(0, &server_pool).expect("queue");
    let mut client_queue = client.queue(0, &client_pool).expect("queue");
    let sent: Vec<_> = (0..DATAGRAMS).map(|i| (0, pattern(i, 64))).collect();
    let since = monotonic_ns();
    send_all(&mut client_queue, &sent);
    client_queue.flush().expect("flush");
    let there = take_late(&mut server_queue, DATAGRAMS, since, true);
    let back = take_late(&mut client_queue, DATAGRAMS, since, false);
    let untimed = other(&server, 0, "rx_timed_by_lane") + other(&client, 0, "rx_timed_by_lane");
    if options.contains("rx_time=kernel") {
        assert_eq!(there + back + untimed as usize, 2 * DATAGRAMS, "{options}");
    } else {
        assert_eq!((there + back, untimed), (0, 0), "{options}");
    }
    there + back
}

pub(crate) fn arrivals_are_the_kernels(options: &str) {
    for bind in ["127.0.0.1", "0.0.0.0", "[::]"] {
        // The kernel begins to stamp packets some time after it was asked to.
        until("times of arrival", || {
            late_round_trip(bind, &format!(",rx_time=kernel{options}")) == 8
        });
    }
}

#[test]
fn the_kernels_times_of_arrival_are_not_those_of_taking() {
    arrivals_are_the_kernels("");
    arrivals_are_the_kernels(",gso=on,gro=on");
}

#[test]
fn without_being_asked_the_kernel_says_no_times_of_arrival() {
    assert_eq!(late_round_trip("127.0.0.1", ""), 0);
    assert_eq!(late_round_trip("0.0.0.0", ",rx_time=lane,gro=on"), 0);
}
