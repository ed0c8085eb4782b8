//! The page: title, totals, and the panels one below the other over one time axis.

use super::about::About;
use super::bins::Run;
use super::panels::{self, Panel};
use super::scale::{Scale, time_unit};
use super::svg::{Anchor, Svg, shorten, text_width};
use mpps_report::units::{count, elapsed, percent};

const WIDTH: f64 = 1100.0;
const LEFT: f64 = 86.0;
const RIGHT: f64 = 28.0;
/// Height above the first panel, for title and totals.
const TOP: f64 = 72.0;
/// Height of the command line, if it is known.
const COMMAND: f64 = 18.0;
/// Height of the reason why the run is not valid.
const INVALID: f64 = 18.0;
const WARNING: &str = "#b00020";
/// Height of title and legend of a panel.
const HEAD: f64 = 26.0;
/// Height between panels.
const GAP: f64 = 22.0;
/// Height below the last panel, for the time axis.
const BOTTOM: f64 = 52.0;
pub(crate) const INK: &str = "#222222";
pub(crate) const FAINT: &str = "#666666";
pub(crate) const GRID: &str = "#e3e3e3";
/// Colour of the area that data is drawn on.
pub(crate) const PAPER: &str = "#fcfcfc";
pub(crate) const FRAME: &str = "#9a9a9a";

/// Draws a run.
pub(super) fn draw(about: &About, run: &Run) -> String {
    let panels = [panels::rates(run), panels::loss(run), panels::latency(run)];
    let words = TOP + if about.command.is_some() { COMMAND } else { 0.0 };
    let top = words + if about.warning.is_some() { INVALID } else { 0.0 };
    let height = top + panels.iter().map(|p| HEAD + p.height + GAP).sum::<f64>() - GAP + BOTTOM;
    let mut svg = Svg::new(WIDTH, height);
    svg.text((LEFT, 32.0), 18.0, Anchor::Start, INK, true, &shorten(&about.title, 90));
    svg.text((LEFT, 54.0), 12.5, Anchor::Start, FAINT, false, &totals(run));
    if let Some(command) = &about.command {
        let at = (LEFT, 54.0 + COMMAND);
        svg.text(at, 11.5, Anchor::Start, FAINT, false, &shorten(command, 150));
    }
    if let Some(warning) = &about.warning {
        svg.text(
            (LEFT, words),
            12.5,
            Anchor::Start,
            WARNING,
            true,
            &shorten(warning, 130),
        );
    }
    let plot_width = WIDTH - LEFT - RIGHT;
    let span = run.to - run.from;
    let (unit, unit_name) = time_unit(span);
    let time = Scale::linear(run.from, run.to.max(run.from + 1e-9), 10, unit, false);
    let x = |seconds: f64| LEFT + plot_width * time.at(seconds);
    let mut y = top;
    for (i, panel) in panels.iter().enumerate() {
        head(&mut svg, panel, y + HEAD - 9.0);
        y += HEAD;
        grid(&mut svg, panel, &time, y, plot_width);
        frame(&mut svg, y, panel.height, plot_width);
        let place = |value: f64| y + panel.height * (1.0 - panel.scale.at(value));
        panel.draw(&mut svg, run, &x, &place, (y, y + panel.height));
        if let Some(message) = panel.message {
            let at = (LEFT + plot_width / 2.0, y + panel.height / 2.0 + 5.0);
            svg.text(at, 14.0, Anchor::Middle, FAINT, false, message);
        }
        y += panel.height;
        if i + 1 == panels.len() {
            for tick in &time.ticks {
                let x = LEFT + plot_width * tick.at;
                svg.line((x, y), (x, y + 5.0), FRAME, 1.0);
                svg.text((x, y + 19.0), 12.0, Anchor::Middle, INK, false, &tick.label);
            }
            let label = format!("time since the start of the run ({unit_name})");
            svg.text(
                (LEFT + plot_width / 2.0, y + 40.0),
                12.5,
                Anchor::Middle,
                INK,
                false,
                &label,
            );
        }
        y += GAP;
    }
    svg.finish()
}

pub(super) fn totals(run: &Run) -> String {
    let n = |value: f64| count(value.max(0.0).round() as u64);
    if run.rows == 0 {
        return "no rows".to_owned();
    }
    let base = if run.tx > 0.0 { run.tx } else { run.rx + run.lost };
    let ratio = if base > 0.0 { run.lost.max(0.0) / base } else { 0.0 };
    let mut parts = vec![format!("sent {}", n(run.tx))];
    if !run.only_sends() {
        parts.push(format!("received {}", n(run.rx)));
        parts.push(format!("lost {} ({})", n(run.lost), percent(ratio)));
    }
    let more = [
        ("late", run.late),
        ("duplicate", run.duplicates),
        ("reordered", run.reordered),
        ("corrupt", run.corrupt),
        ("dropped by this host", run.host_dropped),
    ];
    parts.extend(
        more.into_iter()
            .filter(|(_, v)| *v > 0.0)
            .map(|(name, value)| format!("{name} {}", n(value))),
    );
    let span = (run.to - run.from).max(0.0);
    parts.push(if span < 1.0 {
        mpps_report::units::time(span * 1e9)
    } else {
        elapsed((span * 1e9) as u64)
    });
    parts.push(format!(
        "{} row{}",
        count(run.rows),
        if run.rows == 1 { "" } else { "s" }
    ));
    if run.torn {
        parts.push("the last row is cut".to_owned());
    }
    parts.join("   ·   ")
}

/// Title on the left; legend on the right, on the same line, so that it never covers data.
fn head(svg: &mut Svg, panel: &Panel, y: f64) {
    svg.text((LEFT, y), 13.5, Anchor::Start, INK, true, &panel.title);
    let mut x = WIDTH - RIGHT;
    for (name, colour) in panel.legend.iter().rev() {
        svg.text((x, y), 12.0, Anchor::End, INK, false, name);
        x -= text_width(name, 12.0) + 2.0;
        svg.rect(x - 23.0, y - 6.0, 18.0, 4.0, colour, 1.0);
        x -= 44.0;
    }
}

fn grid(svg: &mut Svg, panel: &Panel, time: &Scale, y: f64, width: f64) {
    svg.rect(LEFT, y, width, panel.height, PAPER, 1.0);
    for tick in &time.ticks {
        let x = LEFT + width * tick.at;
        svg.line((x, y), (x, y + panel.height), GRID, 1.0);
    }
    for tick in &panel.scale.ticks {
        let at = y + panel.height * (1.0 - tick.at);
        svg.line((LEFT, at), (LEFT + width, at), GRID, 1.0);
        if !tick.label.is_empty() {
            svg.line((LEFT - 5.0, at), (LEFT, at), FRAME, 1.0);
            svg.text((LEFT - 9.0, at + 4.2), 12.0, Anchor::End, INK, false, &tick.label);
        }
    }
}

fn frame(svg: &mut Svg, y: f64, height: f64, width: f64) {
    svg.line((LEFT, y), (LEFT, y + height), FRAME, 1.0);
    svg.line((LEFT, y + height), (LEFT + width, y + height), FRAME, 1.0);
}
