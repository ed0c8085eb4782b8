//! The lanes' time by stage: in brief the largest stages of each lane, in full the whole table.

use super::text::{Heads, Page, fold, table};
use mpps_stats::Summary;
use mpps_trace::table::{PROGRAM_HEADS, program_cells, stage_cells};
use mpps_trace::{ProgramRow, StageRow, count};
use std::io::{self, Write};

/// Most lanes that have a line of their own in brief.
const LANES: usize = 6;
/// Most stages in such a line.
const STAGES: usize = 5;

/// Returns the rows grouped by lane.
fn by_lane(s: &Summary) -> impl Iterator<Item = &[StageRow]> {
    s.stages.chunk_by(|a, b| a.lane == b.lane)
}

/// Prints one line for each of the first lanes, with the stages that took most of its time.
pub(super) fn in_brief(s: &Summary, out: &mut Page<'_>) -> io::Result<()> {
    for rows in by_lane(s).take(LANES) {
        let mut rows: Vec<&StageRow> = rows.iter().collect();
        rows.sort_by(|a, b| b.share.total_cmp(&a.share));
        let largest = rows.iter().filter(|row| row.share >= 0.001).take(STAGES);
        let mut parts: Vec<String> = largest
            .map(|row| format!("{} {:.1} %", row.stage.name(), row.share * 100.0))
            .collect();
        if let (Some(first), Some(row)) = (parts.first_mut(), rows.first()) {
            first.insert_str(0, &format!("lane {}: ", row.lane));
            fold(parts, "   ", "  ", out)?;
        }
    }
    let more = by_lane(s).count().saturating_sub(LANES);
    if more > 0 {
        writeln!(out, "{more} more lanes: --verbose")?;
    }
    programs_in_brief(s, out)
}

/// Prints one line for each program in the kernel that handles packets.
fn programs_in_brief(s: &Summary, out: &mut Page<'_>) -> io::Result<()> {
    let told = |row: &&ProgramRow| row.packets > 0 && row.total_ns > 0;
    for row in s.programs.iter().filter(told).take(LANES) {
        let mut parts = vec![
            format!(
                "program {} of {}: {:.1} ns a packet",
                row.program,
                row.device,
                row.ns_per_packet()
            ),
            format!("{:.1} % of a core", row.share * 100.0),
        ];
        if row.is_sampled() {
            parts.push(format!("{} of {} runs timed", count(row.timed), count(row.runs)));
        }
        fold(parts, "   ", "  ", out)?;
    }
    Ok(())
}

/// Prints one row for each stage of each lane, and the cost of measuring it; then one for each program in the kernel.
pub(super) fn in_full(s: &Summary, out: &mut Page<'_>) -> io::Result<()> {
    if !s.stages.is_empty() {
        lanes_in_full(s, out)?;
    }
    if s.programs.is_empty() {
        return Ok(());
    }
    let mut rows = vec![PROGRAM_HEADS.map(str::to_owned).to_vec()];
    rows.extend(s.programs.iter().map(|row| program_cells(row).to_vec()));
    writeln!(out)?;
    table(&rows, "llrrrrrrrr", Heads::Named, out)
}

fn lanes_in_full(s: &Summary, out: &mut Page<'_>) -> io::Result<()> {
    let names = [
        "lane",
        "stage",
        "calls",
        "packets",
        "a call",
        "ns/packet",
        "ns/call",
        "sd",
        "p50",
        "p99",
        "max",
        "share",
    ];
    let mut rows = vec![names.map(str::to_owned).to_vec()];
    rows.extend(s.stages.iter().map(|row| stage_cells(row).to_vec()));
    writeln!(out)?;
    table(&rows, "rlrrrrrrrrrr", Heads::Named, out)?;
    match &s.stage_cost {
        Some(cost) => writeln!(out, "{cost}"),
        None => Ok(()),
    }
}
