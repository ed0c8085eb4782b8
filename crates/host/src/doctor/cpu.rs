//! Cores, their frequency, the hypervisor and the clock.

use super::finding::{Area, Report, Status};
use super::machine::Machine;
use super::parse;
use mpps_sys::cgroup::Groups;
use std::path::Path;

const CPU: &str = "/sys/devices/system/cpu";
const GROUPS: &str = "/proc/self/cgroup";
const MOUNTS: &str = "/proc/self/mountinfo";

pub(super) fn examine(machine: &Machine, report: &mut Report) {
    let cpuinfo = machine.read("/proc/cpuinfo").unwrap_or_default();
    let flags: Vec<&str> = parse::keyed(&cpuinfo, "flags")
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let dmi = |f: &str| machine.read(&format!("/sys/class/dmi/id/{f}")).unwrap_or_default();
    let virtual_machine =
        flags.contains(&"hypervisor") || is_virtual(machine, &dmi("sys_vendor"), &dmi("product_name"));
    let model = mpps_sys::processor::named(&cpuinfo, &dmi("sys_vendor"));
    cores(machine, report, model.as_deref().unwrap_or("unknown model"));
    frequency(machine, report, virtual_machine);
    hypervisor(machine, report, virtual_machine);
    clock(machine, report, &flags);
}

/// Returns whether the firmware shows that this is a virtual machine. On arm64 no flag of the processor does.
fn is_virtual(machine: &Machine, vendor: &str, product: &str) -> bool {
    const NAMES: [&str; 9] = [
        "QEMU",
        "KVM",
        "VMware",
        "Virtual Machine",
        "Virtualization",
        "Google Compute Engine",
        "Alibaba Cloud ECS",
        "OpenStack",
        "Parallels",
    ];
    // QEMU's `virt`, if there is no firmware between it and the kernel.
    let tree = machine.read("/proc/device-tree/compatible").unwrap_or_default();
    NAMES.iter().any(|name| vendor.contains(name) || product.contains(name))
        || (vendor == "Amazon EC2" && !product.contains(".metal"))
        || tree.contains("linux,dummy-virt")
        || machine.exists("/proc/device-tree/hypervisor")
}

fn cores(machine: &Machine, report: &mut Report, model: &str) {
    let read_list = |file: &str| machine.read(file).and_then(|t| parse::list(&t)).unwrap_or_default();
    let online = read_list(&format!("{CPU}/online"));
    let status = machine.read("/proc/self/status").unwrap_or_default();
    let allowed = parse::keyed(&status, "Cpus_allowed_list").and_then(parse::list);
    let allowed = allowed.unwrap_or_else(|| machine.allowed_cores(&online));
    let isolated = machine.read(&format!("{CPU}/isolated")).unwrap_or_default();
    let mut area = report.area("cores");
    number(&mut area, online.len(), model);
    affinity(machine, &mut area, &online, &allowed, &isolated);
    load(machine, &mut area, online.len());
    siblings(machine, &mut area, &online);
    isolation(machine, &mut area, online.len(), isolated);
    group_quota(machine, &mut area, allowed.len());
}

/// Reports how many cores are online.
fn number(area: &mut Area<'_>, count: usize, model: &str) {
    let why = "two busy lanes on one core take turns of milliseconds, which loses packets";
    let (grade, finding) = match count {
        0 => (Status::Info, format!("{CPU}/online could not be read")),
        1 => (
            Status::Warn,
            format!("1 core ({model}): generator and receiver share it"),
        ),
        _ => (Status::Ok, format!("{count} cores ({model})")),
    };
    area.add(grade, "online", finding, why, "");
}

/// Reports which of the online cores this process may use. `isolated`: the kernel's list of isolated cores.
fn affinity(machine: &Machine, area: &mut Area<'_>, online: &[usize], allowed: &[usize], isolated: &str) {
    let count = online.len();
    let kept = parse::list(isolated).unwrap_or_default();
    let possible = machine.possible_cores(online);
    let isolated_alone = |core: &usize| allowed.contains(core) || kept.contains(core);
    if allowed.len() < count && possible.as_deref() == Some(online) && online.iter().all(isolated_alone) {
        let finding = format!(
            "cores {} without --cores; with it the isolated ones too",
            cores_text(allowed)
        );
        area.add(Status::Ok, "affinity", finding, "", "");
    } else if allowed.len() < count {
        let (note, command) = match possible.filter(|possible| !possible.is_empty()) {
            None => ("", String::new()),
            Some(possible) if possible.len() <= allowed.len() => (
                ": its control group (cpuset) allows no others, and taskset can't",
                String::new(),
            ),
            Some(possible) => ("", format!("taskset -c {} mpps …", cores_text(&possible))),
        };
        let finding = format!("this process may use {} of {count} cores{note}", allowed.len());
        area.add(
            Status::Warn,
            "affinity",
            finding,
            "lanes can only be pinned to allowed cores",
            &command,
        );
    } else if online.is_empty() {
        area.add(Status::Info, "affinity", "the online cores could not be read", "", "");
    } else {
        area.add(Status::Ok, "affinity", "all online cores may be used", "", "");
    }
}

/// Reports how many threads wanted a core in the last minute.
fn load(machine: &Machine, area: &mut Area<'_>, count: usize) {
    let Some(load) = machine.read("/proc/loadavg").and_then(|text| parse::load(&text)) else {
        return;
    };
    let finding = format!("{load:.2} threads wanted a core, on average over the last minute");
    let why = "a lane whose core others want waits for milliseconds, and the run is not valid";
    // A run needs at least one core.
    let (grade, note, command) = match load > count.saturating_sub(1).max(1) as f64 {
        _ if count == 0 => (Status::Info, ", of how many is not known", ""),
        true => (Status::Warn, ": less than a core is free", "top -H -o %CPU"),
        false => (Status::Ok, "", ""),
    };
    area.add(grade, "load", format!("{finding}{note}"), why, command);
}

/// Reports whether online cores are threads of one core.
fn siblings(machine: &Machine, area: &mut Area<'_>, online: &[usize]) {
    let siblings: Vec<String> = online
        .iter()
        .filter_map(|c| machine.read(&format!("{CPU}/cpu{c}/topology/thread_siblings_list")))
        .filter(|t| parse::list(t).is_some_and(|l| l.len() > 1))
        .collect();
    let why = "two lanes on threads of one core share its execution units";
    if let Some(pair) = siblings.first() {
        let finding = format!("on: cores {pair} are threads of one; choose one of each with --cores");
        area.add(
            Status::Info,
            "SMT",
            finding,
            why,
            &format!("echo off > {CPU}/smt/control"),
        );
    } else {
        area.add(Status::Ok, "SMT", "no sibling threads visible", why, "");
    }
}

/// Reports which cores are isolated from the scheduler, and on which the timer stops (nohz_full). `isolated`: the
/// kernel's list of isolated cores.
fn isolation(machine: &Machine, area: &mut Area<'_>, count: usize, isolated: String) {
    let nohz = machine
        .read(&format!("{CPU}/nohz_full"))
        .filter(|t| !t.starts_with('('))
        .unwrap_or_default();
    let why = "the scheduler, timers and RCU interrupt lanes on cores that are not isolated: latency tails";
    // Leave core 0 to the rest of the system.
    let set = if count > 2 {
        format!("1-{}", count - 1)
    } else {
        "1".into()
    };
    // The command if it is known how this host boots; otherwise the argument's name.
    let boot = |arguments: &str| match count {
        0 | 1 => (String::new(), String::new()),
        _ => match boot_command(machine, arguments) {
            Some(command) => (String::new(), command),
            None if machine.is_container() => (" (a matter of the container's host)".to_owned(), String::new()),
            None => (format!(": the kernel's argument {arguments} does it"), String::new()),
        },
    };
    let nohz_built = machine.exists(&format!("{CPU}/nohz_full"));
    let pin = |cores: String| format!("cores {cores}: pin lanes there with --cores");
    match isolated.is_empty() {
        true => {
            let (note, command) = boot(&format!("isolcpus={set}"));
            area.add(Status::Info, "isolated", format!("no core{note}"), why, &command);
        }
        false => area.add(Status::Ok, "isolated", pin(isolated), why, ""),
    }
    match (nohz_built, nohz.is_empty()) {
        (false, _) => area.add(
            Status::Info,
            "nohz_full",
            "not in this kernel (CONFIG_NO_HZ_FULL)",
            why,
            "",
        ),
        (true, true) => {
            let (note, command) = boot(&format!("nohz_full={set} rcu_nocbs={set}"));
            area.add(Status::Info, "nohz_full", format!("no core{note}"), why, &command);
        }
        (true, false) => area.add(Status::Ok, "nohz_full", pin(nohz), why, ""),
    }
}

/// Reports the CPU quota of this process's control group. `allowed`: number of cores that the process may use.
fn group_quota(machine: &Machine, area: &mut Area<'_>, allowed: usize) {
    let why = "a lane that has used up the quota stands still for the rest of the period";
    match quota(machine) {
        Some((quota, command)) if quota < allowed as f64 => {
            let finding = format!("limited to {quota:.2} cores' time");
            area.add(Status::Warn, "cgroup quota", finding, why, &command);
        }
        _ if machine.read(GROUPS).is_none() || machine.read(MOUNTS).is_none() => {
            let finding = format!("{GROUPS} or {MOUNTS} could not be read");
            area.add(Status::Info, "cgroup quota", finding, why, "");
        }
        _ => match Groups::of(machine.tree().root()).unread_quota() {
            Some(group) => {
                let finding = format!("not known: control group {group} can't be read from here");
                area.add(Status::Info, "cgroup quota", finding, why, "");
            }
            None => area.add(Status::Ok, "cgroup quota", "none", why, ""),
        },
    }
}

/// Returns numbers of cores as a list: `0-3,6`.
fn cores_text(cores: &[usize]) -> String {
    let cores: crate::isolate::Cpus = cores.iter().copied().collect();
    cores.list()
}

/// Returns the command that adds arguments to the kernel's command line for the next start. `None` if it is not known
/// how this host boots, or in a container, which does not boot the host.
pub(super) fn boot_command(machine: &Machine, arguments: &str) -> Option<String> {
    const DEFAULTS: &str = "/etc/default/grub";
    if machine.is_container() {
        return None;
    }
    if machine.has_tool("grubby") {
        return Some(format!("grubby --update-kernel=ALL --args=\"{arguments}\" && reboot"));
    }
    let update = match () {
        () if !machine.exists(DEFAULTS) => return None,
        () if machine.has_tool("update-grub") => "update-grub",
        () if machine.has_tool("grub2-mkconfig") => "grub2-mkconfig -o /boot/grub2/grub.cfg",
        () if machine.has_tool("grub-mkconfig") => "grub-mkconfig -o /boot/grub/grub.cfg",
        () => return None,
    };
    Some(format!(
        "sed -i 's/^GRUB_CMDLINE_LINUX=\"/&{arguments} /' {DEFAULTS} && {update} && reboot"
    ))
}

/// Returns the tightest CPU quota of this process's control group and those above it, in cores, and the command that
/// lifts it.
fn quota(machine: &Machine) -> Option<(f64, String)> {
    let tree = machine.tree();
    let (cores, file, lifted) = Groups::of(tree.root()).cores()?;
    let file = Path::new("/").join(file.strip_prefix(tree.root()).ok()?);
    let file = file.to_str()?;
    // A path through this process's descriptors does not help the reader.
    let named = !file.starts_with("/proc/self/fd/");
    let command = match named && machine.can_be_set(file) {
        true => format!("echo {lifted} > {file}"),
        false => String::new(),
    };
    Some((cores, command))
}

fn frequency(machine: &Machine, report: &mut Report, virtual_machine: bool) {
    let mut area = report.area("frequency");
    let unseen = if virtual_machine {
        "none visible (virtual machine: the host decides)"
    } else {
        "none visible"
    };
    let why = "a clock that follows the load makes the first packets slow and runs hard to compare";
    match machine.read(&format!("{CPU}/cpu0/cpufreq/scaling_governor")) {
        Some(g) if g == "performance" => area.add(Status::Ok, "governor", g, why, ""),
        Some(g) => area.add(
            Status::Warn,
            "governor",
            g,
            why,
            "cpupower frequency-set -g performance",
        ),
        None => area.add(Status::Info, "governor", unseen, why, ""),
    }
    let why = "turbo raises the rate but varies with heat and neighbours";
    let intel = machine
        .number(&format!("{CPU}/intel_pstate/no_turbo"))
        .map(|off| off == 0);
    let other = machine.number(&format!("{CPU}/cpufreq/boost")).map(|on| on != 0);
    match intel.or(other) {
        Some(true) => {
            let command = match intel {
                Some(_) => format!("echo 1 > {CPU}/intel_pstate/no_turbo"),
                None => format!("echo 0 > {CPU}/cpufreq/boost"),
            };
            area.add(Status::Info, "turbo", "on: off gives steadier numbers", why, &command);
        }
        Some(false) => area.add(Status::Ok, "turbo", "off", why, ""),
        None => area.add(Status::Info, "turbo", unseen, why, ""),
    }
    let why = "waking a core from a deep idle state takes tens to hundreds of µs: latency of slow trials";
    let states = machine.list(&format!("{CPU}/cpu0/cpuidle"));
    let latency = |s: &String| machine.number(&format!("{CPU}/cpu0/cpuidle/{s}/latency"));
    let enabled = |s: &&String| machine.number(&format!("{CPU}/cpu0/cpuidle/{s}/disable")) == Some(0);
    match states.iter().filter(enabled).filter_map(latency).max() {
        Some(us) if us > 10 => {
            let finding = format!("deepest takes {us} µs to leave");
            area.add(Status::Warn, "idle states", finding, why, "cpupower idle-set -D 10");
        }
        Some(us) => area.add(
            Status::Ok,
            "idle states",
            format!("deepest takes {us} µs to leave"),
            why,
            "",
        ),
        None => area.add(Status::Info, "idle states", unseen, why, ""),
    }
}

fn hypervisor(machine: &Machine, report: &mut Report, virtual_machine: bool) {
    let mut area = report.area("hypervisor");
    let why = "a hypervisor takes the cores away now and then, unseen by the guest's own clocks";
    if virtual_machine {
        let dmi = |f: &str| machine.read(&format!("/sys/class/dmi/id/{f}"));
        let names: Vec<_> = [
            machine.read("/sys/hypervisor/type"),
            dmi("sys_vendor"),
            dmi("product_name"),
        ]
        .into_iter()
        .flatten()
        .filter(|n| !n.is_empty())
        .collect();
        let named = if names.is_empty() {
            "it does not say which".to_owned()
        } else {
            names.join(", ")
        };
        area.add(Status::Info, "virtual", format!("yes: {named}"), why, "");
    } else {
        area.add(Status::Ok, "virtual", "no hypervisor visible", why, "");
    }
    let why = "time stolen from a lane shows as gaps, loss and latency that are not the network's";
    match machine.read("/proc/stat").and_then(|t| parse::steal_share(&t)) {
        Some(share) => {
            let finding = format!("{:.2} % of the time since boot", share * 100.0);
            let status = if share > 0.01 { Status::Warn } else { Status::Ok };
            area.add(status, "steal", finding, why, "");
        }
        None => area.add(Status::Info, "steal", "/proc/stat could not be read", why, ""),
    }
    let mitigations: Vec<String> = machine
        .list(&format!("{CPU}/vulnerabilities"))
        .into_iter()
        .filter(|v| {
            let text = machine.read(&format!("{CPU}/vulnerabilities/{v}"));
            text.is_some_and(|t| t.starts_with("Mitigation"))
        })
        .collect();
    let why = "mitigations make system calls slower: compare numbers only between hosts with the same ones";
    let line = machine.read("/proc/cmdline").unwrap_or_default();
    let asked = line.split_whitespace().rfind(|word| word.starts_with("mitigations="));
    let asked = asked.map_or_else(String::new, |word| format!(" ({word})"));
    let finding = match mitigations.len() {
        0 => format!("none active{asked}"),
        n => format!("{n} active{asked}: {}", mitigations.join(" ")),
    };
    area.add(Status::Info, "mitigations", finding, why, "");
}

fn clock(machine: &Machine, report: &mut Report, flags: &[&str]) {
    const DIR: &str = "/sys/devices/system/clocksource/clocksource0";
    let mut area = report.area("clock");
    let current = machine.read(&format!("{DIR}/current_clocksource")).unwrap_or_default();
    let available = machine
        .read(&format!("{DIR}/available_clocksource"))
        .unwrap_or_default();
    let sound = flags.contains(&"constant_tsc") && flags.contains(&"nonstop_tsc");
    let why = "every packet's time is read from it: TSC takes about 9 ns, others 20 ns to 1 µs";
    match current.as_str() {
        "" => area.add(Status::Info, "source", "could not be read", why, ""),
        "tsc" | "arch_sys_counter" => area.add(Status::Ok, "source", current, why, ""),
        other => {
            let tsc = available.split_whitespace().any(|c| c == "tsc");
            let command = if tsc {
                format!("echo tsc > {DIR}/current_clocksource")
            } else {
                String::new()
            };
            let hint = if tsc { "" } else { " (the kernel offers no tsc)" };
            area.add(Status::Warn, "source", format!("{other}{hint}"), why, &command);
        }
    }
    if let Some(ns) = machine.tick_ns() {
        let finding = format!("{ns:.1} ns ({:.3} MHz)", 1e3 / ns);
        let why = "times, latencies and gaps are known to one tick of the counter at best, here and in the kernel";
        area.add(Status::Info, "tick", finding, why, "");
    }
    if !flags.iter().any(|flag| flag.contains("tsc")) {
        return;
    }
    let why = "a counter that changes speed or stops can't be calibrated: the system clock is used instead";
    let has = |flag: &'static str| {
        if flags.contains(&flag) {
            flag.to_owned()
        } else {
            format!("no {flag}")
        }
    };
    let finding = format!("{}, {}", has("constant_tsc"), has("nonstop_tsc"));
    area.add(if sound { Status::Ok } else { Status::Warn }, "TSC", finding, why, "");
}
