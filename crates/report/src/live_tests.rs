use super::*;
use mpps_stats::{LiveLane, Period, Row, Start};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

#[derive(Clone, Default)]
struct Fake {
    writes: Arc<Mutex<Vec<String>>>,
    stuck: bool,
    theirs: Arc<AtomicBool>,
}

impl Screen for Fake {
    fn ours(&self) -> bool {
        !self.theirs.load(Relaxed)
    }
    fn ready(&self) -> bool {
        !self.stuck
    }
    fn width(&self) -> usize {
        60
    }
    fn write(&mut self, frame: &[u8]) -> io::Result<()> {
        self.writes
            .lock()
            .unwrap()
            .push(String::from_utf8(frame.to_vec()).unwrap());
        Ok(())
    }
}

fn snapshot(ms: u64) -> Snapshot {
    Snapshot {
        elapsed_ns: ms * 1_000_000,
        planned_ns: Some(10_000_000_000),
        tx: ms * 1000,
        rx: ms * 999,
        tx_pps: 1e6,
        rx_pps: 0.999e6,
        closed_ns: ms * 1_000_000,
        closed_tx: ms * 1000,
        closed_lost: 7,
        recent_loss_ratio: 0.001,
        ..Snapshot::default()
    }
}

#[test]
fn a_frame_is_one_write_and_fits_the_terminal() {
    let fake = Fake::default();
    let mut live = LiveSink::on(Box::new(fake.clone()), Mode::Frames);
    for i in 1..=40 {
        live.event(&Event::Live(&snapshot(i * 250)));
        assert_eq!(fake.writes.lock().unwrap().len(), i as usize);
    }
    for frame in fake.writes.lock().unwrap().iter() {
        assert!(frame.starts_with("\x1b[?2026h") && frame.ends_with("\x1b[?2026l"));
        assert!(
            !frame.contains("\x1b[2J") && !frame.contains("\x1b[2K"),
            "nothing is cleared before it is redrawn"
        );
        for line in frame.split("\r\n") {
            let text: String = line
                .split('\x1b')
                .map(|part| {
                    part.trim_start_matches(|c: char| {
                        c != 'h' && c != 'K' && c != 'F' && c != 'G' && c != 'J' && c != 'l'
                    })
                })
                .collect();
            assert!(text.chars().count() <= 60 + 12, "{text:?}");
        }
    }
    live.finish();
}

#[test]
fn the_fill_of_the_fullest_receive_ring_is_that_since_the_last_frame_and_none_where_nobody_looked() {
    let fake = Fake::default();
    let mut live = LiveSink::on(Box::new(fake.clone()), Mode::Frames);
    let lanes = |sums: [(u64, u64); 2]| {
        sums.map(|(rx_fill_looks, rx_fill_sum_ppm)| LiveLane {
            rx_fill_looks,
            rx_fill_sum_ppm,
            ..LiveLane::default()
        })
    };
    let mut shown = |ms: u64, lanes: &[LiveLane]| {
        let lanes = lanes.to_vec();
        live.event(&Event::Live(&Snapshot { lanes, ..snapshot(ms) }));
        let frame = fake.writes.lock().unwrap().pop().expect("a frame");
        let line = frame.split("\r\n").find(|line| line.contains("rx rings"));
        line.map(|line| line.split_whitespace().skip(2).take(2).collect::<String>())
    };
    assert_eq!(shown(250, &[]), None);
    assert_eq!(shown(500, &lanes([(0, 0), (0, 0)])), None);
    assert_eq!(
        shown(750, &lanes([(10, 1_000_000), (10, 5_000_000)])).as_deref(),
        Some("50.000%")
    );
    // Time from earlier intervals is not counted again.
    assert_eq!(
        shown(1000, &lanes([(20, 3_000_000), (20, 5_000_000)])).as_deref(),
        Some("20.000%")
    );
    assert_eq!(shown(1250, &lanes([(20, 3_000_000), (20, 5_000_000)])), None);
}

#[test]
fn in_the_background_nothing_is_drawn_and_back_in_the_foreground_nothing_is_drawn_over() {
    let fake = Fake::default();
    let mut live = LiveSink::on(Box::new(fake.clone()), Mode::Frames);
    let written = || std::mem::take(&mut *fake.writes.lock().unwrap());
    live.event(&Event::Live(&snapshot(250)));
    live.event(&Event::Live(&snapshot(500)));
    assert!(written()[1].contains("\x1b[5F"), "the second frame covers the first");
    fake.theirs.store(true, Relaxed);
    for i in 3..6 {
        live.event(&Event::Live(&snapshot(i * 250)));
    }
    assert_eq!(written(), ["\x1b[?25h"], "the cursor, and nothing else");
    fake.theirs.store(false, Relaxed);
    live.event(&Event::Live(&snapshot(2000)));
    let frames = written();
    assert!(
        frames[0].contains("\x1b[?25l") && !frames[0].contains('F'),
        "{frames:?}"
    );
}

#[test]
fn the_cursor_comes_back_on_finish_and_on_drop_and_once() {
    for finish in [true, false] {
        let fake = Fake::default();
        let mut live = LiveSink::on(Box::new(fake.clone()), Mode::Frames);
        live.event(&Event::Live(&snapshot(250)));
        if finish {
            live.finish();
        }
        drop(live);
        let all = fake.writes.lock().unwrap().concat();
        assert_eq!(all.matches("\x1b[?25l").count(), 1);
        assert_eq!(all.matches("\x1b[?25h").count(), 1);
        assert!(all.ends_with("\x1b[?25h\r\n"));
    }
}

#[test]
fn each_note_is_told_once_in_both_modes() {
    for mode in [Mode::Frames, Mode::Lines] {
        let fake = Fake::default();
        let mut live = LiveSink::on(Box::new(fake.clone()), mode);
        let s = snapshot(250);
        live.event(&Event::Live(&s));
        live.event(&Event::Note("eth1: link down"));
        live.event(&Event::Live(&s));
        live.event(&Event::Note("csv: disk full"));
        live.event(&Event::Live(&s));
        live.event(&Event::Live(&s));
        live.finish();
        let all = fake.writes.lock().unwrap().concat();
        assert_eq!(all.matches("link down").count(), 1);
        assert_eq!(all.matches("disk full").count(), 1);
    }
}

#[test]
fn elsewhere_one_plain_line_a_second() {
    let fake = Fake::default();
    let mut live = LiveSink::on(Box::new(fake.clone()), Mode::Lines);
    for i in 1..=40 {
        live.event(&Event::Live(&snapshot(i * 250)));
    }
    live.finish();
    let all = fake.writes.lock().unwrap().concat();
    assert_eq!(all.lines().count(), 10);
    assert!(!all.contains('\x1b'));
    assert!(all.lines().next().unwrap().contains("1.000 Mpps"), "{all}");
}

fn start(workload: Workload) -> Event<'static> {
    Event::Start(Start {
        workload,
        tracks: &[],
        ..Start::default()
    })
}

/// A row of 100 ms: 1000 packets sent, `lost` of them lost.
fn row(index: u64, lost: u64) -> Row {
    Row {
        index,
        start_ns: index * 100_000_000,
        length_ns: 100_000_000,
        tx: 1000,
        rx: 1000 - lost,
        lost: lost as i64,
        ..Row::default()
    }
}

#[test]
fn a_plain_line_has_what_became_of_the_packets_sent_in_its_second() {
    let fake = Fake::default();
    let mut live = LiveSink::on(Box::new(fake.clone()), Mode::Lines);
    // Rows close 1.05 s after their end; 400 packets are lost of those sent between 1.2 and 1.4 s, and the run ends at
    // 2.5 s.
    for quarter in 1..=10u64 {
        let ms = quarter * 250;
        let closed = |ms: u64| ms.saturating_sub(1050) / 100;
        for index in closed(ms - 250)..closed(ms) {
            live.event(&Event::Row(&row(index, if matches!(index, 12 | 13) { 200 } else { 0 })));
            live.event(&Event::Period(Period {
                start_ns: index * 100_000_000,
                length_ns: 100_000_000,
                buckets: &[(index + 1, 1)],
                ..Period::default()
            }));
        }
        live.event(&Event::Live(&Snapshot {
            tx: ms * 10,
            rx: ms * 10 - 7,
            ..snapshot(ms)
        }));
    }
    for index in 14..24 {
        live.event(&Event::Row(&row(index, 0)));
    }
    live.event(&Event::Row(&Row {
        length_ns: 50_000_000,
        tx: 500,
        rx: 500,
        host_dropped: Some(33_144),
        ..row(24, 0)
    }));
    live.finish();
    let all = fake.writes.lock().unwrap().concat();
    println!("{all}");
    let lines: Vec<_> = all
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        lines[0],
        "by 1.5 s sent 10.00 kpps received 9.995 kpps lost: not known yet"
    );
    assert_eq!(
        lines[1],
        "by 2.0 s sent 10.00 kpps received 10.00 kpps lost: not known yet"
    );
    assert_eq!(lines[2], "0-1 s sent 10.00 kpps received 10.00 kpps lost 0 %");
    assert_eq!(lines[3], "1-2 s sent 10.00 kpps received 9.600 kpps lost 4.000 %");
    // The rate of the last is over the time that it covers.
    assert_eq!(
        lines[4],
        "2.00-2.45 s sent 10.00 kpps received 10.00 kpps lost 0 % dropped by this host 33,144"
    );
    assert_eq!(lines.len(), 5);
}

#[test]
fn the_frame_says_that_loss_is_not_known_before_rows_have_closed_and_shows_drops_by_this_host() {
    let live = LiveSink::on(Box::new(Fake::default()), Mode::Frames);
    let mut s = snapshot(500);
    (s.closed_ns, s.closed_tx, s.closed_lost) = (0, 0, 0);
    let lines = live.lines(&s);
    assert!(
        lines[3].starts_with("lost     not known yet") && !lines[3].contains('%'),
        "{}",
        lines[3]
    );
    s.host_dropped = Some(33_144);
    let lines = live.lines(&s);
    assert!(
        lines[4].starts_with("dropped") && lines[4].contains("33,144  by this host"),
        "{}",
        lines[4]
    );
}

#[test]
fn a_terminal_that_takes_nothing_is_not_waited_for() {
    let fake = Fake {
        stuck: true,
        ..Fake::default()
    };
    for mode in [Mode::Frames, Mode::Lines, Mode::Off] {
        let mut live = LiveSink::on(Box::new(fake.clone()), mode);
        live.event(&Event::Live(&snapshot(5000)));
        live.finish();
    }
    assert!(fake.writes.lock().unwrap().is_empty());
}

#[test]
fn a_sparkline_shows_every_loss() {
    let values: VecDeque<f64> = [0.0, 1e-9, 1.0].into();
    assert_eq!(sparkline(&values, 1.0), " ▁█");
}

#[test]
fn the_frame_shows_progress_rates_loss_and_latency() {
    let mut live = LiveSink::on(Box::new(Fake::default()), Mode::Frames);
    live.rates.extend([1e6, 0.5e6]);
    let mut s = snapshot(2500);
    s.recent_latency = Some(mpps_stats::Latency {
        count: 1,
        percentiles: Some(mpps_stats::Percentiles {
            p50: 14_000,
            p90: 20_000,
            p99: 45_000,
            p999: 90_000,
        }),
        max: 1_250_000,
        ..Default::default()
    });
    let lines = live.lines(&s);
    println!("{}", lines.join("\n"));
    assert_eq!(lines[0], "2.5 s of 10.0 s  █████░░░░░░░░░░░░░░░  25 %");
    assert!(lines[1].starts_with("sent      1.000 Mpps            2,500,000") && lines[1].ends_with("█▄"));
    assert!(lines[2].starts_with("received  999.0 kpps            2,497,500"));
    assert!(lines[3].starts_with("lost         0.100 %                    7  0.00028 %"));
    assert_eq!(lines[4], "latency  p50  14.00 µs  p99  45.00 µs  max  1.250 ms");
    s.settling = true;
    assert!(live.lines(&s)[0].contains("waiting for packets still under way"));
}

/// The lines of a run of three seconds at so many packets/s each.
fn plain_lines(workload: Workload, rates: [u64; 3]) -> Vec<String> {
    let fake = Fake::default();
    let mut live = LiveSink::on(Box::new(fake.clone()), Mode::Lines);
    live.event(&start(workload));
    for (second, rate) in rates.into_iter().enumerate() {
        let lost = rate * second as u64 / 7;
        for index in (second as u64 * 10..).take(10) {
            live.event(&Event::Row(&Row {
                tx: rate / 10,
                rx: (rate - lost) / 10,
                lost: (lost / 10) as i64,
                ..row(index, 0)
            }));
        }
    }
    live.finish();
    let all = fake.writes.lock().unwrap().concat();
    all.lines().map(str::to_owned).collect()
}

#[test]
fn columns_of_plain_lines_stay_where_they_are_whatever_the_rates_and_times() {
    let mut lines = plain_lines(Workload::SendRecv, [700, 70_000, 7_000_000]);
    assert_eq!(lines.len(), 3, "{lines:?}");
    for hours in [0, 1, 20] {
        let fake = Fake::default();
        let mut live = LiveSink::on(Box::new(fake.clone()), Mode::Lines);
        live.event(&Event::Live(&snapshot(hours * 3_600_000 + 1_600)));
        lines.push(fake.writes.lock().unwrap().concat());
    }
    for word in ["sent", "received", "lost"] {
        let places: Vec<_> = lines.iter().map(|line| line.find(word)).collect();
        assert!(
            places[0].is_some() && places.iter().all(|place| *place == places[0]),
            "{word}: {lines:#?}"
        );
    }
    let shares: Vec<_> = lines[..3].iter().map(|line| line.find('%')).collect();
    assert!(shares.iter().all(|place| *place == shares[0]), "{lines:#?}");
}

#[test]
fn a_line_of_a_receiver_has_what_it_knows() {
    for (workload, words) in [
        (Workload::Drop, ["received", "lost", ""]),
        (Workload::Reflect, ["sent", "received", "not sent"]),
        (Workload::Forward, ["sent", "received", "not sent"]),
        (Workload::Capture, ["taken", "kept", "lost"]),
    ] {
        let lines = plain_lines(workload, [700, 70_000, 7_000_000]);
        assert!(
            lines.iter().all(|line| words.iter().all(|word| line.contains(word))),
            "{lines:?}"
        );
        let sends = words.contains(&"sent");
        assert!(lines.iter().all(|line| sends || !line.contains("sent")), "{lines:?}");
    }
}

#[test]
fn a_run_that_only_sends_tells_nothing_of_what_is_received_or_lost() {
    let lines = plain_lines(Workload::Send, [700, 70_000, 7_000_000]);
    assert!(
        lines
            .iter()
            .all(|line| line.contains("sent") && !line.contains("received") && !line.contains("lost")),
        "{lines:?}"
    );
    let mut live = LiveSink::on(Box::new(Fake::default()), Mode::Frames);
    live.event(&start(Workload::Send));
    let frame = live.lines(&snapshot(500)).join("\n");
    assert!(
        frame.contains("sent") && !frame.contains("received") && !frame.contains("lost"),
        "{frame}"
    );
}

#[test]
fn a_long_note_is_folded_between_words() {
    let fake = Fake::default();
    let mut live = LiveSink::on(Box::new(fake.clone()), Mode::Frames);
    live.event(&Event::Note(&["word"; 40].join(" ")));
    live.event(&Event::Live(&snapshot(250)));
    let all = fake.writes.lock().unwrap().concat();
    let told: Vec<_> = all.split("\r\n").filter(|line| line.contains("word")).collect();
    assert!(told.len() > 2, "{all}");
    assert!(
        told.iter()
            .all(|line| line.matches("word").count() * 5 < 60 && !line.contains("wor\x1b")),
        "{all}"
    );
}

#[test]
fn streams_have_a_line_each_and_those_that_have_none_one_together() {
    let of: Vec<_> = (0..10).map(|n| (StreamKind::Stream, format!("s{n}"))).collect();
    let of = [of, vec![(StreamKind::Group, "all".to_owned())]].concat();
    let row = Row {
        length_ns: 100_000_000,
        tx: 1000,
        rx: 990,
        lost: 10,
        ..Row::default()
    };
    let rows = vec![row; of.len()];
    let lines = of_streams(&StreamRows { of: &of, rows: &rows });
    assert_eq!(lines.len(), MOST_STREAMS + 1);
    assert_eq!(
        lines[0],
        "s0       sent  10.00 kpps  received  9.900 kpps  lost 1.000 %"
    );
    assert!(lines[8].starts_with("and 2 more sent  20.00 kpps"), "{}", lines[8]);
}
