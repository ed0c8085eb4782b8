//! What only the kernel's command line can do.

use super::cpus::Cpus;
use super::plan::Plan;
use super::tree::Tree;
use serde::Serialize;

/// A parameter of the kernel's command line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Parameter {
    /// `isolcpus`, …
    pub name: &'static str,
    /// Its value for these cores; of `skew_tick`, which is of the whole host, 1.
    pub value: String,
    /// Its value now; `None`: not given.
    pub now: Option<String>,
    /// What it does.
    pub what: &'static str,
    /// Why it does nothing on this host; empty: it does.
    pub why_not: String,
}

impl Parameter {
    /// As on the command line.
    pub fn word(&self) -> String {
        format!("{}={}", self.name, self.value)
    }
}

/// What a restart of the host can do for these cores.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Boot {
    /// The parameters.
    pub parameters: Vec<Parameter>,
    /// The command that sets those that are missing; `None`: nothing is missing, or it is not known how this host
    /// boots.
    pub command: Option<String>,
}

impl Boot {
    /// Of this host.
    pub fn of(tree: &Tree, plan: &Plan) -> Self {
        let line = tree.read("proc/cmdline").unwrap_or_default();
        let now = |name: &str| {
            let words = line.split_whitespace();
            // Of several the kernel takes the last.
            words
                .filter_map(|word| word.strip_prefix(name)?.strip_prefix('='))
                .next_back()
                .map(str::to_owned)
        };
        let (cores, rest) = (plan.cores.list(), plan.rest.list());
        let no_tick = match tree.exists("sys/devices/system/cpu/nohz_full") {
            true => String::new(),
            false => "this kernel is built without CONFIG_NO_HZ_FULL".to_owned(),
        };
        let parameter = |name, value: String, what, why_not: &str| Parameter {
            name,
            value,
            now: now(name),
            what,
            why_not: why_not.to_owned(),
        };
        let parameters = vec![
            parameter(
                "isolcpus",
                format!("managed_irq,domain,{cores}"),
                "no load balancing onto the cores from the start, nor interrupts that drivers spread",
                "",
            ),
            parameter(
                "nohz_full",
                cores.clone(),
                "no timer tick while one thread runs alone",
                &no_tick,
            ),
            parameter("rcu_nocbs", cores, "RCU callbacks run on other cores", ""),
            parameter("irqaffinity", rest, "interrupts begin on the other cores", ""),
            parameter(
                "skew_tick",
                "1".to_owned(),
                "the cores' timer ticks come one after the other",
                "",
            ),
        ];
        let words: Vec<String> = missing(&parameters, &plan.cores).map(Parameter::word).collect();
        let command = match words.is_empty() {
            true => None,
            false => crate::doctor::boot_command(tree, &words.join(" ")),
        };
        Self { parameters, command }
    }
}

/// Parameters that would do something for these cores, and are not set.
pub(super) fn missing<'p>(parameters: &'p [Parameter], cores: &Cpus) -> impl Iterator<Item = &'p Parameter> {
    parameters.iter().filter(|p| p.why_not.is_empty() && !p.covers(cores))
}

impl Parameter {
    /// Whether it is set for these cores already.
    pub(crate) fn covers(&self, cores: &Cpus) -> bool {
        let Some(now) = &self.now else { return false };
        match (self.name, now.as_str()) {
            ("skew_tick", _) => return *now == self.value,
            (name, "all") => return name != "irqaffinity",
            _ => {}
        }
        // Flags of isolcpus stand before the cores.
        let numbers: Vec<&str> = now
            .split(',')
            .filter(|part| part.starts_with(|c: char| c.is_ascii_digit()))
            .collect();
        let Some(set) = Cpus::of_list(&numbers.join(",")) else {
            return false;
        };
        match self.name {
            "irqaffinity" => !set.is_empty() && !set.meets(cores),
            _ => cores.within(&set),
        }
    }
}
