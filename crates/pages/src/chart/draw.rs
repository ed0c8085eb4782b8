//! The drawing: title, legend, panel, axes, and the data on them.

use super::mark::{COLOURS, DASHES, NEUTRAL, marker};
use super::place::Placed;
use super::thin::{Point, thin};
use crate::document::{Chart, Kind, Scale, Series};
use crate::plot::draw::{FAINT, FRAME, GRID, INK, PAPER};
use crate::plot::svg::{Anchor, Svg, shorten, text_width};
use std::fmt::Write;

const SMALL: f64 = 12.0;
/// Radius of a marker.
const MARK: f64 = 3.6;
/// Markers on a line of many points.
const MARKS: usize = 14;
/// Most points that each have a marker.
const ALL_MARKED: usize = 40;
/// Height of a line of the legend.
const LEGEND: f64 = 19.0;

/// Size of a chart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) width: f64,
    /// Height of the area that data is drawn on.
    pub(crate) panel: f64,
    /// Whether its title is drawn.
    pub(crate) title: bool,
}

impl Look {
    /// Size of a chart in a file of its own.
    pub(crate) const FILE: Self = Self {
        width: 860.0,
        panel: 340.0,
        title: true,
    };
    /// Size of a chart on a page.
    pub(crate) const WIDE: Self = Self {
        width: 860.0,
        panel: 300.0,
        title: false,
    };
    /// Size of a chart on a page, for a small screen.
    pub(crate) const NARROW: Self = Self {
        width: 360.0,
        panel: 230.0,
        title: false,
    };
}

/// Returns a description of the chart for people who can't see it.
pub(crate) fn said(chart: &Chart) -> String {
    let names: Vec<_> = chart.series.iter().map(|s| s.name.as_str()).collect();
    format!(
        "Chart: {}. To the right: {}. Upwards: {}. Series: {}.",
        chart.title,
        chart.x.label,
        chart.y.label,
        if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        }
    )
}

/// Returns the chart as SVG.
pub(crate) fn drawn(chart: &Chart, look: &Look) -> String {
    let plan = Plan::new(chart, look);
    let mut svg = Svg::labelled(look.width, plan.height(), &said(chart));
    plan.draw(&mut svg, 0.0);
    svg.finish()
}

/// Returns several charts as one SVG, one below the other, under one title and some lines of text.
pub(crate) fn stacked(title: &str, lines: &[String], charts: &[Chart]) -> String {
    let look = Look {
        width: 1100.0,
        panel: 220.0,
        title: true,
    };
    let plans: Vec<_> = charts.iter().map(|chart| Plan::new(chart, &look)).collect();
    let top = 46.0 + 18.0 * lines.len() as f64;
    let height = top + plans.iter().map(Plan::height).sum::<f64>();
    let mut svg = Svg::labelled(look.width, height, title);
    svg.text((16.0, 32.0), 18.0, Anchor::Start, INK, true, &shorten(title, 90));
    for (i, line) in lines.iter().enumerate() {
        let at = (16.0, 54.0 + 18.0 * i as f64);
        svg.text(at, 12.0, Anchor::Start, FAINT, false, &shorten(line, 165));
    }
    let mut y = top;
    for plan in plans {
        plan.draw(&mut svg, y);
        y += plan.height();
    }
    svg.finish()
}

/// Positions of everything in a chart.
struct Plan<'c> {
    chart: &'c Chart,
    look: Look,
    x: Placed,
    y: Placed,
    title: f64,
    /// Lines of the legend: the number, the horizontal position and the name of each series.
    legend: Vec<Vec<(usize, f64, String)>>,
    left: f64,
    right: f64,
}

impl<'c> Plan<'c> {
    fn new(chart: &'c Chart, look: &Look) -> Self {
        let points = || chart.series.iter().flat_map(|s| &s.points);
        let ticks = if look.width < 500.0 { 5 } else { 8 };
        let x = Placed::new(&chart.x, points().map(|p| p.0), ticks);
        let y = Placed::new(&chart.y, points().filter_map(|p| p.1), 5);
        let widest = y.ticks.iter().map(|t| text_width(&t.label, SMALL)).fold(20.0, f64::max);
        let last = x.ticks.last().map_or(0.0, |t| text_width(&t.label, SMALL) / 2.0);
        let mut plan = Self {
            chart,
            look: *look,
            title: if look.title { 30.0 } else { 4.0 },
            legend: Vec::new(),
            left: widest + 18.0,
            right: f64::max(last + 4.0, 16.0),
            x,
            y,
        };
        plan.legend = plan.laid_out();
        plan
    }

    /// Returns the legend in lines that fit. A single series that has the name of the axis needs no legend.
    fn laid_out(&self) -> Vec<Vec<(usize, f64, String)>> {
        let mut lines: Vec<Vec<(usize, f64, String)>> = Vec::new();
        if let [only] = &self.chart.series[..]
            && (only.name.is_empty() || only.name == self.chart.y.label)
        {
            return lines;
        }
        let room = self.look.width - 2.0 * 12.0;
        let most = (room / 8.0) as usize;
        let mut at = f64::INFINITY;
        for (i, series) in self.chart.series.iter().enumerate() {
            let name = shorten(&series.name, most.min(60));
            let width = 32.0 + text_width(&name, SMALL) + 18.0;
            if at + width > room {
                lines.push(Vec::new());
                at = 0.0;
            }
            if let Some(line) = lines.last_mut() {
                line.push((i, 12.0 + at, name));
            }
            at += width;
        }
        lines
    }

    /// Returns the height of title, legend, and the name of the vertical axis.
    fn head(&self) -> f64 {
        self.title + LEGEND * self.legend.len() as f64 + 29.0
    }

    fn height(&self) -> f64 {
        self.head() + self.look.panel + 48.0
    }

    fn draw(&self, svg: &mut Svg, top: f64) {
        let (width, height) = (self.look.width - self.left - self.right, self.look.panel);
        if self.look.title {
            let title = shorten(&self.chart.title, (self.look.width / 9.0) as usize);
            svg.text((12.0, top + 20.0), 15.0, Anchor::Start, INK, true, &title);
        }
        for (i, line) in self.legend.iter().enumerate() {
            let y = top + self.title + LEGEND * i as f64 + 10.0;
            for (series, x, name) in line {
                self.key(svg, *series, *x, y);
                svg.text((x + 32.0, y + 4.2), SMALL, Anchor::Start, INK, false, name);
            }
        }
        let y0 = top + self.head();
        let label = shorten(&self.y.label, (self.look.width / 7.5) as usize);
        svg.text((12.0, y0 - 13.0), SMALL, Anchor::Start, FAINT, false, &label);
        svg.rect(self.left, y0, width, height, PAPER, 1.0);
        self.axes(svg, y0, width);
        let place = |(x, y): (f64, f64)| (self.left + width * self.x.at(x), y0 + height * (1.0 - self.y.at(y)));
        // Reference lines first: they lie below the measured data.
        for reference in [true, false] {
            for (i, series) in self.chart.series.iter().enumerate() {
                if (series.kind == Kind::Reference) == reference {
                    self.series(svg, i, series, &place, width);
                }
            }
        }
        if !self.chart.series.iter().flat_map(|s| &s.points).any(|p| p.1.is_some()) {
            let at = (self.left + width / 2.0, y0 + height / 2.0 + 5.0);
            svg.text(at, 14.0, Anchor::Middle, FAINT, false, "no value");
        }
    }

    fn axes(&self, svg: &mut Svg, y0: f64, width: f64) {
        let bottom = y0 + self.look.panel;
        let mut free = f64::NEG_INFINITY;
        let grid = self.chart.x.scale != Scale::Category;
        for tick in &self.x.ticks {
            let x = self.left + width * tick.at;
            if grid {
                svg.line((x, y0), (x, bottom), GRID, 1.0);
            }
            let half = text_width(&tick.label, SMALL) / 2.0;
            if tick.label.is_empty() || x - half < free {
                continue;
            }
            free = x + half + 6.0;
            svg.line((x, bottom), (x, bottom + 5.0), FRAME, 1.0);
            svg.text((x, bottom + 19.0), SMALL, Anchor::Middle, INK, false, &tick.label);
        }
        let mut free = f64::INFINITY;
        for tick in &self.y.ticks {
            let at = y0 + self.look.panel * (1.0 - tick.at);
            svg.line((self.left, at), (self.left + width, at), GRID, 1.0);
            if tick.label.is_empty() || at > free {
                continue;
            }
            free = at - 13.0;
            svg.line((self.left - 5.0, at), (self.left, at), FRAME, 1.0);
            svg.text((self.left - 9.0, at + 4.2), SMALL, Anchor::End, INK, false, &tick.label);
        }
        svg.line((self.left, y0), (self.left, bottom), FRAME, 1.0);
        svg.line((self.left, bottom), (self.left + width, bottom), FRAME, 1.0);
        let label = shorten(&self.x.label, (width / 7.0) as usize);
        svg.text(
            (self.left + width / 2.0, bottom + 39.0),
            SMALL,
            Anchor::Middle,
            FAINT,
            false,
            &label,
        );
    }

    /// Draws the sample of a series in the legend.
    fn key(&self, svg: &mut Svg, number: usize, x: f64, y: f64) {
        let series = &self.chart.series[number];
        let (colour, dashes) = style(&self.chart.series, number);
        let line = format!("M{x:.1} {y:.1}h26");
        let mut mark = String::new();
        marker(&mut mark, rank(&self.chart.series, number), x + 13.0, y, MARK);
        match series.kind {
            Kind::Reference => svg.dashes(&line, colour, 1.8, dashes),
            Kind::Line => {
                svg.path(&line, colour, 1.8, false);
                svg.area(&mark, colour, 1.0);
            }
            Kind::Points => svg.area(&mark, colour, 1.0),
        }
    }

    fn series(&self, svg: &mut Svg, i: usize, series: &Series, place: &dyn Fn((f64, f64)) -> (f64, f64), width: f64) {
        let (colour, dashes) = style(&self.chart.series, i);
        let points = thin(&series.points, (width * 2.0) as usize);
        if series.kind != Kind::Points {
            let path = match points.first() {
                // With a single category the line would be a dot, or nothing.
                Some((x, Some(y))) if series.kind == Kind::Reference && points.iter().all(|(of, _)| of == x) => {
                    format!("M{:.1} {:.1}h{width:.1}", self.left, place((*x, *y)).1)
                }
                _ => line(&points, place),
            };
            match series.kind {
                Kind::Reference => svg.dashes(&path, colour, 1.8, dashes),
                _ => svg.path(&path, colour, 1.8, false),
            }
        }
        if series.kind != Kind::Reference {
            let known: Vec<_> = points.iter().filter_map(|(x, y)| Some((*x, (*y)?))).collect();
            let all = series.kind == Kind::Points || known.len() <= ALL_MARKED;
            let every = if all { 1 } else { known.len().div_ceil(MARKS) };
            let mut marks = String::new();
            let mark = rank(&self.chart.series, i);
            // Markers of different lines must not hide each other.
            for point in known
                .iter()
                .skip(if all { 0 } else { mark * every / 4 % every })
                .step_by(every)
            {
                let (x, y) = place(*point);
                marker(&mut marks, mark, x, y, MARK);
            }
            svg.area(&marks, colour, 1.0);
        }
    }
}

/// Returns the number of series of the same kind (references, others) before a series.
pub(crate) fn rank(all: &[Series], number: usize) -> usize {
    let reference = |s: &Series| s.kind == Kind::Reference;
    let own = all.get(number).is_some_and(reference);
    all.iter().take(number).filter(|s| reference(s) == own).count()
}

/// Returns colour and dashes of a series.
pub(crate) fn style(all: &[Series], number: usize) -> (&'static str, &'static str) {
    let rank = rank(all, number);
    let series = all.get(number);
    match series.map(|s| s.kind) {
        Some(Kind::Reference) => (NEUTRAL, DASHES[rank % DASHES.len()]),
        // A void trial decides nothing: it has no colour of its own, and above all not green.
        Some(Kind::Points) if series.is_some_and(|s| s.name == VOID) => (NEUTRAL, ""),
        _ => (COLOURS[rank % COLOURS.len()], ""),
    }
}

/// Name of the points that stand for trials that do not count.
pub const VOID: &str = "void";

/// Returns the path of a line, broken if a value is missing. A value between two gaps is a dot.
fn line(points: &[Point], place: &dyn Fn((f64, f64)) -> (f64, f64)) -> String {
    let mut path = String::new();
    let mut on = false;
    for (x, y) in points {
        let Some(y) = y else {
            on = false;
            continue;
        };
        let (x, y) = place((*x, *y));
        // Writing to a String does not fail.
        let _ = write!(path, "{}{x:.1} {y:.1}", if on { 'L' } else { 'M' });
        on = true;
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{Axis, Unit};
    use proptest::prelude::*;

    fn number() -> impl Strategy<Value = f64> {
        prop_oneof![
            any::<f64>(),
            Just(f64::NAN),
            Just(f64::INFINITY),
            Just(0.0),
            Just(-1.0),
            0.0..1.0f64,
            1.0..1e9f64
        ]
    }

    fn axis() -> impl Strategy<Value = Axis> {
        let unit = prop::sample::select(vec![
            Unit::Plain,
            Unit::Count,
            Unit::Pps,
            Unit::Bps,
            Unit::Bytes,
            Unit::Ns,
            Unit::S,
            Unit::Ratio,
        ]);
        let scale = prop::sample::select(vec![Scale::Linear, Scale::Log, Scale::Category, Scale::Nines]);
        let end = || prop::option::of(number());
        ("\\PC{0,8}", unit, scale, end(), end()).prop_map(|(label, unit, scale, min, max)| Axis {
            label,
            unit,
            scale,
            min,
            max,
        })
    }

    #[test]
    fn a_limit_of_a_single_category_is_a_line() {
        let of = |kind: Kind| Series {
            name: "one".to_owned(),
            kind,
            points: vec![(64.0, Some(1.0))],
        };
        let chart = Chart {
            series: vec![of(Kind::Line), of(Kind::Reference)],
            x: Axis {
                scale: Scale::Category,
                ..Axis::default()
            },
            ..Chart::default()
        };
        let svg = drawn(&chart, &Look::FILE);
        let dashed = svg.split("<path").filter(|path| path.contains("stroke-dasharray"));
        // Beside the one of the legend, 26 wide.
        let wide = dashed.filter_map(|path| path.split_once('h')?.1.split('"').next()?.parse::<f64>().ok());
        assert!(wide.clone().any(|width| width > 100.0), "{svg}");
    }

    proptest! {
        #[test]
        fn any_chart_is_drawn_within_its_picture(
            x in axis(), y in axis(), names in prop::collection::vec(".{0,12}", 0..12),
            points in prop::collection::vec((number(), prop::option::of(number())), 0..60),
        ) {
            let kinds = [Kind::Line, Kind::Points, Kind::Reference];
            let series = names.into_iter().enumerate().map(|(i, name)| Series {
                name,
                kind: kinds[i % 3],
                points: points.clone(),
            });
            let chart = Chart { name: "c".to_owned(), title: "t".to_owned(), x, y, series: series.collect() };
            for look in [Look::FILE, Look::NARROW] {
                let svg = drawn(&chart, &look);
                prop_assert!(!svg.contains("NaN") && !svg.contains("inf "), "{svg}");
                prop_assert!(resvg::usvg::Tree::from_str(&svg, &resvg::usvg::Options::default()).is_ok(), "{svg}");
            }
        }
    }
}
