//! Work of each thread as a tree: the time of each part (total), and its time without its own parts (self).

use crate::flame::{Names, Node};
use crate::table::grid;
use crate::{LaneTrace, Recording, Sample, Stage, StageRow, count, time};

/// Share of a lane's samples below which functions are added up in one row.
const WORTH_NAMING: f64 = 0.005;

/// Returns a tree of threads, their lanes, and the stages of these. The self time of a lane is its `rest`.
pub fn stages(recording: &Recording) -> String {
    const HEAD: [&str; 6] = ["total", "self", "share", "calls", "mean", "what"];
    let mut cells = Vec::new();
    for lanes in by_thread(&recording.lanes) {
        let rows: Vec<Vec<&StageRow>> = lanes.iter().map(|lane| rows_of(recording, lane.lane)).collect();
        let all_ns = rows.iter().map(|rows| total_ns(rows)).fold(0, u64::saturating_add);
        let line = |depth: usize, what: &str, (total, own): (u64, u64), calls: Option<u64>| {
            let share = 100.0 * total as f64 / all_ns.max(1) as f64;
            let known = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
            [
                time(total as f64),
                time(own as f64),
                format!("{share:.2} %"),
                known(calls.map(count)),
                known(
                    calls
                        .filter(|calls| *calls > 0)
                        .map(|calls| time(total as f64 / calls as f64)),
                ),
                format!("{}{what}", "  ".repeat(depth)),
            ]
        };
        // A thread with one lane shares one row with that lane.
        let alone = lanes.len() == 1;
        let mut named = thread(&lanes);
        if !alone {
            cells.push(line(0, &named, (all_ns, 0), None));
        }
        for (lane, mut rows) in lanes.iter().zip(rows) {
            let total = total_ns(&rows);
            let (own, calls) = rows
                .iter()
                .find(|row| row.stage == Stage::Rest)
                .map_or((0, 0), |row| (row.total_ns, row.calls));
            match alone {
                true => named = format!("{named}: {}", lane.name),
                false => named = format!("lane {}: {}", lane.lane, lane.name),
            }
            let depth = usize::from(!alone);
            cells.push(line(depth, &named, (total, own), Some(calls)));
            rows.retain(|row| row.stage != Stage::Rest && row.total_ns > 0);
            rows.sort_by_key(|row| std::cmp::Reverse(row.total_ns));
            for row in rows {
                let of = (row.total_ns, row.total_ns);
                cells.push(line(depth + 1, row.stage.name(), of, Some(row.calls)));
            }
        }
    }
    grid(&HEAD, cells, &[5])
}

/// Returns a tree of lanes and the functions in which samples found them, each caller above the functions that it
/// called.
pub fn calls(recording: &Recording, samples: &[Sample]) -> String {
    const HEAD: [&str; 4] = ["samples", "self", "share", "what"];
    let names = Names::new(samples, &recording.frames);
    let tree = names.tree(samples);
    let mut cells = Vec::new();
    for (name, lane) in &tree.called {
        walk((&name.text, lane), 0, lane.all, &mut cells);
    }
    grid(&HEAD, cells, &[3])
}

fn walk((name, node): (&str, &Node<'_>), depth: usize, all: u64, cells: &mut Vec<[String; 4]>) {
    cells.push(line(depth, name, (node.all, node.own), all));
    let mut called: Vec<_> = node.called.iter().collect();
    called.sort_by_key(|(_, called)| std::cmp::Reverse(called.all));
    let worth = called.partition_point(|(_, called)| called.all as f64 >= WORTH_NAMING * all as f64);
    let (named, others) = called.split_at(worth);
    for (name, called) in named {
        walk((&name.text, called), depth + 1, all, cells);
    }
    if !others.is_empty() {
        let rest = others.iter().map(|(_, called)| called.all).sum();
        let what = format!("{} more, each below 0.5 %", others.len());
        cells.push(line(depth + 1, &what, (rest, rest), all));
    }
}

fn line(depth: usize, what: &str, (of, own): (u64, u64), all: u64) -> [String; 4] {
    let share = 100.0 * of as f64 / all.max(1) as f64;
    let what = format!("{}{what}", "  ".repeat(depth));
    [count(of), count(own), format!("{share:.2} %"), what]
}

/// Returns the lanes by thread: lanes of one thread are together; a lane whose thread is not known is alone.
fn by_thread(lanes: &[LaneTrace]) -> Vec<Vec<&LaneTrace>> {
    let mut threads: Vec<Vec<&LaneTrace>> = Vec::new();
    for lane in lanes {
        match threads.iter_mut().find(|of| lane.tid > 0 && of[0].tid == lane.tid) {
            Some(thread) => thread.push(lane),
            None => threads.push(vec![lane]),
        }
    }
    threads
}

fn thread(lanes: &[&LaneTrace]) -> String {
    let number = match lanes[0].tid {
        0 => "a thread".to_owned(),
        tid => format!("thread {tid}"),
    };
    match lanes[0].cpu {
        Some(cpu) => format!("{number} on core {cpu}"),
        None => number,
    }
}

fn rows_of(recording: &Recording, lane: u32) -> Vec<&StageRow> {
    recording.stages.iter().filter(|row| row.lane == lane).collect()
}

fn total_ns(rows: &[&StageRow]) -> u64 {
    rows.iter().map(|row| row.total_ns).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::own::tests::example;

    #[test]
    fn a_thread_has_its_lanes_and_a_lane_its_stages() {
        let mut recording = example(vec![]);
        let row = |lane, stage, total_ns| StageRow {
            lane,
            stage,
            total_ns,
            calls: 10,
            ..recording.stages[0].clone()
        };
        recording.stages = vec![
            row(0, Stage::Transmit, 300),
            row(0, Stage::EmptyPolls, 500),
            row(0, Stage::Rest, 200),
        ];
        assert_eq!(
            stages(&recording),
            "   total    self     share  calls    mean  what\n\
             1.000 µs  200 ns  100.00 %     10  100 ns  thread 77 on core 1: lane 0\n  \
             500 ns  500 ns   50.00 %     10   50 ns    empty polls\n  \
             300 ns  300 ns   30.00 %     10   30 ns    transmit\n"
        );
        let second = LaneTrace {
            lane: 1,
            name: "port 1".to_owned(),
            ..recording.lanes[0].clone()
        };
        recording.lanes.push(second);
        recording.stages.push(StageRow {
            lane: 1,
            stage: Stage::Rest,
            total_ns: 1000,
            calls: 4,
            ..recording.stages[0].clone()
        });
        let text = stages(&recording);
        assert!(
            text.contains("2.000 µs      0 ns  100.00 %      -       -  thread 77 on core 1\n"),
            "{text}"
        );
        assert!(
            text.contains("1.000 µs  1.000 µs   50.00 %      4  250 ns    lane 1: port 1\n"),
            "{text}"
        );
    }

    #[test]
    fn what_a_function_takes_itself_is_what_it_did_not_call() {
        let mut recording = example(vec![]);
        let sample = |stack: &[u32]| Sample {
            stack: stack.to_vec(),
            ..recording.samples[0].clone()
        };
        let mut samples = vec![sample(&[0]); 100];
        samples.extend(vec![sample(&[0, 1]); 300]);
        samples.push(sample(&[1]));
        recording.samples = samples;
        assert_eq!(
            calls(&recording, &recording.samples),
            "samples  self     share  what\n    \
             401     0  100.00 %  lane 0\n    \
             400   100   99.75 %    run\n    \
             300   300   74.81 %      udp_sendmsg\n      \
             1     1    0.25 %    1 more, each below 0.5 %\n"
        );
    }
}
