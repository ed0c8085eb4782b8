//! Finds the chunks in a socket's rings as the socket is closed, so that no order of dropping loses one.

use crate::handle::{Handle, Rings};
use crate::ledger::{Place, Remains};
use crate::owner::Owner;
use crate::ring::RingMap;
use crate::sync::{Ordering, Slot};

/// The indices of the kernel's sides: how far it has come with each ring. Zero for rings that aren't there.
#[derive(Debug)]
pub(crate) struct Marks {
    rx: u32,
    fill: u32,
    completion: u32,
    tx: u32,
}

impl Marks {
    /// # Safety
    /// The rings are there.
    pub(crate) unsafe fn read(rings: &Rings) -> Self {
        // In this order: a chunk that the kernel moves meanwhile from the fill to the RX ring (or from the TX to the
        // completion ring) is then seen in the kernel, not in both.
        // SAFETY: the rings are there (caller).
        unsafe {
            Self {
                rx: rings
                    .rx
                    .as_ref()
                    .map_or(0, |ring| ring.producer().load(Ordering::Acquire)),
                fill: rings
                    .fill
                    .as_ref()
                    .map_or(0, |ring| ring.consumer().load(Ordering::Acquire)),
                completion: rings
                    .completion
                    .as_ref()
                    .map_or(0, |ring| ring.producer().load(Ordering::Acquire)),
                tx: rings
                    .tx
                    .as_ref()
                    .map_or(0, |ring| ring.consumer().load(Ordering::Acquire)),
            }
        }
    }
}

/// Entries of a ring from `from` up to `to`.
///
/// # Safety
/// The ring is there, and neither side changes these entries meanwhile.
unsafe fn entries<T: Copy>(ring: &RingMap<T>, from: u32, to: u32) -> Vec<T> {
    let n = to.wrapping_sub(from).min(ring.size);
    let slots = |(at, n): (*const Slot<T>, u32)| (0..n as usize).map(move |i| at.wrapping_add(i));
    // SAFETY: the slots are the ring's (runs); for the rest, the caller's promise.
    let read = |slot| unsafe { Slot::read(slot) };
    ring.runs(from, n).into_iter().flat_map(slots).map(read).collect()
}

/// Returns the chunks in a socket's rings, and the number of chunks that the socket brought into the kernel and not out
/// again. Called when the handle is dropped: the halves, which hold the handle, are gone.
pub(crate) fn remains(handle: &Handle) -> Remains {
    let rings = &handle.rings;
    let (umem, layout) = (&handle.umem, handle.umem.layout());
    // A device that works on the memory itself may do so for a while after the socket is closed.
    let (in_fill, in_tx) = if handle.traits.zero_copy {
        (Place::RetiredFill, Place::RetiredTx)
    } else {
        (Place::Fill, Place::Tx)
    };
    let mut found: Vec<(u64, u32, Place)> = Vec::new();
    // SAFETY: the rings are there for as long as the kernel (Handle::new), which is closed after this. Nobody uses our
    // side of them any more. The kernel's side may still move: it takes entries of the fill and TX rings, which it does
    // not change, and it adds entries to the others behind those that the marks name.
    let marks = unsafe {
        let marks = Marks::read(rings);
        if let Some(ring) = &rings.rx {
            let list = entries(ring, ring.consumer().load(Ordering::Relaxed), marks.rx);
            found.extend(list.iter().map(|desc| (desc.addr, desc.len, Place::Rx)));
        }
        if let Some(ring) = &rings.fill {
            let list = entries(ring, marks.fill, ring.producer().load(Ordering::Relaxed));
            found.extend(list.iter().map(|&addr| (addr, 0, in_fill)));
        }
        if let Some(ring) = &rings.completion {
            let list = entries(ring, ring.consumer().load(Ordering::Relaxed), marks.completion);
            found.extend(list.iter().map(|&addr| (addr, 0, Place::Completion)));
        }
        if let Some(ring) = &rings.tx {
            let list = entries(ring, marks.tx, ring.producer().load(Ordering::Relaxed));
            found.extend(list.iter().map(|desc| (desc.addr, desc.len, in_tx)));
        }
        marks
    };
    let mut bad = handle.bad_rx.load(Ordering::Relaxed) + handle.bad_completion.load(Ordering::Relaxed);
    let mut chunks = Vec::with_capacity(found.len());
    for (addr, len, place) in found {
        let owner = match place {
            Place::Rx | Place::Fill | Place::RetiredFill => Owner::Receiving,
            _ => Owner::Sending,
        };
        match layout.decode(addr, len) {
            Some((base, _)) if umem.owners.arrived(base, owner, Owner::Nobody) => {
                chunks.push(((base / u64::from(layout.frame_size)) as u32, place));
            }
            _ => bad += 1,
        }
    }
    // The indices wrap, but the kernel never has more chunks than there are: their difference is small.
    let start = &handle.start;
    let difference = |went_in: u32, came_out: u32, start_in: u32, start_out: u32| {
        let (went_in, came_out) = (went_in.wrapping_sub(start_in), came_out.wrapping_sub(start_out));
        i64::from(went_in.wrapping_sub(came_out) as i32)
    };
    let receiving = difference(marks.fill, marks.rx, start.fill, start.rx);
    let sending = difference(marks.tx, marks.completion, start.tx, start.completion);
    Remains {
        chunks,
        // A bad descriptor brought nothing out of the kernel.
        kernel: receiving + sending + bad as i64,
        bad_descriptors: bad,
    }
}
