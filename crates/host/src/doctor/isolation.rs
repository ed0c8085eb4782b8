//! What `mpps isolate` would change here: for the core that a user would give to lanes first.

use super::finding::{Report, Status};
use super::machine::Machine;
use crate::isolate::{Boot, Cpus, Kind, Options, Share, check, plan};

pub(super) fn examine(machine: &Machine, report: &mut Report) {
    let tree = machine.tree();
    let online = machine
        .read("/sys/devices/system/cpu/online")
        .and_then(|text| Cpus::of_list(&text));
    // All but the first, where most else of a host runs.
    let cores: Cpus = online.iter().flat_map(Cpus::iter).skip(1).collect();
    let mut area = report.area("isolation");
    if check(&tree, &cores).is_err() {
        let finding = "one core: none can be kept for lanes alone";
        return area.add(Status::Info, "cores", finding, "", "");
    }
    let plan = plan(
        &tree,
        &Options {
            cores: cores.clone(),
            without: Vec::new(),
            // Looking at all threads takes a while on a large host.
            move_threads: false,
        },
    );
    let why = "what else runs on a lane's core shows as gaps, loss and latency that are not the network's";
    for part in plan.parts.iter().filter(|part| part.kind != Kind::Threads) {
        let finding = match part.steps.len() {
            0 => part.why_not.clone(),
            1 => format!("1 change: {}", part.what),
            n => format!("{n} changes: {}", part.what),
        };
        area.add(Status::Info, part.kind.name(), finding, why, "");
    }
    let boot = Boot::of(&tree, &plan);
    let state = |parameter: &crate::isolate::Parameter| match (&parameter.now, parameter.why_not.as_str()) {
        (_, why) if !why.is_empty() => format!("{} ({why})", parameter.name),
        (Some(now), _) => format!("{}={now}", parameter.name),
        (None, _) => format!("{} not set", parameter.name),
    };
    let states: Vec<String> = boot.parameters.iter().map(state).collect();
    area.add(Status::Info, "boot", states.join("; "), why, "");
    let fifo = Share::of(&tree)
        .told()
        .unwrap_or_else(|| "real-time threads have no limit".to_owned());
    area.add(
        Status::Info,
        "--fifo",
        fifo,
        "a gap of tens of ms each second in a lane that never sleeps",
        "",
    );
    let command = format!("mpps isolate {} -- COMMAND", cores.list());
    let finding = "measures the noise of the cores, does the above for one command, and undoes it";
    area.add(Status::Info, "command", finding, why, &command);
}
