//! What goes wrong: each refusal says what is in the way, and nothing that happens to a device makes us panic.
#![cfg(not(miri))]

mod lab;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use lab::{Host, Lab, Make, Random, has, over, send_one, udp4, until};
use xsk::{Device, Error, Filter, Pages, Pool, Program, ProgramConfig, ProgramMode, Ready, Socket, SocketMode};
use xsk::{Umem, UmemConfig};

fn frame() -> Vec<u8> {
    udp4([2, 0, 0, 0, 0, 1], [10, 9, 0, 2], 9000, 100, &mut Random(3))
}

fn bind(make: &Make, device: &str, queue: u32) -> Result<Socket, Error> {
    Socket::bind(&Umem::new(&make.umem)?, device, queue, &make.socket)
}

/// Binds where a socket has just been dropped: the kernel may keep the queue for longer than the crate waits, since it
/// gives it back under a lock that every change of any interface takes.
fn bind_again(mut bind: impl FnMut() -> Result<Socket, Error>) -> Socket {
    let mut bound = None;
    until("the queue is given back", || {
        match bind() {
            Ok(socket) => bound = Some(socket),
            Err(error) => assert!(matches!(error, Error::Busy { .. }), "{error:?}"),
        }
        bound.is_some()
    });
    bound.unwrap()
}

#[test]
fn a_queue_that_another_socket_has_is_named() {
    let Some(lab) = Lab::new(1, 1500) else { return };
    lab.enter(Host::A);
    let _first = bind(&Make::default(), "veth0", 0).unwrap();
    let error = bind(&Make::default(), "veth0", 0).unwrap_err();
    assert!(matches!(error, Error::Busy { .. }), "{error:?}");
    assert_eq!(error.to_string(), "bind veth0 queue 0: in use by another AF_XDP socket");
}

#[test]
fn another_program_on_the_device_is_named_in_every_pair_of_modes() {
    let Some(lab) = Lab::new(1, 1500) else { return };
    lab.enter(Host::A);
    let mut config = ProgramConfig::new(Filter::udp(1..=1, []));
    for (first, second) in [
        (ProgramMode::Native, ProgramMode::Native),
        (ProgramMode::Native, ProgramMode::Skb),
        (ProgramMode::Skb, ProgramMode::Native),
        (ProgramMode::Skb, ProgramMode::Auto),
    ] {
        config.mode = first;
        let there = Program::attach("veth0", &config).unwrap();
        config.mode = second;
        let error = Program::attach("veth0", &config).unwrap_err();
        assert!(matches!(error, Error::ProgramAttached { .. }), "{error:?}");
        let text = error.to_string();
        assert!(
            text.contains("\"redirect\"") && text.contains(&there.id().to_string()),
            "{text}"
        );
    }
}

#[test]
fn a_queue_or_device_that_is_not_there_is_named() {
    let Some(lab) = Lab::new(2, 1500) else { return };
    lab.enter(Host::A);
    let error = bind(&Make::default(), "veth0", 2).unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error:?}");
    assert!(error.to_string().contains("2 receive queues"), "{error}");
    let error = bind(&Make::default(), "nosuch0", 0).unwrap_err();
    assert!(error.to_string().contains("nosuch0"), "{error}");
    let error = Program::attach("nosuch0", &ProgramConfig::new(Filter::all())).unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error:?}");
}

#[test]
fn zero_copy_is_refused_where_the_driver_cannot() {
    let Some(lab) = Lab::new(1, 1500) else { return };
    lab.enter(Host::A);
    let mut make = Make::default();
    make.socket.mode = SocketMode::ZeroCopy;
    let error = bind(&make, "veth0", 0).unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error:?}");
    assert!(error.to_string().contains("zero-copy"), "{error}");
}

#[test]
fn a_socket_that_shares_cannot_differ_in_what_is_shared() {
    let Some(lab) = Lab::new(2, 1500) else { return };
    lab.enter(Host::A);
    let make = Make::default();
    let umem = Umem::new(&make.umem).unwrap();
    let _first = Socket::bind(&umem, "veth0", 0, &make.socket).unwrap();
    let mut other = make.socket;
    other.need_wakeup = false;
    let error = Socket::bind(&umem, "veth0", 1, &other).unwrap_err();
    assert!(error.to_string().contains("veth0 queue 0"), "{error}");
}

#[test]
fn a_umem_too_small_for_its_rings_is_refused_before_anything_is_opened() {
    let mut make = Make::default();
    make.umem.frames = 1024;
    // No namespace, no device needed.
    let error = bind(&make, "lo", 0).unwrap_err();
    assert!(
        matches!(
            error,
            Error::TooSmall {
                have: 1024,
                need: 1025,
                ..
            }
        ),
        "{error:?}"
    );
}

#[test]
fn huge_pages_that_are_not_reserved_are_refused_with_the_command_that_reserves_them() {
    let free = std::fs::read_to_string("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages").unwrap_or_default();
    if free.trim() != "0" {
        return lab::skip("this host has huge pages reserved, or none at all");
    }
    let config = UmemConfig {
        pages: Pages::Huge2M,
        ..UmemConfig::default()
    };
    let error = Umem::new(&config).unwrap_err();
    assert!(matches!(error, Error::NoHugePages { .. }), "{error:?}");
    assert!(error.to_string().contains("echo 8 > "), "{error}");
}

/// Takes capabilities from the calling thread, by number.
fn without(capabilities: &[u32]) {
    #[repr(C)]
    struct Header(u32, i32);
    let mut header = Header(0x2008_0522, 0);
    let mut sets = [0_u32; 6];
    // SAFETY: version 3 of the interface reads the header and reads or writes two sets of three words.
    unsafe {
        assert_eq!(libc::syscall(libc::SYS_capget, &raw mut header, &raw mut sets), 0);
        for &capability in capabilities {
            sets[3 * (capability as usize / 32)] &= !(1 << (capability % 32));
        }
        assert_eq!(libc::syscall(libc::SYS_capset, &raw mut header, &raw const sets), 0);
    }
}

const CAP_NET_ADMIN: u32 = 12;
const CAP_NET_RAW: u32 = 13;
const CAP_IPC_LOCK: u32 = 14;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_BPF: u32 = 39;

#[test]
fn missing_privileges_are_named() {
    let Some(lab) = Lab::new(1, 1500) else { return };
    lab.enter(Host::A);
    without(&[CAP_NET_RAW]);
    let error = bind(&Make::default(), "veth0", 0).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Permission {
                need: "CAP_NET_RAW",
                ..
            }
        ),
        "{error:?}"
    );
    without(&[CAP_BPF, CAP_SYS_ADMIN, CAP_NET_ADMIN]);
    let error = Program::attach("veth0", &ProgramConfig::new(Filter::all())).unwrap_err();
    assert!(matches!(error, Error::Permission { .. }), "{error:?}");
    assert!(error.to_string().contains("CAP_BPF"), "{error}");
}

#[test]
fn the_limit_of_locked_memory_is_told_with_what_is_needed() {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: writes one structure, which is ours.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) }, 0);
    if limit.rlim_cur > 1 << 30 {
        return lab::skip("the limit of locked memory is above 1 GiB here");
    }
    let Some(lab) = Lab::new(1, 1500) else { return };
    lab.enter(Host::A);
    without(&[CAP_IPC_LOCK]);
    let mut make = Make::default();
    make.umem.frames = (limit.rlim_cur / 2048) as u32 + 2048;
    let error = bind(&make, "veth0", 0).unwrap_err();
    let Error::Memlock { need, limit: told, .. } = error else {
        panic!("{error:?}")
    };
    assert_eq!((need, told), (u64::from(make.umem.frames) * 2048, limit.rlim_cur));
}

#[test]
fn a_device_that_vanishes_ends_in_an_error_that_says_so() {
    let Some(lab) = Lab::new(1, 1500) else { return };
    let end = lab.end(Host::A, "veth0", 0, &Make::default());
    let pool = end.pool();
    let (mut rx, mut tx) = over((&end.socket, &pool));
    send_one(&mut tx, &pool, &frame());
    lab.ip(Host::B, "link del veth0");
    until("waking says that it is gone", || {
        matches!(rx.wake(), Err(Error::Gone { .. }))
    });
    let mut out = pool.allocate_one().unwrap();
    out.set_len(100);
    assert_eq!(tx.send([out]), 1);
    assert!(matches!(tx.kick(), Err(Error::Gone { .. })));
    let error = end
        .socket
        .poll(Ready { rx: true, tx: false }, Duration::from_secs(5))
        .unwrap_err();
    assert!(matches!(error, Error::Gone { .. }), "{error:?}");
    assert!(error.to_string().contains("veth0 queue 0"), "{error}");
    rx.receive(64, drop);
    end.program.counters().unwrap();
    end.socket.statistics().unwrap();

    // It comes back, and so can we.
    drop((rx, tx));
    drop(pool);
    let umem = end.umem.clone();
    drop(end);
    assert!(umem.audit().is_exact(), "{}", umem.audit());
    lab.pair("veth0", 1, 1500);
    lab.end_over(&umem, Host::A, "veth0", 0, &Make::default());
}

#[test]
fn a_device_that_goes_down_says_so_and_works_again_when_it_is_up() {
    let Some(lab) = Lab::new(1, 1500) else { return };
    let ends = [Host::A, Host::B].map(|host| lab.end(host, "veth0", 0, &Make::default()));
    let pools = [ends[0].pool(), ends[1].pool()];
    let (mut rx_a, mut tx) = over((&ends[0].socket, &pools[0]));
    let (mut rx, _tx) = over((&ends[1].socket, &pools[1]));
    lab.ip(Host::A, "link set veth0 down");
    assert!(matches!(rx_a.wake(), Err(Error::Down { .. })));
    let mut out = pools[0].allocate_one().unwrap();
    out.set_len(100);
    assert_eq!(tx.send([out]), 1);
    assert!(matches!(tx.kick(), Err(Error::Down { .. })));
    lab.ip(Host::A, "link set veth0 up");
    until("frames arrive again", || {
        send_one(&mut tx, &pools[0], &frame());
        rx.receive(64, drop) > 0
    });
}

#[test]
fn a_change_of_the_mtu_or_of_the_queues_leaves_the_socket_at_work() {
    let Some(lab) = Lab::new(4, 1500) else { return };
    let ends = [Host::A, Host::B].map(|host| lab.end(host, "veth0", 0, &Make::default()));
    let pools = [ends[0].pool(), ends[1].pool()];
    let (_rx, mut tx) = over((&ends[0].socket, &pools[0]));
    let (mut rx, _tx) = over((&ends[1].socket, &pools[1]));
    let mut works = |what: &str| {
        until(what, || {
            send_one(&mut tx, &pools[0], &frame());
            rx.receive(64, drop) > 0
        });
    };
    works("before");
    lab.ip(Host::B, "link set veth0 mtu 1000");
    works("with a smaller MTU");
    lab.ip(Host::B, "link set veth0 mtu 1500");
    works("with the MTU as it was");
    if has("ethtool") {
        let device = Device::named("veth0").unwrap();
        assert_eq!(device.queues().unwrap(), xsk::Queues { current: 4, max: 4 });
        for queues in [2, 4, 1] {
            let line = format!("ethtool -L veth0 rx {queues} tx {queues}");
            // The peer first: a device with a program needs as many receive queues as the peer sends on.
            for host in [Host::A, Host::B] {
                lab.command(host, &line).output().unwrap();
            }
            works("with another number of queues");
        }
    }
}

#[test]
fn parts_may_be_dropped_in_every_order() {
    let Some(lab) = Lab::new(1, 1500) else { return };
    lab.enter(Host::A);
    let make = Make::default();
    let umem = Umem::new(&make.umem).unwrap();
    for order in 0..120_usize {
        let socket = bind_again(|| Socket::bind(&umem, "veth0", 0, &make.socket));
        let (rx, tx) = socket.split().unwrap();
        let pool = Pool::new(&umem, 2048).unwrap();
        let (rx, tx) = {
            let (mut rx, mut tx) = (rx.over(&pool).unwrap(), tx.over(&pool).unwrap());
            rx.refill();
            send_one(&mut tx, &pool, &frame());
            (rx.into_half(), tx.into_half())
        };
        let mut parts: Vec<Box<dyn std::any::Any>> = vec![
            Box::new(rx),
            Box::new(tx),
            Box::new(socket),
            Box::new(pool),
            Box::new(umem.clone()),
        ];
        let mut number = order;
        for left in (1..=parts.len()).rev() {
            std::mem::drop(parts.remove(number % left));
            number /= left;
        }
        let audit = umem.audit();
        assert!(audit.is_exact(), "order {order}: {audit}");
    }
}

/// What the next test kills: takes a queue and a program, says so, and waits for the end.
#[test]
#[ignore = "the other half of the next test, which runs it"]
fn victim() {
    if std::env::var_os("XSK_VICTIM").is_none() {
        return;
    }
    let make = Make::default();
    let socket = bind(&make, "veth0", 0).unwrap();
    let program = Program::attach("veth0", &make.program).unwrap();
    program.insert(0, &socket).unwrap();
    println!("\nready {}", program.id());
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn a_process_that_is_killed_leaves_neither_program_nor_socket() {
    let Some(lab) = Lab::new(1, 1500) else { return };
    lab.enter(Host::A);
    // Children are in the namespace of the thread that starts them.
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "victim", "--ignored", "--nocapture"])
        .env("XSK_VICTIM", "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let ready = lines.map_while(Result::ok).find(|line| line.starts_with("ready "));
    let id: u32 = ready.expect("it starts")[6..].parse().unwrap();
    let device = Device::named("veth0").unwrap();
    assert_eq!(device.programs().unwrap(), [id]);
    // SIGKILL.
    child.kill().unwrap();
    child.wait().unwrap();
    until("the program is gone", || device.programs().unwrap().is_empty());
    lab.end(Host::A, "veth0", 0, &Make::default());
}
