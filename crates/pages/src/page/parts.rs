//! Parts of the page: tables, pictures, lists.

use super::Much;
use crate::chart::{Look, drawn, thin};
use crate::document::show::{Shown, headed};
use crate::document::{Chart, Column, Definition, Document, Series, Table, Unit};
use crate::escape::{escape, is_hidden};
use crate::plot::svg::shorten;
use serde_json::{Map, Value};
use std::fmt::{Arguments, Write};

/// Name of the table that holds every trial.
pub(super) const TRIALS: &str = "trials";
/// Most rows of the table that replaces a chart without a table of its own.
const CHART_ROWS: usize = 60;
/// Characters of the longest name of a series or an axis.
const LONGEST_LABEL: usize = 300;
/// Number of columns from which on a table is printed small.
const DENSE: usize = 9;
/// Most rows of a table that is not split between two sheets of paper.
const SHORT: usize = 20;
/// Number of characters from which on a column of texts has a minimum width.
const LONG: usize = 28;

/// The page while it is written.
pub(super) struct Part {
    pub(super) text: String,
    pub(super) much: Much,
}

impl Part {
    pub(super) fn new(much: Much) -> Self {
        Self {
            text: String::new(),
            much,
        }
    }

    pub(super) fn put(&mut self, text: Arguments) {
        // Writing to a String does not fail.
        let _ = self.text.write_fmt(text);
    }

    /// Returns a text, cut to the length that the page allows.
    pub(super) fn short(&self, text: &str) -> String {
        shorten(text, self.much.text)
    }

    pub(super) fn heading(&mut self, text: &str) {
        self.put(format_args!("<h2>{}</h2>\n", escape(text)));
    }

    pub(super) fn list(&mut self, heading: &str, lines: &[String]) {
        if lines.is_empty() {
            return;
        }
        self.heading(heading);
        self.put(format_args!("<ul>\n"));
        for line in lines.iter().take(self.much.parts) {
            self.put(format_args!("<li>{}</li>\n", escape(&headed(&self.short(line)))));
        }
        self.put(format_args!("</ul>\n"));
    }

    pub(super) fn definitions(&mut self, all: &[Definition]) {
        if all.is_empty() {
            return;
        }
        self.heading("Definitions");
        self.put(format_args!("<dl>\n"));
        for Definition { term, text } in all.iter().take(self.much.parts) {
            let (term, text) = (escape(&headed(&self.short(term))), escape(&headed(&self.short(text))));
            self.put(format_args!("<dt>{term}</dt><dd>{text}</dd>\n"));
        }
        self.put(format_args!("</dl>\n"));
    }

    /// Writes the fields of an object, and those of objects within it.
    pub(super) fn facts(&mut self, heading: &str, value: &Value) {
        let facts = facts(value);
        if facts.is_empty() {
            return;
        }
        self.heading(heading);
        self.put(format_args!("<div class=\"scroll\"><table class=\"facts\"><tbody>\n"));
        for (name, text) in facts.iter().take(self.much.rows) {
            let (name, text) = (escape(&self.short(name)), escape(&self.short(text)));
            self.put(format_args!("<tr><th scope=\"row\">{name}</th><td>{text}</td></tr>\n"));
        }
        self.put(format_args!("</tbody></table></div>\n"));
    }

    /// Writes tables and pictures: each table with the chart of its name, then the other charts, then all trials.
    pub(super) fn findings(&mut self, document: &Document, live: &dyn Fn(&str) -> bool) {
        let (tables, charts) = (&document.tables, trimmed(&document.charts, self.much));
        if tables.is_empty() && charts.is_empty() {
            return;
        }
        self.heading("Results");
        for table in tables.iter().filter(|t| t.name != TRIALS).take(self.much.parts) {
            for chart in charts.iter().filter(|c| c.name == table.name).take(1) {
                self.chart(chart, live(&chart.name));
            }
            self.table(table, self.much.rows);
        }
        let tabled = |chart: &&Chart| tables.iter().any(|t| t.name == chart.name);
        for chart in charts.iter().filter(|c| !tabled(c)).take(self.much.parts) {
            self.chart(chart, live(&chart.name));
            let table = as_table(chart);
            self.put(format_args!(
                "<details class=\"values\"><summary>Values of this chart</summary>\n"
            ));
            self.table(&table, self.much.rows);
            self.put(format_args!("</details>\n"));
        }
        if let Some(trials) = tables.iter().find(|t| t.name == TRIALS) {
            for chart in charts.iter().filter(|c| c.name == TRIALS).take(1) {
                self.chart(chart, live(&chart.name));
            }
            self.put(format_args!(
                "<details><summary>All trials ({})</summary>\n",
                trials.rows.len()
            ));
            self.table(trials, self.much.rows);
            self.put(format_args!("</details>\n"));
        }
    }

    fn chart(&mut self, chart: &Chart, live: bool) {
        let id = escape(&chart.name);
        let title = escape(&headed(&self.short(&chart.title)));
        self.put(format_args!(
            "<figure id=\"chart-{id}\">\n<figcaption>{title}</figcaption>\n"
        ));
        // The style gives each picture the size of its column, and shows one of the two. If a policy forbids styles
        // (Jenkins shows reports with one), the attributes do that.
        for (class, look, more) in [("wide", Look::WIDE, ""), ("narrow", Look::NARROW, " display=\"none\"")] {
            let svg = drawn(chart, &look).replacen("<svg", &format!("<svg class=\"chart\"{more}"), 1);
            self.put(format_args!("<div class=\"{class}\">{}</div>\n", svg.trim_end()));
        }
        if live {
            self.put(format_args!(
                "<div class=\"live\" role=\"img\" aria-label=\"{title}\"></div>\n\
                 <p class=\"zoom hint\" hidden>Drag to zoom, double-click for all, click a name to hide its line.</p>\n"
            ));
        }
        self.put(format_args!("</figure>\n"));
    }

    fn table(&mut self, table: &Table, most: usize) {
        let shown: Vec<(&Column, Shown, bool, bool)> = table
            .columns
            .iter()
            .zip(Shown::of_table(table))
            .enumerate()
            .map(|(i, (column, shown))| {
                let cells = || table.rows.iter().filter_map(move |row| row.get(i));
                let texts = cells().any(Value::is_string);
                let long = cells().filter_map(Value::as_str).any(|t| t.chars().count() > LONG);
                let numbers = column.unit != Unit::Plain || !texts;
                (column, shown, numbers, long)
            })
            .collect();
        let class = |numbers: bool, long: bool| match (numbers, long) {
            (true, _) => " class=\"num\"",
            (_, true) => " class=\"long\"",
            _ => " class=\"word\"",
        };
        let caption = escape(&headed(&self.short(&table.caption)));
        let dense = match (shown.len() >= DENSE, table.rows.len() <= SHORT) {
            (true, _) => " class=\"dense\"",
            (_, true) => " class=\"short\"",
            _ => "",
        };
        self.put(format_args!(
            "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{caption}\"><table{dense}>\n\
             <caption><span>{caption}</span></caption>\n<thead><tr>"
        ));
        for (column, unit, numbers, long) in &shown {
            let heading = escape(&self.short(&unit.heading(&column.title)));
            self.put(format_args!(
                "<th scope=\"col\"{}>{heading}</th>",
                class(*numbers, *long)
            ));
        }
        self.put(format_args!("</tr></thead>\n<tbody>\n"));
        for row in table.rows.iter().take(most) {
            self.put(format_args!("<tr>"));
            for (i, (value, (_, unit, numbers, long))) in row.iter().zip(&shown).enumerate() {
                let cell = escape(&self.short(&unit.cell(value)));
                let class = class(*numbers, *long);
                if i == 0 {
                    self.put(format_args!("<th scope=\"row\"{class}>{cell}</th>"));
                } else {
                    self.put(format_args!("<td{class}>{cell}</td>"));
                }
            }
            self.put(format_args!("</tr>\n"));
        }
        self.put(format_args!("</tbody></table></div>\n"));
        if table.rows.len() > most {
            self.put(format_args!(
                "<p class=\"hint\">The first {most} of {} rows; {}.csv has all.</p>\n",
                table.rows.len(),
                escape(&table.name)
            ));
        }
    }
}

/// Returns the charts cut to what the page allows: fewer points, series and words.
pub(super) fn trimmed(charts: &[Chart], much: Much) -> Vec<Chart> {
    let short = |text: &mut String| {
        let shown = text.chars().map(|c| if is_hidden(c) { '\u{fffd}' } else { c });
        *text = shorten(&shown.collect::<String>(), much.text.min(LONGEST_LABEL));
    };
    let trimmed = |chart: &Chart| {
        let series = chart.series.iter().take(much.parts).map(|series| Series {
            name: series.name.clone(),
            kind: series.kind,
            points: thin(&series.points, much.points),
        });
        let mut chart = Chart {
            name: chart.name.clone(),
            title: chart.title.clone(),
            x: chart.x.clone(),
            y: chart.y.clone(),
            series: series.collect(),
        };
        short(&mut chart.title);
        short(&mut chart.x.label);
        short(&mut chart.y.label);
        chart.series.iter_mut().for_each(|series| short(&mut series.name));
        chart
    };
    charts.iter().take(much.parts).map(trimmed).collect()
}

/// Returns names and texts of an object's fields, and of objects within it.
pub(super) fn facts(value: &Value) -> Vec<(String, String)> {
    fn add(into: &mut Vec<(String, String)>, prefix: &str, fields: &Map<String, Value>) {
        for (key, value) in fields {
            let name = format!("{prefix}{key}");
            match value {
                Value::Object(fields) => add(into, &format!("{name}."), fields),
                value => into.push((name, words(value))),
            }
        }
    }
    let mut all = Vec::new();
    if let Value::Object(fields) = value {
        add(&mut all, "", fields);
    }
    all
}

/// Returns a value of a field as text. Objects in a list, such as goals, become names and values, one after another.
fn words(value: &Value) -> String {
    match value {
        Value::Array(all) if all.is_empty() => words(&Value::Null),
        Value::Array(all) => {
            let between = if all.iter().any(Value::is_object) { "; " } else { ", " };
            all.iter().map(words).collect::<Vec<_>>().join(between)
        }
        Value::Object(fields) => {
            let all: Vec<_> = fields.iter().map(|(key, value)| field(key, value)).collect();
            all.join(", ")
        }
        value => Shown::of(Unit::Plain, 1.0).cell(value),
    }
}

/// Returns a field of an object in a list: its name without the unit, which comes after the value.
fn field(key: &str, value: &Value) -> String {
    let plain = |key: &str| key.replace('_', " ");
    match (value.as_f64(), key.rsplit_once('_')) {
        (Some(ratio), Some((name, "ratio"))) => {
            let percent = Shown::of(Unit::Ratio, ratio);
            format!("{} {} %", plain(name), percent.number(ratio))
        }
        (Some(_), Some((name, unit @ ("s" | "ns" | "pps" | "bps" | "bytes")))) => {
            format!("{} {} {unit}", plain(name), words(value))
        }
        _ => format!("{} {}", plain(key), words(value)),
    }
}

/// Returns the points of a chart as a table; of long lines, only some points.
fn as_table(chart: &Chart) -> Table {
    let column = |key: &str, title: &str, unit| Column {
        key: key.to_owned(),
        title: title.to_owned(),
        unit,
    };
    let most = (4 * CHART_ROWS / chart.series.len().max(1)).max(CHART_ROWS);
    let mut rows = Vec::new();
    for series in &chart.series {
        let points = thin(&series.points, most);
        rows.extend(
            points
                .iter()
                .map(|(x, y)| vec![series.name.as_str().into(), (*x).into(), (*y).into()]),
        );
    }
    let shown: usize = rows.len();
    let all: usize = chart.series.iter().map(|s| s.points.len()).sum();
    Table {
        name: chart.name.clone(),
        caption: match shown < all {
            true => format!("{}: {shown} of {all} points", chart.title),
            false => chart.title.clone(),
        },
        columns: vec![
            column("series", "Series", Unit::Plain),
            column("x", &chart.x.label, chart.x.unit),
            column("y", &chart.y.label, chart.y.unit),
        ],
        rows,
    }
}
