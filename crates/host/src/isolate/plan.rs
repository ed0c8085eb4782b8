//! The changes that a run would make, found by reading alone.

use super::cgroup;
use super::cpus::Cpus;
use super::online;
use super::tree::Tree;
use mpps_sys::proc_stat::name_in;
use serde::Serialize;
use std::io;

/// A way to keep something off cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A control group with the cores for itself, which the scheduler balances nothing onto.
    Cpuset,
    /// The affinity of interrupts.
    Interrupts,
    /// The cores of work that belongs to no core.
    Workqueues,
    /// Settings of the kernel.
    Sysctls,
    /// No idle state that takes long to leave.
    IdleStates,
    /// The affinity of all other threads.
    Threads,
}

impl Kind {
    /// All kinds, in the order in which they are applied.
    pub const ALL: [Kind; 6] = [
        Kind::Interrupts,
        Kind::Workqueues,
        Kind::Sysctls,
        Kind::IdleStates,
        Kind::Threads,
        Kind::Cpuset,
    ];

    /// Returns the name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Cpuset => "cpuset",
            Kind::Interrupts => "interrupts",
            Kind::Workqueues => "workqueues",
            Kind::Sysctls => "sysctls",
            Kind::IdleStates => "idle-states",
            Kind::Threads => "threads",
        }
    }
}

impl std::str::FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let all = Kind::ALL.map(Kind::name).join(", ");
        let found = Kind::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| format!("'{name}': want some of {all}"))
    }
}

/// Way to undo a change of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undo {
    /// Write the earlier value.
    Before,
    /// Write another value.
    By(&'static str),
    /// Nothing: the value goes with the folder that was made for it.
    Gone,
}

/// A change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A file of the kernel gets another value.
    Write {
        /// The file.
        path: String,
        /// Name for the user: an interrupt's name, a sysctl.
        name: String,
        /// Contents before the change.
        before: String,
        /// Value to write.
        value: String,
        /// Way to undo the change.
        undo: Undo,
        /// Value that must be read back; `None`: any.
        expect: Option<String>,
    },
    /// A folder is made: a control group.
    Folder {
        /// Path of the folder.
        path: String,
        /// Group to which processes that are left in the folder are moved at the end.
        home: String,
    },
    /// A file is held open with a value in it; the kernel forgets the value when the file is closed.
    Hold {
        /// The file.
        path: String,
    },
    /// The cores of a thread are restricted.
    Affinity {
        /// The thread.
        thread: i32,
        /// Start of the thread, in ticks since boot: thread numbers are used again.
        started: u64,
        /// Its name.
        name: String,
        /// Cores before the change.
        before: Cpus,
        /// Cores after the change.
        after: Cpus,
    },
}

/// One way of isolation, on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Kind of the part.
    pub kind: Kind,
    /// Steps to take, in order.
    pub steps: Vec<Step>,
    /// Reason why the part is not done, or only in part; empty: nothing prevents it.
    pub why_not: String,
    /// Whether a step that fails makes the others useless, so that they are undone.
    pub whole: bool,
    /// The `cgroup.procs` of the group that the command joins.
    pub join: Option<String>,
    /// Effect of the part, in a few words.
    pub what: String,
}

impl Part {
    pub(super) fn none(kind: Kind, why_not: impl Into<String>) -> Self {
        Self {
            kind,
            steps: Vec::new(),
            why_not: why_not.into(),
            whole: false,
            join: None,
            what: String::new(),
        }
    }

    fn of(kind: Kind, what: impl Into<String>, steps: Vec<Step>) -> Self {
        Self {
            steps,
            what: what.into(),
            ..Self::none(kind, "")
        }
    }
}

/// Options of a plan.
#[derive(Clone, Debug)]
pub struct Options {
    /// The cores to isolate.
    pub cores: Cpus,
    /// Kinds that are left out.
    pub without: Vec<Kind>,
    /// Whether other threads are moved.
    pub move_threads: bool,
}

/// All changes that a run would make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The cores.
    pub cores: Cpus,
    /// All other cores.
    pub rest: Cpus,
    /// One part of each [`Kind`].
    pub parts: Vec<Part>,
}

/// Examines the host and changes nothing. [`super::check`] must have accepted the cores.
pub fn plan(tree: &Tree, options: &Options) -> Plan {
    let cores = options.cores.clone();
    let rest = online(tree).unwrap_or_default().without(&cores);
    let part = |kind: Kind| match kind {
        _ if options.without.contains(&kind) => Part::none(kind, format!("left out (--without {})", kind.name())),
        Kind::Cpuset => cgroup::part(tree, &cores, &rest),
        Kind::Interrupts => interrupts(tree, &cores, &rest),
        Kind::Workqueues => workqueues(tree, &cores, &rest),
        Kind::Sysctls => sysctls(tree, &cores, &rest),
        Kind::IdleStates => idle_states(tree),
        Kind::Threads if options.move_threads => threads(tree, &cores, &rest),
        Kind::Threads => Part::none(kind, "left where they are: --move-threads moves them"),
    };
    Plan {
        parts: Kind::ALL.map(part).into(),
        cores,
        rest,
    }
}

pub(super) fn write(path: impl Into<String>, name: impl Into<String>, before: &str, value: impl Into<String>) -> Step {
    Step::Write {
        path: path.into(),
        name: name.into(),
        before: before.to_owned(),
        value: value.into(),
        undo: Undo::Before,
        expect: None,
    }
}

/// Returns the step that writes a value of a group made in the same part.
pub(super) fn within(group: &str, key: &str, value: impl Into<String>, expect: Option<&str>) -> Step {
    Step::Write {
        path: format!("{group}/cpuset.{key}"),
        name: format!("cpuset.{key}"),
        before: String::new(),
        value: value.into(),
        undo: Undo::Gone,
        expect: expect.map(str::to_owned),
    }
}

/// Returns the cores of `before` without `cores`, or `rest` if none are left. `None`: nothing changes.
fn moved(before: &Cpus, cores: &Cpus, rest: &Cpus) -> Option<Cpus> {
    let left = before.without(cores);
    match before.meets(cores) {
        false => None,
        true if left.is_empty() => Some(rest.clone()),
        true => Some(left),
    }
}

/// Returns an error in plain words for the user.
pub(super) fn said(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "permission denied: want root".to_owned(),
        io::ErrorKind::NotFound => "not in this kernel, or hidden".to_owned(),
        _ if error.raw_os_error() == Some(EROFS) => "mounted read-only, as containers have it".to_owned(),
        _ => error.to_string(),
    }
}

const EROFS: i32 = 30;

fn interrupts(tree: &Tree, cores: &Cpus, rest: &Cpus) -> Part {
    let mut steps = Vec::new();
    let numbers = tree.folders("proc/irq");
    let mut numbers: Vec<u32> = numbers.iter().filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable();
    let count = numbers.len();
    for number in numbers {
        let path = format!("proc/irq/{number}/smp_affinity_list");
        let Ok(text) = tree.read(&path) else { continue };
        let Some(after) = Cpus::of_list(&text).and_then(|before| moved(&before, cores, rest)) else {
            continue;
        };
        let name = tree.folders(&format!("proc/irq/{number}")).join(" ");
        let name = format!("{number} {name}").trim().to_owned();
        steps.push(write(path, name, &text, after.list()));
    }
    // The default for interrupts that are requested during the run.
    let path = "proc/irq/default_smp_affinity";
    let default = tree.read(path);
    if let Ok(text) = &default
        && let Some(after) = Cpus::of_mask(text).and_then(|before| moved(&before, cores, rest))
    {
        steps.push(write(path, "default", text, after.mask()));
    }
    let kind = Kind::Interrupts;
    match (steps.is_empty(), default) {
        (false, _) => Part::of(kind, format!("handled on {}", rest.named()), steps),
        (true, Err(error)) if count == 0 => Part::none(kind, format!("/proc/irq: {}", said(&error))),
        (true, _) => Part::none(kind, "nothing to do: none is on these cores"),
    }
}

fn workqueues(tree: &Tree, cores: &Cpus, rest: &Cpus) -> Part {
    let files = [
        ("sys/devices/virtual/workqueue/cpumask", "unbound"),
        ("sys/devices/virtual/workqueue/writeback/cpumask", "writeback"),
    ];
    let mut steps = Vec::new();
    let mut why = None;
    for (path, name) in files {
        match tree.read(path) {
            Ok(text) => {
                if let Some(after) = Cpus::of_mask(&text).and_then(|before| moved(&before, cores, rest)) {
                    steps.push(write(path, name, &text, after.mask()));
                }
            }
            Err(error) if name == "unbound" => why = Some(format!("/{path}: {}", said(&error))),
            Err(_) => {}
        }
    }
    match (steps.is_empty(), why) {
        (false, _) => Part::of(Kind::Workqueues, format!("unbound work on {}", rest.named()), steps),
        (true, Some(why)) => Part::none(Kind::Workqueues, why),
        (true, None) => Part::none(Kind::Workqueues, "nothing to do: none is on these cores"),
    }
}

/// Settings that TuneD's `cpu-partitioning` makes as well, and others with the same purpose.
const SYSCTLS: [(&str, &str); 5] = [
    // Interval at which each core adds its memory counters to the global ones, s.
    ("vm.stat_interval", "10"),
    // Keeps timers of idle cores there, rather than moving them to a busy one.
    ("kernel.timer_migration", "0"),
    // A performance counter that interrupts each core.
    ("kernel.nmi_watchdog", "0"),
    // Interval of a check that looks through all threads, s.
    ("kernel.hung_task_timeout_secs", "600"),
    // Unmaps pages to find out who uses them.
    ("kernel.numa_balancing", "0"),
];

fn sysctls(tree: &Tree, cores: &Cpus, rest: &Cpus) -> Part {
    let mut steps = Vec::new();
    let mut seen = false;
    for (name, value) in SYSCTLS {
        let path = format!("proc/sys/{}", name.replace('.', "/"));
        let Ok(before) = tree.read(&path) else { continue };
        seen = true;
        // A longer interval, or a check that is off (0), is better still.
        let number = |text: &str| text.parse::<i64>().ok();
        let better = match (number(&before), number(value)) {
            (Some(before), Some(value)) if value > 1 => before >= value || before == 0,
            (before, value) => before == value,
        };
        if !better {
            steps.push(write(path, name, &before, value));
        }
    }
    let path = "proc/sys/kernel/watchdog_cpumask";
    if let Ok(before) = tree.read(path)
        && let Some(after) = Cpus::of_list(&before).and_then(|all| moved(&all, cores, rest))
    {
        seen = true;
        steps.push(write(path, "kernel.watchdog_cpumask", &before, after.list()));
    }
    let path = "sys/kernel/mm/ksm/run";
    if let Ok(before) = tree.read(path)
        && before == "1"
    {
        steps.push(write(path, "ksm", &before, "0"));
    }
    match (steps.is_empty(), seen) {
        (false, _) => Part::of(Kind::Sysctls, "fewer rounds of the kernel's own", steps),
        (true, true) => Part::none(Kind::Sysctls, "nothing to do: all are set"),
        (true, false) => Part::none(Kind::Sysctls, "/proc/sys shows none of them"),
    }
}

fn idle_states(tree: &Tree) -> Part {
    let path = "dev/cpu_dma_latency";
    match tree.exists(path) {
        true => Part::of(
            Kind::IdleStates,
            "cores stay awake: /dev/cpu_dma_latency held open with 0",
            vec![Step::Hold { path: path.to_owned() }],
        ),
        false => Part::none(Kind::IdleStates, "this host has no /dev/cpu_dma_latency"),
    }
}

/// Returns the start of a thread in ticks since boot: field 22 of its `stat`, behind a name in brackets that may
/// contain anything.
pub(super) fn started(stat: &str) -> Option<u64> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// Returns whether a thread is one of the kernel's own that belong to a core and can't be moved: field 9 of its `stat`.
pub(super) fn is_bound(stat: &str) -> bool {
    let flags = stat
        .rsplit_once(')')
        .and_then(|(_, rest)| rest.split_whitespace().nth(6)?.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & NO_SET_AFFINITY != 0)
}

fn threads(tree: &Tree, cores: &Cpus, rest: &Cpus) -> Part {
    let own = std::process::id().to_string();
    let mut steps = Vec::new();
    for process in tree.folders("proc") {
        if process.parse::<u32>().is_err() || (tree.is_live() && process == own) {
            continue;
        }
        for thread in tree.folders(&format!("proc/{process}/task")) {
            let folder = format!("proc/{process}/task/{thread}");
            let Ok(number) = thread.parse() else { continue };
            // A thread that has ended meanwhile needs no change.
            let (Ok(before), Ok(stat)) = (tree.affinity(number), tree.read(&format!("{folder}/stat"))) else {
                continue;
            };
            if is_bound(&stat) {
                continue;
            }
            let (Some(after), Some(started)) = (moved(&before, cores, rest), started(&stat)) else {
                continue;
            };
            let name = name_in(&tree.path(&folder)).unwrap_or_default();
            steps.push(Step::Affinity {
                thread: number,
                started,
                name: format!("{thread} {name}"),
                before,
                after,
            });
        }
    }
    match steps.is_empty() {
        false => Part::of(Kind::Threads, format!("other threads on {}", rest.named()), steps),
        true => Part::none(Kind::Threads, "nothing to do: none may run on these cores"),
    }
}

/// `PF_NO_SETAFFINITY` of `linux/sched.h`.
const NO_SET_AFFINITY: u64 = 0x0400_0000;
