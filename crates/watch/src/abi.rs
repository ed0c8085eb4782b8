//! Structs that the programs and this process share, by the same names: those of `bpf/watch.h`. `layout_tests.rs`
//! compares every field with the object.

use mpps_sys::map::Shared;
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, AtomicU64};

pub(crate) const CPUS: usize = 1024;
pub(crate) const LANES: usize = 64;
pub(crate) const SLOTS: usize = 256;
pub(crate) const PROBES: usize = 16;
pub(crate) const ROWS: usize = 16384;
pub(crate) const DEVICES: usize = 8;
pub(crate) const RANGES: usize = 8;
pub(crate) const REASONS: usize = 512;
pub(crate) const SOCKET_FULL: usize = 510;
pub(crate) const SOCKET_COPY: usize = 509;
pub(crate) const REDIRECT: usize = 508;
pub(crate) const NAME: usize = 16;
pub(crate) const STAMPS: usize = 65536;
pub(crate) const STAMPS_AT: usize = 8;

/// `row.kind`: the 8 bits above the id.
pub(crate) mod kind {
    pub(crate) const THREAD: u8 = 1;
    pub(crate) const OWN: u8 = 2;
    pub(crate) const IRQ: u8 = 3;
    pub(crate) const SOFTIRQ: u8 = 4;
    pub(crate) const VECTOR: u8 = 5;
    pub(crate) const STOPPED: u8 = 6;
    pub(crate) const POLL: u8 = 7;
    pub(crate) const UNSEEN: u8 = 8;
}

/// `record.what`.
pub(crate) mod what {
    pub(crate) const SWITCH: u8 = 1;
    pub(crate) const WAKING: u8 = 2;
    pub(crate) const INTERRUPT: u8 = 3;
    pub(crate) const SOFT: u8 = 4;
    pub(crate) const PROCESSOR: u8 = 5;
    pub(crate) const SIGNAL: u8 = 6;
    pub(crate) const DROP: u8 = 7;
    pub(crate) const POLLED: u8 = 8;
}

/// `struct plan`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Plan {
    pub(crate) namespace: u32,
    pub(crate) devices: u32,
    pub(crate) device: [u32; DEVICES],
    pub(crate) ranges: u32,
    pub(crate) from: [u16; RANGES],
    pub(crate) to: [u16; RANGES],
    pub(crate) records: u32,
    pub(crate) tells_state: u32,
    pub(crate) tells_reason: u32,
    pub(crate) lanes: u32,
    pub(crate) filtered: u32,
}

const _: () = assert!(size_of::<Plan>() == 4 * (2 + DEVICES + 1 + 5) + 4 * RANGES);

// SAFETY: `repr(C)`, integers only, and the assertion above says that there is no padding.
unsafe impl aya::Pod for Plan {}

macro_rules! shared {
    ($($(#[$meta:meta])* $name:ident: $size:literal { $($(#[$doc:meta])* $field:ident: $type:ty,)* })*) => {
        $(
            $(#[$meta])*
            #[repr(C)]
            #[derive(Debug)]
            pub(crate) struct $name { $($(#[$doc])* pub(crate) $field: $type,)* }

            // SAFETY: `repr(C)`, atomics and arrays of them only, and no padding: the fields' sizes add up.
            unsafe impl Shared for $name {}

            const _: () = {
                assert!(size_of::<$name>() == $size);
                assert!(0 $(+ size_of::<$type>())* == $size);
            };
        )*
    };
}

shared! {
    /// `struct settings`.
    Settings: 32 {
        process: AtomicI32,
        level: AtomicU32,
        space: AtomicU32,
        unused: AtomicU32,
        drops: AtomicI64,
        lost: AtomicU64,
    }

    /// `struct core`.
    Core: 112 {
        watched: AtomicU32,
        busy: AtomicU32,
        waiting: AtomicU64,
        wanted: AtomicU64,
        since: AtomicU64,
        nested: AtomicU64,
        holder: AtomicI32,
        soft: AtomicU32,
        soft_at: AtomicU64,
        soft_nested: AtomicU64,
        irq_at: AtomicU64,
        vector_at: AtomicU64,
        over_at: AtomicU64,
        soft_called: AtomicU64,
        soft_others: AtomicU64,
        nameless: AtomicU64,
    }

    /// `struct lane`.
    LanePlace: 32 {
        tid: AtomicI32,
        number: AtomicU32,
        waits: AtomicU32,
        unused: AtomicU32,
        stopped: AtomicU64,
        resumed: AtomicU64,
    }

    /// `struct row`.
    Row: 56 {
        key: AtomicU64,
        count: AtomicU64,
        total: AtomicU64,
        longest: AtomicU64,
        longest_at: AtomicU64,
        name: [AtomicU64; NAME / 8],
    }

    /// `struct drops`.
    Drops: 16 {
        ours: AtomicU64,
        others: AtomicU64,
    }
}
