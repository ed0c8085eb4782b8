//! Headings and examples of `--help` and the manual pages, beside the options' own texts: the heading of an option, and
//! examples. An option of one name has one heading wherever it is, so both are tables here.

use clap::builder::{Styles, ValueHint};
use clap::{Arg, Command};
use std::fmt::Write;

/// Headings, and the long options that stand under each.
static HEADINGS: [(&str, &[&str]); 18] = [
    ("Path", &["lab", "eal", "flow", "on-full"]),
    (
        "Traffic",
        &[
            "packet",
            "traffic",
            "pcap",
            "set",
            "both-ways",
            "src",
            "src-port-range",
            "dest",
            "dest-mac",
            "gateway",
            "back-dest-mac",
            "back-gateway",
            "vlan",
            "step",
            "flows",
            "payload-size",
            "frame-size",
            "frame-sizes",
            "ttl",
            "dscp",
            "seed",
        ],
    ),
    ("Selection", &["ip", "port", "proto", "take", "no-verify", "max-flows"]),
    ("Forwarding", &["mode", "drain", "work", "split-directions"]),
    ("Packets kept", &["snap-len", "rotate-size", "max-files", "buffer"]),
    (
        "Test",
        &[
            "goal",
            "quick",
            "strict",
            "search",
            "search-time",
            "reference",
            "trial",
            "first-trial",
            "rounds",
            "repeats",
            "resolution",
            "loss",
            "bursts",
            "step-by",
            "at",
            "longest-burst",
            "reset-cmd",
            "pause",
            "device",
            "dut-note",
            "resume",
        ],
    ),
    ("Comparison", &["metric", "margin", "retries", "settings", "force"]),
    (
        "Rate and length",
        &[
            "rate",
            "scale",
            "min-rate",
            "max-rate",
            "then",
            "count",
            "pacing",
            "catch-up",
            "duration",
            "start-at",
            "interval",
            "settle",
            "settle-early",
            "tolerance",
        ],
    ),
    (
        "Lanes and cores",
        &[
            "lanes",
            "tx-lanes",
            "rx-lanes",
            "cores",
            "burst",
            "tx-burst",
            "rx-burst",
            "busy-poll",
            "nice",
            "fifo",
        ],
    ),
    ("Lab", &["name", "queues", "mtu"]),
    ("Isolation", &["measure", "without", "move-threads", "dry-run", "undo"]),
    (
        "Output",
        &[
            "out",
            "output",
            "csv",
            "lanes-csv",
            "streams-csv",
            "json",
            "json-lines",
            "markdown",
            "hdr",
            "sample-pcap",
            "ctf",
            "svg",
            "redact",
            "quiet",
            "verbose",
            "plain",
        ],
    ),
    ("Gates", &["expect", "junit"]),
    ("Live", &["prom", "metrics", "web", "allow-host"]),
    (
        "Trace and profile",
        &[
            "trace",
            "trace-on",
            "trace-window",
            "trace-all",
            "trace-memory",
            "profile",
            "flame",
            "folded",
            "from",
            "to",
        ],
    ),
    ("Privileges", &["keep-privileges"]),
    ("Plan", &["config", "print-plan", "schema"]),
    ("Demo", &["path"]),
];

/// Where an option stands among those that have a heading.
pub(super) fn place(long: &str) -> usize {
    let mut all = HEADINGS.iter().flat_map(|(_, options)| options.iter());
    all.position(|option| *option == long).unwrap_or(usize::MAX)
}

/// Options that mean something else in one command.
static ELSEWHERE: [(&str, &str, &str); 5] = [
    ("capture", "count", "Packets kept"),
    ("forward", "dest-mac", "Forwarding"),
    ("compare", "rounds", "Comparison"),
    ("compare", "pause", "Comparison"),
    ("compare", "seed", "Comparison"),
];

/// A command line and what it is for.
pub(crate) type Example = (&'static str, &'static str);

/// Commands with their examples. A test reads each as a command line; none runs them.
static EXAMPLES: &[(&str, &[Example])] = &[
    (
        "",
        &[
            ("What works on this host", "mpps doctor"),
            (
                "Rate, loss and latency, in a lab that is made for it (root)",
                "mpps sendrecv af_packet --lab --rate 20kpps --duration 5s",
            ),
            ("All options of a command", "mpps help sendrecv"),
        ],
    ),
    (
        "sendrecv",
        &[
            (
                "By sockets, to a reflector on another host",
                "mpps sendrecv udp: --dest 10.99.0.2:9000 --rate 100kpps --csv run.csv --json run.json",
            ),
            (
                "Whole frames, in a lab that is made for it (root)",
                "mpps sendrecv af_packet --lab --rate 20kpps --duration 5s",
            ),
            (
                "For continuous integration: exit code 4 where more is lost",
                "mpps sendrecv af_packet:eth1 --dest 10.99.0.2:9000 --rate 20kpps --expect 'loss<0.01%'",
            ),
        ],
    ),
    (
        "send",
        &[
            (
                "One way, to `mpps drop` on the other host",
                "mpps send udp: --dest 10.99.0.2:9000 --rate 100kpps",
            ),
            (
                "From a hundred addresses",
                "mpps send af_packet:eth1 --src 10.99.0.100-10.99.0.199 --dest 10.99.0.2:9000 --rate 10kpps",
            ),
            (
                "The streams of a traffic file, at half of their rates",
                "mpps send af_packet:eth1 --traffic mix.toml --scale 50%",
            ),
        ],
    ),
    (
        "drop",
        &[
            (
                "Counts what `mpps send` sends, until Ctrl-C",
                "mpps drop udp:10.99.0.2:9000",
            ),
            (
                "Any sender's UDP packets, for ten seconds",
                "mpps drop af_packet:eth1 --no-verify --duration 10s --json drop.json",
            ),
        ],
    ),
    (
        "reflect",
        &[
            ("For `mpps sendrecv` on another host", "mpps reflect udp:10.99.0.2:9000"),
            ("Past the host's stack", "mpps reflect af_xdp:eth1"),
            (
                "At an address that no host has",
                "mpps reflect af_packet:eth1 --ip 10.99.0.88",
            ),
        ],
    ),
    (
        "forward",
        &[
            (
                "Between two ports, both ways",
                "mpps forward af_packet:eth1 af_packet:eth2",
            ),
            (
                "Back out of the port that they came by, MAC addresses swapped",
                "mpps forward af_xdp:eth1 --mode macswap",
            ),
        ],
    ),
    (
        "capture",
        &[
            (
                "A thousand packets of one UDP port",
                "mpps capture af_packet:eth1 -o packets.pcapng --port 9000 --count 1000",
            ),
            (
                "The newest 10 files of 100 MB",
                "mpps capture af_packet:eth1 -o packets.pcapng --rotate-size 100MB --max-files 10",
            ),
        ],
    ),
    (
        "ndr",
        &[
            (
                "An estimate within a minute, in a lab that is made for it (root)",
                "mpps ndr af_packet --lab --quick",
            ),
            (
                "No loss and half a percent, of a device between two ports",
                "mpps ndr af_packet:eth1 af_packet:eth2 --goal loss=0 --goal loss=0.5% --out ndr-results",
            ),
        ],
    ),
    (
        "rfc2544",
        &[
            (
                "Some minutes, in a lab that is made for it (root)",
                "mpps rfc2544 throughput af_packet --lab --quick",
            ),
            (
                "All tests with the RFC's times, of a device between two ports: hours",
                "mpps rfc2544 all af_packet:eth1 af_packet:eth2 --strict --out rfc2544-results",
            ),
        ],
    ),
    (
        "overload",
        &[
            (
                "A minute or two, in a lab that is made for it (root)",
                "mpps overload af_packet --lab --quick",
            ),
            (
                "Of a device between two ports, from the load that it is known to forward",
                "mpps overload af_packet:eth1 af_packet:eth2 --reference 200kpps --out overload-results",
            ),
        ],
    ),
    (
        "compare",
        &[
            (
                "Two paths, in turns, in labs that are made for it (root)",
                "mpps compare 'sendrecv af_packet --lab --duration 2s' 'sendrecv af_xdp --lab --duration 2s'",
            ),
            (
                "Values of an option",
                "mpps compare 'send null: --duration 1s' --settings 'burst=32|64'",
            ),
            ("Results that are there", "mpps compare before.json after.json"),
        ],
    ),
    (
        "run",
        &[
            (
                "A plan that --print-plan has printed",
                "mpps run plan.json --csv run.csv",
            ),
            ("The run of an earlier result", "mpps run run.json"),
        ],
    ),
    (
        "doctor",
        &[
            ("Everything", "mpps doctor"),
            ("One interface and one path", "mpps doctor eth1 af_xdp"),
        ],
    ),
    (
        "lab",
        &[
            ("Make it", "mpps lab up"),
            ("Use it", "mpps lab exec a -- ping -c 1 10.99.0.2"),
            ("Remove it", "mpps lab down"),
        ],
    ),
    (
        "lab up",
        &[
            ("The lab of the default name", "mpps lab up"),
            ("Another, with four queues", "mpps lab up --name four --queues 4"),
        ],
    ),
    (
        "lab down",
        &[
            ("The lab of the default name", "mpps lab down"),
            ("Another", "mpps lab down --name four"),
        ],
    ),
    (
        "lab status",
        &[
            ("The lab of the default name", "mpps lab status"),
            ("Another", "mpps lab status --name four"),
        ],
    ),
    (
        "lab exec",
        &[
            ("A reflector on host b", "mpps lab exec b -- mpps reflect af_xdp:eth1"),
            ("A shell on host a", "mpps lab exec a -- bash"),
        ],
    ),
    (
        "isolate",
        &[
            ("What it would do", "mpps isolate 1 --dry-run"),
            (
                "A run on a core that nothing else uses, and what that gained",
                "mpps isolate 1 -- mpps sendrecv loop: --rate 100kpps --cores 1 --duration 3s",
            ),
        ],
    ),
    (
        "demo",
        &[
            ("In a lab where one can be made, else by loopback sockets", "mpps demo"),
            (
                "Another path, for five seconds",
                "mpps demo --path af_xdp --duration 5s",
            ),
        ],
    ),
    (
        "plot",
        &[
            ("One run", "mpps plot run.csv -o run.png"),
            ("Two over one another", "mpps plot run.csv other.csv -o both.svg"),
            ("Two results of a test", "mpps plot ndr-a ndr-b -o both.png"),
        ],
    ),
    (
        "report",
        &[
            ("A run, with its rows", "mpps report run.json run.csv -o run.html"),
            (
                "A test, without names and addresses",
                "mpps report ndr-results -o public.html --redact",
            ),
            (
                "Two results of a test, as a folder with tables and charts",
                "mpps report ndr-a ndr-b -o both",
            ),
        ],
    ),
    (
        "trace",
        &[
            (
                "Where the time went, and why packets were late",
                "mpps trace t.pftrace.gz",
            ),
            (
                "Two runs, stage by stage",
                "mpps trace t.pftrace.gz compare other.pftrace.gz",
            ),
            (
                "A flame graph of 100 ms of the run",
                "mpps trace t.pftrace.gz --svg dip.svg --from 1.2s --to 1.3s",
            ),
        ],
    ),
    (
        "trace peer",
        &[
            ("testpmd", "mpps trace peer -- dpdk-testpmd -l 0-1 -- -i"),
            (
                "A trace for Perfetto beside the table",
                "mpps trace peer --trace peer.pftrace.gz -- dpdk-testpmd -l 0-1 -- -i",
            ),
        ],
    ),
    (
        "traffic",
        &[
            ("A file", "mpps traffic check mix.toml"),
            ("Its first packets", "mpps traffic show mix.toml"),
            ("For Wireshark", "mpps traffic pcap mix.toml -o mix.pcapng"),
        ],
    ),
    (
        "traffic check",
        &[
            (
                "A file, with another value of a variable",
                "mpps traffic check mix.toml --set users=5000",
            ),
            (
                "A packet",
                "mpps traffic check --packet 'eth / vlan vid=10..12 / ipv4 dst=10.0.0.0/24 / udp dst=9000'",
            ),
        ],
    ),
    (
        "traffic show",
        &[
            ("The first packets of a file", "mpps traffic show mix.toml -n 50"),
            (
                "The flows of a packet",
                "mpps traffic show --packet 'eth / ipv6 dst=2001:db8::1*16 / tcp dst={80*7,443*3} flags=syn'",
            ),
        ],
    ),
    (
        "traffic pcap",
        &[
            (
                "1000 packets for Wireshark",
                "mpps traffic pcap mix.toml -n 1000 -o mix.pcapng",
            ),
            (
                "One to tshark",
                "mpps traffic pcap --packet 'eth / ipv4 / icmp' -n 1 -o - | tshark -r -",
            ),
        ],
    ),
    (
        "traffic schema",
        &[
            (
                "For an editor that completes",
                "mpps traffic schema > traffic.schema.json",
            ),
            ("The keys of a file", "mpps traffic schema | jq .properties"),
        ],
    ),
    ("ports", &[("All paths", "mpps ports"), ("The same", "mpps help ports")]),
    (
        "man",
        &[
            ("One page", "mpps man sendrecv | man -l -"),
            ("All, for MANPATH", "mpps man --out man/man1"),
        ],
    ),
    (
        "completions",
        &[
            ("For this shell", "source <(mpps completions bash)"),
            (
                "For good",
                "mpps completions fish > ~/.config/fish/completions/mpps.fish",
            ),
        ],
    ),
];

/// The examples of a command: `sendrecv`, `lab up`; empty for the program.
pub(crate) fn examples(command: &str) -> &'static [Example] {
    let found = EXAMPLES.iter().find(|(name, _)| *name == command);
    found.map_or(&[], |(_, examples)| examples)
}

/// A command, and those below it, with each option under its heading.
pub(crate) fn headed(command: Command) -> Command {
    let name = command.get_name().to_owned();
    command.mut_args(|arg| under(&name, arg)).mut_subcommands(headed)
}

fn under(command: &str, arg: Arg) -> Arg {
    let Some(long) = arg.get_long() else {
        return hinted(arg);
    };
    let own = ELSEWHERE
        .iter()
        .find(|(of, option, _)| *of == command && *option == long);
    let all = || HEADINGS.iter().find(|(_, options)| options.contains(&long));
    match own.map(|own| own.2).or_else(|| all().map(|(heading, _)| *heading)) {
        Some(heading) => hinted(arg.help_heading(heading)),
        None => hinted(arg),
    }
}

/// With what completions offer for its value.
fn hinted(arg: Arg) -> Arg {
    let named = |what: &str| {
        arg.get_value_names()
            .is_some_and(|names| names.iter().any(|name| name.split("[,").next() == Some(what)))
    };
    if named("FILE|DIR") {
        arg.value_hint(ValueHint::AnyPath)
    } else if named("FILE") || named("PLAN") || named("OUT") {
        arg.value_hint(ValueHint::FilePath)
    } else if named("DIR") {
        arg.value_hint(ValueHint::DirPath)
    } else {
        arg
    }
}

/// A command, and those below it, with examples at the end of its help.
pub(crate) fn with_examples(command: Command) -> Command {
    exemplified(command, "")
}

fn exemplified(command: Command, path: &str) -> Command {
    let below = |sub: Command| {
        let path = format!("{path} {}", sub.get_name());
        exemplified(sub, path.trim_start())
    };
    let command = command.mut_subcommands(below);
    let examples = examples(path);
    if examples.is_empty() {
        return command;
    }
    let mut text = command
        .get_after_help()
        .map_or_else(String::new, |text| format!("{text}\n\n"));
    let styles = Styles::styled();
    let heading = styles.get_header();
    // A String takes everything.
    let _ = write!(text, "{heading}Examples:{heading:#}");
    for (what, line) in examples {
        let _ = write!(text, "\n  # {what}\n  {line}");
    }
    command.after_help(text)
}

#[cfg(test)]
#[path = "help_tests.rs"]
mod tests;
