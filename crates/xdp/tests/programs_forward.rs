//! The `forward` programs take and rewrite every frame as mpps-wire's forwarder does.

#[path = "programs/mod.rs"]
mod programs;
#[allow(dead_code, unreachable_pub, reason = "a part is used")]
#[path = "../src/sys.rs"]
mod sys;

use mpps_wire::{MacAddr, Rewrite, TakeFilter, complete_open_checksum};
use programs::abi::{Forward, ForwardPort, flag};
use programs::{Constant, OWN_MAC, Object, PASS, Program, TX, bytes_of, frames};
use std::net::IpAddr;
use std::sync::atomic::Ordering;

static FORWARD: Object<{ include_bytes!("../bpf/forward.bpf.o").len() }> =
    Object(*include_bytes!("../bpf/forward.bpf.o"));

const MUTATIONS: usize = 10_000;
const NOT_TAKEN: usize = 14;
const NEXT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];

/// `struct take_filter` in `xdp/take.h`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Take {
    take: u32,
    flags: u32,
    protocol: u32,
    own4_count: u32,
    own6_count: u32,
    match4_count: u32,
    match6_count: u32,
    answer4_count: u32,
    answer6_count: u32,
    own4: [u32; 8],
    match4: [u32; 8],
    answer4: [u32; 8],
    own6: [[u32; 4]; 16],
    match6: [[u32; 4]; 8],
    answer6: [[u32; 4]; 8],
    reserved: u32,
    /// Ranges of addresses beside the lists: none.
    within: [[u32; 6]; 2],
}

const _: () = assert!(size_of::<Take>() == 696);
// SAFETY: `repr(C)`, integers without padding.
unsafe impl aya::Pod for Take {}

fn load(take: &TakeFilter, rewrite: &Rewrite, flags: u32) -> Program {
    let mut plan = programs::plan();
    plan.flags = flags;
    let mut forward = Forward {
        ports: 1,
        ..Forward::default()
    };
    forward.port[0] = ForwardPort {
        sources: 1,
        rewrite: match rewrite {
            Rewrite::Io => 0,
            Rewrite::MacSwap => 1,
            Rewrite::FiveTupleSwap => 2,
            Rewrite::L2Forward { .. } => 3,
        },
        source: OWN_MAC,
        destination: NEXT_MAC,
        ..ForwardPort::default()
    };
    let mut out = Take::default();
    let mut bits = [0; 1024];
    match take {
        TakeFilter::All => out.take = 1,
        TakeFilter::Foreign(own) => {
            out.take = 2;
            ((out.own4, out.own4_count), (out.own6, out.own6_count)) = programs::by_family(own);
        }
        TakeFilter::Udp { ip, ports } => {
            (out.take, out.flags, out.protocol) = (3, 1 << 3, 17);
            let ips: Vec<_> = (*ip).into_iter().collect();
            if ips.is_empty() {
                out.flags |= 1 << 1;
            }
            ((out.match4, out.match4_count), (out.match6, out.match6_count)) = programs::by_family(&ips);
            match ports {
                Some(ports) => bits = programs::port_bits(|port| ports.contains(&port)),
                None => out.flags |= 1,
            }
        }
    }
    let constants = [
        Constant("FORWARD", bytes_of(&forward)),
        Constant("TAKE_A", bytes_of(&out)),
        Constant("PORTS", bytes_of(&bits)),
    ];
    programs::load(&FORWARD.0, &plan, &constants, "forward_a")
}

fn same(take: &TakeFilter, rewrite: &Rewrite, open: bool) {
    let program = load(take, rewrite, if open { flag::OPEN_CHECKSUMS } else { 0 });
    let (mut taken, mut length) = (0, 0);
    programs::for_all(MUTATIONS, |frame| {
        if cut_in_ports(frame) {
            return;
        }
        let mut wanted = frame.to_vec();
        let takes = take.takes(frame);
        if takes {
            if open {
                complete_open_checksum(&mut wanted);
            }
            rewrite.apply(&mut wanted).expect("a whole Ethernet header");
            taken += 1;
            length += frame.len() as u64;
        }
        let (verdict, bytes) = program.run(frame);
        let expected = if takes { (TX, None) } else { (PASS, Some(NOT_TAKEN)) };
        assert_eq!((verdict, program.reason()), expected, "{take:?} {frame:02x?}");
        assert_eq!(bytes, wanted, "{rewrite:?} {frame:02x?}");
    });
    let (source, row) = (program.source(), program.row());
    for counter in [&source.test, &source.tx, &row.rx, &row.tx] {
        assert_eq!(counter.load(Ordering::Relaxed), taken);
    }
    assert_eq!(source.bytes.load(Ordering::Relaxed), length);
}

/// Whether a frame ends between its ports: the program wants both, user space the one that it looks at.
fn cut_in_ports(frame: &[u8]) -> bool {
    let l3 = 14 + programs::tags(frame) * 4;
    let header = match frame.get(l3) {
        Some(first) if first >> 4 == 4 => usize::from(first & 0xf) * 4,
        _ => 40,
    };
    (l3 + header..l3 + header + 4).contains(&frame.len())
}

#[test]
fn frames_are_rewritten_as_by_the_forwarder_in_user_space() {
    if !programs::can_load() {
        return;
    }
    let l2 = Rewrite::L2Forward {
        source: MacAddr(OWN_MAC),
        destination: MacAddr(NEXT_MAC),
    };
    for rewrite in [Rewrite::Io, Rewrite::MacSwap, Rewrite::FiveTupleSwap, l2] {
        for open in [false, true] {
            same(&TakeFilter::All, &rewrite, open);
        }
    }
}

#[test]
fn frames_are_taken_as_by_the_forwarder_in_user_space() {
    if !programs::can_load() {
        return;
    }
    let ours: [IpAddr; 2] = [frames::DST_V4.into(), frames::DST_V6.into()];
    let udp = |ip, ports| TakeFilter::Udp { ip, ports };
    for take in [
        TakeFilter::Foreign(ours.into()),
        udp(None, None),
        udp(Some(ours[0]), None),
        udp(Some(frames::SRC_V6.into()), Some(9_000..=9_000)),
        udp(None, Some(9_500..=10_000)),
    ] {
        same(&take, &Rewrite::MacSwap, false);
    }
}
