//! A forwarder between two links as one writes it on the crate `afxdp` (crates.io, 0.4): what the crate's sample
//! `l2fwd-2link` does, with that sample's rings, bursts, and number and size of buffers. Frames leave untouched by the
//! other link; both links have a UMEM each over one memory. It spins, as the sample does.
//!
//! `afxdp-crate-l2fwd INTERFACE INTERFACE` says `ready`, runs until SIGINT, and prints what it counted as JSON.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use afxdp::PENDING_LEN;
use afxdp::buf_mmap::BufMmap;
use afxdp::mmap_area::{MmapArea, MmapAreaOptions};
use afxdp::socket::{Socket, SocketOptions, SocketRx, SocketTx};
use afxdp::umem::{Umem, UmemCompletionQueue, UmemFillQueue};
use arraydeque::{ArrayDeque, Wrapping};

const BURST: usize = 64;
const RING: u32 = 2048;
const BUFFERS: usize = 65536;
const BUFFER_SIZE: usize = 2048;

static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn on_signal(_: libc::c_int) {
    STOP.store(true, Ordering::Relaxed);
}

type Result<T> = std::result::Result<T, Box<dyn Error>>;
type Buffer<'a> = BufMmap<'a, ()>;

struct Link<'a> {
    rx: SocketRx<'a, ()>,
    tx: SocketTx<'a, ()>,
    fill: UmemFillQueue<'a, ()>,
    completion: UmemCompletionQueue<'a, ()>,
    /// Received here, and not yet sent by the other link.
    pending: Box<ArrayDeque<[Buffer<'a>; PENDING_LEN], Wrapping>>,
    /// Buffers that the fill ring lacks.
    owed: usize,
    /// Buffers that the kernel has to send.
    outstanding: usize,
    received: u64,
}

impl<'a> Link<'a> {
    fn open(name: &str, area: &Arc<MmapArea<'a, ()>>, pool: &mut Vec<Buffer<'a>>) -> Result<Self> {
        let (umem, completion, mut fill) = Umem::new(area.clone(), RING, RING)?;
        let options = SocketOptions {
            copy_mode: true,
            ..Default::default()
        };
        let (_, rx, tx) = Socket::new(umem, name, 0, RING, RING, options)?;
        let owed = RING as usize - fill.fill(pool, RING as usize).map_err(|_| "no room to fill")?;
        Ok(Self {
            rx,
            tx,
            fill,
            completion,
            pending: Box::new(ArrayDeque::new()),
            owed,
            outstanding: 0,
            received: 0,
        })
    }

    /// What has been sent goes back to the pool, and from it to the fill ring.
    fn service(&mut self, pool: &mut Vec<Buffer<'a>>) -> Result<()> {
        self.outstanding -= self.completion.service(pool, BURST).map_err(|_| "completions")?;
        if self.owed >= BURST {
            self.owed -= self.fill.fill(pool, self.owed).map_err(|_| "no room to fill")?;
        }
        Ok(())
    }
}

/// Moves a burst from one link to the other.
fn forward<'a>(from: &mut Link<'a>, to: &mut Link<'a>, pool: &mut Vec<Buffer<'a>>) -> Result<()> {
    from.service(pool)?;
    let got = from.rx.try_recv(&mut from.pending, BURST, ()).map_err(|_| "receive")?;
    from.owed += got;
    from.received += got as u64;
    if got == 0 && from.fill.needs_wakeup() {
        from.rx.wake();
    }
    if !from.pending.is_empty() {
        to.outstanding += to.tx.try_send(&mut from.pending, BURST).map_err(|_| "send")?;
    } else if to.outstanding > 0 {
        // In copy mode a call sends 32 at the most. Sending calls only when there is more to send; asking does, too.
        to.rx.wake();
    }
    Ok(())
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [first, second] = arguments.as_slice() else {
        return Err("usage: afxdp-crate-l2fwd INTERFACE INTERFACE".into());
    };
    let handler: extern "C" fn(libc::c_int) = on_signal;
    // SAFETY: the handler only stores to an atomic.
    unsafe { libc::signal(libc::SIGINT, handler as libc::sighandler_t) };

    let (area, mut pool) =
        MmapArea::new(BUFFERS, BUFFER_SIZE, MmapAreaOptions { huge_tlb: false }).map_err(|_| "no memory")?;
    let mut a = Link::open(first, &area, &mut pool)?;
    let mut b = Link::open(second, &area, &mut pool)?;
    println!("ready");

    while !STOP.load(Ordering::Relaxed) {
        forward(&mut a, &mut b, &mut pool)?;
        forward(&mut b, &mut a, &mut pool)?;
    }
    println!("{{\"received\": [{}, {}]}}", a.received, b.received);
    Ok(())
}
