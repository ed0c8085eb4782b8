//! The whole picture of the state at one time: title, tabs, the contents of the chosen tab, keys.

use super::keys::Key;
use super::look::{Look, Pane, bar, plain, styled};
use super::{lanes, latency, notes, overview, streams};
use crate::history::Point;
use crate::state::{Phase, State};
use mpps_report::units::elapsed;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::text::{Line, Span};

/// Tab of the view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tab {
    #[default]
    Overview,
    Latency,
    Lanes,
    Notes,
    /// Shown if the run has streams.
    Streams,
}

impl Tab {
    pub(crate) const ALL: [Self; 5] = [Self::Overview, Self::Latency, Self::Lanes, Self::Notes, Self::Streams];

    fn name(self) -> &'static str {
        match self {
            Self::Overview => "Overview",
            Self::Latency => "Latency",
            Self::Lanes => "Lanes",
            Self::Notes => "Notes",
            Self::Streams => "Streams",
        }
    }

    /// Returns the tabs of a run that has streams, or none.
    fn all(streams: bool) -> &'static [Self] {
        &Self::ALL[..Self::ALL.len() - usize::from(!streams)]
    }
}

/// Choices of the user.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Choice {
    pub(crate) tab: Tab,
    /// Lines scrolled off at the top.
    pub(crate) scrolled: usize,
    /// Number of steps by which columns of time are shorter than needed for the whole run.
    pub(crate) scale: isize,
    pub(crate) help: bool,
    /// The run has streams.
    pub(crate) streams: bool,
}

/// Request of a key beyond the picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// No more than a new picture.
    Picture,
    /// The end of the run.
    End,
}

/// Number of columns from which on there is room for names and bars.
const WIDE: usize = 60;
/// Lines per page when scrolling.
const PAGE: usize = 10;

impl Choice {
    pub(crate) fn press(&mut self, key: Key) -> Asked {
        let show = |tab| Self {
            tab,
            scrolled: 0,
            help: false,
            ..*self
        };
        let tabs = Tab::all(self.streams);
        let moved = |by: usize| show(tabs[(self.tab as usize + by) % tabs.len()]);
        match key {
            Key::Char('q') => return Asked::End,
            Key::Char(digit @ '1'..='9') => {
                if let Some(tab) = tabs.get(digit as usize - '1' as usize) {
                    *self = show(*tab);
                }
            }
            Key::Tab | Key::Right => *self = moved(1),
            Key::BackTab | Key::Left => *self = moved(tabs.len() - 1),
            Key::Char('?') => (self.help, self.scrolled) = (!self.help, 0),
            Key::Escape => (self.help, self.scrolled) = (false, 0),
            Key::Up => self.scrolled = self.scrolled.saturating_sub(1),
            Key::Down => self.scrolled += 1,
            Key::PageUp => self.scrolled = self.scrolled.saturating_sub(PAGE),
            Key::PageDown => self.scrolled += PAGE,
            Key::Home => self.scrolled = 0,
            Key::Char('+' | '=') => self.scale = (self.scale + 1).min(20),
            Key::Char('-') => self.scale = (self.scale - 1).max(-20),
            Key::Char('0') => self.scale = 0,
            Key::Char(_) => {}
        }
        Asked::Picture
    }
}

/// Draws the whole picture.
pub(crate) fn draw(buf: &mut Buffer, state: &State, points: &[Point], choice: &mut Choice, look: Look) {
    let area = *buf.area();
    choice.streams = !state.streams.all().is_empty();
    let roomy = area.height >= 16;
    let footer = u16::from(area.height >= 6);
    let mut pane = Pane {
        area: Rect {
            height: area.height - footer,
            ..area
        },
        buf: &mut *buf,
    };
    title(&mut pane, state, look);
    tabs(&mut pane, state, *choice, look);
    let against = against(state);
    // In the tab of notes each of these has a line of its own.
    if !against.is_empty() && choice.tab != Tab::Notes {
        pane.line(&styled(against.join("; "), look.bad()));
    } else if roomy {
        pane.line(&Line::default());
    }
    if choice.help {
        scrolled(&mut pane, &help(look), choice);
    } else {
        match choice.tab {
            Tab::Overview => overview::draw(&mut pane, state, points, choice.scale, look),
            Tab::Latency => latency::draw(&mut pane, state, look),
            Tab::Lanes => scrolled(&mut pane, &lanes::lines(state, pane_columns(area), look), choice),
            Tab::Notes => scrolled(&mut pane, &notes::lines(state, pane_columns(area), look), choice),
            Tab::Streams => scrolled(&mut pane, &streams::lines(state, pane_columns(area), look), choice),
        }
    }
    if footer > 0 {
        let mut pane = Pane {
            area: Rect::new(area.x, area.bottom() - 1, area.width, 1),
            buf,
        };
        pane.line(&styled(keys(usize::from(area.width), choice.streams), look.dim()));
    }
}

fn pane_columns(area: Rect) -> usize {
    usize::from(area.width)
}

/// Draws as many of the lines as fit. Scrolling stops at the last line.
fn scrolled(pane: &mut Pane<'_>, lines: &[Line<'_>], choice: &mut Choice) {
    choice.scrolled = choice.scrolled.min(lines.len().saturating_sub(pane.rows()));
    pane.lines(lines, choice.scrolled);
}

fn keys(columns: usize, streams: bool) -> &'static str {
    match columns {
        72.. if streams => "q end  1-5 Tab ←→ tabs  ↑↓ scroll  +- time scale  ? help  Ctrl-Z suspend",
        72.. => "q end  1-4 Tab ←→ tabs  ↑↓ scroll  +- time scale  ? help  Ctrl-Z suspend",
        _ if streams => "q end  1-5 tabs  ? help",
        _ => "q end  1-4 tabs  ? help",
    }
}

fn title(pane: &mut Pane<'_>, state: &State, look: Look) {
    let about = &state.about;
    let port = match about.device.is_empty() {
        true => about.path.clone(),
        false => format!("{}:{}", about.path, about.device),
    };
    let name = Line::from(vec![
        Span::styled(format!("mpps {}", about.workload), look.head()),
        Span::raw(format!(" {port}")),
    ]);
    pane.line_and(&name, &progress(state, pane.columns(), look));
}

/// Returns the line with the progress of the run.
fn progress(state: &State, columns: usize, look: Look) -> Line<'static> {
    let at = elapsed(state.elapsed_ns);
    let trial = match state.about.single {
        true => String::new(),
        false => format!("trial {}  ", state.trial),
    };
    let text = match (state.phase, state.planned_ns) {
        (Phase::Settling, _) => format!("{trial}{at}  settling"),
        (Phase::Waiting | Phase::Between | Phase::Ended, _) => format!("{trial}{}", state.phase.name()),
        (Phase::Running, Some(planned)) if planned > 0 => {
            let done = (state.elapsed_ns as f64 / planned as f64).min(1.0);
            let percent = format!("{:.0} %", done * 100.0);
            // In a narrow terminal the room is for the name.
            if columns < WIDE {
                return plain(format!("{trial}{at}  {percent}"));
            }
            let width = columns.saturating_sub(70).clamp(10, 40);
            let full = bar(done, width);
            return Line::from(vec![
                Span::raw(format!("{trial}{at} of {}  ", elapsed(planned))),
                Span::styled(format!("{full:░<width$}"), look.bar()),
                Span::raw(format!("  {percent}")),
            ]);
        }
        (Phase::Running, _) => format!("{trial}{at}"),
    };
    plain(text)
}

fn tabs(pane: &mut Pane<'_>, state: &State, choice: Choice, look: Look) {
    let names = pane.columns() >= WIDE;
    let mut spans = Vec::new();
    for (number, tab) in (1..).zip(Tab::all(choice.streams).iter().copied()) {
        let notes = match tab {
            Tab::Notes if !state.notes.is_empty() => format!(" ({})", state.notes.len()),
            _ => String::new(),
        };
        let chosen = tab == choice.tab && !choice.help;
        // In a narrow terminal only the chosen tab shows its name.
        let text = match names || chosen {
            true => format!(" {number} {}{notes} ", tab.name()),
            false => format!(" {number} "),
        };
        spans.push(match chosen {
            true => Span::styled(text, look.chosen()),
            false => Span::raw(text),
        });
    }
    pane.line_and(&Line::from(spans), &verdict(state, look));
}

/// Returns the reasons against the running trial. The method has already reported those of a finished trial.
pub(super) fn against(state: &State) -> Vec<String> {
    match state.phase {
        Phase::Running | Phase::Settling => state.against(),
        Phase::Waiting | Phase::Between | Phase::Ended => Vec::new(),
    }
}

fn verdict(state: &State, look: Look) -> Line<'static> {
    match state.phase {
        Phase::Waiting | Phase::Between | Phase::Ended => styled("valid so far?", look.dim()),
        _ if against(state).is_empty() => styled("VALID SO FAR", look.good()),
        _ => styled("NOT VALID SO FAR", look.bad()),
    }
}

fn help(look: Look) -> Vec<Line<'static>> {
    let keys = [
        (
            "1 2 3 4 5",
            "overview, latency, lanes and stages, notes, streams if there are any",
        ),
        ("Tab ← →", "the next tab, the one before"),
        ("↑ ↓ PgUp PgDn", "scroll; Home: to the first line"),
        ("+ - 0", "time scale: shorter, longer, all of the run"),
        ("q Ctrl-C", "end the run, with its results"),
        ("Ctrl-Z", "suspend the run (fg: go on)"),
        ("? Esc", "this help"),
    ];
    let line = |(key, does): (&str, &str)| {
        Line::from(vec![
            Span::styled(format!("{key:<14}"), look.head()),
            Span::raw(does.to_owned()),
        ])
    };
    let mut lines: Vec<_> = keys.into_iter().map(line).collect();
    lines.push(Line::default());
    lines.push(plain("The verdict at the end looks at more than is known so far."));
    lines.push(plain("--plain: a line per second instead of this view."));
    lines
}
