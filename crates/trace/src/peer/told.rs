//! Results of a traced program, as a table and as JSON.

use super::{Calls, Peer, PeerLane, Scheduled};
use crate::table::{STAGE_HEADS, grid};
use crate::{Stage, StageRow};
use serde_json::{Value, json};
use std::fmt::Write;

/// Returns `part` of `whole`; 0 if `whole` is 0.
fn per(part: f64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part / whole as f64 }
}

/// Returns a time as text for people.
fn time(ns: u64) -> String {
    match ns {
        0..10_000 => format!("{ns} ns"),
        10_000..10_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        _ => format!("{:.1} ms", ns as f64 / 1e6),
    }
}

/// Returns a number of ns as text, or `-` if there was no call.
fn ns(value: f64, of: u64) -> String {
    match of {
        0 => "-".to_owned(),
        _ if value < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

fn cells(row: &StageRow) -> [String; 12] {
    let total = row.total_ns as f64;
    let timed = |ns: u64| if row.timed == 0 { "-".to_owned() } else { time(ns) };
    [
        row.lane.to_string(),
        row.stage.name().to_owned(),
        row.calls.to_string(),
        row.packets.to_string(),
        match row.stage {
            Stage::Receive | Stage::Transmit => format!("{:.2}", per(row.packets as f64, row.calls)),
            _ => "-".to_owned(),
        },
        ns(per(total, row.packets), row.packets),
        ns(per(total, row.calls), row.calls),
        row.sd_ns.map_or_else(|| "-".to_owned(), time),
        timed(row.p50_ns),
        timed(row.p99_ns),
        if row.calls == 0 {
            "-".to_owned()
        } else {
            time(row.max_ns)
        },
        format!("{:.1} %", 100.0 * row.share),
    ]
}

impl PeerLane {
    /// Returns the share of polls that gave nothing, 0 to 1.
    pub fn empty_share(&self) -> f64 {
        per(self.empty.calls as f64, self.polls())
    }

    /// Returns one line of R7's figures: those that the published study reads from its screens.
    fn line(&self) -> String {
        let received = &self.receive;
        let all = received.total_ns as f64 + self.empty.total_ns as f64;
        format!(
            "lane {}: {} of {} polls were empty ({:.2} %), {} ns each; {:.2} packets a poll that gave any, {} ns a \
             packet; {} ns a poll over all; longest {} receiving, {} sending",
            self.lane,
            self.empty.calls,
            self.polls(),
            100.0 * self.empty_share(),
            ns(per(self.empty.total_ns as f64, self.empty.calls), self.empty.calls),
            per(received.packets as f64, received.calls),
            ns(per(received.total_ns as f64, received.packets), received.packets),
            ns(per(all, self.polls()), self.polls()),
            time(received.max_ns.max(self.empty.max_ns)),
            time(self.transmit.max_ns),
        )
    }

    /// Returns how many polls gave how many packets, in short; `None` if none gave any.
    fn distribution(&self) -> Option<String> {
        let total: u128 = self.bursts.iter().map(|count| u128::from(*count)).sum();
        let mut all: Vec<_> = self
            .bursts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .collect();
        all.sort_by_key(|(packets, count)| (std::cmp::Reverse(**count), *packets));
        all.truncate(8);
        let last = self.bursts.len().saturating_sub(1);
        let parts: Vec<_> = all
            .into_iter()
            .map(|(packets, count)| {
                let more = if packets == last { "+" } else { "" };
                format!("{packets}{more}: {:.1} %", 100.0 * *count as f64 / total.max(1) as f64)
            })
            .collect();
        (!parts.is_empty()).then(|| format!("lane {}: packets a poll that gave any: {}", self.lane, parts.join(", ")))
    }

    fn json(&self, stages: &[StageRow]) -> Value {
        let calls = |calls: &Calls| {
            json!({
                "calls": calls.calls,
                "packets": calls.packets,
                "total_ns": calls.total_ns,
                "max_ns": calls.max_ns,
                "max_at_ns": calls.max_at_ns,
                "sd_ns": calls.sd_ns,
                "p50_ns": calls.p50_ns,
                "p99_ns": calls.p99_ns,
            })
        };
        json!({
            "lane": self.lane,
            "thread": self.thread,
            "tid": self.tid,
            "cpu": self.cpu,
            "port": self.port,
            "device": self.device,
            "queue": self.queue,
            "first_ns": self.first_ns,
            "last_ns": self.last_ns,
            "polls": self.polls(),
            "empty_polls": self.empty.calls,
            "empty_share": self.empty_share(),
            "ns_per_empty_poll": per(self.empty.total_ns as f64, self.empty.calls),
            "packets_per_nonempty_poll": per(self.receive.packets as f64, self.receive.calls),
            "receive_ns_per_packet": per(self.receive.total_ns as f64, self.receive.packets),
            "polls_by_packets": self.bursts,
            "receive": calls(&self.receive),
            "empty": calls(&self.empty),
            "transmit": calls(&self.transmit),
            "offered": self.offered,
            "rest_ns": self.rest_ns,
            "rest_max_ns": self.rest_max_ns,
            "records": self.rounds.len(),
            "records_overwritten": self.overwritten,
            "stages": stages.iter().filter(|row| row.lane == self.lane).collect::<Vec<_>>(),
        })
    }
}

impl Peer {
    /// Returns each thread, by one of its lanes, and the kernel's counts of it since its first lane.
    fn scheduled(&self) -> Vec<(&PeerLane, Scheduled)> {
        let mut threads: Vec<(&PeerLane, Scheduled)> = Vec::new();
        for lane in &self.lanes {
            let Some(scheduled) = lane.scheduled else { continue };
            match threads.iter_mut().find(|(other, _)| other.tid == lane.tid) {
                Some((first, _)) if first.first_ns <= lane.first_ns => {}
                Some(thread) => *thread = (lane, scheduled),
                None => threads.push((lane, scheduled)),
            }
        }
        threads
    }

    /// Returns the stage table, the figures of each lane, and what tracing cost and lost.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for lane in &self.lanes {
            let _ = writeln!(text, "lane {}: {}", lane.lane, lane.name());
        }
        // Names on the left, numbers on the right.
        text += &grid(&STAGE_HEADS, self.stages().iter().map(cells).collect(), &[0, 1]);
        for lane in &self.lanes {
            let _ = writeln!(text, "{}", lane.line());
            if let Some(line) = lane.distribution() {
                let _ = writeln!(text, "{line}");
            }
        }
        for (lane, scheduled) in self.scheduled() {
            let Scheduled {
                voluntary,
                involuntary,
                ran_ns,
                waited_ns,
            } = scheduled;
            let _ = writeln!(
                text,
                "thread {} ({}): {involuntary} involuntary context switches, {voluntary} voluntary; {} on its core, {} \
                 ready while another thread had it",
                lane.thread,
                lane.tid,
                time(ran_ns),
                time(waited_ns)
            );
        }
        let _ = writeln!(text, "{}", self.cost());
        if self.left_out > 0 {
            let _ = writeln!(text, "{} lanes had no room and were not counted", self.left_out);
        }
        text
    }

    /// Returns the same as a JSON value.
    pub fn json(&self) -> Value {
        let stages = self.stages();
        json!({
            "dpdk": self.dpdk,
            "pid": self.pid,
            "start_ns": self.start_ns,
            "end_ns": self.end_ns,
            "lanes": self.lanes.iter().map(|lane| lane.json(&stages)).collect::<Vec<_>>(),
            "threads": self.scheduled().iter().map(|(lane, of)| json!({
                "thread": lane.thread,
                "tid": lane.tid,
                "voluntary_switches": of.voluntary,
                "involuntary_switches": of.involuntary,
                "ran_ns": of.ran_ns,
                "waited_ns": of.waited_ns,
            })).collect::<Vec<_>>(),
            "lanes_left_out": self.left_out,
            "clock_reading_ns": self.reading_ns,
            "cost": self.cost(),
        })
    }
}
