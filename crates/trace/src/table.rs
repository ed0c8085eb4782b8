//! Tables as text.

use crate::{ProgramRow, Recording, Stage, StageRow, Taker, TakerKind, count, thread_number, time};
use std::fmt::Write as _;

/// Names of the columns of a stage table.
pub(crate) const STAGE_HEADS: [&str; 12] = [
    "lane",
    "stage",
    "calls",
    "packets",
    "packets/call",
    "ns/packet",
    "ns/call",
    "sd",
    "p50",
    "p99",
    "max",
    "share",
];

/// Returns the time of the lanes: a row per stage, largest share first within a lane. Stages that took no time and were
/// never entered are left out.
pub fn stages(rows: &[StageRow]) -> String {
    let mut rows: Vec<&StageRow> = rows.iter().filter(|row| row.calls > 0 || row.total_ns > 0).collect();
    rows.sort_by(|a, b| a.lane.cmp(&b.lane).then(b.share.total_cmp(&a.share)));
    grid(&STAGE_HEADS, rows.into_iter().map(stage_cells).collect(), &[1])
}

/// Returns a row of a stage table, cell by cell: lane, stage, calls, packets, packets per call, ns per packet, ns per
/// call, standard deviation (`sd`), median, p99, longest, share. A cell that is not known or has no meaning is `-`.
pub fn stage_cells(row: &StageRow) -> [String; 12] {
    let known = |text: String, is: bool| if is { text } else { "-".to_owned() };
    let (moves, called) = (row.packets > 0, row.calls > 0);
    let timed = |ns: u64| known(time(ns as f64), row.timed > 0);
    [
        row.lane.to_string(),
        row.stage.name().to_owned(),
        count(row.calls),
        known(count(row.packets), moves),
        known(format!("{:.2}", row.packets_per_call()), moves),
        known(format!("{:.1}", row.ns_per_packet()), moves),
        known(format!("{:.1}", row.ns_per_call()), called),
        row.sd_ns.map_or_else(|| "-".to_owned(), |ns| time(ns as f64)),
        timed(row.p50_ns),
        timed(row.p99_ns),
        timed(row.max_ns),
        format!("{:.2} %", row.share * 100.0),
    ]
}

/// Names of the columns of a table of programs.
pub const PROGRAM_HEADS: [&str; 10] = [
    "program",
    "device",
    "runs",
    "timed",
    "packets",
    "a run",
    "ns/packet",
    "ns/run",
    "time",
    "of a core",
];

/// Returns the time of programs in the kernel: a row each.
pub fn programs(rows: &[ProgramRow]) -> String {
    grid(&PROGRAM_HEADS, rows.iter().map(program_cells).collect(), &[0, 1])
}

/// Returns a row of a table of programs, cell by cell. A cell without a meaning is `-`.
pub fn program_cells(row: &ProgramRow) -> [String; 10] {
    let known = |text: String, is: bool| if is { text } else { "-".to_owned() };
    let (moves, ran, told) = (row.packets > 0, row.runs > 0, row.total_ns > 0);
    [
        row.program.clone(),
        row.device.clone(),
        count(row.runs),
        known(count(row.timed), row.timed > 0),
        known(count(row.packets), moves),
        known(format!("{:.2}", row.packets_per_run()), moves && ran),
        known(format!("{:.1}", row.ns_per_packet()), moves && told),
        known(format!("{:.1}", row.ns_per_run()), ran && told),
        time(row.total_ns as f64),
        format!("{:.2} %", row.share * 100.0),
    ]
}

/// Most culprits of a core that have a row each.
const CULPRITS: usize = 15;

/// Returns what took the lanes' cores: a row for each of the culprits that took most of a core, and one row for all
/// others.
pub fn takers(takers: &[Taker]) -> String {
    const HEAD: [&str; 8] = ["core", "lane", "kind", "what", "visits", "total", "longest", "mean"];
    let mut rows: Vec<&Taker> = takers.iter().filter(|taker| taker.total_ns > 0).collect();
    rows.sort_by(|a, b| a.cpu.cmp(&b.cpu).then(b.total_ns.cmp(&a.total_ns)));
    let mut cells = Vec::new();
    for core in rows.chunk_by(|a, b| a.cpu == b.cpu) {
        let (first, others) = core.split_at(core.len().min(CULPRITS));
        let sums = |of: &[&Taker]| {
            let add = |(visits, ns): (u64, u64), of: &&Taker| {
                (visits.saturating_add(of.count), ns.saturating_add(of.total_ns))
            };
            let (count, total_ns) = of.iter().fold((0, 0), add);
            (count, total_ns, of.iter().map(|of| of.max_ns).max().unwrap_or(0))
        };
        let row = |lane: String, what: (&str, String), (visits, total_ns, max_ns): (u64, u64, u64)| {
            [
                core[0].cpu.to_string(),
                lane,
                what.0.to_owned(),
                what.1,
                count(visits),
                time(total_ns as f64),
                time(max_ns as f64),
                time(total_ns as f64 / visits.max(1) as f64),
            ]
        };
        for taker in first {
            let what = (kind(taker.kind), culprit(taker));
            cells.push(row(taker.lane.to_string(), what, sums(&[taker])));
        }
        if !others.is_empty() {
            cells.push(row(
                String::new(),
                ("", format!("{} others", others.len())),
                sums(others),
            ));
        }
    }
    grid(&HEAD, cells, &[2, 3])
}

/// Returns a culprit's name with its thread's id.
pub fn culprit(taker: &Taker) -> String {
    match taker.tid {
        0 => taker.name.clone(),
        tid => format!("{} ({})", taker.name, thread_number(tid)),
    }
}

fn kind(kind: TakerKind) -> &'static str {
    match kind {
        TakerKind::Thread => "thread",
        TakerKind::Own => "own thread",
        TakerKind::Irq => "interrupt",
        TakerKind::Softirq => "softirq",
        TakerKind::Vector => "cpu interrupt",
        TakerKind::Stopped => "stopped",
        TakerKind::Asleep => "asleep",
        TakerKind::Withheld => "quota",
        TakerKind::Unexplained => "unexplained",
    }
}

/// Returns a comparison of two recordings, stage by stage: the time per packet (per call, if the stage handles no
/// packets) and the share in each.
pub fn compare(a: &Recording, b: &Recording) -> String {
    const HEAD: [&str; 9] = [
        "lane",
        "stage",
        "ns A",
        "ns B",
        "B/A",
        "share A",
        "share B",
        "longest A",
        "longest B",
    ];
    let find = |of: &'_ Recording, lane: u32, stage: Stage| {
        of.stages
            .iter()
            .find(|row| (row.lane, row.stage) == (lane, stage))
            .cloned()
    };
    let mut lanes: Vec<u32> = a.stages.iter().chain(&b.stages).map(|row| row.lane).collect();
    lanes.sort_unstable();
    lanes.dedup();
    let mut cells = Vec::new();
    for (lane, stage) in lanes.iter().flat_map(|&lane| Stage::ALL.map(|stage| (lane, stage))) {
        let rows = [find(a, lane, stage), find(b, lane, stage)];
        if rows.iter().flatten().all(|row| row.calls == 0 && row.total_ns == 0) {
            continue;
        }
        let packets = rows.iter().flatten().any(|row| row.packets > 0);
        let each = rows.clone().map(|row| {
            let row = row?;
            let of = if packets { row.packets } else { row.calls };
            (of > 0).then(|| row.total_ns as f64 / of as f64)
        });
        let text = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        let unit = if packets { "/packet" } else { "/call" };
        let quotient = match each {
            [Some(a), Some(b)] if a > 0.0 => Some(format!("{:.3}", b / a)),
            _ => None,
        };
        cells.push([
            lane.to_string(),
            stage.name().to_owned(),
            text(each[0].map(|ns| format!("{ns:.1}{unit}"))),
            text(each[1].map(|ns| format!("{ns:.1}{unit}"))),
            text(quotient),
            text(rows[0].as_ref().map(|row| format!("{:.2} %", row.share * 100.0))),
            text(rows[1].as_ref().map(|row| format!("{:.2} %", row.share * 100.0))),
            text(rows[0].as_ref().map(|row| time(row.max_ns as f64))),
            text(rows[1].as_ref().map(|row| time(row.max_ns as f64))),
        ]);
    }
    grid(&HEAD, cells, &[1])
}

/// Returns columns that are as wide as they must be, aligned to the right except the columns of `left`.
pub(crate) fn grid<const N: usize>(head: &[&str; N], cells: Vec<[String; N]>, left: &[usize]) -> String {
    let mut widths = head.map(|cell| cell.chars().count());
    for row in &cells {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in [head.map(str::to_owned)].into_iter().chain(cells) {
        let mut line = String::new();
        for (place, (cell, width)) in row.iter().zip(widths).enumerate() {
            let _ = match left.contains(&place) {
                true => write!(line, "{cell:<width$}  "),
                false => write!(line, "{cell:>width$}  "),
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::own::tests::example;

    #[test]
    fn tables_say_what_the_rows_say() {
        let recording = example(vec![]);
        let text = stages(&recording.stages);
        assert_eq!(
            text,
            "lane  stage     calls  packets  packets/call  ns/packet  ns/call    sd     p50     p99     max    \
             share\n   \
             0  transmit      3       96         32.00        9.4    300.0  5 ns  300 ns  310 ns  310 ns  25.00 %\n"
        );
        assert_eq!(
            programs(&recording.programs),
            "program  device   runs  timed  packets  a run  ns/packet  ns/run      time  of a core\n\
             receive  veth1   1,000    500      990   0.99      100.0    99.0  99.00 µs     9.90 %\n"
        );
        let text = takers(&recording.takers);
        assert!(text.contains("rustc (99)") && text.contains("100.0 µs"), "{text}");
        let many: Vec<Taker> = (0..20)
            .map(|tid| Taker {
                tid: tid + 1,
                ..recording.takers[0].clone()
            })
            .collect();
        let text = takers(&many);
        assert_eq!(text.lines().count(), 1 + CULPRITS + 1, "{text}");
        assert!(text.contains("5 others") && text.contains("500.0 µs"), "{text}");
        let mut other = recording.clone();
        other.stages[0].total_ns *= 2;
        assert!(
            compare(&recording, &other).contains("2.000"),
            "{}",
            compare(&recording, &other)
        );
    }
}
