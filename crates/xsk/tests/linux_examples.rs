//! The examples, run as their users would.
#![cfg(not(miri))]

mod lab;

use std::process::{Child, Command, Output, Stdio};

use lab::{Host, Lab, Make, Random, over, send_one, udp4, until};
use xsk::{Device, Filter, Pool, Rx, Tx};

/// An example's program, which `cargo test` builds beside the tests; `None`, and said, where it didn't.
fn example(name: &str) -> Option<Command> {
    let exe = std::env::current_exe().unwrap();
    let path = exe.parent()?.parent()?.join("examples").join(name);
    if !path.exists() {
        lab::skip(&format!("the example {name} was not built (cargo build --examples)"));
        return None;
    }
    Some(Command::new(path))
}

/// Starts it on host b, and waits until it has its programs.
fn start(lab: &Lab, mut command: Command, devices: &[&str]) -> Child {
    lab.enter(Host::B);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("the example has its program", || {
        devices
            .iter()
            .all(|device| !Device::named(device).unwrap().programs().unwrap().is_empty())
    });
    child
}

#[track_caller]
fn finish(child: Child) -> String {
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&stdout).into_owned();
    assert!(status.success(), "{text}{}", String::from_utf8_lossy(&stderr));
    text
}

fn frame(seed: u64) -> Vec<u8> {
    // An address that the host b doesn't own.
    udp4(
        [2, 0, 0, 0, 0, 1],
        [10, 9, 0, 50],
        9000,
        64 + seed as usize % 1000,
        &mut Random(seed + 1),
    )
}

/// Sends frames until one comes back, and gives that with what it should be.
fn until_back<'p>(tx: &mut Tx<'p>, pool: &'p Pool, rx: &mut Rx<'_>) -> (Vec<u8>, Vec<u8>) {
    let mut back = Vec::new();
    until("a frame comes back", || {
        send_one(tx, pool, &frame(5));
        rx.receive(1, |frame| back = frame.bytes().to_vec()) == 1
    });
    (back, frame(5))
}

/// All frames that are foreign to host a.
fn take_all() -> Make {
    let mut make = Make::default();
    make.program.filter = Filter::udp(9000..=9000, []);
    make
}

#[test]
fn l2fwd_on_one_link_sends_back_with_addresses_swapped() {
    let Some(lab) = Lab::new(1, 1500) else { return };
    let Some(mut command) = example("l2fwd") else { return };
    command.args(["veth0", "2"]);
    let end = lab.end(Host::A, "veth0", 0, &take_all());
    let child = start(&lab, command, &["veth0"]);
    let pool = end.pool();
    let (mut rx, mut tx) = over((&end.socket, &pool));
    let (back, sent) = until_back(&mut tx, &pool, &mut rx);
    assert_eq!((&back[0..6], &back[6..12]), (&sent[6..12], &sent[0..6]));
    assert_eq!(back[12..], sent[12..]);
    assert!(finish(child).contains("frames forwarded"));
}

#[test]
fn l2fwd_on_two_links_forwards_untouched() {
    let Some(lab) = Lab::new(1, 1500) else { return };
    let Some(mut command) = example("l2fwd") else { return };
    lab.pair("veth1", 1, 1500);
    command.args(["veth0", "veth1", "2"]);
    let ends = ["veth0", "veth1"].map(|device| lab.end(Host::A, device, 0, &take_all()));
    let child = start(&lab, command, &["veth0", "veth1"]);
    let pools = [ends[0].pool(), ends[1].pool()];
    let (mut rx_0, mut tx_0) = over((&ends[0].socket, &pools[0]));
    let (mut rx_1, mut tx_1) = over((&ends[1].socket, &pools[1]));
    let (there, sent) = until_back(&mut tx_0, &pools[0], &mut rx_1);
    assert_eq!(there, sent);
    let (back, sent) = until_back(&mut tx_1, &pools[1], &mut rx_0);
    assert_eq!(back, sent);
    finish(child);
}

#[test]
fn rxdrop_counts_what_comes() {
    let Some(lab) = Lab::new(2, 1500) else { return };
    let Some(mut command) = example("rxdrop") else { return };
    command.args(["veth0", "2"]);
    let end = lab.end(Host::A, "veth0", 0, &take_all());
    let child = start(&lab, command, &["veth0"]);
    let pool = end.pool();
    let (_rx, mut tx) = over((&end.socket, &pool));
    // Its sockets come after its program: what arrives before goes to the host.
    let waiter = std::thread::spawn(move || finish(child));
    until("its time is over", || {
        send_one(&mut tx, &pool, &frame(1));
        std::thread::sleep(std::time::Duration::from_millis(1));
        waiter.is_finished()
    });
    let text = waiter.join().unwrap();
    assert!(
        text.contains("queue 1: 0 frames") && !text.contains("queue 0: 0 frames"),
        "{text}"
    );
}

#[test]
fn dump_prints_what_comes() {
    let Some(lab) = Lab::new(1, 1500) else { return };
    let Some(mut command) = example("dump") else { return };
    command.args(["veth0", "3"]);
    let end = lab.end(Host::A, "veth0", 0, &take_all());
    let mut child = start(&lab, command, &["veth0"]);
    let pool = end.pool();
    let (_rx, mut tx) = over((&end.socket, &pool));
    until("it has seen three", || {
        send_one(&mut tx, &pool, &frame(1));
        child.try_wait().unwrap().is_some()
    });
    let text = finish(child);
    assert_eq!(
        text.lines()
            .filter(|line| line.contains("65 bytes: 02 00 00 00 00 01"))
            .count(),
        3,
        "{text}"
    );
}
