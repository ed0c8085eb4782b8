//! A MAC-swapping forwarder as one writes it on the crate `xdp` (crates.io, 0.8): the peer that stands for AF_XDP in
//! Rust. Rings of `mpps`'s size, a busy loop, and bursts of 32: as many as the kernel sends for one system call.
//!
//! `xdp-crate-macswap INTERFACE [skb]` says `ready`, runs until SIGINT, and prints what it counted as JSON.

mod bpf;

use std::error::Error;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use xdp::nic::NicIndex;
use xdp::slab::{HeapSlab, Slab};
use xdp::socket::XdpSocketBuilder;
use xdp::umem::{FrameSize, Umem, UmemCfgBuilder};
use xdp::{CompletionRing, RingConfigBuilder, WakableTxRing};

const BURST: usize = 32;
const RING: u32 = 2048;
/// Attempts to send a burst before it is dropped.
const PATIENCE: usize = 1000;

static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn on_signal(_: libc::c_int) {
    STOP.store(true, Ordering::Relaxed);
}

/// 0 where the kernel only asks to be called again.
fn unless_again(result: io::Result<usize>) -> io::Result<usize> {
    match result {
        Err(e) if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS)) => Ok(0),
        other => other,
    }
}

fn kick(socket: RawFd) {
    // SAFETY: nothing is passed; whatever the kernel says, the next call says again.
    unsafe { libc::sendto(socket, std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0) };
}

/// Sends the whole burst, or drops what finds no room for too long. The packets sent.
fn send(
    tx: &mut WakableTxRing,
    completion: &mut CompletionRing,
    umem: &mut Umem,
    burst: &mut HeapSlab,
    socket: RawFd,
) -> io::Result<usize> {
    let whole = burst.len();
    for _ in 0..PATIENCE {
        // SAFETY: the UMEM outlives the socket.
        unless_again(unsafe { tx.send(burst, true) })?;
        completion.dequeue(umem, 2 * BURST);
        if burst.is_empty() {
            return Ok(whole);
        }
        kick(socket);
    }
    let sent = whole - burst.len();
    while let Some(packet) = burst.pop_back() {
        umem.free_packet(packet);
    }
    Ok(sent)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (name, skb) = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [name] => (name.to_owned(), false),
        [name, "skb"] => (name.to_owned(), true),
        _ => return Err("usage: xdp-crate-macswap INTERFACE [skb]".into()),
    };
    let handler: extern "C" fn(libc::c_int) = on_signal;
    // SAFETY: the handler only stores to an atomic.
    unsafe { libc::signal(libc::SIGINT, handler as libc::sighandler_t) };

    let name = CString::new(name)?;
    let nic = NicIndex::lookup_by_name(&name)?.ok_or("no such interface")?;
    // SAFETY: the name ends with a zero.
    let interface = unsafe { libc::if_nametoindex(name.as_ptr()) };
    let config = UmemCfgBuilder {
        frame_size: FrameSize::TwoK,
        frame_count: 4 * RING,
        ..Default::default()
    };
    let mut umem = Umem::map(config.build()?)?;
    let rings = RingConfigBuilder {
        rx_count: RING,
        tx_count: RING,
        fill_count: RING,
        completion_count: RING,
    };
    let mut builder = XdpSocketBuilder::new()?;
    let (rings, mut flags) = builder.build_wakable_rings(&umem, rings.build()?)?;
    flags.force_copy();
    let socket = builder.bind(nic, 0, flags)?;
    let fd = socket.as_raw_fd();
    let (mut fill, mut completion) = (rings.fill_ring, rings.completion_ring);
    let (mut rx, mut tx) = (rings.rx_ring.ok_or("no RX ring")?, rings.tx_ring.ok_or("no TX ring")?);
    // SAFETY: here and below, the UMEM outlives the socket.
    unless_again(unsafe { fill.enqueue(&mut umem, RING as usize, true) })?;
    let _redirect = bpf::Redirect::attach(interface, 0, fd, skb)?;
    println!("ready");

    let (mut taken, mut turned) = (HeapSlab::with_capacity(BURST), HeapSlab::with_capacity(BURST));
    let (mut received, mut sent, mut owed) = (0, 0, 0);
    while !STOP.load(Ordering::Relaxed) {
        // SAFETY: the packets are sent or given back before the UMEM goes.
        let got = unsafe { rx.recv(&umem, &mut taken) };
        owed += got;
        if got > 0 {
            received += got;
            while let Some(mut packet) = taken.pop_back() {
                let (to, from) = packet[..12].split_at_mut(6);
                to.swap_with_slice(from);
                turned.push_front(packet);
            }
            sent += send(&mut tx, &mut completion, &mut umem, &mut turned, fd)?;
        } else {
            completion.dequeue(&mut umem, 2 * BURST);
        }
        if owed >= BURST {
            // SAFETY: as above. In copy mode the kernel needs no call to find them.
            owed -= unless_again(unsafe { fill.enqueue(&mut umem, owed, false) })?;
        }
    }
    println!("{{\"received\": {received}, \"sent\": {sent}}}");
    drop(socket);
    Ok(())
}
