//! Control groups of hosts that are made of files.

use super::*;
use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder that stands for `/`, and goes with the test.
struct Host(PathBuf);

impl Host {
    fn new(files: &[(&str, &str)]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let host = Self(std::env::temp_dir().join(format!("mpps-cgroup-{}-{number}", std::process::id())));
        for (path, text) in files {
            host.put(path, text);
        }
        host
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, format!("{text}\n")).expect("a file");
    }

    fn groups(&self) -> Groups {
        Groups::of(&self.0)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const V1: [(&str, &str); 2] = [
    (
        "proc/self/mountinfo",
        "31 24 0:27 / /cg/cpu rw,relatime shared:1 - cgroup cgroup rw,cpu,cpuacct\n32 24 0:28 / /cg/memory rw - cgroup \
         cgroup rw,memory\n33 24 0:29 / /cg/unified rw - cgroup2 cgroup2 rw",
    ),
    ("proc/self/cgroup", "4:memory:/a/b\n2:cpu,cpuacct:/a\n0::/"),
];
const V2: [(&str, &str); 2] = [
    ("proc/self/mountinfo", "33 24 0:29 / /cg rw - cgroup2 cgroup2 rw"),
    ("proc/self/cgroup", "0::/pod/one"),
];

#[test]
fn the_memory_limit_of_the_group_with_the_least_left_counts_whatever_its_level_and_version() {
    let v1 = Host::new(&V1);
    let limits = |host: &Host, folder: &str, [most, used, stat]: [&str; 3], names: [&str; 2]| {
        host.put(&format!("{folder}/{}", names[0]), most);
        host.put(&format!("{folder}/{}", names[1]), used);
        host.put(&format!("{folder}/memory.stat"), stat);
    };
    let one = ["memory.limit_in_bytes", "memory.usage_in_bytes"];
    limits(&v1, "cg/memory", ["9223372036854771712", "7000", ""], one);
    limits(
        &v1,
        "cg/memory/a",
        ["5000", "1500", "inactive_file 1\ntotal_inactive_file 500"],
        one,
    );
    limits(&v1, "cg/memory/a/b", ["9000", "100", ""], one);
    let told = v1.groups().memory().expect("a limit");
    assert_eq!((told.group.as_str(), told.left), ("/a", 4000));
    let two = ["memory.max", "memory.current"];
    let v2 = Host::new(&V2);
    limits(&v2, "cg/pod/one", ["max", "77", ""], two);
    assert_eq!(v2.groups().memory(), None);
    limits(&v2, "cg/pod", ["1000", "1100", "inactive_file 300"], two);
    let told = v2.groups().memory().expect("a limit");
    assert_eq!((told.group.as_str(), told.file, told.left), ("/pod", "memory.max", 200));
}

#[test]
fn a_container_finds_its_group_below_what_is_mounted_there() {
    let host = Host::new(&[
        (
            "proc/self/mountinfo",
            "32 24 0:28 /docker/7 /cg\\040x ro - cgroup cgroup rw,memory",
        ),
        ("proc/self/cgroup", "4:memory:/docker/7/job"),
        ("cg x/memory.limit_in_bytes", "600"),
        ("cg x/memory.usage_in_bytes", "100"),
    ]);
    let told = host.groups().memory().expect("a limit");
    assert_eq!((told.group.as_str(), told.left), ("/docker/7", 500));
    // The process was moved out of the groups that it sees.
    host.put("proc/self/cgroup", "4:memory:/elsewhere");
    assert_eq!(host.groups().memory(), None);
}

#[test]
fn without_proc_nothing_is_known() {
    let host = Host::new(&[("cg/memory.max", "1")]);
    assert_eq!(host.groups().memory(), None);
    assert!(host.groups().quotas().is_empty() && host.groups().pids().is_empty());
    assert_eq!(host.groups().unread_quota(), None);
}

#[test]
fn a_quota_of_a_group_that_is_not_mounted_is_known_to_be_unread() {
    let [_, (file, groups)] = V1;
    let hidden = Host::new(&[
        ("proc/self/mountinfo", "22 1 0:20 / /sys ro - sysfs sysfs ro"),
        (file, groups),
    ]);
    assert_eq!(hidden.groups().unread_quota(), Some("/a".to_owned()));
    assert!(hidden.groups().quotas().is_empty());
    // A path with `..` leads out of the mount, to files that anybody may have put there.
    let up = Host::new(&V1);
    up.put(file, "2:cpu,cpuacct:/../a");
    up.put("cg/a/cpu.stat", "nr_periods 0");
    up.put("cg/a/cpu.cfs_quota_us", "1000");
    assert!(up.groups().quotas().is_empty());
    assert_eq!(up.groups().unread_quota(), Some("/../a".to_owned()));
    let top = Host::new(&[(file, "2:cpu,cpuacct:/\n0::/")]);
    assert_eq!(top.groups().unread_quota(), None);
    let mounted = Host::new(&V1);
    mounted.put("cg/cpu/a/cpu.stat", "nr_periods 0");
    assert_eq!(mounted.groups().unread_quota(), None);
}

#[test]
fn withheld_time_and_the_quota_are_read_in_both_versions() {
    let v1 = Host::new(&V1);
    v1.put(
        "cg/cpu/a/cpu.stat",
        "nr_periods 12\nnr_throttled 11\nthrottled_time 900000000\nnr_bursts 0",
    );
    v1.put("cg/cpu/a/cpu.cfs_quota_us", "20000");
    v1.put("cg/cpu/a/cpu.cfs_period_us", "100000");
    v1.put("cg/cpu/cpu.stat", "nr_periods 0\nnr_throttled 0\nthrottled_time 0");
    v1.put("cg/cpu/cpu.cfs_quota_us", "-1");
    v1.put("cg/cpu/cpu.cfs_period_us", "100000");
    let quotas = v1.groups().quotas();
    assert_eq!(quotas.len(), 2);
    assert_eq!(
        (quotas[0].group(), quotas[0].granted_us()),
        ("/a", Some((20_000, 100_000)))
    );
    assert_eq!((quotas[1].group(), quotas[1].granted_us()), ("/", None));
    let (cores, file, lifted) = v1.groups().cores().expect("a quota");
    assert!((cores - 0.2).abs() < 1e-9 && file.ends_with("cg/cpu/a/cpu.cfs_quota_us") && lifted == "-1");
    let before = quotas[0].read().expect("counts");
    assert_eq!((before.periods, before.throttled, before.ns), (12, 11, 900_000_000));
    v1.put(
        "cg/cpu/a/cpu.stat",
        "nr_periods 15\nnr_throttled 13\nthrottled_time 950000000",
    );
    let since = quotas[0].read().expect("counts").since(&before);
    assert_eq!((since.periods, since.throttled, since.ns), (3, 2, 50_000_000));

    let v2 = Host::new(&V2);
    v2.put("cg/pod/cpu.max", "50000 100000");
    v2.put(
        "cg/pod/cpu.stat",
        "usage_usec 5\nnr_periods 4\nnr_throttled 3\nthrottled_usec 120000",
    );
    v2.put("cg/pod/one/cpu.max", "max 100000");
    v2.put(
        "cg/pod/one/cpu.stat",
        "usage_usec 5\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0",
    );
    v2.put("cg/cpu.stat", "usage_usec 5");
    let quotas = v2.groups().quotas();
    let granted: Vec<_> = quotas.iter().map(|quota| (quota.group(), quota.granted_us())).collect();
    assert_eq!(granted, [("/pod/one", None), ("/pod", Some((50_000, 100_000)))]);
    assert_eq!(quotas[1].read().expect("counts").ns, 120_000_000);
}

#[test]
fn limits_of_threads_and_of_real_time_are_read_at_every_level() {
    let host = Host::new(&V2);
    host.put("cg/pod/pids.max", "7");
    host.put("cg/pod/pids.current", "7");
    host.put("cg/pod/one/pids.max", "max");
    host.put("cg/pod/one/pids.current", "3");
    let full: Vec<_> = host.groups().pids();
    assert_eq!(full.len(), 1);
    assert_eq!((full[0].group.as_str(), full[0].most, full[0].current), ("/pod", 7, 7));
    let v1 = Host::new(&V1);
    v1.put("cg/cpu/cpu.rt_runtime_us", "950000");
    v1.put("cg/cpu/cpu.rt_period_us", "1000000");
    v1.put("cg/cpu/a/cpu.rt_runtime_us", "0");
    v1.put("cg/cpu/a/cpu.rt_period_us", "500000");
    let limit = || v1.groups().real_time().expect("a limit");
    assert_eq!((limit().group.as_str(), limit().granted_us), ("/a", 0));
    // More time, and less of each period.
    v1.put("cg/cpu/a/cpu.rt_runtime_us", "1000000");
    v1.put("cg/cpu/a/cpu.rt_period_us", "10000000");
    assert_eq!((limit().group.as_str(), limit().share()), ("/a", 0.1));
    v1.put("cg/cpu/a/cpu.rt_runtime_us", "-1");
    assert_eq!((limit().group.as_str(), limit().share()), ("/", 0.95));
}
