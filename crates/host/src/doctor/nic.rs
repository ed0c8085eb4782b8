//! The network interfaces.

use mpps_netdev::NetDev;
use serde_json::Value;

use super::bind;
use super::dpdk::Facts;
use super::ethtool::{self, Limits};
use super::finding::{ABSENT, Area, Report, Status};
use super::machine::{Machine, NoOutput};
use super::{parse, xdp};

/// Offloads worth showing: name in `ethtool -k`, and name in the report.
const OFFLOADS: [(&str, &str); 6] = [
    ("rx-checksumming", "rx checksum"),
    ("tx-checksumming", "tx checksum"),
    ("tx-udp-segmentation", "UDP segmentation"),
    ("generic-segmentation-offload", "GSO"),
    ("generic-receive-offload", "GRO"),
    ("rx-vlan-offload", "VLAN stripping"),
];

pub(super) fn examine(machine: &Machine, wanted: &[String], facts: &Facts<'_>, report: &mut Report) {
    let present = machine.interfaces();
    let interfaces: Vec<String> = match wanted {
        [] => present
            .iter()
            .filter(|n| *n != "lo" && *n != "bonding_masters")
            .cloned()
            .collect(),
        wanted => wanted.to_vec(),
    };
    if interfaces.is_empty() {
        let why = "packets need an interface";
        report
            .area("nic")
            .add(Status::Info, "interfaces", "none but loopback", why, "mpps lab up");
    }
    for name in interfaces {
        // A device named by its address has an area of its own.
        if bind::is_address(facts, &name) {
            continue;
        }
        let mut area = report.area(format!("nic {name}"));
        if present.contains(&name) {
            interface(machine, &name, !wanted.is_empty(), &mut area);
            if machine.sys_net(&name).is_some() {
                bind::interface(facts, &name, &mut area);
            }
        } else {
            let known = if present.is_empty() {
                "none".into()
            } else {
                present.join(" ")
            };
            area.add(
                Status::Fail,
                ABSENT,
                format!("there is no {name} here (there is: {known})"),
                "",
                "",
            );
        }
    }
}

/// Returns an interface in the form that `ip` shows: the text, and the same text parsed as JSON.
pub(super) fn shown(machine: &Machine, name: &str) -> (Result<String, NoOutput>, Option<Value>) {
    let shown = machine.run(&["ip", "-details", "-json", "address", "show", "dev", name]);
    let all = shown
        .as_ref()
        .ok()
        .and_then(|t| serde_json::from_str::<Value>(&mpps_sys::text::json(t.clone())).ok());
    let link = all.and_then(|all| all.get(0).cloned());
    (shown, link)
}

fn interface(machine: &Machine, name: &str, asked: bool, area: &mut Area<'_>) {
    let dir = machine.sys_net(name);
    let (shown, link) = shown(machine, name);
    let link = link.as_ref();
    let driver = driver(machine, name, dir.as_deref(), link, area);
    xdp::examine(machine, name, &driver, area);
    // An interface that was not requested may well be down on purpose.
    state(
        machine,
        name,
        dir.as_deref(),
        if asked { Status::Warn } else { Status::Info },
        area,
    );
    rings(machine, name, area);
    offloads(machine, name, area);
    if let Some(dir) = &dir {
        queues(machine, name, dir, area);
        interrupts(machine, name, dir, area);
        steering(machine, dir, area);
    } else {
        let finding = "not seen: /sys shows the interfaces of another network namespace";
        let why = "`ip netns exec` mounts the right one, `nsenter` and `unshare` do not";
        area.add(Status::Info, "queues, interrupts", finding, why, "");
    }
    match link {
        Some(link) => stack(name, link, area),
        None if shown == Err(NoOutput::Missing) => {
            let why = "qdisc, XDP programs and addresses are read through it";
            area.add(Status::Info, "ip", "not installed", why, "apt-get install iproute2");
        }
        None => area.add(Status::Info, "ip", "printed nothing about this interface", "", ""),
    }
}

/// Returns the driver of an interface, or the kind of an interface without a device.
pub(super) fn driver_of(machine: &Machine, name: &str, dir: Option<&str>, link: Option<&Value>) -> String {
    let kind = link
        .and_then(|l| l.pointer("/linkinfo/info_kind"))
        .and_then(Value::as_str)
        .map(str::to_owned);
    let by_ethtool = || parse::keyed(&machine.run(&["ethtool", "-i", name]).ok()?, "driver").map(str::to_owned);
    let driver = dir
        .and_then(|dir| machine.link_name(&format!("{dir}/device/driver")))
        .or(kind)
        .or_else(by_ethtool);
    driver.unwrap_or_else(|| "unknown".into())
}

fn driver(machine: &Machine, name: &str, dir: Option<&str>, link: Option<&Value>, area: &mut Area<'_>) -> String {
    let driver = driver_of(machine, name, dir, link);
    let (xdp, copy) = xdp::modes(machine, name, &driver);
    area.add(
        Status::Info,
        "driver",
        format!("{driver}: {xdp}, {copy}"),
        "decides which XDP modes there are",
        "",
    );
    driver
}

/// State of a link.
struct Link {
    admin_up: bool,
    carrier: bool,
    /// State in words.
    state: String,
    mtu: u64,
    mbps: Option<u64>,
    numa: Option<i64>,
}

impl Link {
    /// Reads the state from the interface's folder in `/sys`, or from the kernel itself if that folder shows another
    /// network namespace.
    fn of(machine: &Machine, name: &str, dir: Option<&str>) -> Self {
        let Some(dir) = dir else {
            let device = machine.device(name);
            let told = |f: fn(&NetDev) -> bool| device.as_ref().is_some_and(f);
            return Self {
                admin_up: told(|d| d.up),
                carrier: told(|d| d.running),
                state: if told(|d| d.running) { "up" } else { "down" }.into(),
                mtu: device.as_ref().map_or(0, |d| d.mtu as u64),
                mbps: device.and_then(|d| d.speed_bps).map(|bps| bps / 1_000_000),
                numa: None,
            };
        };
        let read = |file: &str| machine.read(&format!("{dir}/{file}"));
        let signed = |file: &str| read(file)?.parse::<i64>().ok();
        let flags = read("flags").unwrap_or_default();
        Self {
            // IFF_UP of linux/if.h.
            admin_up: u32::from_str_radix(flags.trim_start_matches("0x"), 16).is_ok_and(|f| f & 1 == 1),
            carrier: signed("carrier") == Some(1),
            state: read("operstate").unwrap_or_else(|| "unknown".into()),
            mtu: machine.number(&format!("{dir}/mtu")).unwrap_or(0),
            // Negative or absent if the device does not report it.
            mbps: signed("speed")
                .and_then(|mbps| u64::try_from(mbps).ok())
                .filter(|&mbps| mbps > 0),
            numa: signed("device/numa_node"),
        }
    }
}

fn state(machine: &Machine, name: &str, dir: Option<&str>, down: Status, area: &mut Area<'_>) {
    let why = "nothing is sent or received on a link that is down";
    let link = Link::of(machine, name, dir);
    let oper = &link.state;
    match (link.admin_up, link.carrier) {
        (false, _) => area.add(down, "link", "set down", why, &format!("ip link set dev {name} up")),
        (true, true) => area.add(Status::Ok, "link", format!("up (operstate {oper})"), why, ""),
        (true, false) => area.add(
            down,
            "link",
            format!("no carrier (operstate {oper}): check the peer"),
            why,
            "",
        ),
    }
    let mtu = format!("{} bytes", link.mtu);
    area.add(Status::Info, "MTU", mtu, "bounds the frame size", "");
    let speed = match link.mbps {
        Some(mbps) => format!("{mbps} Mbit/s"),
        None => "the device does not report it: rates in % of the link can't be used".into(),
    };
    area.add(Status::Info, "speed", speed, "bounds the rate", "");
    if let Some(node) = link.numa {
        let text = if node < 0 {
            "none told".into()
        } else {
            format!("node {node}")
        };
        area.add(
            Status::Info,
            "NUMA",
            text,
            "lanes on another node pay for each cache line",
            "",
        );
    }
}

/// Returns the state of an interface's link, with its speed if the device reports one.
pub(super) fn speed(machine: &Machine, name: &str, dir: &str) -> String {
    let link = Link::of(machine, name, Some(dir));
    match link.mbps {
        Some(mbps) => format!("{} at {mbps} Mbit/s", link.state),
        None => link.state,
    }
}

/// Returns the numbers of receive and transmit queues of an interface.
pub(super) fn queue_counts(machine: &Machine, dir: &str) -> (usize, usize) {
    let names = machine.list(&format!("{dir}/queues"));
    let count = |prefix: &str| names.iter().filter(|n| n.starts_with(prefix)).count();
    (count("rx-"), count("tx-"))
}

fn queues(machine: &Machine, name: &str, dir: &str, area: &mut Area<'_>) {
    let (rx, tx) = queue_counts(machine, dir);
    let cores = cores(machine);
    let why = "each lane wants a receive and a transmit queue of its own";
    let mut finding = format!("{rx} rx, {tx} tx");
    let text = machine.run(&["ethtool", "-l", name]).unwrap_or_default();
    // Raises every value that is below both its maximum and the number of cores.
    let raise: Vec<String> = Limits::parse(&text)
        .pairs()
        .filter(|(key, ..)| ["RX", "TX", "Combined"].contains(key))
        .filter_map(|(key, current, largest)| {
            let target = largest.min(cores? as u64);
            (target > current).then(|| format!("{} {target}", key.to_lowercase()))
        })
        .collect();
    if raise.is_empty() {
        area.add(Status::Ok, "queues", finding, why, "");
    } else {
        finding.push_str(&format!(" on {} cores; the device has more", cores.unwrap_or_default()));
        area.add(
            Status::Info,
            "queues",
            finding,
            why,
            &format!("ethtool -L {name} {}", raise.join(" ")),
        );
    }
}

/// Returns the number of online cores; `None`: it can't be read.
fn cores(machine: &Machine) -> Option<usize> {
    let online = machine.read("/sys/devices/system/cpu/online");
    online.and_then(|text| parse::list(&text)).map(|cores| cores.len())
}

fn rings(machine: &Machine, name: &str, area: &mut Area<'_>) {
    let why = "a short ring overflows while its lane is off the core";
    match machine.run(&["ethtool", "-g", name]) {
        Ok(text) => {
            let limits = Limits::parse(&text);
            let main = || limits.pairs().filter(|(key, ..)| ["RX", "TX"].contains(key));
            let shown: Vec<_> = main()
                .map(|(k, now, max)| format!("{} {now} of {max}", k.to_lowercase()))
                .collect();
            let short: Vec<_> = main()
                .filter(|(_, now, max)| now < max)
                .map(|(k, _, max)| format!("{} {max}", k.to_lowercase()))
                .collect();
            if shown.is_empty() {
                area.add(Status::Info, "rings", "the device tells none", why, "");
            } else if short.is_empty() {
                area.add(Status::Ok, "rings", shown.join(", "), why, "");
            } else {
                let command = format!("ethtool -G {name} {}", short.join(" "));
                area.add(Status::Info, "rings", shown.join(", "), why, &command);
            }
        }
        Err(NoOutput::Failed) => area.add(Status::Info, "rings", "the device tells none", why, ""),
        Err(NoOutput::Missing) => {
            area.add(
                Status::Info,
                "rings",
                "ethtool is not installed",
                why,
                "apt-get install ethtool",
            );
        }
    }
}

fn offloads(machine: &Machine, name: &str, area: &mut Area<'_>) {
    let Ok(text) = machine.run(&["ethtool", "-k", name]) else {
        return;
    };
    let shown: Vec<String> = OFFLOADS
        .iter()
        .filter_map(|(key, label)| {
            Some(format!(
                "{label} {}",
                if ethtool::feature(&text, key)?.on { "on" } else { "off" }
            ))
        })
        .collect();
    area.add(Status::Info, "offloads", shown.join(", "), "take work off the CPU", "");
    if let Some(lro) = ethtool::feature(&text, "large-receive-offload").filter(|f| f.on) {
        let command = if lro.fixed {
            String::new()
        } else {
            format!("ethtool -K {name} lro off")
        };
        let why = "it merges packets before anything can count them, and is in the way of XDP";
        area.add(Status::Warn, "LRO", "on", why, &command);
    }
}

/// An interrupt of a device's queue.
pub(super) struct Interrupt {
    pub(super) number: u32,
    pub(super) label: String,
    /// The cores that it goes to, as a list; `?`: not seen.
    pub(super) cores: String,
}

/// Returns the interrupts of an interface's queues. Those of a virtio device belong to the PCI device above it.
pub(super) fn interrupts_of(machine: &Machine, dir: &str) -> Vec<Interrupt> {
    let mut irqs = machine.list(&format!("{dir}/device/msi_irqs"));
    if irqs.is_empty() {
        irqs = machine.list(&format!("{dir}/device/../msi_irqs"));
    }
    if irqs.is_empty() {
        return Vec::new();
    }
    let named = parse::interrupts(&machine.read("/proc/interrupts").unwrap_or_default());
    let of_queues = |(number, label): &(u32, String)| irqs.contains(&number.to_string()) && !label.ends_with("config");
    let interrupt = |(number, label): (u32, String)| {
        let file = |f: &str| {
            machine
                .read(&format!("/proc/irq/{number}/{f}"))
                .filter(|t| !t.is_empty())
        };
        let cores = file("effective_affinity_list").or_else(|| file("smp_affinity_list"));
        Interrupt {
            number,
            label,
            cores: cores.unwrap_or_else(|| "?".into()),
        }
    };
    named.into_iter().filter(of_queues).map(interrupt).collect()
}

/// Adds a finding on the cores that the queues' interrupts go to.
fn interrupts(machine: &Machine, name: &str, dir: &str, area: &mut Area<'_>) {
    let all = interrupts_of(machine, dir);
    let Some(Interrupt { cores: one, .. }) = all.first() else {
        return;
    };
    let why = "interrupts of several queues on one core make it the bottleneck; on a lane's core they steal from it";
    let same = all.len() > 2 && all.iter().all(|of| of.cores == *one && of.cores != "?");
    if same {
        let finding = format!("all {} on core {one} of {name}", all.len());
        let numbers = all.iter().map(|of| of.number.to_string()).collect::<Vec<_>>().join(" ");
        let command = cores(machine).map(|cores| {
            format!("i=0; for q in {numbers}; do echo $((i++ % {cores})) > /proc/irq/$q/smp_affinity_list; done")
        });
        area.add(Status::Warn, "interrupts", finding, why, &command.unwrap_or_default());
    } else {
        let shown = all
            .iter()
            .map(|of| format!("{} ({}) on {}", of.number, of.label, of.cores));
        area.add(
            Status::Info,
            "interrupts",
            shown.collect::<Vec<_>>().join(", "),
            why,
            "",
        );
    }
}

fn steering(machine: &Machine, dir: &str, area: &mut Area<'_>) {
    let names = machine.list(&format!("{dir}/queues"));
    let set = |prefix: &str, file: &str| -> Vec<String> {
        let is_set = |n: &&String| {
            let mask = machine.read(&format!("{dir}/queues/{n}/{file}"));
            n.starts_with(prefix) && mask.is_some_and(|m| parse::mask_is_set(&m))
        };
        names.iter().filter(is_set).cloned().collect()
    };
    let (rps, xps) = (set("rx-", "rps_cpus"), set("tx-", "xps_cpus"));
    let text = |queues: &[String]| {
        if queues.is_empty() {
            "off".to_owned()
        } else {
            format!("on ({})", queues.join(" "))
        }
    };
    let why = "they move packets between cores: good to spread one queue, bad for pinned lanes";
    area.add(
        Status::Info,
        "RPS, XPS",
        format!("RPS {}, XPS {}", text(&rps), text(&xps)),
        why,
        "",
    );
}

fn stack(name: &str, link: &Value, area: &mut Area<'_>) {
    let qdisc = link.get("qdisc").and_then(Value::as_str).unwrap_or("unknown");
    let why = "a qdisc that holds or drops packets adds latency and loss on the udp path; af_packet bypasses it";
    match qdisc {
        "noqueue" | "noop" | "mq" | "pfifo_fast" | "pfifo" => area.add(Status::Ok, "qdisc", qdisc, why, ""),
        _ => {
            let command = format!("tc qdisc replace dev {name} root pfifo limit 10000");
            area.add(Status::Info, "qdisc", qdisc, why, &command);
        }
    }
    let why = "it sees packets before every other path and may drop or redirect them";
    match link.get("xdp") {
        Some(xdp) => {
            let id = xdp
                .pointer("/prog/id")
                .or_else(|| xdp.pointer("/attached/0/prog/id"))
                .and_then(Value::as_u64);
            let id = id.map_or_else(String::new, |id| format!(" (id {id})"));
            let command = format!("ip link set dev {name} xdp off");
            area.add(Status::Warn, "XDP", format!("a program is attached{id}"), why, &command);
        }
        None => area.add(Status::Ok, "XDP", "no program attached", why, ""),
    }
    let addresses: Vec<String> = link
        .get("addr_info")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|a| Some(format!("{}/{}", a.get("local")?.as_str()?, a.get("prefixlen")?)))
        .collect();
    let text = if addresses.is_empty() {
        "none".to_owned()
    } else {
        addresses.join(" ")
    };
    area.add(
        Status::Info,
        "addresses",
        text,
        "the host's own stack answers for these",
        "",
    );
}
