use super::*;
use crate::capture::Capture;
use crate::frames::{Frames, Place};
use mpps_traffic::Speed;
use proptest::prelude::*;
use std::sync::Mutex;

/// Files that are opened one after the other; the last one over and over.
struct Files(Mutex<Vec<Vec<u8>>>);

impl Opened for Files {
    fn name(&self) -> &str {
        "a.pcap"
    }

    fn open(&self) -> io::Result<Box<dyn Read + '_>> {
        let mut files = self.0.lock().unwrap_or_else(|e| e.into_inner());
        let file = if files.len() > 1 {
            files.remove(0)
        } else {
            files[0].clone()
        };
        Ok(Box::new(io::Cursor::new(file)))
    }
}

fn files(files: &[&[u8]]) -> Box<Files> {
    Box::new(Files(Mutex::new(files.iter().map(|file| file.to_vec()).collect())))
}

/// Returns a capture file with times in ns: of each packet its time, its length and the source port of its flow.
fn capture(packets: &[(u64, usize, u8)]) -> Vec<u8> {
    let mut file = vec![0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0];
    file.extend([0; 8]);
    file.extend([0, 0, 4, 0, 1, 0, 0, 0]);
    for (at, (at_ns, len, port)) in packets.iter().enumerate() {
        let mut frame = vec![at as u8; *len];
        frame[12..42].fill(0);
        frame[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
        let ip = (*len - 14) as u16;
        frame[16..18].copy_from_slice(&ip.to_be_bytes());
        (frame[22], frame[23], frame[35]) = (64, 17, *port);
        frame[38..40].copy_from_slice(&(ip - 20).to_be_bytes());
        for number in [at_ns / 1_000_000_000, at_ns % 1_000_000_000, *len as u64, *len as u64] {
            file.extend((number as u32).to_le_bytes());
        }
        file.extend(frame);
    }
    file
}

/// Frames that a lane gets: due time, bytes, end of the tag.
type Got = Vec<(u64, Vec<u8>, Option<usize>)>;

/// Takes all frames out of the rings while they are put in, and returns those of each lane, and the fault.
fn taken(frames: &Frames, schedule: &Schedule, laps: u64) -> (Vec<Got>, Option<String>) {
    let ahead = frames.read_ahead().expect("frames that are read ahead");
    let rings = ahead.rings();
    let mut got = vec![Vec::new(); frames.lanes()];
    std::thread::scope(|scope| {
        scope.spawn(|| ahead.feed(&rings, Some(schedule), Some(laps), frames.lens()));
        let mut at = vec![0; frames.lanes()];
        loop {
            let ended = rings.has_ended();
            for (lane, got) in got.iter_mut().enumerate() {
                let ring = rings.of(lane).expect("a ring for each lane");
                while at[lane] != ring.end() {
                    let head = ring.head(at[lane]);
                    assert_eq!(frames.lens()[head.size], head.len);
                    let mut bytes = vec![0; head.len];
                    ring.copy(at[lane], &mut bytes);
                    got.push((head.due_ns, bytes, head.tag_end));
                    at[lane] = ring.behind(at[lane], &head);
                    ring.free(at[lane]);
                }
            }
            if ended {
                break;
            }
            std::thread::yield_now();
        }
    });
    (got, rings.fault().map(str::to_owned))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn frames_that_are_read_ahead_are_those_of_a_capture_in_memory(
        packets in prop::collection::vec((0u64..5_000, 42usize..400, 0u8..9), 1..60),
        (laps, shift, tag) in (1u64..4, 0u16..3, any::<bool>()),
    ) {
        let file = capture(&packets);
        let how = Preparation { tag, rewrite: crate::Rewrite::default().shift_ports(shift), ..Preparation::default() };
        let whole = Capture::read(&file[..], &Selection::default(), 1 << 20).expect("a capture");
        let kept = Frames::new(&whole, &how).expect("frames");
        let read = Preparation { most: 1 << 20, ..how };
        let (ahead, facts) = Frames::ahead(files(&[&file]), &Selection::default(), &read).expect("frames");
        prop_assert_eq!(facts, whole.facts());
        let figures = |of: &Frames| (of.len(), of.lens().to_vec(), of.tagged(), of.longest_untagged(), of.mean_len());
        prop_assert_eq!(figures(&ahead), figures(&kept));
        let schedule = Schedule::new(&facts, Some(laps), Speed::ONE);
        let (got, fault) = taken(&ahead, &schedule, laps);
        prop_assert_eq!((got.len(), fault), (1, None));
        prop_assert_eq!(got[0].len() as u64, laps * facts.packets);
        let mut place = Place::default();
        for (due_ns, bytes, tag_end) in &got[0] {
            let sent = kept.step(0, &mut place);
            let (lap, offset_ns) = kept.due(sent);
            let mut want = vec![0; bytes.len()];
            prop_assert_eq!(kept.write(sent, &mut want), bytes.len());
            prop_assert_eq!((*due_ns, bytes, *tag_end), (schedule.due_ns(lap, offset_ns), &want, kept.tag_end(sent)));
        }
    }

    #[test]
    fn packets_of_a_flow_leave_by_one_lane_in_their_order(
        packets in prop::collection::vec((0u64..5_000, 42usize..100, 0u8..9), 1..60),
        lanes in 1usize..5,
    ) {
        let how = Preparation { lanes, most: 1 << 20, ..Preparation::default() };
        let (ahead, facts) = Frames::ahead(files(&[&capture(&packets)]), &Selection::default(), &how).expect("frames");
        let (got, fault) = taken(&ahead, &Schedule::new(&facts, Some(2), Speed::ONE), 2);
        prop_assert_eq!(fault, None);
        let port = |frame: &[u8]| frame[35];
        for of in 0..9 {
            let has = |lane: &&Got| lane.iter().any(|(_, frame, _)| port(frame) == of);
            prop_assert!(got.iter().filter(has).count() <= 1);
        }
        for (lane, got) in got.iter().enumerate() {
            prop_assert!(got.is_sorted_by_key(|(due_ns, ..)| *due_ns));
            prop_assert_eq!(got.len() as u64, ahead.of_lane(lane, 2 * facts.packets));
        }
    }
}

#[test]
fn a_file_that_is_another_when_it_is_read_again_is_named_behind_what_is_the_same() {
    let packets: Vec<(u64, usize, u8)> = (0..20).map(|n| (n * 100, 60, 1)).collect();
    let file = capture(&packets);
    let record = 76;
    let mut garbage = file.clone();
    garbage[24 + 10 * record..][..16].fill(0xff);
    let mut longer = capture(&[&packets[..], &[(9_000, 60, 1)]].concat());
    longer.truncate(24 + 21 * record);
    let other = capture(
        &(0..20)
            .map(|n| (n * 100, if n == 7 { 61 } else { 60 }, 1))
            .collect::<Vec<_>>(),
    );
    for (again, kept, needle) in [
        (&file[..file.len() - 5], 19, "the file ends within it"),
        (&file[..24 + 12 * record], 12, "packet 13 is not what it was"),
        (&garbage[..], 10, "packet 11 at byte 784"),
        (&longer[..], 20, "the file changed while it was sent"),
        (&other[..], 7, "packet 8 is not what it was"),
        (&b"no capture"[..], 0, "no capture file"),
    ] {
        let how = Preparation {
            most: 1 << 20,
            ..Preparation::default()
        };
        let (ahead, facts) = Frames::ahead(files(&[&file, again]), &Selection::default(), &how).expect("frames");
        let (got, fault) = taken(&ahead, &Schedule::new(&facts, Some(1), Speed::ONE), 1);
        let fault = fault.expect(needle);
        assert!(fault.contains(needle), "{fault}");
        assert_eq!(got[0].len(), kept, "{needle}");
    }
}

/// File without an end: a capture's header, and its first record over and over.
struct Endless {
    file: Vec<u8>,
    at: usize,
}

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let part = &self.file[self.at..];
        let count = part.len().min(buffer.len());
        buffer[..count].copy_from_slice(&part[..count]);
        self.at = if count < part.len() { self.at + count } else { 24 };
        Ok(count)
    }
}

/// A capture of port 1 that has become, when it is opened again, an endless one of port 2.
struct Grown(AtomicBool);

impl Opened for Grown {
    fn name(&self) -> &str {
        "a.pcap"
    }

    fn open(&self) -> io::Result<Box<dyn Read + '_>> {
        Ok(match self.0.swap(true, Ordering::Relaxed) {
            false => Box::new(io::Cursor::new(capture(&[(0, 60, 1)]))),
            true => Box::new(Endless {
                file: capture(&[(0, 60, 2)]),
                at: 0,
            }),
        })
    }
}

#[test]
fn reading_ends_when_it_is_stopped_also_where_no_packet_of_the_file_is_taken() {
    let only = mpps_traffic::Packet::parse("eth / ipv4 / udp src=1").expect("a packet");
    let selection = Selection {
        only: Some(crate::Matcher::of(&only).expect("a matcher")),
        ..Selection::default()
    };
    let how = Preparation {
        most: 1 << 20,
        ..Preparation::default()
    };
    let (frames, _) = Frames::ahead(Box::new(Grown(AtomicBool::new(false))), &selection, &how).expect("frames");
    let ahead = frames.read_ahead().expect("frames that are read ahead");
    let rings = ahead.rings();
    std::thread::scope(|scope| {
        scope.spawn(|| ahead.feed(&rings, None, None, frames.lens()));
        rings.stop();
    });
    assert!(rings.has_ended() && rings.fault().is_none());
}

/// A capture that can't be opened a third time, since it has changed.
struct Changing(Mutex<u32>);

impl Opened for Changing {
    fn name(&self) -> &str {
        "a.pcap"
    }

    fn open(&self) -> io::Result<Box<dyn Read + '_>> {
        let mut opened = self.0.lock().unwrap_or_else(|e| e.into_inner());
        *opened += 1;
        match *opened {
            1 | 2 => Ok(Box::new(io::Cursor::new(capture(&[(0, 60, 1)])))),
            _ => Err(io::Error::other("it has changed")),
        }
    }
}

#[test]
fn a_file_that_changes_in_its_last_lap_is_named() {
    let how = Preparation {
        most: 1 << 20,
        ..Preparation::default()
    };
    let file = Box::new(Changing(Mutex::new(0)));
    let (frames, facts) = Frames::ahead(file, &Selection::default(), &how).expect("frames");
    let (got, fault) = taken(&frames, &Schedule::new(&facts, Some(1), Speed::ONE), 1);
    assert_eq!(got[0].len(), 1);
    assert!(fault.is_some_and(|fault| fault.contains("it has changed")));
}
