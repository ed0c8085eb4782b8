//! The fourth tab: reasons against the run, programs that took the lanes' cores, and the notes to the user.

use super::draw::against;
use super::look::{Look, folded, plain, styled};
use crate::state::State;
use mpps_report::units::{percent, time};
use ratatui_core::text::Line;

pub(crate) fn lines(state: &State, columns: usize, look: Look) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for reason in against(state) {
        let parts = folded(&format!("speaks against it: {reason}"), columns);
        lines.extend(parts.into_iter().map(|part| styled(part, look.bad())));
    }
    let cores = folded(&cores(state), columns);
    lines.extend(cores.into_iter().map(plain));
    lines.push(Line::default());
    let head = match state.notes.len() {
        0 => "no notes",
        _ => "notes, the newest first",
    };
    lines.push(styled(head, look.head()));
    for note in state.notes.iter().rev() {
        lines.extend(folded(note, columns).into_iter().map(plain));
    }
    lines
}

/// Returns how long lanes did not get their cores.
fn cores(state: &State) -> String {
    let waits = state.lanes.iter().enumerate();
    let waits: Vec<_> = waits
        .filter_map(|(number, lane)| Some((number, lane.not_running_ns?)))
        .collect();
    if waits.is_empty() {
        return "what took the lanes' cores: not known".to_owned();
    }
    let all: u64 = waits.iter().map(|(_, ns)| ns).sum();
    if all == 0 {
        return "what took the lanes' cores: nothing so far".to_owned();
    }
    // The time is that of all trials. The share is of the current trial, and only given if that is the only one.
    let share = match (state.about.single, state.elapsed_ns) {
        (true, ns) if ns > 0 => {
            let share = all as f64 / (ns as f64 * waits.len() as f64);
            format!(" ({} of their time)", percent(share.min(1.0)))
        }
        _ => String::new(),
    };
    let mut by_lane: Vec<_> = waits.iter().filter(|(_, ns)| *ns > 0).collect();
    by_lane.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let told = by_lane.iter().take(8);
    let told: Vec<_> = told
        .map(|(number, ns)| format!("lane {number} {}", time(*ns as f64)))
        .collect();
    format!(
        "others ran on the lanes' cores for {}{share}: {}",
        time(all as f64),
        told.join(", ")
    )
}
