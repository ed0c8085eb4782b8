//! A control group that has the cores to itself.
//!
//! Version 2: a child of the root becomes an isolated partition (Linux 6.1 and later): its cores leave all other
//! groups, and the scheduler balances nothing there. Up to 6.0 there are root partitions alone, which keep other groups
//! off and balance within. Whether the kernel has done it is read back: it answers `isolated invalid (reason)`.
//!
//! Version 1: a partition is a set of cores within which load is balanced. The root stops balancing, a group with the
//! other cores balances, and a group with these cores does not. No process is moved: processes that may run everywhere
//! stay where load is balanced.

use super::cpus::Cpus;
use super::plan::{Kind, Part, Step, Undo, said, within, write};
use super::tree::Tree;

/// Name of the groups that are made here.
pub(super) const NAME: &str = "mpps-isolate";

/// Mount points of the hierarchies with cpusets.
#[derive(Debug, Default, PartialEq, Eq)]
struct Mounts {
    v2: Option<String>,
    v1: Option<String>,
}

impl Mounts {
    /// Source: `/proc/self/mountinfo` (`proc_pid_mountinfo(5)`).
    fn of(mountinfo: &str) -> Self {
        let mut found = Self::default();
        for line in mountinfo.lines() {
            let Some((head, tail)) = line.split_once(" - ") else {
                continue;
            };
            let mut tail = tail.split_whitespace();
            let (kind, _source, options) = (tail.next(), tail.next(), tail.next().unwrap_or_default());
            let Some(place) = head.split_whitespace().nth(4) else {
                continue;
            };
            let place = place.trim_start_matches('/').to_owned();
            match kind {
                Some("cgroup2") => found.v2 = found.v2.or(Some(place)),
                Some("cgroup") if options.split(',').any(|option| option == "cpuset") => {
                    found.v1 = found.v1.or(Some(place));
                }
                _ => {}
            }
        }
        found
    }
}

pub(super) fn part(tree: &Tree, cores: &Cpus, rest: &Cpus) -> Part {
    let none = |why: String| Part::none(Kind::Cpuset, why);
    let mounts = match tree.read("proc/self/mountinfo") {
        Ok(text) => Mounts::of(&text),
        Err(error) => return none(format!("/proc/self/mountinfo: {}", said(&error))),
    };
    let offered = mounts
        .v2
        .as_ref()
        .map(|root| tree.read(&format!("{root}/cgroup.controllers")));
    match (&mounts.v2, offered, &mounts.v1) {
        (Some(root), Some(Ok(offered)), _) if offered.split_whitespace().any(|one| one == "cpuset") => {
            version_2(tree, root, cores)
        }
        (_, _, Some(root)) => version_1(tree, root, cores, rest),
        (Some(root), Some(Ok(offered)), None) => none(match offered.as_str() {
            "" => format!("/{root} offers no controller, and none of version 1 with cpusets is mounted"),
            _ => format!("/{root} offers {offered}, no cpuset, and none of version 1 is mounted"),
        }),
        (Some(root), Some(Err(error)), None) => none(format!("/{root}/cgroup.controllers: {}", said(&error))),
        _ => none("no control groups are mounted".to_owned()),
    }
}

/// Returns the group of this process in a hierarchy. Processes of the removed group go back to it.
fn home(tree: &Tree, root: &str, version_1: bool) -> String {
    let text = tree.read("proc/self/cgroup").unwrap_or_default();
    let of = |line: &str| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let is = match version_1 {
            true => controllers.split(',').any(|one| one == "cpuset"),
            false => controllers.is_empty(),
        };
        is.then(|| format!("{root}/{}", path.trim_start_matches('/')))
    };
    let own = text.lines().find_map(of).unwrap_or_else(|| root.to_owned());
    let own = own.trim_end_matches('/').to_owned();
    match tree.exists(&format!("{own}/cgroup.procs")) {
        true => own,
        false => root.to_owned(),
    }
}

/// Returns the reason why the groups can't be made: a group that exists has an owner, whose processes would lose it.
fn taken(tree: &Tree, groups: &[&String]) -> Option<Part> {
    let group = groups.iter().find(|group| tree.exists(group))?;
    let why = format!(
        "/{group} is there already: want the `mpps isolate` of another container to end first, or `rmdir /{group}` \
         where there is none"
    );
    Some(Part::none(Kind::Cpuset, why))
}

fn version_2(tree: &Tree, root: &str, cores: &Cpus) -> Part {
    let group = format!("{root}/{NAME}");
    if let Some(part) = taken(tree, &[&group]) {
        return part;
    }
    let mut steps = Vec::new();
    let control = format!("{root}/cgroup.subtree_control");
    let before = tree.read(&control).unwrap_or_default();
    if !before.split_whitespace().any(|one| one == "cpuset") {
        steps.push(Step::Write {
            path: control,
            name: "cpusets for groups of the root".to_owned(),
            before,
            value: "+cpuset".to_owned(),
            undo: Undo::By("-cpuset"),
            expect: None,
        });
    }
    steps.push(Step::Folder {
        path: group.clone(),
        home: home(tree, root, false),
    });
    steps.push(within(&group, "cpus", cores.list(), None));
    steps.push(within(&group, "cpus.partition", "isolated", Some("isolated")));
    Part {
        steps,
        whole: true,
        join: Some(format!("{group}/cgroup.procs")),
        what: format!("a partition of its own for {} (/{group})", cores.named()),
        ..Part::none(Kind::Cpuset, "")
    }
}

/// Returns a group, other than those made here, that has cores or memory of its own by now. `control` is the
/// `cgroup.subtree_control` of the parent group: without the controller the group would lose them.
pub(super) fn user(tree: &Tree, control: &str) -> Option<String> {
    let root = control.rsplit_once('/')?.0;
    let mut others = tree.folders(root).into_iter().filter(|name| !name.starts_with(NAME));
    others.find_map(|name| {
        let group = format!("{root}/{name}");
        let set = |key: &str| {
            tree.read(&format!("{group}/cpuset.{key}"))
                .is_ok_and(|text| !text.is_empty())
        };
        (set("cpus") || set("mems")).then_some(group)
    })
}

fn version_1(tree: &Tree, root: &str, cores: &Cpus, rest: &Cpus) -> Part {
    let (own, others) = (format!("{root}/{NAME}"), format!("{root}/{NAME}-rest"));
    if let Some(part) = taken(tree, &[&own, &others]) {
        return part;
    }
    // Load is balanced over the common cores of all groups that balance.
    for name in tree
        .folders(root)
        .into_iter()
        .filter(|name| !name.starts_with(NAME) && !name.contains('.'))
    {
        let value = |key: &str| tree.read(&format!("{root}/{name}/cpuset.{key}")).unwrap_or_default();
        let has = Cpus::of_list(&value("cpus")).is_some_and(|cpus| cpus.meets(cores));
        if has && value("sched_load_balance") != "0" {
            let why = format!("group /{root}/{name} balances load over cores {}", value("cpus"));
            return Part::none(Kind::Cpuset, why);
        }
    }
    let balance = format!("{root}/cpuset.sched_load_balance");
    let (before, memory) = match (tree.read(&balance), tree.read(&format!("{root}/cpuset.mems"))) {
        (Ok(before), Ok(memory)) => (before, memory),
        (Err(error), _) | (_, Err(error)) => return Part::none(Kind::Cpuset, format!("/{root}: {}", said(&error))),
    };
    let home = home(tree, root, true);
    let mut steps = Vec::new();
    for (group, cpus, more) in [
        (&others, rest, &[][..]),
        (&own, cores, &[("cpu_exclusive", "1"), ("sched_load_balance", "0")]),
    ] {
        steps.push(Step::Folder {
            path: group.clone(),
            home: home.clone(),
        });
        steps.push(within(group, "cpus", cpus.list(), None));
        steps.push(within(group, "mems", memory.clone(), None));
        steps.extend(more.iter().map(|(key, value)| within(group, key, *value, Some(value))));
    }
    if before != "0" {
        steps.push(write(balance, "load balancing of the root", &before, "0"));
    }
    Part {
        steps,
        whole: true,
        join: Some(format!("{own}/cgroup.procs")),
        what: format!("load is balanced over {} only (cgroup v1, /{own})", rest.named()),
        ..Part::none(Kind::Cpuset, "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hierarchies_are_found_by_what_is_mounted() {
        let text = "25 19 0:22 / /sys/fs/cgroup/cpuset rw,relatime shared:9 - cgroup cgroup rw,cpuset\n\
                    26 19 0:23 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                    27 19 0:24 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\nhalf a line\n";
        let found = Mounts::of(text);
        assert_eq!(found.v1.as_deref(), Some("sys/fs/cgroup/cpuset"));
        assert_eq!(found.v2.as_deref(), Some("sys/fs/cgroup/unified"));
        assert_eq!(Mounts::of(""), Mounts::default());
    }
}
