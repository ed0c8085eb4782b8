//! Settings that only the kernel's command line can make.

use super::cpus::Cpus;
use super::plan::Plan;
use super::tree::Tree;
use serde::Serialize;

/// A parameter of the kernel's command line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Parameter {
    /// `isolcpus`, …
    pub name: &'static str,
    /// Value for these cores; for `skew_tick`, which applies to the whole host, 1.
    pub value: String,
    /// Current value; `None`: not given.
    pub now: Option<String>,
    /// Effect of the parameter.
    pub what: &'static str,
    /// Reason why the parameter has no effect on this host; empty: it has one.
    pub why_not: String,
}

impl Parameter {
    /// Returns the parameter in the form of the command line.
    pub fn word(&self) -> String {
        format!("{}={}", self.name, self.value)
    }
}

/// Improvements for these cores that a restart of the host can make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Boot {
    /// The parameters.
    pub parameters: Vec<Parameter>,
    /// Command that sets the missing parameters; `None`: none is missing, or it is not known how this host boots.
    pub command: Option<String>,
}

impl Boot {
    /// Returns the parameters for this host.
    pub fn of(tree: &Tree, plan: &Plan) -> Self {
        let line = tree.read("proc/cmdline").unwrap_or_default();
        let now = |name: &str| {
            let words = line.split_whitespace();
            // If a parameter is given several times, the kernel takes the last.
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

/// Returns parameters that would have an effect for these cores, and are not set.
pub(super) fn missing<'p>(parameters: &'p [Parameter], cores: &Cpus) -> impl Iterator<Item = &'p Parameter> {
    parameters.iter().filter(|p| p.why_not.is_empty() && !p.covers(cores))
}

impl Parameter {
    /// Returns whether the parameter is already set for these cores.
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
