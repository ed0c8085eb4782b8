//! Command-line options of a plan, made from the table of its fields.

use super::help::place;
use super::rate::RateParser;
use super::traffic_file::{self, TrafficFile};
use clap::builder::{PathBufValueParser, ValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use mpps_plan::fields::{FIELDS, Field, Kind};
use mpps_plan::json::port;
use mpps_plan::{Plan, Workload};
use mpps_run::paths;
use std::path::PathBuf;

const FAR_HELP: &str = "Port to receive at, where packets are not sent back: what forwards them is between the two \
                        (sendrecv)";
const PORTS_HELP: &str = "Ports to use, 1 to 16, PATH:DEVICE[,key=value…]: af_packet:eth1, af_xdp:eth1,mode=skb, \
                          xdp:eth1, dpdk:0000:03:00.0, null:. They pair up in this order: the 1st with the 2nd, the \
                          3rd with the 4th. Frames go from each port of a pair to the other; a last port without a \
                          partner sends its frames back. More than two ports must be on one path";

/// Arguments for ports.
const PORTS: [&str; 3] = ["port", "far", "devices"];

/// Returns the id of an option. `--port` has another one than the positional argument.
fn id(field: &Field) -> &'static str {
    match field.option {
        "port" => "udp_ports",
        option => option,
    }
}

/// Returns the workload of a command. The trials of a method are runs of `sendrecv`.
fn workload_of(command: &str) -> Option<Workload> {
    match command {
        "ndr" | "rfc2544" | "overload" => Some(Workload::Sendrecv),
        name => Workload::named(name),
    }
}

/// Ports and options of a plan. The name of the command decides which.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlanArgs {
    /// File that the streams of the plan are from.
    pub(super) traffic: Option<TrafficFile>,
}

impl FromArgMatches for PlanArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self {
            traffic: TrafficFile::of(matches),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for PlanArgs {
    fn augment_args(command: Command) -> Command {
        let Some(workload) = workload_of(command.get_name()) else {
            return command;
        };
        let fields = FIELDS.iter().filter(|field| field.is_of(workload));
        let mut options: Vec<_> = fields.map(|field| option(field, workload)).collect();
        options.extend(traffic_file::options(workload));
        // Order of the help.
        options.sort_by_key(|arg| arg.get_long().map_or(usize::MAX, place));
        let groups = traffic_file::groups(workload);
        command.args(ports(workload)).args(options).groups(groups)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn ports(workload: Workload) -> Vec<Arg> {
    let parse = |text: &str| port(text).map(|_| text.to_owned());
    let port = |id: &'static str| Arg::new(id).value_name("PORT").value_parser(parse);
    let near = port(PORTS[0]).help(paths::port_help()).required(true);
    match workload {
        Workload::Sendrecv | Workload::Send => vec![near, port(PORTS[1]).help(FAR_HELP)],
        Workload::Forward => {
            let all = port(PORTS[2]).help(PORTS_HELP).required(true);
            vec![all.num_args(1..).action(ArgAction::Append)]
        }
        Workload::Drop | Workload::Reflect | Workload::Capture => vec![near],
    }
}

fn option(field: &'static Field, workload: Workload) -> Arg {
    let parser: ValueParser = match field.option {
        "output" => PathBufValueParser::new().into(),
        "rate" => RateParser.into(),
        _ => ValueParser::new(move |text: &str| {
            (field.access.read)(&mut Plan::new(workload), text).map(|()| text.to_owned())
        }),
    };
    let arg = Arg::new(id(field))
        .long(field.option)
        .help(field.help)
        .required(field.required);
    let arg = match field.kind {
        Kind::Flag => return arg.action(ArgAction::SetTrue),
        Kind::Texts => arg.action(ArgAction::Append),
        Kind::Text | Kind::Count | Kind::Integer | Kind::Streams => arg.action(ArgAction::Set),
    };
    let mut arg = arg
        .value_name(field.value_name)
        .value_parser(parser)
        .allow_hyphen_values(field.hyphen);
    if let Some(short) = field.short {
        arg = arg.short(short);
    }
    if let Some(text) = field.default {
        arg = arg.default_value(text);
    }
    if let Some(other) = field.not_with {
        arg = arg.conflicts_with(other);
    }
    if let Some(other) = field.only_with {
        arg = arg.requires(traffic_file::required(other, workload));
    }
    arg
}

/// Returns the plan of a run or of a method; `None` for any other command. `again`: other processes read the same
/// files.
///
/// # Errors
/// A value that the parser of the option accepted and the field refuses, or a traffic file that is wrong.
pub(super) fn plan_of(name: &str, matches: &ArgMatches, again: bool) -> Result<Option<Plan>, clap::Error> {
    let Some(workload) = workload_of(name) else {
        return Ok(None);
    };
    let wrong = |why: String| clap::Error::raw(clap::error::ErrorKind::ValueValidation, why);
    let mut plan = Plan::new(workload);
    for id in PORTS {
        for text in matches.try_get_raw(id).ok().flatten().into_iter().flatten() {
            plan.ports.push(port(&text.to_string_lossy()).map_err(wrong)?);
        }
    }
    for field in FIELDS.iter().filter(|field| field.is_of(workload)) {
        let read = |plan: &mut Plan, text: &str| (field.access.read)(plan, text).map_err(wrong);
        match field.kind {
            Kind::Flag if matches.get_flag(id(field)) => read(&mut plan, "true")?,
            Kind::Flag => {}
            _ => {
                for text in matches.get_raw(id(field)).into_iter().flatten() {
                    read(&mut plan, &text.to_string_lossy())?;
                }
            }
        }
    }
    if let (Some(file), Some(field)) = (TrafficFile::of(matches), traffic_file::field(workload)) {
        let streams = file
            .streams(plan.seed, again)
            .map_err(|failure| wrong(failure.line().to_owned()))?;
        (field.access.read)(&mut plan, &streams).map_err(wrong)?;
    }
    if workload == Workload::Capture {
        // A path need not be UTF-8.
        plan.capture.output = matches.get_one::<PathBuf>("output").cloned();
    }
    Ok(Some(plan))
}
