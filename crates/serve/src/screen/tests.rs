//! Contents of the view, drawn into ratatui's terminal for tests.

use super::draw::{Choice, Tab, draw};
use super::keys::Key;
use super::look::Look;
use crate::history::Point;
use crate::state::{About, Counts, Goal, LaneState, Phase, State};
use mpps_stats::{Latency, Percentiles, Row, Start, StreamKind, StreamRows, Workload};
use mpps_trace::Stage;
use proptest::prelude::*;
use ratatui_core::backend::TestBackend;
use ratatui_core::style::Color;
use ratatui_core::terminal::Terminal;
use std::sync::Arc;

const LOOK: Look = Look { colour: true };

/// A run of 12 s out of 30 with two lanes.
fn state() -> State {
    let lane = LaneState {
        tx_pps: 5e5,
        rx_pps: 4.99e5,
        busy: Some(0.42),
        fill: Some(0.125),
        highest_fill: 0.5,
        dropped: Some(0),
        not_running_ns: Some(300_000),
        ..LaneState::default()
    };
    let mut state = State {
        about: Arc::new(About {
            workload: "sendrecv".to_owned(),
            path: "af_xdp".to_owned(),
            device: "eth1".to_owned(),
            single: true,
            ..About::default()
        }),
        phase: Phase::Running,
        trial: 1,
        start: Start {
            workload: Workload::SendRecv,
            intended_pps: Some(1e6),
            tolerance: 0.001,
            ..Start::default()
        },
        elapsed_ns: 12_000_000_000,
        planned_ns: Some(30_000_000_000),
        closed_ns: 11_000_000_000,
        of_trial: Counts {
            tx: 12_000_000,
            rx: 11_980_000,
            settled_tx: 11_000_000,
            settled_lost: 22_000,
            faults: [3, 0, 0, 0, 0, 0],
            ..Counts::default()
        },
        tx_pps: 1e6,
        rx_pps: 0.998e6,
        recent_loss: 0.0021,
        recent: Some(Latency {
            count: 1000,
            max: 1_900_000,
            percentiles: Some(Percentiles {
                p50: 12_000,
                p90: 20_000,
                p99: 31_000,
                p999: 210_000,
            }),
            ..Latency::default()
        }),
        lanes: vec![lane, LaneState { queue: 1, ..lane }],
        notes: vec!["eth1: link down".into(), "eth1: link up".into()],
        ..State::default()
    };
    state.stages[Stage::Receive.index()] = 0.42;
    state.stages[Stage::Spinning.index()] = 0.5;
    let buckets = [(12_000, 900_000), (31_000, 90_000), (210_000, 900), (1_900_000, 3)];
    state.latency_spread.add(&buckets);
    state.scheduled_spread.add(&buckets);
    state
}

fn points() -> Vec<Point> {
    let point = |number: u64| Point {
        trial: 1,
        first: number,
        last: number,
        start_ns: (number - 1) * 100_000_000,
        length_ns: 100_000_000,
        tx: 100_000,
        rx: 99_800,
        lost: if number == 50 { 2_000 } else { 0 },
        latency: [Some(12_000), Some(31_000), Some(210_000), Some(1_900_000)],
        ..Point::default()
    };
    (1..=110).map(point).collect()
}

/// The picture, as text.
fn shown(
    state: &State,
    points: &[Point],
    mut choice: Choice,
    look: Look,
    (width, height): (u16, u16),
) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal
        .draw(|frame| draw(frame.buffer_mut(), state, points, &mut choice, look))
        .expect("drawn");
    terminal
}

fn text(state: &State, tab: Tab, size: (u16, u16)) -> Vec<String> {
    let choice = Choice {
        tab,
        ..Choice::default()
    };
    let terminal = shown(state, &points(), choice, LOOK, size);
    let buffer = terminal.backend().buffer().clone();
    let lines = buffer.content().chunks(usize::from(size.0));
    let lines: Vec<String> = lines
        .map(|row| {
            row.iter()
                .map(|cell| cell.symbol())
                .collect::<String>()
                .trim_end()
                .to_owned()
        })
        .collect();
    println!("{}\n", lines.join("\n"));
    lines
}

fn assert_told(lines: &[String], words: &[&str]) {
    let all = lines.join("\n");
    words
        .iter()
        .for_each(|word| assert!(all.contains(word), "{word}: {all}"));
}

const SIZES: [(u16, u16); 3] = [(80, 24), (40, 12), (200, 50)];

#[test]
fn the_overview_tells_verdict_progress_rates_loss_and_latency_at_each_size() {
    for size in SIZES {
        let lines = text(&state(), Tab::Overview, size);
        assert_told(&lines[..1], &["mpps sendrecv af_xdp:eth1", "12.0 s", "40 %"]);
        assert_told(
            &lines,
            &[
                "VALID SO FAR",
                "q end",
                "1.000 Mpps",
                "998.0 kpps",
                "22,000",
                "p99",
                "31.00 µs",
            ],
        );
        // Each strip has its row, and the loss its mark.
        for name in ["sent", "received", "lost", "p99"] {
            let rows = lines.iter().filter(|line| line.starts_with(name));
            let bars = rows.filter(|line| line.contains(|c| ('▁'..='█').contains(&c)));
            assert!(bars.count() == 1 || size.1 > 12, "{name}: {lines:#?}");
        }
        if size.0 >= 60 {
            assert_told(&lines, &["of 1.000 Mpps intended", "40 %", "0.200 % so far", "late 3"]);
        }
    }
}

#[test]
fn the_latency_tab_has_percentiles_and_every_packet_in_the_histogram() {
    for size in SIZES {
        let lines = text(&state(), Tab::Latency, size);
        assert_told(
            &lines,
            &["from sending", "as scheduled", "p50", "p90", "p99", "12.", "100.0 %"],
        );
        if size.1 >= 24 {
            assert_told(&lines, &["p99.9", "max", "1.900 ms", "990,903", "share", "so far"]);
        }
    }
}

#[test]
fn the_lanes_tab_has_each_lane_its_rings_and_the_stages() {
    for size in SIZES {
        let lines = text(&state(), Tab::Lanes, size);
        assert_told(&lines, &["lane", "sent", "received", "500.0 kpps", "42 %"]);
        let stages = |name: &str| lines.iter().position(|line| line.starts_with(name));
        assert!(
            stages("spinning").is_some() && stages("spinning") < stages("receive "),
            "{lines:#?}"
        );
        if size.0 >= 80 {
            assert_told(
                &lines,
                &["rx rings", "12.500 %", "not run", "300.0 µs", "50.000 % taken"],
            );
        }
    }
}

#[test]
fn the_notes_tab_has_what_speaks_against_the_run_what_took_the_cores_and_the_newest_note_first() {
    let mut state = state();
    state.of_trial.host_dropped = Some(7);
    for size in SIZES {
        let lines = text(&state, Tab::Notes, size);
        assert_told(&lines, &["NOT VALID SO FAR", "7 packets dropped by", "600.0"]);
        let at = |words: &str| lines.iter().position(|line| line.contains(words)).expect("there");
        assert!(at("link up") > at("notes, the newest first"), "{lines:#?}");
        assert!(size.1 < 24 || at("link up") < at("link down"), "{lines:#?}");
    }
}

#[test]
fn a_run_that_only_sends_tells_of_nothing_that_comes_back() {
    let mut state = state();
    state.start.workload = Workload::Send;
    let lines = text(&state, Tab::Overview, (80, 24)).join("\n");
    assert!(
        lines.contains("sent") && !lines.contains("received") && !lines.contains("lost"),
        "{lines}"
    );
}

#[test]
fn a_search_shows_its_trial_and_what_it_knows() {
    let mut state = state();
    let about = About {
        single: false,
        workload: "ndr".to_owned(),
        ..About::default()
    };
    (state.about, state.trial) = (Arc::new(about), 7);
    state.goals = vec![Goal {
        name: "loss 0".to_owned(),
        frame_size: 64,
        lower: Some(1_200_000),
        upper: None,
    }];
    assert_told(
        &text(&state, Tab::Overview, (80, 24)),
        &[
            "mpps ndr",
            "trial 7",
            "loss 0    64 bytes: passed: 1.200 Mpps, did not: none yet",
        ],
    );
}

#[test]
fn before_rows_have_closed_the_loss_is_not_known() {
    let mut state = state();
    (state.closed_ns, state.of_trial.settled_lost) = (0, 0);
    assert_told(&text(&state, Tab::Overview, (80, 24)), &["lost      not known yet"]);
}

#[test]
fn without_colour_there_is_none_and_all_is_told() {
    let choice = Choice::default();
    let coloured = shown(&state(), &points(), choice, LOOK, (80, 24));
    let grey = shown(&state(), &points(), choice, Look { colour: false }, (80, 24));
    let colours = |terminal: &Terminal<TestBackend>| {
        let cells = terminal.backend().buffer().content().iter();
        cells.filter(|cell| cell.fg != Color::Reset).count()
    };
    assert!(colours(&coloured) > 0 && colours(&grey) == 0);
    let symbols = |terminal: &Terminal<TestBackend>| {
        let cells = terminal.backend().buffer().content().iter();
        cells.map(|cell| cell.symbol().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(symbols(&coloured), symbols(&grey));
}

#[test]
fn streams_and_groups_have_a_tab_if_there_are_any() {
    let mut state = state();
    assert!(!text(&state, Tab::Overview, (100, 20)).join("\n").contains("Streams"));
    let of: Vec<_> = ["gold", "the-rest-of-a-long-name-x"]
        .map(|name| (StreamKind::Stream, name.to_owned()))
        .into();
    let of = [of, vec![(StreamKind::Group, "users".to_owned())]].concat();
    let row = |tx: u64, lost: i64| Row {
        tx,
        rx: tx - lost.cast_unsigned(),
        lost,
        length_ns: 100_000_000,
        latency: Latency {
            count: 1,
            max: 31_000,
            mean: 12_000.0,
            ..Latency::default()
        },
        ..Row::default()
    };
    let rows = [row(1000, 0), row(2000, 20), row(3000, 20)];
    state.streams.add(&StreamRows { of: &of, rows: &rows });
    let wide = text(&state, Tab::Streams, (100, 20));
    assert_told(
        &wide,
        &[
            "5 Streams",
            "stream",
            "group",
            "10.00 kpps",
            "12.00 µs",
            "31.00 µs",
            "1.000 %",
            "1-5 Tab",
        ],
    );
    let gold = wide.iter().find(|line| line.starts_with("gold")).expect("a line");
    assert!(gold.contains("10.00 kpps") && gold.contains("0 %"), "{gold}");
    assert_told(
        &text(&state, Tab::Streams, (40, 12)),
        &["gold", "the-rest-of", "users", "20.00 kpps"],
    );
    let mut choice = Choice {
        streams: true,
        ..Choice::default()
    };
    choice.press(Key::Left);
    assert_eq!(choice.tab, Tab::Streams);
    choice.press(Key::Char('1'));
    choice.streams = false;
    choice.press(Key::Char('5'));
    assert_eq!(choice.tab, Tab::Overview, "there are none");
}

#[test]
fn keys_choose_tabs_scroll_no_further_than_there_are_lines_and_ask_for_the_end() {
    let mut choice = Choice::default();
    let mut press = |key| {
        let asked = choice.press(key);
        (choice.tab, choice.help, asked == super::draw::Asked::End)
    };
    assert_eq!(press(Key::Char('3')), (Tab::Lanes, false, false));
    assert_eq!(press(Key::Tab), (Tab::Notes, false, false));
    assert_eq!(press(Key::Right), (Tab::Overview, false, false));
    assert_eq!(press(Key::Left), (Tab::Notes, false, false));
    assert_eq!(press(Key::Char('?')), (Tab::Notes, true, false));
    assert_eq!(press(Key::Escape), (Tab::Notes, false, false));
    assert_eq!(press(Key::Char('q')), (Tab::Notes, false, true));
    let mut state = state();
    state.notes = (0..100).map(|number| format!("note {number}").into()).collect();
    (0..50).for_each(|_| _ = choice.press(Key::PageDown));
    let mut terminal = Terminal::new(TestBackend::new(40, 12)).expect("a terminal");
    terminal
        .draw(|frame| draw(frame.buffer_mut(), &state, &[], &mut choice, LOOK))
        .expect("drawn");
    let last: String = terminal.backend().buffer().content()[40 * 10..40 * 11]
        .iter()
        .map(|cell| cell.symbol())
        .collect();
    assert_eq!(last.trim_end(), "note 0");
    assert!(choice.scrolled < 110, "{}", choice.scrolled);
}

proptest! {
    #[test]
    fn no_size_no_state_and_no_choice_is_too_much(
        (width, height) in (1..250u16, 1..80u16),
        tab in 0..5usize,
        scrolled in 0..200usize,
        scale in -20..=20isize,
        help: bool,
        bare: bool,
        extreme: bool,
        rows in 0..110usize,
    ) {
        let mut state = if bare { State::default() } else { state() };
        if extreme {
            (state.tx_pps, state.rx_pps, state.recent_loss) = (f64::INFINITY, f64::NAN, -1.0);
            state.of_trial.tx = u64::MAX;
            state.of_trial.settled_lost = i64::MIN;
            state.elapsed_ns = u64::MAX / 2;
            state.notes = vec!["界".repeat(300).into(), "".into(), "\u{1b}[2J\ttab".into()];
            state.lanes = vec![LaneState { dropped: Some(1), busy: Some(f64::NAN), ..LaneState::default() }; 100];
            state.stages = [f64::NAN; Stage::COUNT];
        }
        let choice = Choice { tab: Tab::ALL[tab], scrolled, scale, help, streams: false };
        let terminal = shown(&state, &points()[..rows], choice, LOOK, (width, height));
        // No content of a note acts on the terminal.
        for cell in terminal.backend().buffer().content() {
            prop_assert!(!cell.symbol().contains(char::is_control), "{:?}", cell.symbol());
        }
    }

    #[test]
    fn the_smallest_terminals_are_drawn_to(width in 1..12u16, height in 1..12u16, tab in 0..5usize) {
        let choice = Choice { tab: Tab::ALL[tab], ..Choice::default() };
        shown(&state(), &points(), choice, LOOK, (width, height));
    }
}
