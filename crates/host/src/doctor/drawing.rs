//! The host as a drawing (SVG): memory nodes with their cores, which threads share a core and which cores a cache,
//! network devices at the node that they are plugged into, and the cores that their interrupts go to.
//!
//! A device is linked to cores by its colour, not by lines: 64 queues would make 64 lines. The drawing needs no script
//! and no font of its own, and follows the viewer's light or dark scheme. Texts that do not fit are in the titles of
//! its parts.

mod sheet;
#[cfg(test)]
mod tests;

use super::machine::Machine;
use super::{nic, parse, pci};
use crate::isolate::Cpus;

const CPU: &str = "/sys/devices/system/cpu";
const NODES: &str = "/sys/devices/system/node";

/// Cores that share a last-level cache.
struct Group {
    /// Name and size of the cache, such as `L3 32 MiB`; empty: not known.
    cache: String,
    /// Threads per core.
    cores: Vec<Vec<usize>>,
}

struct Node {
    /// Number of the node; `None`: the kernel names no nodes.
    number: Option<usize>,
    memory: String,
    groups: Vec<Group>,
}

/// A network device on a bus.
struct Nic {
    name: String,
    about: String,
    node: Option<usize>,
    interrupts: Vec<nic::Interrupt>,
}

struct Host {
    /// Lines below the title.
    lines: Vec<String>,
    nodes: Vec<Node>,
    nics: Vec<Nic>,
    /// Interfaces without a device: name and kind.
    others: Vec<(String, String)>,
    isolated: Vec<usize>,
    nohz: Vec<usize>,
    allowed: Vec<usize>,
}

/// Returns the drawing.
pub(super) fn draw(machine: &Machine) -> String {
    sheet::drawn(&Host::read(machine))
}

impl Host {
    fn read(machine: &Machine) -> Self {
        let list = |file: String| {
            machine
                .read(&file)
                .and_then(|text| parse::list(&text))
                .unwrap_or_default()
        };
        let online = list(format!("{CPU}/online"));
        let offline: Vec<usize> = list(format!("{CPU}/present"))
            .into_iter()
            .filter(|core| !online.contains(core))
            .collect();
        let (isolated, nohz) = (list(format!("{CPU}/isolated")), list(format!("{CPU}/nohz_full")));
        let named =
            |what: &str, cores: &[usize]| (!cores.is_empty()).then(|| format!("{what}: cores {}", text_of(cores)));
        let cpuinfo = machine.read("/proc/cpuinfo").unwrap_or_default();
        let model = parse::keyed(&cpuinfo, "model name")
            .unwrap_or("unknown model")
            .to_owned();
        let caches = own_caches(machine, online.first().copied());
        let nodes = nodes(machine, &online);
        let lines = [
            Some(format!(
                "{} ({model}), Linux {}",
                counted(&nodes),
                machine.kernel_release()
            )),
            (!caches.is_empty()).then(|| format!("each core has {caches} of its own")),
            named("isolated", &isolated),
            named("nohz_full", &nohz),
            named("offline", &offline),
        ];
        let (nics, others) = devices(machine);
        Self {
            lines: lines.into_iter().flatten().collect(),
            nodes,
            nics,
            others,
            allowed: machine.allowed_cores(&online),
            isolated,
            nohz,
        }
    }

    /// Returns the interrupts that go to a core, with the index of their device. An interrupt that may go to any core
    /// is not counted for any of them.
    fn interrupts_on(&self, core: usize) -> Vec<(usize, &nic::Interrupt)> {
        let groups = self.nodes.iter().flat_map(|node| &node.groups);
        let all: usize = groups.flat_map(|group| &group.cores).map(Vec::len).sum();
        let mut found = Vec::new();
        for (place, nic) in self.nics.iter().enumerate() {
            for interrupt in &nic.interrupts {
                let cores = parse::list(&interrupt.cores).unwrap_or_default();
                if cores.contains(&core) && (cores.len() < all || all == 1) {
                    found.push((place, interrupt));
                }
            }
        }
        found
    }
}

fn text_of(cores: &[usize]) -> String {
    cores.iter().copied().collect::<Cpus>().list()
}

/// Returns the nodes with their cores; one node without a number if the kernel names none.
fn nodes(machine: &Machine, online: &[usize]) -> Vec<Node> {
    let number = |name: &String| name.strip_prefix("node")?.parse::<usize>().ok();
    let mut numbers: Vec<usize> = machine.list(NODES).iter().filter_map(number).collect();
    numbers.sort_unstable();
    let node = |number: usize| {
        let cores = machine.read(&format!("{NODES}/node{number}/cpulist"));
        let cores = cores.and_then(|text| parse::list(&text)).unwrap_or_default();
        let memory = machine
            .read(&format!("{NODES}/node{number}/meminfo"))
            .unwrap_or_default();
        let kib = |line: &str| {
            line.split("MemTotal:")
                .nth(1)?
                .split_whitespace()
                .next()?
                .parse::<u64>()
                .ok()
        };
        Node {
            number: Some(number),
            memory: memory.lines().find_map(kib).map_or_else(String::new, gib),
            groups: groups(machine, &cores),
        }
    };
    match numbers.is_empty() {
        false => numbers.into_iter().map(node).collect(),
        true => vec![Node {
            number: None,
            memory: String::new(),
            groups: groups(machine, online),
        }],
    }
}

/// Returns the number of cores, and of threads if there are more threads than cores.
fn counted<'n>(nodes: impl IntoIterator<Item = &'n Node>) -> String {
    let all = nodes
        .into_iter()
        .flat_map(|node| &node.groups)
        .flat_map(|group| &group.cores);
    let (cores, threads) = all.fold((0, 0), |(cores, threads), core| (cores + 1, threads + core.len()));
    let plural = if cores == 1 { "core" } else { "cores" };
    match threads > cores {
        true => format!("{cores} {plural} with {threads} threads"),
        false => format!("{cores} {plural}"),
    }
}

fn gib(kib: u64) -> String {
    format!(", {:.1} GiB of memory", kib as f64 / f64::from(1 << 20))
}

/// Returns the cores of a node by their last-level cache.
fn groups(machine: &Machine, online: &[usize]) -> Vec<Group> {
    let mut groups: Vec<(Vec<usize>, Group)> = Vec::new();
    let mut seen: Vec<usize> = Vec::new();
    for &core in online {
        if seen.contains(&core) {
            continue;
        }
        let siblings = machine.read(&format!("{CPU}/cpu{core}/topology/thread_siblings_list"));
        let siblings = siblings.and_then(|text| parse::list(&text)).unwrap_or_default();
        let mut threads: Vec<usize> = siblings.into_iter().filter(|thread| online.contains(thread)).collect();
        if !threads.contains(&core) {
            threads = vec![core];
        }
        seen.extend(&threads);
        let last = caches(machine, core)
            .into_iter()
            .filter(|cache| cache.level >= 3)
            .max_by_key(|cache| cache.level);
        let (shared, name) = last.map_or_else(Default::default, |cache| {
            (cache.shared, format!("L{} {}", cache.level, cache.size))
        });
        match groups.iter_mut().find(|(of, _)| *of == shared) {
            Some((_, group)) => group.cores.push(threads),
            None => groups.push((
                shared,
                Group {
                    cache: name,
                    cores: vec![threads],
                },
            )),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

struct Cache {
    level: u32,
    /// Name and size of the cache: `L1d 32 KiB`.
    name: String,
    size: String,
    shared: Vec<usize>,
}

fn caches(machine: &Machine, core: usize) -> Vec<Cache> {
    let dir = format!("{CPU}/cpu{core}/cache");
    let cache = |index: String| {
        let read = |file: &str| machine.read(&format!("{dir}/{index}/{file}"));
        let level = read("level")?.parse().ok()?;
        let size = read("size")?;
        let kib = size.strip_suffix('K').and_then(|kib| kib.parse::<u64>().ok());
        let size = kib.map_or(size, |kib| parse::bytes(kib << 10));
        let kind = match read("type").as_deref() {
            Some("Data") => "d",
            Some("Instruction") => "i",
            _ => "",
        };
        Some(Cache {
            level,
            name: format!("L{level}{kind} {size}"),
            size,
            shared: parse::list(&read("shared_cpu_list")?)?,
        })
    };
    let indices = machine.list(&dir).into_iter().filter(|name| name.starts_with("index"));
    indices.filter_map(cache).collect()
}

/// Returns the caches below the last level that a core shares only with its own threads.
fn own_caches(machine: &Machine, core: Option<usize>) -> String {
    let Some(core) = core else { return String::new() };
    let siblings = machine.read(&format!("{CPU}/cpu{core}/topology/thread_siblings_list"));
    let siblings = siblings
        .and_then(|text| parse::list(&text))
        .unwrap_or_else(|| vec![core]);
    let own = caches(machine, core);
    let own = own
        .iter()
        .filter(|cache| cache.level < 3 && cache.shared.iter().all(|one| siblings.contains(one)));
    own.map(|cache| cache.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// Returns network devices, with an interface or handed to user space, and interfaces without a device.
fn devices(machine: &Machine) -> (Vec<Nic>, Vec<(String, String)>) {
    let (mut nics, mut others) = (Vec::new(), Vec::new());
    let node_of = |dirs: [String; 2]| {
        let node = |dir: String| machine.read(&format!("{dir}/numa_node"))?.parse::<usize>().ok();
        dirs.into_iter().find_map(node)
    };
    let on_bus = pci::Device::all(machine);
    for name in machine
        .interfaces()
        .into_iter()
        .filter(|name| name != "bonding_masters")
    {
        let link = nic::shown(machine, &name).1;
        let dir = machine.sys_net(&name);
        let driver = nic::driver_of(machine, &name, dir.as_deref(), link.as_ref());
        let Some(dir) = dir.filter(|dir| machine.exists(&format!("{dir}/device"))) else {
            let kind = if name == "lo" { "loopback".to_owned() } else { driver };
            others.push((name, kind));
            continue;
        };
        let address = on_bus.iter().find(|device| device.interfaces.contains(&name));
        let (rx, tx) = nic::queue_counts(machine, &dir);
        let about = [
            Some(driver),
            address.map(|device| device.address.clone()),
            Some(nic::speed(machine, &name, &dir)),
            Some(format!("queues: {rx} rx, {tx} tx")),
        ];
        nics.push(Nic {
            about: about.into_iter().flatten().collect::<Vec<_>>().join(", "),
            node: node_of([format!("{dir}/device"), format!("{dir}/device/..")]),
            interrupts: nic::interrupts_of(machine, &dir),
            name,
        });
    }
    for device in on_bus.into_iter().filter(|device| device.interfaces.is_empty()) {
        let dir = format!("/sys/bus/{}/devices/{}", device.bus.name(), device.address);
        let driver = device.driver.unwrap_or_else(|| "no driver".to_owned());
        nics.push(Nic {
            about: format!("{driver}, no interface"),
            node: node_of([dir.clone(), dir]),
            interrupts: Vec::new(),
            name: device.address,
        });
    }
    (nics, others)
}
