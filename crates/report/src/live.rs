//! The live view of a run that does not have the whole terminal: one plain line per second, or, if another program (the
//! demo) shows this one, a few lines redrawn in place on the terminal.
//!
//! Each frame is one write, wrapped in a synchronized update, and lines are overwritten rather than cleared first:
//! nothing flickers. In the background the view draws nothing, because the terminal shows another program's lines. A
//! terminal that takes nothing (stopped by Ctrl-S, a slow pipe) costs frames, not time: the view runs on the
//! collector's thread.

use crate::output::writable;
use crate::summary::{is_of_no_width, wrapped};
use crate::units::{count, elapsed, percent, pps, time};
use crossterm::cursor::{Hide, MoveToColumn, MoveToPreviousLine, Show};
use crossterm::queue;
use crossterm::terminal::{BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate};
use mpps_stats::{Event, Latency, LiveLane, Sink, Snapshot, StreamKind, StreamRows, Wants, Workload};
use mpps_sys::evidence::continued;
use mpps_sys::terminal;
use mpps_sys::text::{in_cells, plain};
use mpps_trace::Stage;
use rustix::process::Pid;
use std::collections::VecDeque;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

pub(crate) mod lines;

use lines::{Columns, Lines};

/// Style of the live view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveStyle {
    /// Redraws in place on a terminal, plain lines elsewhere. Draws nothing in the background of a terminal, because
    /// another program draws there.
    Auto,
    /// One plain line for each second.
    Plain,
    /// No output.
    Quiet,
}

/// Columns of the sparklines.
const SPARKS: usize = 24;
/// Columns of text before a sparkline.
const TEXT: usize = 46;
/// Most streams in a frame.
const MOST_STREAMS: usize = 8;

/// Output of the live view.
trait Screen: Send {
    /// Returns whether this program may draw on the terminal: other programs draw while it is in the background.
    fn ours(&self) -> bool;
    /// Returns whether a frame can be written without waiting.
    fn ready(&self) -> bool;
    /// Returns the number of columns; 80 if it is not known.
    fn width(&self) -> usize;
    /// Writes a frame in one piece.
    fn write(&mut self, frame: &[u8]) -> io::Result<()>;
}

/// Environment variable with the number of a process group. While that group has the terminal, this program may draw on
/// it too. A program sets it that runs this one in a group of its own, and shows its output.
pub const LIVE_GROUP: &str = "MPPS_LIVE_GROUP";

struct Stderr {
    group: Option<Pid>,
}

/// Returns this process's group. `None`: the group has no number in this pid namespace, because the shell that started
/// it is outside. `getpgrp` of rustix takes that case for impossible.
pub fn own_group() -> Option<Pid> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // After the name, in parentheses: state, parent, group.
    let group = stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(2)?;
    Pid::from_raw(group.parse().ok()?)
}

impl Stderr {
    fn new() -> Self {
        let given = std::env::var(LIVE_GROUP).ok().and_then(|text| text.parse().ok());
        Self {
            group: given.and_then(Pid::from_raw).or_else(own_group),
        }
    }
}

impl Screen for Stderr {
    fn ours(&self) -> bool {
        // A terminal of another session reports no group, and has no jobs.
        rustix::termios::tcgetpgrp(io::stderr()).map_or(true, |group| Some(group) == self.group)
    }

    fn ready(&self) -> bool {
        writable(&io::stderr(), Duration::ZERO).unwrap_or(false)
    }

    fn width(&self) -> usize {
        crossterm::terminal::size().map_or(80, |(columns, _)| usize::from(columns).max(20))
    }

    fn write(&mut self, frame: &[u8]) -> io::Result<()> {
        match std::str::from_utf8(frame) {
            Ok(text) => io::stderr().lock().write_all(in_cells(text).as_bytes()),
            Err(_) => io::stderr().lock().write_all(frame),
        }
    }
}

/// Kind of standard input.
enum Input {
    Terminal,
    /// `/dev/null`: what shells without job control give a program that a script puts into the background with `&`. It
    /// is in the foreground's group, and another program draws on the terminal.
    Nothing,
    /// A file or pipe, as in `while read`.
    Else,
}

fn input() -> Input {
    if io::stdin().is_terminal() {
        return Input::Terminal;
    }
    let id = |meta: Option<rustix::fs::Stat>| meta.map(|meta| meta.st_rdev).filter(|&device| device != 0);
    let null = id(rustix::fs::stat("/dev/null").ok());
    match id(rustix::fs::fstat(io::stdin()).ok()) {
        Some(device) if Some(device) == null => Input::Nothing,
        _ => Input::Else,
    }
}

/// Returns whether a view may use the whole terminal: the terminal shows its output and sends its keys, and no other
/// program draws on it.
pub fn whole_terminal() -> bool {
    io::stderr().is_terminal()
        && !dumb()
        && matches!(input(), Input::Terminal)
        && std::env::var_os(LIVE_GROUP).is_none()
}

/// Returns whether the terminal can only show lines. A cell of a notebook is such a terminal.
pub(crate) fn dumb() -> bool {
    let term = std::env::var_os("TERM").unwrap_or_default();
    ["", "dumb", "unknown"].iter().any(|name| term == *name) || std::env::var_os("JPY_PARENT_PID").is_some()
}

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Frames,
    Lines,
    Off,
}

/// Shows a run on standard error as it goes. Restores the cursor when finished or dropped.
pub struct LiveSink {
    screen: Box<dyn Screen>,
    mode: Mode,
    /// Lines of the frame on the screen.
    drawn: usize,
    hidden: bool,
    /// Number of times that the process had been continued (SIGCONT) when the last frame was drawn.
    continued: usize,
    rates: VecDeque<f64>,
    losses: VecDeque<f64>,
    /// Per lane: number of looks at its receive rings, and the sum of the fill levels found.
    looked: Vec<(u64, u64)>,
    /// Average fill of the fullest lane's receive rings since the last frame, as a share; `None`: nobody looked.
    fill: Option<f64>,
    /// Notes not yet shown.
    news: Vec<String>,
    plain: Lines,
    /// Lines of the streams' newest rows.
    streams: Vec<String>,
    /// Whether packets are only sent, so that received and lost packets are not known here.
    sends_only: bool,
}

impl LiveSink {
    /// Returns a view of the given style on standard error.
    pub fn new(style: LiveStyle) -> Self {
        let mode = match style {
            LiveStyle::Quiet => Mode::Off,
            LiveStyle::Auto if io::stderr().is_terminal() && !dumb() => match input() {
                Input::Terminal if is_of_no_width(&io::stderr()) => Mode::Lines,
                Input::Terminal => Mode::Frames,
                Input::Nothing => {
                    let _ = writeln!(
                        io::stderr(),
                        "mpps: no live view, as in the background: standard input is /dev/null (--plain: a line a \
                         second)"
                    );
                    Mode::Off
                }
                Input::Else => Mode::Lines,
            },
            LiveStyle::Auto | LiveStyle::Plain => Mode::Lines,
        };
        Self::on(Box::new(Stderr::new()), mode)
    }

    fn on(screen: Box<dyn Screen>, mode: Mode) -> Self {
        Self {
            screen,
            mode,
            drawn: 0,
            hidden: false,
            continued: continued(),
            rates: VecDeque::new(),
            losses: VecDeque::new(),
            looked: Vec::new(),
            fill: None,
            news: Vec::new(),
            plain: Lines::default(),
            streams: Vec::new(),
            sends_only: false,
        }
    }

    /// Draws a frame: new notes scroll above it, its lines overwrite the last frame's.
    fn draw(&mut self, snapshot: &Snapshot) {
        if !self.screen.ours() {
            // The lines and the cursor now belong to another program.
            if std::mem::take(&mut self.hidden) {
                let mut show = Vec::new();
                let _ = queue!(show, Show);
                let _ = self.screen.write(&show);
                terminal::set_hidden(false);
            }
            self.drawn = 0;
            return;
        }
        if !self.screen.ready() {
            return;
        }
        // The process was stopped meanwhile: the shell has written below the last frame, and the cursor is visible.
        let continued = continued();
        if std::mem::replace(&mut self.continued, continued) != continued {
            (self.drawn, self.hidden) = (0, false);
        }
        let width = self.screen.width();
        let lines = self.lines(snapshot);
        let mut frame = Vec::with_capacity(1024);
        // Writing to a Vec does not fail.
        let _ = queue!(frame, BeginSynchronizedUpdate);
        if !self.hidden {
            let _ = queue!(frame, Hide);
        }
        if self.drawn > 0 {
            let _ = queue!(frame, MoveToPreviousLine(self.drawn as u16));
        }
        let _ = queue!(frame, MoveToColumn(0));
        for note in &self.news {
            // A note may take several lines: they scroll away whole.
            for line in wrapped(&format!("note: {note}"), width - 1) {
                let _ = write!(frame, "{line}");
                let _ = queue!(frame, Clear(ClearType::UntilNewLine));
                let _ = write!(frame, "\r\n");
            }
        }
        for line in &lines {
            let _ = write!(frame, "{}", line.chars().take(width - 1).collect::<String>());
            let _ = queue!(frame, Clear(ClearType::UntilNewLine));
            let _ = write!(frame, "\r\n");
        }
        let _ = queue!(frame, Clear(ClearType::FromCursorDown), EndSynchronizedUpdate);
        terminal::set_hidden(true);
        if self.screen.write(&frame).is_err() {
            self.mode = Mode::Off;
        }
        self.hidden = true;
        self.drawn = lines.len();
        self.news.clear();
    }

    fn show(&mut self, snapshot: &Snapshot) {
        if self.mode == Mode::Off {
            return;
        }
        self.look_at_fill(&snapshot.lanes);
        let rate = if snapshot.tx > 0 {
            snapshot.tx_pps
        } else {
            snapshot.rx_pps
        };
        for (series, value) in [(&mut self.rates, rate), (&mut self.losses, snapshot.recent_loss_ratio)] {
            if series.len() == SPARKS {
                series.pop_front();
            }
            series.push_back(value);
        }
        match self.mode {
            Mode::Frames => self.draw(snapshot),
            Mode::Lines => self.line(snapshot),
            Mode::Off => {}
        }
    }

    /// Computes the average fill that looks at receive rings have found since the last call, for the fullest lane.
    fn look_at_fill(&mut self, lanes: &[LiveLane]) {
        let now: Vec<_> = lanes
            .iter()
            .map(|lane| (lane.rx_fill_looks, lane.rx_fill_sum_ppm))
            .collect();
        let before = std::mem::replace(&mut self.looked, now);
        let before = before.into_iter().chain(std::iter::repeat((0, 0)));
        let since = self.looked.iter().zip(before).filter_map(|(now, before)| {
            let looks = now.0.checked_sub(before.0).filter(|looks| *looks > 0)?;
            Some(now.1.saturating_sub(before.1) as f64 / looks as f64 / 1e6)
        });
        self.fill = since.reduce(f64::max);
    }

    fn lines(&self, s: &Snapshot) -> Vec<String> {
        let progress = match s.planned_ns {
            _ if s.settling => format!("{}  waiting for packets still under way", elapsed(s.elapsed_ns)),
            Some(planned) if planned > 0 => {
                let done = (s.elapsed_ns as f64 / planned as f64).min(1.0);
                let filled = (done * 20.0) as usize;
                let bar = format!("{}{}", "█".repeat(filled), "░".repeat(20 - filled));
                format!(
                    "{} of {}  {bar} {:3.0} %",
                    elapsed(s.elapsed_ns),
                    elapsed(planned),
                    done * 100.0
                )
            }
            _ => format!("{}  until interrupted (Ctrl-C)", elapsed(s.elapsed_ns)),
        };
        let top = self.rates.iter().copied().fold(0.0, f64::max);
        let worst = self.losses.iter().copied().fold(0.0, f64::max);
        let loss = if s.closed_tx == 0 {
            0.0
        } else {
            s.closed_lost.max(0) as f64 / s.closed_tx as f64
        };
        let mut lines = vec![progress];
        let mut spark = |text: String, values: &VecDeque<f64>, top: f64| {
            lines.push(format!("{text:<TEXT$}  {}", sparkline(values, top)));
        };
        spark(
            format!("sent     {:>11}  {:>19}", pps(s.tx_pps), count(s.tx)),
            &self.rates,
            top,
        );
        let lost = match s.closed_ns {
            0 => "lost     not known yet: packets may still come".to_owned(),
            _ => format!(
                "lost     {:>11}  {:>19}  {}",
                percent(s.recent_loss_ratio),
                count_lost(s),
                percent(loss)
            ),
        };
        let stages = stages(&s.stage_shares);
        if self.sends_only {
            lines.extend(stages);
            return lines;
        }
        spark(lost, &self.losses, worst);
        lines.insert(2, format!("received {:>11}  {:>19}", pps(s.rx_pps), count(s.rx)));
        if let Some(dropped) = s.host_dropped.filter(|n| *n > 0) {
            lines.push(format!(
                "dropped  {:>32}  by this host, before mpps took them",
                count(dropped)
            ));
        }
        if let Some(fill) = self.fill {
            lines.push(format!("rx rings {:>11}  taken, of the fullest", percent(fill)));
        }
        let recent = s.recent_latency.as_ref().and_then(latency);
        lines.push(format!("latency  {}", recent.unwrap_or_else(|| "-".to_owned())));
        lines.extend(stages);
        for way in &s.tracks {
            let lost = match s.closed_ns {
                0 => "not known yet".to_owned(),
                _ => count(way.closed_lost.max(0).cast_unsigned()),
            };
            let (sent, received) = (pps(way.tx_pps), pps(way.rx_pps));
            lines.push(format!(
                "{:<8} sent {sent:>11}  received {received:>11}  lost {lost}",
                way.name
            ));
        }
        lines.extend_from_slice(&self.streams);
        lines
    }

    fn line(&mut self, s: &Snapshot) {
        let mut text = String::new();
        for note in &self.news {
            text += &format!("note: {}\n", plain(note, '\u{fffd}'));
        }
        if !self.screen.ready() {
            return;
        }
        text += &self.plain.due(s);
        if text.is_empty() {
            return;
        }
        if self.screen.write(text.as_bytes()).is_err() {
            self.mode = Mode::Off;
        }
        self.news.clear();
    }

    /// Leaves the last frame on the screen with a blank line below it, and shows the cursor again.
    fn restore(&mut self) {
        if std::mem::take(&mut self.hidden) {
            let mut frame = Vec::new();
            let _ = queue!(frame, Show);
            frame.extend_from_slice(b"\r\n");
            let _ = self.screen.write(&frame);
            terminal::set_hidden(false);
        }
    }
}

/// Returns a line for each of the first streams, and one for all others.
fn of_streams(rows: &StreamRows<'_>) -> Vec<String> {
    let line = |name: &str, tx: f64, rx: f64, lost: f64| {
        let loss = if tx > 0.0 { lost.max(0.0) / tx } else { 0.0 };
        format!(
            "{name:<8} sent {:>11}  received {:>11}  lost {}",
            pps(tx),
            pps(rx),
            percent(loss)
        )
    };
    let streams = rows
        .of
        .iter()
        .zip(rows.rows)
        .filter(|((kind, _), _)| *kind == StreamKind::Stream);
    let streams: Vec<(&str, [f64; 3])> = streams
        .map(|((_, name), row)| {
            let rate = |packets: f64| packets / row.length_ns.max(1) as f64 * 1e9;
            (
                name.as_str(),
                [rate(row.tx as f64), rate(row.rx as f64), rate(row.lost as f64)],
            )
        })
        .collect();
    let (shown, rest) = streams.split_at(streams.len().min(MOST_STREAMS));
    let mut lines: Vec<String> = shown
        .iter()
        .map(|(name, [tx, rx, lost])| line(name, *tx, *rx, *lost))
        .collect();
    if !rest.is_empty() {
        let sum = |at: usize| rest.iter().map(|(_, of)| of[at]).sum::<f64>();
        lines.push(line(&format!("and {} more", rest.len()), sum(0), sum(1), sum(2)));
    }
    lines
}

fn count_lost(s: &Snapshot) -> String {
    count(s.closed_lost.max(0).cast_unsigned())
}

/// Returns the stages that the lanes spent the last second in, the largest first.
fn stages(shares: &[f64; Stage::COUNT]) -> Option<String> {
    let mut all: Vec<(Stage, f64)> = Stage::ALL.into_iter().zip(*shares).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    let told = all.iter().filter(|(_, share)| *share >= 0.01).take(5);
    let told: Vec<String> = told
        .map(|(stage, share)| format!("{} {:.0} %", stage.name(), share * 100.0))
        .collect();
    (!told.is_empty()).then(|| format!("stages   {}", told.join("  ")))
}

fn latency(l: &Latency) -> Option<String> {
    if l.count == 0 {
        return None;
    }
    let max = time(l.max as f64);
    Some(match l.percentiles {
        Some(p) => format!(
            "p50 {:>9}  p99 {:>9}  max {max:>9}",
            time(p.p50 as f64),
            time(p.p99 as f64)
        ),
        None => format!("mean {:>9}  max {max:>9}", time(l.mean)),
    })
}

/// Returns values as bars of eighths. A blank is 0, and no value above 0 is blank.
fn sparkline(values: &VecDeque<f64>, top: f64) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let bar = |&value: &f64| match value {
        v if v > 0.0 && top > 0.0 => BARS[((v / top * 8.0).ceil() as usize).clamp(1, 8) - 1],
        _ => ' ',
    };
    values.iter().map(bar).collect()
}

impl Sink for LiveSink {
    fn wants(&self) -> Wants {
        let (shown, lines) = (self.mode != Mode::Off, self.mode == Mode::Lines);
        Wants {
            rows: lines,
            percentiles: shown,
            streams: self.mode == Mode::Frames,
            histograms: lines,
            snapshots: shown,
            ..Wants::default()
        }
    }

    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Start(start) => {
                self.sends_only = start.workload == Workload::Send;
                self.plain.of = Columns::of(start.workload);
                self.plain.tracks(start.tracks);
            }
            Event::RowOfTrack(way, row) if self.mode == Mode::Lines => self.plain.row_of_track(*way, row),
            Event::Row(row) if self.mode == Mode::Lines => self.plain.row(row),
            Event::Period(period) if self.mode == Mode::Lines => self.plain.histogram(period.buckets),
            Event::Streams(rows) if self.mode == Mode::Frames => self.streams = of_streams(rows),
            Event::Live(snapshot) => self.show(snapshot),
            Event::Note(note) if self.mode != Mode::Off => self.news.push((*note).to_owned()),
            _ => {}
        }
    }

    fn finish(&mut self) -> Vec<String> {
        if self.mode == Mode::Lines && self.screen.ready() {
            let _ = self.screen.write(self.plain.rest().as_bytes());
        }
        self.restore();
        Vec::new()
    }
}

impl Drop for LiveSink {
    fn drop(&mut self) {
        self.restore();
    }
}

#[cfg(test)]
#[path = "live_tests.rs"]
mod tests;
