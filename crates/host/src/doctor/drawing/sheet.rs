//! The drawing itself: boxes from the top down, each with a title.

use super::{Group, Host, Nic, Node, counted, text_of};
use std::fmt::Write;

/// Width of the drawing, its margin, and the width inside a panel, px.
const WIDTH: f64 = 1200.0;
const MARGIN: f64 = 16.0;
const INSIDE: f64 = WIDTH - 4.0 * MARGIN;
/// Size of a thread's box, and the room around it in the core's box, px.
const CELL: [f64; 2] = [36.0, 26.0];
const PAD: f64 = 3.0;
/// Gap between boxes, px.
const GAP: f64 = 6.0;
/// Height of a line of text, px.
const LINE: f64 = 18.0;
/// Size of a box for an interrupt of a device, px.
const QUEUE: [f64; 2] = [52.0, 20.0];
/// Colours of devices, on white and on black; after the last one they begin again.
const COLOURS: [[&str; 2]; 8] = [
    ["#1f66a8", "#84bdf2"],
    ["#c2410c", "#fdba74"],
    ["#15803d", "#86efac"],
    ["#7e22ce", "#d8b4fe"],
    ["#be123c", "#fda4af"],
    ["#0f766e", "#5eead4"],
    ["#a16207", "#fde047"],
    ["#475569", "#cbd5e1"],
];

/// Returns the host as SVG.
pub(super) fn drawn(host: &Host) -> String {
    Sheet::of(host)
}

/// A drawing that grows downwards.
struct Sheet {
    out: String,
    y: f64,
}

impl Sheet {
    fn of(host: &Host) -> String {
        let mut sheet = Self {
            out: String::new(),
            y: 34.0,
        };
        sheet.text(MARGIN, "h", "Cores, memory and network devices of this host");
        for line in &host.lines {
            sheet.y += LINE;
            sheet.text(MARGIN, "m", &shortened(line, 150));
        }
        sheet.y += 14.0;
        sheet.legend(host);
        for node in &host.nodes {
            sheet.node(host, node);
        }
        let known = |node: &usize| host.nodes.iter().any(|known| known.number == Some(*node));
        let unplaced = |nic: &Nic| !nic.node.as_ref().is_some_and(known);
        let placed_alone = host.nodes.iter().any(|node| node.number.is_none());
        if host.nics.iter().any(unplaced) && !placed_alone {
            sheet.panel("Devices of no known node", |sheet| sheet.nics(host, unplaced));
        }
        if !host.others.is_empty() {
            sheet.panel("Interfaces without a device", |sheet| sheet.others(&host.others));
        }
        sheet.finish()
    }

    fn text(&mut self, x: f64, class: &str, text: &str) {
        let y = self.y;
        self.text_at(x, y, class, text);
    }

    fn text_at(&mut self, x: f64, y: f64, class: &str, text: &str) {
        let _ = writeln!(
            self.out,
            r#"<text x="{x:.1}" y="{y:.1}" class="{class}">{}</text>"#,
            escaped(text)
        );
    }

    fn rect(&mut self, [x, y]: [f64; 2], [width, height]: [f64; 2], class: &str) {
        let _ = writeln!(
            self.out,
            r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" rx="3" class="{class}"/>"#
        );
    }

    /// Draws parts that a title explains.
    fn titled(&mut self, title: &str, parts: impl FnOnce(&mut Self)) {
        let _ = writeln!(self.out, "<g><title>{}</title>", escaped(title));
        parts(self);
        self.out.push_str("</g>\n");
    }

    /// Draws a box over the whole width, with a heading, around `inside`.
    fn panel(&mut self, heading: &str, inside: impl FnOnce(&mut Self)) {
        let (top, before) = (self.y, std::mem::take(&mut self.out));
        self.y += 24.0;
        self.text(2.0 * MARGIN, "b", heading);
        self.y += 10.0;
        inside(self);
        self.y += 4.0;
        let drawn = std::mem::replace(&mut self.out, before);
        self.rect([MARGIN, top], [WIDTH - 2.0 * MARGIN, self.y - top], "p");
        self.out.push_str(&drawn);
        self.y += 12.0;
    }

    fn legend(&mut self, host: &Host) {
        let shared = host
            .nodes
            .iter()
            .flat_map(|node| &node.groups)
            .flat_map(|group| &group.cores);
        let threads = shared.map(Vec::len).max().unwrap_or(1);
        let core = match threads {
            0 | 1 => "core",
            _ => "threads of one core, numbered as --cores does",
        };
        let marks = [
            ("c", core, true),
            ("c i", "isolated", !host.isolated.is_empty()),
            (
                "c x",
                "not for this process",
                host.nodes
                    .iter()
                    .flat_map(|node| &node.groups)
                    .flat_map(|group| group.cores.iter().flatten())
                    .any(|core| !host.allowed.contains(core)),
            ),
        ];
        let mut x = MARGIN;
        for (class, text, _) in marks.into_iter().filter(|(.., shown)| *shown) {
            self.rect([x, self.y], [22.0, 14.0], class);
            self.text_at(x + 28.0, self.y + 11.5, "m", text);
            x += 28.0 + 7.0 * text.chars().count() as f64 + 22.0;
        }
        if host.nics.iter().any(|nic| !nic.interrupts.is_empty()) {
            self.rect([x, self.y], [22.0, 14.0], "c");
            self.rect([x + 2.0, self.y + 9.5], [18.0, 3.5], "n0");
            self.text_at(
                x + 28.0,
                self.y + 11.5,
                "m",
                "interrupts of the device of this colour go here",
            );
        }
        self.y += 28.0;
    }

    fn node(&mut self, host: &Host, node: &Node) {
        let cores = counted([node]);
        let heading = match node.number {
            Some(number) => format!("NUMA node {number}: {cores}{}", node.memory),
            None => format!("{cores}, of no known node"),
        };
        self.panel(&heading, |sheet| {
            let (mut x, mut row) = (0.0, 0.0_f64);
            for group in &node.groups {
                let of = Shape::of(group, node.groups.len());
                if x > 0.0 && x + of.size[0] > INSIDE {
                    (x, row) = (0.0, {
                        sheet.y += row + GAP;
                        0.0
                    });
                }
                sheet.group(host, group, &of, [2.0 * MARGIN + x, sheet.y]);
                x += of.size[0] + GAP;
                row = row.max(of.size[1]);
            }
            sheet.y += row + GAP;
            sheet.nics(host, |nic| nic.node == node.number);
        });
    }

    fn group(&mut self, host: &Host, group: &Group, shape: &Shape, [x, y]: [f64; 2]) {
        let label = if group.cache.is_empty() { 0.0 } else { LINE };
        if label > 0.0 {
            self.rect([x, y], shape.size, "g");
            self.text_at(x + GAP, y + 14.0, "m", &group.cache);
        }
        for (at, threads) in group.cores.iter().enumerate() {
            let (column, row) = (at % shape.columns, at / shape.columns);
            let x = x + GAP + column as f64 * (shape.core[0] + GAP);
            let y = y + GAP + label + row as f64 * (shape.core[1] + GAP);
            self.rect([x, y], [PAD * 2.0 + CELL[0] * threads.len() as f64, shape.core[1]], "k");
            for (place, &thread) in threads.iter().enumerate() {
                self.thread(host, thread, threads, [x + PAD + place as f64 * CELL[0], y + PAD]);
            }
        }
    }

    fn thread(&mut self, host: &Host, thread: usize, threads: &[usize], [x, y]: [f64; 2]) {
        let coming = host.interrupts_on(thread);
        let others: Vec<usize> = threads.iter().copied().filter(|other| *other != thread).collect();
        let mut title = format!("core {thread}");
        if !others.is_empty() {
            let _ = write!(title, ", shares its execution units with {}", text_of(&others));
        }
        let mut class = "c".to_owned();
        for (named, cores, of) in [("isolated", &host.isolated, " i"), ("nohz_full", &host.nohz, "")] {
            if cores.contains(&thread) {
                let _ = write!(title, "; {named}");
                class.push_str(of);
            }
        }
        if !host.allowed.contains(&thread) {
            title.push_str("; not for this process");
            class.push_str(" x");
        }
        for (nic, interrupt) in &coming {
            let _ = write!(
                title,
                "; interrupt {} ({}) of {}",
                interrupt.number, interrupt.label, host.nics[*nic].name
            );
        }
        let mut nics: Vec<usize> = coming.iter().map(|(nic, _)| *nic).collect();
        nics.dedup();
        self.titled(&title, |sheet| {
            let width = CELL[0] - 2.0;
            sheet.rect([x + 1.0, y], [width, CELL[1]], &class);
            sheet.text_at(x + CELL[0] / 2.0, y + 15.0, "c", &thread.to_string());
            let each = (width - 4.0) / nics.len().max(1) as f64;
            for (at, nic) in nics.iter().enumerate() {
                let class = format!("n{}", nic % COLOURS.len());
                sheet.rect([x + 3.0 + at as f64 * each, y + CELL[1] - 6.0], [each, 4.0], &class);
            }
        });
    }

    /// Draws the devices that `wanted` chooses, one below the other.
    fn nics(&mut self, host: &Host, wanted: impl Fn(&Nic) -> bool) {
        for (place, nic) in host.nics.iter().enumerate().filter(|(_, nic)| wanted(nic)) {
            let colour = format!("n{}", place % COLOURS.len());
            let in_a_row = ((INSIDE - 2.0 * GAP - 130.0) / (QUEUE[0] + 4.0)) as usize;
            let rows = nic.interrupts.len().div_ceil(in_a_row) as f64;
            let height = 26.0 + rows * (QUEUE[1] + 4.0) + if rows > 0.0 { 4.0 } else { 0.0 };
            let (x, y) = (2.0 * MARGIN, self.y);
            self.titled(&format!("{}: {}", nic.name, nic.about), |sheet| {
                sheet.rect([x, y], [INSIDE, height], "d");
                sheet.rect([x, y], [6.0, height], &colour);
                sheet.text_at(x + 16.0, y + 17.0, "b", &shortened(&nic.name, 24));
                let beside = x + 16.0 + 8.4 * nic.name.chars().count().min(24) as f64 + 14.0;
                sheet.text_at(beside, y + 17.0, "m", &shortened(&nic.about, 110));
                if rows > 0.0 {
                    sheet.text_at(x + 16.0, y + 40.0, "m", "interrupts on core");
                }
            });
            for (at, interrupt) in nic.interrupts.iter().enumerate() {
                let at_x = x + 136.0 + (at % in_a_row) as f64 * (QUEUE[0] + 4.0);
                let at_y = y + 26.0 + (at / in_a_row) as f64 * (QUEUE[1] + 4.0);
                let title = format!(
                    "interrupt {} ({}) on core {}",
                    interrupt.number, interrupt.label, interrupt.cores
                );
                self.titled(&title, |sheet| {
                    sheet.rect([at_x, at_y], QUEUE, "q");
                    sheet.rect([at_x, at_y + QUEUE[1] - 3.0], [QUEUE[0], 3.0], &colour);
                    sheet.text_at(at_x + QUEUE[0] / 2.0, at_y + 13.5, "c", &shortened(&interrupt.cores, 7));
                });
            }
            self.y += height + GAP;
        }
    }

    fn others(&mut self, others: &[(String, String)]) {
        let mut x = 2.0 * MARGIN;
        for (name, kind) in others {
            let text = shortened(&format!("{name} ({kind})"), 40);
            let width = 16.0 + 7.2 * text.chars().count() as f64;
            if x > 2.0 * MARGIN && x + width > WIDTH - 2.0 * MARGIN {
                (x, self.y) = (2.0 * MARGIN, self.y + 28.0);
            }
            let y = self.y;
            self.titled(&format!("{name} ({kind})"), |sheet| {
                sheet.rect([x, y], [width, 22.0], "d");
                sheet.text_at(x + 8.0, y + 15.0, "m", &text);
            });
            x += width + GAP;
        }
        self.y += 30.0;
    }

    fn finish(self) -> String {
        let height = self.y + 4.0;
        let colours = |scheme: usize| {
            let all = COLOURS.iter().enumerate();
            all.map(|(at, of)| format!(".n{at}{{fill:{}}}", of[scheme]))
                .collect::<String>()
        };
        let scheme = |[paper, ink, faint, panel, edge, box_, isolated, mark]: [&str; 8], colours: &str| {
            format!(
                ".w{{fill:{paper}}}text{{fill:{ink}}}.m{{fill:{faint}}}.p{{fill:{panel};stroke:{edge}}}\
                 .g{{fill:none;stroke:{edge};stroke-dasharray:4 3}}.k{{fill:{edge}}}\
                 rect.c,.d,.q{{fill:{box_};stroke:{edge}}}\
                 rect.i{{fill:{isolated};stroke:{mark};stroke-width:2}}{colours}"
            )
        };
        let light = [
            "#ffffff", "#16202c", "#4b5866", "#f6f8fa", "#c5ced8", "#ffffff", "#fff3c4", "#b7791f",
        ];
        let dark = [
            "#0f151c", "#e8edf2", "#a9b5c2", "#18212b", "#46535f", "#202b36", "#4a3c10", "#e0a93a",
        ];
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH:.0} {height:.0}\" width=\"{WIDTH:.0}\" \
             height=\"{height:.0}\" role=\"img\" aria-label=\"Cores, caches, memory nodes and network devices of this \
             host\">\n<style>text{{font:12px system-ui,sans-serif}}svg{{max-width:100%;height:auto}}\
             .h{{font-size:18px;font-weight:600}}.b{{font-size:14px;font-weight:600}}\
             text.c{{text-anchor:middle}}rect.x{{opacity:.45}}{}\n\
             @media (prefers-color-scheme:dark){{{}}}</style>\n<rect class=\"w\" width=\"100%\" \
             height=\"100%\"/>\n{}</svg>\n",
            scheme(light, &colours(0)),
            scheme(dark, &colours(1)),
            self.out
        )
    }
}

/// Columns and size of a group of cores.
struct Shape {
    columns: usize,
    core: [f64; 2],
    size: [f64; 2],
}

impl Shape {
    /// Returns the shape of a group. A group that is alone in its node takes the full width; several lie beside each
    /// other.
    fn of(group: &Group, groups: usize) -> Self {
        let threads = group.cores.iter().map(Vec::len).max().unwrap_or(1);
        let core = [PAD * 2.0 + CELL[0] * threads as f64, PAD * 2.0 + CELL[1]];
        let fit = ((INSIDE - GAP) / (core[0] + GAP)) as usize;
        let most = match (groups, group.cores.len()) {
            (1, _) => fit,
            (_, 0..=8) => 4,
            _ => 8,
        };
        let columns = group.cores.len().min(fit).min(most).max(1);
        let rows = group.cores.len().div_ceil(columns) as f64;
        let label = if group.cache.is_empty() { 0.0 } else { LINE };
        let size = [
            GAP + columns as f64 * (core[0] + GAP),
            GAP + label + rows * (core[1] + GAP),
        ];
        Self { columns, core, size }
    }
}

/// Returns the beginning of a text that is too long.
fn shortened(text: &str, most: usize) -> String {
    match text.chars().count() > most {
        true => text.chars().take(most - 1).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

/// Returns text in XML form; characters that XML does not allow are replaced.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
