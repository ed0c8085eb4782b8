//! Work for an instruction counter: `count WORK SIZE PACKETS`, and what a packet took in this run, ns.
//!
//! Work of a receiver beside verifying: `alone` looks for duplicates where flows take turns, `order` where a burst of
//! 32 came in order, and `row` books such a burst into row and histogram.
//!
//! `valgrind --tool=callgrind target/release/examples/count write 64 100000`; the difference between two numbers of
//! packets, divided by theirs, is the cost of one.

use std::hint::black_box;
use std::time::Instant;

use mpps_stats::{Arrival, LaneSeries, SequenceWindows, Timing};
use mpps_wire::{
    Blank, Checker, ChecksumMode, FrameSize, MacAddr, ReflectFilter, Stamp, Template, TemplateSpec, check_udp,
    reflect_in_place,
};

const FLOWS: u64 = 64;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [work, size, packets] = args.as_slice() else {
        return Err("want write|burst|verify|known|reflect|alone|order|row|nothing SIZE PACKETS".into());
    };
    let (size, packets): (usize, u64) = (size.parse()?, packets.parse()?);
    let template = Template::new(&TemplateSpec {
        src_mac: MacAddr([2, 0, 0, 0, 0, 1]),
        dst_mac: MacAddr([2, 0, 0, 0, 0, 2]),
        vlan: None,
        src: "10.99.0.1".parse()?,
        dst: "10.99.0.2".parse()?,
        payload_len: FrameSize::from_fcs(size)
            .payload_len(false, false)
            .ok_or("frame too small")?,
        ttl: 64,
        dscp: 0,
        seed: 1,
        checksum: ChecksumMode::Software,
    })?;
    let filter = ReflectFilter::default();
    let mut frame = vec![0; template.frame_len()];
    template.write(&mut frame, 10_000, 9_000, Stamp { seq: 7, time_ns: 100 });
    let came = [frame[22], frame[23], frame[24], frame[25]];
    let run = |step: &mut dyn FnMut(&mut [u8], u64) -> bool| {
        let mut frame = frame.clone();
        (0..packets)
            .filter(|seq| step(black_box(frame.as_mut_slice()), *seq))
            .count()
    };
    let mut began = Instant::now();
    let good = match work.as_str() {
        "write" => run(&mut |frame, seq| {
            template.write(frame, 10_000, 9_000, Stamp { seq, time_ns: seq });
            true
        }),
        // As senders write, a burst of 32 at a time.
        "burst" => {
            let mut frames = vec![frame.clone(); 32];
            (0..packets / 32)
                .map(|burst| {
                    let blanks = black_box(&mut frames)
                        .iter_mut()
                        .zip(burst * 32..)
                        .map(|(bytes, seq)| Blank {
                            bytes,
                            flow: 0,
                            ports: (10_000, 9_000),
                            seq,
                        });
                    template.write_all(blanks, burst);
                    32
                })
                .sum()
        }
        // As receivers do with packets whose headers they know.
        "known" => {
            let mut checker = Checker::default();
            checker.remember(
                &frame,
                &check_udp(&frame, 1, true)
                    .map_err(|reject| format!("{reject:?}"))?
                    .packet,
            );
            run(&mut |frame, _| {
                checker
                    .check(frame, 1, true)
                    .is_some_and(|known| known.checksum_ok && known.data_ok)
            })
        }
        "verify" => run(&mut |frame, _| check_udp(frame, 1, true).is_ok_and(|c| c.checksum_ok && c.data_ok)),
        "reflect" => run(&mut |frame, _| {
            // Its time to live would be used up.
            frame[22..26].copy_from_slice(&came);
            reflect_in_place(frame, &filter, false).is_ok()
        }),
        "alone" => {
            let mut windows = SequenceWindows::new(FLOWS as usize, 1 << 16, 16 << 20);
            began = Instant::now();
            run(&mut |_, seq| windows.record((seq % FLOWS) as usize, seq / FLOWS) == Arrival::InOrder)
        }
        "order" => {
            let mut windows = SequenceWindows::new(FLOWS as usize, 1 << 16, 16 << 20);
            began = Instant::now();
            for burst in 0..packets / 32 {
                windows.record_next(black_box(burst % FLOWS) as usize, 32);
            }
            (0..FLOWS as usize).map(|flow| windows.next(flow) as usize).sum()
        }
        "row" => {
            let timing = Timing {
                start_ns: 0,
                interval_ns: 100_000_000,
                settle_ns: 1_000_000_000,
            };
            let series = LaneSeries::new(timing, true);
            let mut recorder = series.recorder();
            began = Instant::now();
            (0..packets / 32)
                .map(|burst| {
                    let at = black_box(burst % 1024) * 10;
                    32 * usize::from(recorder.received_n(at, at + 5_000 + burst % 512, 32, &[]))
                })
                .sum()
        }
        _ => run(&mut |_, _| true),
    };
    let each = began.elapsed().as_secs_f64() * 1e9 / packets.max(1) as f64;
    println!("{good} of {packets} good, {each:.2} ns each");
    Ok(())
}
