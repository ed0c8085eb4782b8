#![no_main]

use mpps_report::{packed_trace, trace_from};
use mpps_trace::perfetto::{OWN_FIELD, write};
use mpps_trace::{Caption, Frame, LaneTrace, Recording, ctf, flame_svg, folded, over_time, table, tree};
use std::path::Path;

/// Empty polls are an event each: more of them only take longer.
const POLLS: u64 = 10_000;

/// A file of two lanes and two places, with a part of a kind that is made of `content`.
fn with_part(kind: u8, content: &[u8]) -> Vec<u8> {
    let place = || Frame { name: "run".to_owned(), module: "mpps".to_owned() };
    let recording = Recording {
        lanes: vec![LaneTrace::default(), LaneTrace { lane: 1, ..LaneTrace::default() }],
        frames: vec![place(), place()],
        ..Recording::default()
    };
    let mut file = Vec::new();
    write(&recording, &mut file).expect("memory takes it");
    let mut part = Vec::new();
    put(&mut part, u64::from(OWN_FIELD << 3 | 2));
    put(&mut part, content.len() as u64 + 1);
    part.push(kind);
    part.extend_from_slice(content);
    put(&mut file, 1 << 3 | 2);
    put(&mut file, part.len() as u64);
    file.extend_from_slice(&part);
    file
}

/// A number, seven bits a byte.
fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

// A trace file, packed or not, or a part of one in a file that is right otherwise (its first byte says which): no
// panic; what was read is written, and read again, as it was; and it can be shown in every form.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let name = Path::new("t.gz");
    let read = match bytes.split_first() {
        Some((kind @ 1..=4, content)) => trace_from(name, &with_part(*kind, content)[..]),
        _ => trace_from(name, bytes),
    };
    let Ok(recording) = read else { return };
    let again = trace_from(name, &packed_trace(&recording)[..]);
    assert_eq!(again.expect("what was written is read"), recording);

    let _ = (table::stages(&recording.stages), table::takers(&recording.takers));
    let _ = (table::compare(&recording, &recording), over_time::text(&recording));
    let _ = (tree::stages(&recording), tree::calls(&recording, &recording.samples));
    let rounds = recording.lanes.iter().flat_map(|lane| &lane.rounds);
    if rounds.map(|round| u64::from(round.polls)).sum::<u64>() < POLLS {
        let _ = ctf::files(&recording);
    }
    let _ = folded(&recording.samples, &recording.frames);
    let sampling = recording.meta.sampling.clone().unwrap_or_default();
    let caption = Caption::of_run(&recording.meta.command, &recording.samples, &sampling);
    let picture = flame_svg(&recording.samples, &recording.frames, &caption);
    assert!(!picture.chars().any(|c| c.is_control() && c != '\n'));
});
