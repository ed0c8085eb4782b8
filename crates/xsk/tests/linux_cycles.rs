//! Opening and closing again and again leaves nothing behind. A test program of its own, as it counts the process's
//! memory and descriptors.
#![cfg(not(miri))]

mod lab;

use lab::{Host, Lab, Make, over, until};
use std::time::{Duration, Instant};
use xsk::{Error, Pool, Program, Socket, Umem};

/// Each takes 0.2 s in a debug build, in which the loader reads the kernel's types.
const PROGRAMS: u32 = 30;
/// Queues of the device, and threads. 10,000 is a multiple of it.
const LANES: u32 = 25;

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Resident memory, KiB.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4
}

#[test]
fn cycles_of_opening_and_closing_leak_neither_memory_nor_descriptors_nor_programs() {
    let Some(lab) = Lab::new(LANES, 1500) else { return };
    lab.enter(Host::A);
    let mut make = Make::default();
    make.umem.frames = 256;
    make.socket.rx_ring = 64;
    make.socket.tx_ring = 64;
    make.socket.fill_ring = 64;
    make.socket.completion_ring = 64;
    let cycle = |queue| {
        let umem = Umem::new(&make.umem).unwrap();
        // On a busy host the kernel takes longer than a bind waits to give back the queue of the socket before.
        let mut bound = None;
        let deadline = Instant::now() + Duration::from_secs(60);
        while bound.is_none() {
            match Socket::bind(&umem, "veth0", queue, &make.socket) {
                Ok(socket) => bound = Some(socket),
                Err(Error::Busy { .. }) => assert!(Instant::now() < deadline, "the queue is not free again"),
                Err(e) => panic!("{e}"),
            }
        }
        let socket = bound.expect("it was waited for");
        let pool = Pool::new(&umem, 256).unwrap();
        let (rx, tx) = over((&socket, &pool));
        drop((rx, tx));
        drop((pool, socket));
        assert!(umem.audit().is_exact());
    };
    let mut programs = Vec::new();
    let mut with_program = || {
        let umem = Umem::new(&make.umem).unwrap();
        let socket = Socket::bind(&umem, "veth0", 0, &make.socket).unwrap();
        let program = Program::attach("veth0", &make.program).unwrap();
        program.insert(0, &socket).unwrap();
        programs.push(program.id());
    };
    // What is made once and kept: buffers of the allocator, what the loader knows of the kernel.
    // Closing waits for the kernel's grace periods, which many can do together: a thread per queue.
    let cycles = |number: u32| {
        std::thread::scope(|scope| {
            for queue in 0..LANES {
                let cycle = &cycle;
                // In the namespace of this thread.
                scope.spawn(move || (0..number / LANES).for_each(|_| cycle(queue)));
            }
        });
    };
    cycles(4 * LANES);
    (0..3).for_each(|_| with_program());
    let before = (descriptors(), resident());

    let start = std::time::Instant::now();
    cycles(10_000);
    println!("10,000 sockets: {:.1?}", start.elapsed());
    let between = resident();
    let start = std::time::Instant::now();
    (0..PROGRAMS).for_each(|_| with_program());
    println!("{PROGRAMS} programs: {:.1?}", start.elapsed());

    let after = (descriptors(), resident());
    println!("descriptors and KiB: {before:?}, {between}, {after:?}");
    assert_eq!(before.0, after.0);
    assert!(
        between < before.1 + 1024,
        "10,000 sockets left {} KiB",
        between.saturating_sub(before.1)
    );
    // The allocator's own share of fragmentation is part of this.
    assert!(
        after.1 < between + 4096,
        "{PROGRAMS} programs left {} KiB",
        after.1 - between
    );
    until("the kernel unloads all programs", || {
        aya::programs::loaded_programs()
            .filter_map(Result::ok)
            .all(|program| !programs.contains(&program.id()))
    });
}
