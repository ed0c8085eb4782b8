//! Texts for the user: the table of noise, the applied and the other parts, and the same as shell commands.

use super::apply::Outcome;
use super::boot::{Boot, missing};
use super::noise::{Count, Noise};
use super::plan::{Part, Plan, Step, Undo};

/// Most names of interrupts that are shown for each core; the result has all.
const NAMES: usize = 6;

/// Returns the noise of cores in each state, one per row, in the columns of osnoise.
pub fn table(measured: &[(&str, &[Noise])]) -> String {
    let heading = [
        "CPU",
        "",
        "period ms",
        "noise us",
        "% avail",
        "max noise us",
        "max single us",
        "count",
        "waited us",
        "irqs",
        "softirqs",
        "steal ms",
    ];
    let sum = |counts: &[Count]| counts.iter().map(|one| one.count).sum::<u64>().to_string();
    let or_none = |value: Option<f64>, unit: f64| value.map_or("-".to_owned(), |v| format!("{:.0}", v / unit));
    let mut rows: Vec<Vec<String>> = vec![heading.map(str::to_owned).to_vec()];
    for (state, n) in by_core(measured) {
        rows.push(vec![
            n.cpu.to_string(),
            state.to_owned(),
            format!("{:.0}", n.period_us / 1e3),
            format!("{:.0}", n.noise_us),
            format!("{:.3}", n.available_percent),
            format!("{:.0}", n.max_noise_us),
            format!("{:.0}", n.max_single_us),
            n.count.to_string(),
            or_none(n.waited_us, 1.0),
            sum(&n.interrupts),
            sum(&n.softirqs),
            or_none(n.steal_us, 1e3),
        ]);
    }
    let mut text = String::new();
    for line in aligned(&rows) {
        text += &format!("{line}\n");
    }
    text
}

/// Sorts the rows so that those of one core stand together.
fn by_core<'a>(measured: &[(&'a str, &'a [Noise])]) -> Vec<(&'a str, &'a Noise)> {
    let mut all: Vec<(&str, &Noise)> = Vec::new();
    for (state, noises) in measured {
        all.extend(noises.iter().map(|noise| (*state, noise)));
    }
    all.sort_by_key(|(_, noise)| noise.cpu);
    all
}

/// Returns the interrupts and softirqs on the cores in each state, by name.
pub fn counted(measured: &[(&str, &[Noise])]) -> String {
    let mut text = String::new();
    for (state, n) in by_core(measured) {
        let names: Vec<String> = [("", &n.interrupts), ("softirq ", &n.softirqs)]
            .iter()
            .flat_map(|(what, counts)| {
                counts
                    .iter()
                    .take(NAMES)
                    .map(move |one| format!("{what}{} {}", one.name, one.count))
            })
            .collect();
        let names = if names.is_empty() {
            "nothing counted".to_owned()
        } else {
            names.join(", ")
        };
        text += &format!("CPU {} {state}: {names}\n", n.cpu);
    }
    text
}

/// Returns columns as wide as their widest cell: the second aligned left, all others right.
fn aligned(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let cell = |(column, text): (usize, &String)| match column {
        1 => format!("{text:<width$}", width = widths[column]),
        _ => format!("{text:>width$}", width = widths[column]),
    };
    rows.iter()
        .map(|row| {
            row.iter()
                .enumerate()
                .map(cell)
                .collect::<Vec<_>>()
                .join("  ")
                .trim_end()
                .to_owned()
        })
        .collect()
}

/// Returns one line for each applied and other part, and below it the steps that the host refused.
pub fn outcomes(all: &[Outcome]) -> String {
    let mut text = String::new();
    for outcome in all {
        let (state, count) = match (outcome.applied, outcome.changes) {
            (true, 1) => ("applied", " (1 change)".to_owned()),
            (true, n) => ("applied", format!(" ({n} changes)")),
            (false, _) => ("not applied", String::new()),
        };
        text += &format!("{:<11}  {:<11}  {}{count}\n", outcome.part.name(), state, outcome.told);
        // Refusals for the same reason share one line.
        let mut reasons: Vec<&str> = Vec::new();
        for refusal in outcome.refused.iter().filter(|_| outcome.applied) {
            if !reasons.contains(&refusal.why.as_str()) {
                reasons.push(&refusal.why);
            }
        }
        for why in reasons {
            let names = outcome.refused.iter().filter(|r| r.why == why).map(|r| r.name.as_str());
            text += &format!("{:<26}but not {}: {why}\n", "", names.collect::<Vec<_>>().join(", "));
        }
    }
    text
}

/// Returns the commands of a root shell that would do the same, and those that undo it.
pub fn script(plan: &Plan, boot: &Boot, command: &[String]) -> String {
    let list = plan.cores.list();
    let mut text = format!(
        "# Keeps {} free of all but one command. To be run by root.\n",
        plan.cores.named()
    );
    for part in &plan.parts {
        text += &format!("\n# {}", part.kind.name());
        if part.steps.is_empty() {
            text += &format!(": not here: {}\n", part.why_not);
            continue;
        }
        text += &format!(": {}\n", part.what);
        part.steps.iter().for_each(|step| text += &commands(step));
    }
    let joins: Vec<String> = plan
        .parts
        .iter()
        .filter_map(|part| part.join.as_ref())
        .map(|path| join(path))
        .collect();
    let command = match command.is_empty() {
        true => "COMMAND".to_owned(),
        false => command.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
    };
    text += &format!(
        "\n# the command\n({}exec taskset -c {list} {command})\n",
        joins.concat()
    );
    text += "\n# undo\n";
    let parts: Vec<&Part> = plan.parts.iter().rev().collect();
    for step in parts.iter().flat_map(|part| part.steps.iter().rev()) {
        text += &undoing(step);
    }
    text += "\n# what needs a restart\n";
    for parameter in &boot.parameters {
        let now = match &parameter.now {
            Some(now) => format!("now {now}"),
            None => "not set".to_owned(),
        };
        let why = match parameter.why_not.as_str() {
            "" => String::new(),
            why => format!("; does nothing here: {why}"),
        };
        text += &format!("#   {}  ({now}): {}{why}\n", parameter.word(), parameter.what);
    }
    match &boot.command {
        Some(command) => text += &format!("# {command}\n"),
        None if missing(&boot.parameters, &plan.cores).next().is_none() => text += "# (nothing is missing)\n",
        None => text += "# (how this host boots is not known here)\n",
    }
    text
}

fn join(path: &str) -> String {
    format!("echo $BASHPID > /{path} && ")
}

fn commands(step: &Step) -> String {
    match step {
        Step::Write {
            path,
            name,
            before,
            value,
            undo,
            expect,
        } => {
            let was = if *undo == Undo::Gone {
                String::new()
            } else {
                format!(", was {before}")
            };
            let check = match expect {
                Some(wanted) => format!("; [ \"$(cat /{path})\" = {} ] || cat /{path}", quoted(wanted)),
                None => String::new(),
            };
            format!("echo {} > /{path}{check}  # {name}{was}\n", quoted(value))
        }
        Step::Folder { path, .. } => format!("mkdir /{path}\n"),
        Step::Hold { path } => format!("exec 9> /{path}; printf '\\0\\0\\0\\0' >&9\n"),
        Step::Affinity {
            thread, name, after, ..
        } => format!("taskset -pc {} {thread}  # {}\n", after.list(), one_line(name)),
    }
}

fn undoing(step: &Step) -> String {
    match step {
        Step::Write { undo: Undo::Gone, .. } => String::new(),
        Step::Write { path, before, undo, .. } => {
            let value = match undo {
                Undo::By(value) => value,
                _ => before.as_str(),
            };
            format!("echo {} > /{path}\n", quoted(value))
        }
        Step::Folder { path, home } => {
            format!("for p in $(cat /{path}/cgroup.procs); do echo $p > /{home}/cgroup.procs; done; rmdir /{path}\n")
        }
        Step::Hold { .. } => "exec 9>&-\n".to_owned(),
        Step::Affinity { thread, before, .. } => format!("taskset -pc {} {thread}\n", before.list()),
    }
}

/// Returns a name on one line, for a comment: a program may have chosen the name itself.
fn one_line(name: &str) -> String {
    mpps_sys::text::plain(name, ' ')
}

/// Returns a word quoted for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-+=.,:/@%".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}
