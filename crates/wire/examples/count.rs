//! Work for an instruction counter: `count write|burst|verify|known|reflect|nothing SIZE PACKETS`.
//!
//! `valgrind --tool=callgrind target/release/examples/count write 64 100000`; the difference between two numbers of
//! packets, divided by theirs, is the cost of one.

use std::hint::black_box;

use mpps_wire::{
    Blank, Checker, ChecksumMode, FrameSize, MacAddr, ReflectFilter, Stamp, Template, TemplateSpec, check_udp,
    reflect_in_place,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [work, size, packets] = args.as_slice() else {
        return Err("want write|burst|verify|known|reflect|nothing SIZE PACKETS".into());
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
        _ => run(&mut |_, _| true),
    };
    println!("{good} of {packets} good");
    Ok(())
}
