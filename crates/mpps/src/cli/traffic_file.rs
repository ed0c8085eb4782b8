//! `--traffic FILE`, `--pcap FILE` and `--set NAME=VALUE`, which are no fields of a plan: what they make, streams, is
//! one, as that of `--packet`. So a plan names no traffic file and repeats its run without it; of captures it has name
//! and SHA-256.

use crate::fail::{Result, usage};
use crate::traffic_file::{TrafficText, capture};
use clap::{Arg, ArgAction, ArgGroup, ArgMatches};
use mpps_plan::Workload;
use mpps_plan::fields::{FIELDS, Field, Kind};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Options that give streams, as a group: what is only for streams requires it.
const STREAMS: &str = "streams";
const FILE: &str = "traffic";
const SET: &str = "set";
const PCAP: &str = "pcap";
/// Options that [`SET`] is for.
const FILES: &str = "stream files";

const SENT: &str = "Streams of a traffic file, TOML or JSON, in place of one --packet ('-': standard input): which \
                    packets, in which mix, by which schedule; see docs/use/traffic.md. Plan and result hold the \
                    streams, and no file";
const COUNTED: &str = "Streams that a sender has as its --traffic: packets are taken as with --packet, and each stream \
                       and group has results";
const KNOWN: &str = "Streams that a sender has as its --traffic: packets are taken as with --packet";
const VALUE: &str = "Value of a variable of the traffic file, in place of the file's; may be given more than once";
const VALUE_OR_KEY: &str = "Value of a variable of the traffic file, in place of the file's; or of a key of the \
                            stream of --pcap: speed=2, loops=0, tag=tail, only=PACKET, rewrite=PACKET; may be repeated";
const CAPTURED: &str = "Packets of a capture, pcap or pcapng, plain or gzipped, in its spacing, or at --rate; see \
                        docs/use/traffic.md for the keys of --set. Plan and result have its name, size and SHA-256";

/// A traffic file as it was typed.
#[derive(Clone, Debug)]
pub(crate) struct TrafficFile {
    file: PathBuf,
    set: Vec<String>,
    /// It is a capture.
    is_capture: bool,
}

/// Returns the field that is the streams of a workload, if it has one.
pub(super) fn field(workload: Workload) -> Option<&'static Field> {
    FIELDS
        .iter()
        .find(|field| field.kind == Kind::Streams && field.is_of(workload))
}

/// Returns the options beside those of the fields, for a workload with streams.
pub(super) fn options(workload: Workload) -> Vec<Arg> {
    let Some(packet) = field(workload) else {
        return Vec::new();
    };
    let help = match (packet.section, workload) {
        ("traffic", _) => SENT,
        (_, Workload::Drop) => COUNTED,
        _ => KNOWN,
    };
    let captures = packet.section == "traffic";
    let mut options = vec![
        Arg::new(FILE)
            .long(FILE)
            .value_name("FILE")
            .value_parser(clap::value_parser!(PathBuf))
            .conflicts_with(packet.option)
            .help(help),
        Arg::new(SET)
            .long(SET)
            .value_name("NAME=VALUE")
            .action(ArgAction::Append)
            .requires(if captures { FILES } else { FILE })
            .conflicts_with(packet.option)
            .help(if captures { VALUE_OR_KEY } else { VALUE }),
    ];
    if captures {
        options.push(
            Arg::new(PCAP)
                .long(PCAP)
                .value_name("FILE")
                .value_parser(clap::value_parser!(PathBuf))
                .conflicts_with_all([packet.option, FILE])
                .help(CAPTURED),
        );
    }
    options
}

/// Returns the groups of the options that give streams, for a workload that has them.
pub(super) fn groups(workload: Workload) -> Vec<ArgGroup> {
    let Some(packet) = field(workload) else {
        return Vec::new();
    };
    match packet.section {
        "traffic" => vec![
            ArgGroup::new(STREAMS).args([packet.option, FILE, PCAP]).multiple(true),
            ArgGroup::new(FILES).args([FILE, PCAP]),
        ],
        _ => vec![ArgGroup::new(STREAMS).args([packet.option, FILE]).multiple(true)],
    }
}

/// Returns what an option requires that is only of use with `other`.
pub(super) fn required(other: &'static str, workload: Workload) -> &'static str {
    match field(workload).is_some_and(|packet| packet.option == other) {
        true => STREAMS,
        false => other,
    }
}

impl TrafficFile {
    /// Returns the file that was given, if one was.
    pub(super) fn of(matches: &ArgMatches) -> Option<Self> {
        let of = |option| matches.try_get_one::<PathBuf>(option).ok().flatten();
        let file = of(FILE).or(of(PCAP))?;
        let set = matches.get_many::<String>(SET).into_iter().flatten();
        Some(Self {
            file: file.clone(),
            set: set.cloned().collect(),
            is_capture: of(FILE).is_none(),
        })
    }

    /// Returns the words of a reflector's command line, which knows the same packets.
    pub(crate) fn words(&self) -> Vec<OsString> {
        let mut file = OsString::from(format!("--{FILE}="));
        file.push(&self.file);
        let set = self.set.iter().map(|pair| format!("--{SET}={pair}").into());
        std::iter::once(file).chain(set).collect()
    }

    /// Reads the streams, as the field of the plan takes them. `again`: other processes read the file as well.
    ///
    /// # Errors
    /// Says what is wrong in the file, with its place, or why it can't be read (again).
    pub(super) fn streams(&self, seed: u64, again: bool) -> Result<String> {
        let name = self.file.display();
        let once = self.file == Path::new("-") || self.file.metadata().is_ok_and(|of| !of.is_file());
        let option = if self.is_capture { PCAP } else { FILE };
        if again && once {
            return Err(usage(format!(
                "--{option} {name}: it can be read once, and is read again by --lab, compare and a library: want a file"
            )));
        }
        match self.is_capture {
            true => capture(&self.file, &self.set),
            false => TrafficText::read(&self.file)?.streams(&self.set, seed),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::cli::Cli;
    use crate::fail::argument_line;
    use mpps_plan::Plan;
    use std::ffi::OsString;
    use std::io::Write;

    const MIX: &str = r#"
[vars]
users = 3
[[stream]]
name = "web"
packet = "eth / ipv4 dst=10.0.0.1*$users / udp"
rate = "1kpps"
scale = false
[[stream]]
packet = "eth / ipv4 / tcp"
rate = "2kpps"
"#;

    /// The plan of a line with `FILE` in place of a file of this text, or the refusal without the file's path.
    fn plan(line: &str, text: &str) -> Result<Plan, String> {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(text.as_bytes()).expect("written");
        let path = file.path().display().to_string();
        let words = line.split(' ').map(|word| OsString::from(word.replace("FILE", &path)));
        match Cli::of(words) {
            Ok(cli) => Ok(cli.command.into_run().expect("a run").run.plan),
            Err(error) => Err(argument_line(&error).replace(&path, "FILE")),
        }
    }

    #[test]
    fn a_plan_has_the_streams_of_the_file_with_the_values_that_were_set() {
        for (line, section) in [
            ("mpps send null: --traffic FILE --set users=7", "traffic"),
            ("mpps sendrecv loop: --set=users=7 --traffic=FILE", "traffic"),
            (
                "mpps drop null: --traffic FILE --set users=5 --set users=7",
                "selection",
            ),
            ("mpps reflect null: --traffic FILE --set users=7", "selection"),
        ] {
            let plan = plan(line, MIX).expect(line);
            let json = plan.json();
            let streams = &json[section]["streams"];
            assert_eq!(streams.as_array().map(Vec::len), Some(2), "{line}: {json:#}");
            assert_eq!(streams[0]["packet"], "eth / ipv4 dst=10.0.0.1*7 / udp", "{line}");
            assert_eq!(
                (&streams[0]["scale"], &streams[1]["name"]),
                (&false.into(), &"2".into())
            );
            for part in ["$users", "vars", "/tmp", "--set"] {
                assert!(!plan.text().contains(part), "{line}: {part}");
            }
            assert_eq!(Plan::of_json(&plan.text()), Ok(plan), "{line}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_file_is_one_line_with_its_place() {
        let long = "#".repeat(mpps_traffic::LONGEST + 1);
        for (line, text, told) in [
            ("--traffic FILE", "[[stream]", "FILE:1:10: "),
            (
                "--traffic FILE",
                "[[stream]]\npacket = \"eth / vlan vid=4096 / ipv4 / udp\"\n",
                "FILE:2:22: vlan vid='4096': want 0 to 4095",
            ),
            (
                "--traffic FILE",
                "[[stream]]\npacket = 'eth / ipv6 / tcp'\nsize = 64\n",
                "FILE:2:10: size 64",
            ),
            ("--traffic FILE", "", "FILE: no stream: want [[stream]] with a packet"),
            ("--traffic FILE", &long, "FILE: longer than 4194304 bytes"),
            (
                "--traffic FILE --set user=3",
                MIX,
                "FILE: --set user: the file has no variable of that name; did you mean 'users'?",
            ),
            ("--traffic FILE --set users", MIX, "--set users: want NAME=VALUE"),
            ("--traffic FILE --set users=x", MIX, "FILE:6:"),
            ("--traffic FILE.none", MIX, "FILE.none: No such file"),
            (
                "--traffic FILE --packet eth",
                MIX,
                "the argument '--traffic <FILE>' cannot be used with '--packet",
            ),
            (
                "--packet eth --set a=1",
                MIX,
                "the argument '--packet <PACKET>' cannot be used with '--set <NAME=VALUE>'",
            ),
            (
                "--set a=1",
                MIX,
                "the following required arguments were not provided: <--traffic <FILE>|--pcap <FILE>>",
            ),
            (
                "--scale 50%",
                MIX,
                "required arguments were not provided: <--packet <PACKET>|--traffic <FILE>|--pcap <FILE>>",
            ),
            (
                "--traffic FILE --scale 50",
                MIX,
                "want a factor from 1% to 1000%, such as 50% (the % is missing)",
            ),
        ] {
            let refused = plan(&format!("mpps send null: {line}"), text).expect_err(line);
            assert!(refused.contains(told) && !refused.contains('\n'), "{line}: {refused}");
        }
    }

    #[test]
    fn what_can_be_read_only_once_is_for_one_process() {
        for file in ["-", "/dev/stdin", "/dev/zero", "/"] {
            let refused = plan(&format!("mpps send null: --traffic {file}"), MIX).expect_err(file);
            assert!(
                refused.contains(": it can be read once, and is read again by --lab"),
                "{file}: {refused}"
            );
        }
    }

    #[test]
    fn the_file_of_a_file_of_options_gives_way_to_a_packet_that_is_typed() {
        let mut mix = tempfile::NamedTempFile::new().expect("a file");
        mix.write_all(MIX.as_bytes()).expect("written");
        let options = format!(
            "traffic = \"{}\"\nset = [\"users=9\"]\nscale = \"50%\"\n",
            mix.path().display()
        );
        let streams = |more: &str| {
            let plan = plan(&format!("mpps send null: --config FILE{more}"), &options).expect("right");
            assert!(plan.load.scale.is_some());
            plan.traffic.streams.expect("streams").text().to_owned()
        };
        assert!(streams("").contains("10.0.0.1*9"));
        assert!(streams(" --set users=8").contains("10.0.0.1*8"));
        assert_eq!(streams(" --packet eth"), r#"[{"name":"stream","packet":"eth"}]"#);
    }
}
