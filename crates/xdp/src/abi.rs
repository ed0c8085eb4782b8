//! Structs shared by the programs and this process, under the same names: those of `xdp/run.h`, `xdp/lane.h`,
//! `xdp/own.h` and `xdp/forward.bpf.c`. `layout_tests.rs` compares every field with the objects.

use mpps_sys::map::Shared;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

pub(crate) const ADDRESSES: usize = 8;
pub(crate) const LANES: usize = 64;
pub(crate) const MOST_STREAMS: usize = 8;
/// Sizes of a stream's frames.
pub(crate) const MOST_SIZES: usize = 8;
/// Streams, and sizes of frames, that are counted each by itself.
pub(crate) const MOST_PLACES: usize = 24;
/// Send times that are kept of a lane without a schedule, one for 16 packets.
pub(crate) const TIMES_KEPT: u32 = 1 << 14;
pub(crate) const REASONS: usize = 32;
/// Octaves of a histogram, and buckets of an octave.
pub(crate) const OCTAVES: usize = 28;
pub(crate) const OCTAVE: usize = 1024;

/// Flags of a [`Plan`].
pub(crate) mod flag {
    pub(crate) const BY_CPU: u32 = 1 << 0;
    pub(crate) const CHECK_DATA: u32 = 1 << 1;
    pub(crate) const OPEN_CHECKSUMS: u32 = 1 << 2;
    pub(crate) const OWN_MAC: u32 = 1 << 3;
    pub(crate) const RECEIVE: u32 = 1 << 4;
    pub(crate) const PACED: u32 = 1 << 5;
    pub(crate) const RANDOM: u32 = 1 << 6;
    pub(crate) const IPV6: u32 = 1 << 7;
    pub(crate) const STAMPED: u32 = 1 << 8;
    pub(crate) const VETH: u32 = 1 << 9;
    pub(crate) const ADDRESSES_VARY: u32 = 1 << 10;
    pub(crate) const TOGETHER: u32 = 1 << 11;
    pub(crate) const SEVERAL: u32 = 1 << 12;
    pub(crate) const ANSWER_OWN: u32 = 1 << 13;
    pub(crate) const ACROSS: u32 = 1 << 14;
    pub(crate) const TURNED: u32 = 1 << 15;
    pub(crate) const LIMITED: u32 = 1 << 16;
    pub(crate) const MOVED: u32 = 1 << 17;
    pub(crate) const TAGGED: u32 = 1 << 18;
    pub(crate) const JOINS: u32 = 1 << 19;
    pub(crate) const SIZES: u32 = 1 << 20;
}

/// Fields that vary, and checksums, of an [`Image`].
pub(crate) const MOST_WRITERS: usize = 8;
pub(crate) const MOST_SUMS: usize = 4;
/// Addresses in a list of [`Loops`].
pub(crate) const OWN: usize = 16;
/// Sets of four packets that a source remembers.
pub(crate) const SETS: u32 = 1024;

macro_rules! plain {
    ($($(#[$meta:meta])* $name:ident: $size:literal { $($field:ident: $type:ty,)* })*) => {
        $(
            $(#[$meta])*
            #[repr(C)]
            #[derive(Clone, Copy, Debug)]
            pub(crate) struct $name { $(pub(crate) $field: $type,)* }

            // SAFETY: `repr(C)`, integers only: every bit pattern is a value; without padding, as the sizes of the
            // fields add up to the whole.
            unsafe impl aya::Pod for $name {}

            const _: () = {
                assert!(size_of::<$name>() == $size);
                assert!(0 $(+ size_of::<$type>())* == $size);
            };
        )*
    };
}

plain! {
    /// Range of `count` addresses from one on: `xdp/within.h`.
    #[derive(Default)]
    Within: 24 {
        high: u64,
        low: u64,
        count: u32,
        v6: u32,
    }
    /// The values of a coordinate of flows.
    #[derive(Default)]
    Axis: 8 {
        count: u32,
        every: u32,
    }
    /// Constants of a run: the verifier knows them, and removes what they rule out.
    Plan: 928 {
        interval_ns: u64,
        settle_ns: u64,
        seed: u64,
        catch_up_ns: u64,
        key: u64,
        flags: u32,
        sources: u32,
        rows: u32,
        periods: u32,
        rows_per_period: u32,
        clock_every: u32,
        streams: u32,
        namespace: u32,
        device: [u32; 2],
        addresses4_count: u32,
        addresses6_count: u32,
        answer4_count: u32,
        answer6_count: u32,
        addresses4: [u32; ADDRESSES],
        answer4: [u32; ADDRESSES],
        addresses6: [[u32; 4]; ADDRESSES],
        answer6: [[u32; 4]; ADDRESSES],
        mac: [u8; 6],
        unused: u16,
        hop4: u32,
        hop6: [u32; 4],
        l3: u32,
        l4: u32,
        payload_len: u32,
        frame_len: u32,
        sum: u32,
        open_sum: u32,
        src_first: u32,
        src_count: u32,
        dst_first: u32,
        flows: u32,
        lanes: u32,
        window_words: u32,
        slips: u32,
        src: [u32; 4],
        dst: [u32; 4],
        back: [u64; 5],
        lane_cpu: [u32; LANES],
        max_flows: u32,
        table: u32,
        own: Within,
        peer: Within,
        axis: [Axis; 4],
        longest: u32,
        scheduled: u32,
        senders: u32,
        places: u32,
    }
    /// A field that varies: `xdp/image.h`.
    #[derive(Default)]
    Writer: 64 {
        start: u64,
        step: u64,
        count: u64,
        mask: u64,
        constant: u64,
        at: u32,
        kind: u32,
        shift: u32,
        table: u32,
        factor: [u16; MOST_SUMS],
    }
    /// A checksum.
    #[derive(Default)]
    PartOfSum: 24 {
        at: u32,
        constant: u32,
        zero: u32,
        rest: u32,
        inner: [u16; MOST_SUMS],
    }
    /// Packets of any headers.
    #[derive(Default)]
    Image: 880 {
        word: [u64; 32],
        headers: u32,
        data: u32,
        writers: u32,
        sums: u32,
        writer: [Writer; MOST_WRITERS],
        sum: [PartOfSum; MOST_SUMS],
    }
    /// Flows and lanes of a stream: `xdp/by_stream.h`.
    Stream: 288 {
        first: u32,
        end: u32,
        seats: u32,
        sizes: u32,
        cycle: u32,
        turns: u32,
        seed: u64,
        cpu: [u32; LANES],
    }
    /// Parts of an image that differ from size to size: `xdp/image.h`.
    #[derive(Default)]
    Sized: 360 {
        word: [u64; 32],
        constant: [u64; MOST_WRITERS],
        sum: [u32; MOST_SUMS],
        rest: [u32; MOST_SUMS],
        data: u32,
        place: u32,
    }
    /// Constants of `reflect`: `xdp/own.h`.
    #[derive(Default)]
    Loops: 416 {
        secret: [u64; 2],
        own4_count: u32,
        own6_count: u32,
        broadcasts_count: u32,
        loopback: u32,
        own4: [u32; OWN],
        broadcasts: [u32; OWN],
        own6: [[u32; 4]; OWN],
    }
    /// A port of [`Forward`].
    #[derive(Default)]
    ForwardPort: 24 {
        base: u32,
        sources: u32,
        rewrite: u32,
        source: [u8; 6],
        destination: [u8; 6],
    }
    /// Constants of `forward`: `xdp/forward.bpf.c`.
    #[derive(Default)]
    Forward: 52 {
        ports: u32,
        port: [ForwardPort; 2],
    }
}

impl Default for Stream {
    fn default() -> Self {
        Self {
            first: 0,
            end: 0,
            seats: 0,
            sizes: 1,
            cycle: 0,
            turns: 0,
            seed: 0,
            cpu: [0; LANES],
        }
    }
}

/// Returns the bytes of a value, as they lie in the program's memory.
pub(crate) fn bytes_of<T: aya::Pod>(value: &T) -> Vec<u8> {
    // SAFETY: `Pod` types have no padding: all bytes of `value` are set, and there are as many as it is long.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast::<u8>(), size_of::<T>()) }.to_vec()
}

macro_rules! shared {
    ($($(#[$doc:meta])* $name:ident: $size:literal { $($field:ident: $type:ty,)* })*) => {
        $(
            $(#[$doc])*
            #[repr(C)]
            #[derive(Debug)]
            pub(crate) struct $name { $(pub(crate) $field: $type,)* }

            // SAFETY: `repr(C)`, atomics only; without padding, as the sizes of the fields add up to the whole.
            unsafe impl Shared for $name {}

            const _: () = {
                assert!(size_of::<$name>() == $size);
                assert!(0 $(+ size_of::<$type>())* == $size);
            };
        )*
    };
}

shared! {
    FlowWindow: 32 {
        next: AtomicU64,
        bits: AtomicU64,
        owner: AtomicU32,
        generation: AtomicU32,
        lock: AtomicU32,
        last: AtomicU32,
    }

    WindowWord: 16 {
        bits: AtomicU64,
        tag: AtomicU64,
    }

    Run: 32 {
        start_ns: AtomicU64,
        end_ns: AtomicU64,
        stopped: AtomicU64,
        redirect: AtomicU64,
    }
    Heard: 8 {
        mac: [AtomicU8; 6],
        known: AtomicU16,
    }
    Moments: 32 {
        count: AtomicU64,
        sum: AtomicU64,
        min_complement: AtomicU64,
        max: AtomicU64,
    }
    Row: 144 {
        tx: AtomicU64,
        missed: AtomicU64,
        rx: AtomicU64,
        duplicates: AtomicU64,
        reordered: AtomicU64,
        distance_sum: AtomicU64,
        corrupt: AtomicU64,
        foreign: AtomicU64,
        expected: AtomicU64,
        unused: AtomicU64,
        latency: Moments,
        scheduled: Moments,
    }
    Source: 1088 {
        now_ns: AtomicU64,
        left: AtomicU32,
        redirect: AtomicU32,
        row_begin: AtomicU64,
        row_end: AtomicU64,
        row_key: AtomicU32,
        period_key: AtomicU32,
        limit: AtomicU64,
        start_ns: AtomicU64,
        cpu: AtomicU32,
        place: AtomicU32,
        others: AtomicU64,
        passed: AtomicU64,
        polls: AtomicU64,
        test: AtomicU64,
        tx: AtomicU64,
        bytes: AtomicU64,
        late: AtomicU64,
        distance_max: AtomicU64,
        first_ns: AtomicU64,
        last_ns: AtomicU64,
        reasons: [AtomicU64; REASONS],
        burst: AtomicU64,
        room: [AtomicU64; 29],
        row_first: AtomicU32,
        period_first: AtomicU32,
        late_of: [AtomicU64; MOST_PLACES],
        distance_of: [AtomicU64; MOST_PLACES],
        size: AtomicU32,
        unused: AtomicU32,
        more_room: [AtomicU64; 6],
    }
    Octave: 4096 {
        bucket: [AtomicU32; OCTAVE],
    }
    WideOctave: 8192 {
        bucket: [AtomicU64; OCTAVE],
    }
    Refused: 64 {
        packets: AtomicU64,
        error: AtomicU64,
        unused: [AtomicU64; 6],
    }
    Lane: 512 {
        due_ns: AtomicU64,
        due_fraction: AtomicU64,
        step_ns: AtomicU64,
        step_fraction: AtomicU64,
        remaining: AtomicU64,
        unit: AtomicU32,
        in_unit: AtomicU32,
        random: AtomicU64,
        schedule_end_ns: AtomicU64,
        first_flow: AtomicU32,
        flow_step: AtomicU32,
        flows: AtomicU32,
        number: AtomicU32,
        writer: AtomicU32,
        run: AtomicU32,
        joins_ns: AtomicU64,
        unused: [AtomicU32; 8],
        headers: [AtomicU64; 9],
        room: [AtomicU64; 7],
        now_ns: AtomicU64,
        left: AtomicU32,
        cursor: AtomicU32,
        seq: AtomicU64,
        row_end: AtomicU64,
        row_key: AtomicU32,
        done: AtomicU32,
        pending: AtomicU64,
        packets: AtomicU64,
        bursts: AtomicU64,
        waits: AtomicU64,
        last_ns: AtomicU64,
        gaps: Moments,
        answering: AtomicU64,
        more_room: AtomicU64,
        limit: AtomicU64,
        apart: [AtomicU64; 7],
        due: [AtomicU64; MOST_STREAMS],
    }
    Slip: 16 {
        entry: AtomicU64,
        sent_ns: AtomicU64,
    }
    FlowPorts: 8 {
        source: AtomicU16,
        destination: AtomicU16,
        sum: AtomicU16,
        check: AtomicU16,
    }
    FlowAddresses: 32 {
        source: [AtomicU32; 4],
        destination: [AtomicU32; 4],
    }
}

/// Reads, and leaves zero. For what no program writes any more.
pub(crate) fn take(counter: &AtomicU64) -> u64 {
    let value = counter.load(Ordering::Relaxed);
    if value != 0 {
        counter.store(0, Ordering::Relaxed);
    }
    value
}
