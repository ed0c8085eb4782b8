//! Table of the fields of a plan. A row has the place in JSON, the option, the help text, and how the field is read and
//! written. Command line, help, manual pages, JSON plans, their schema and `docs/use/plans.md` come from this table.
//!
//! The file has more than 500 lines because the table is one list, in the order in which help and pages show it.

use super::model::{Plan, Workload, Written};
use super::values::{self, capture, forward, rate, rate::RateText};
use mpps_io::addresses as ranges;
use serde_json::Value;

/// Type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text, as on the command line.
    Text,
    /// Whole number, 0 or more.
    Count,
    /// Whole number with a sign.
    Integer,
    /// `true` or `false`.
    Flag,
    /// List of texts; the option may be repeated.
    Texts,
    /// List of streams, as in a traffic file; the option has the packet of one.
    Streams,
}

/// Reader and writer of a field. The reader's error is one line on what would be right.
#[derive(Clone, Copy)]
pub struct Access {
    /// Reads the field from text.
    pub read: fn(&mut Plan, &str) -> Result<(), String>,
    /// Returns the value in JSON.
    pub write: fn(&Plan) -> Value,
}

/// Field of a plan.
pub struct Field {
    /// Section in JSON; empty for a field of the outermost object.
    pub section: &'static str,
    /// Key in JSON.
    pub key: &'static str,
    /// Long option, without hyphens.
    pub option: &'static str,
    /// Short option.
    pub short: Option<char>,
    /// Placeholder of the value in help texts; empty for a flag.
    pub value_name: &'static str,
    /// Type.
    pub kind: Kind,
    /// Workloads that have the field.
    pub of: &'static [Workload],
    /// Text for the help and the schema.
    pub help: &'static str,
    /// Default, as it would be written.
    pub default: Option<&'static str>,
    /// Option that excludes this one.
    pub not_with: Option<&'static str>,
    /// Option that this one needs.
    pub only_with: Option<&'static str>,
    /// Must be given.
    pub required: bool,
    /// Stands in JSON only if it is given: plans were written before there was such a field.
    pub sparse: bool,
    /// Accepts a value that begins with a hyphen, so that the refusal can name the option.
    pub hyphen: bool,
    /// Reader and writer.
    pub access: Access,
}

impl Field {
    const fn new(
        (section, key): (&'static str, &'static str),
        (option, value_name): (&'static str, &'static str),
        kind: Kind,
        of: &'static [Workload],
        help: &'static str,
        access: Access,
    ) -> Self {
        Self {
            section,
            key,
            option,
            short: None,
            value_name,
            kind,
            of,
            help,
            default: None,
            not_with: None,
            only_with: None,
            required: false,
            sparse: false,
            hyphen: matches!(kind, Kind::Count | Kind::Integer),
            access,
        }
    }

    const fn default(mut self, text: &'static str) -> Self {
        self.default = Some(text);
        self
    }

    const fn not_with(mut self, option: &'static str) -> Self {
        self.not_with = Some(option);
        self
    }

    const fn only_with(mut self, option: &'static str) -> Self {
        self.only_with = Some(option);
        self
    }

    const fn hyphen(mut self) -> Self {
        self.hyphen = true;
        self
    }

    const fn sparse(mut self) -> Self {
        self.sparse = true;
        self
    }

    const fn required(mut self, short: char) -> Self {
        self.required = true;
        self.short = Some(short);
        self
    }

    /// Returns whether plans of this workload have the field.
    pub fn is_of(&self, workload: Workload) -> bool {
        self.of.contains(&workload)
    }

    /// Name in messages, such as `load.rate`.
    pub fn name(&self) -> String {
        let dot = if self.section.is_empty() { "" } else { "." };
        format!("{}{dot}{}", self.section, self.key)
    }
}

const ALL: &[Workload] = &Workload::ALL;
const TRAFFIC: &[Workload] = &[Workload::Sendrecv, Workload::Send];
const LISTENERS: &[Workload] = &[Workload::Drop, Workload::Reflect];
const DROP: &[Workload] = &[Workload::Drop];
const REFLECT: &[Workload] = &[Workload::Reflect];
const FORWARD: &[Workload] = &[Workload::Forward];
const CAPTURE: &[Workload] = &[Workload::Capture];

/// Optional text.
macro_rules! may {
    ($section:ident . $key:ident, $parse:expr) => {
        Access {
            read: |plan, text| {
                plan.$section.$key = Some(Written::new(text, $parse(text)?));
                Ok(())
            },
            write: |plan| plan.$section.$key.as_ref().map(Written::text).into(),
        }
    };
}

/// Text with a default.
macro_rules! text {
    ($section:ident . $key:ident, $parse:expr) => {
        Access {
            read: |plan, text| {
                plan.$section.$key = Written::new(text, $parse(text)?);
                Ok(())
            },
            // An empty text means that the field is open.
            write: |plan| Some(plan.$section.$key.text()).filter(|text| !text.is_empty()).into(),
        }
    };
}

/// Optional number.
macro_rules! may_number {
    ($section:ident . $key:ident, $parse:expr) => {
        Access {
            read: |plan, text| {
                plan.$section.$key = Some($parse(text)?);
                Ok(())
            },
            write: |plan| plan.$section.$key.into(),
        }
    };
}

/// Number with a default.
macro_rules! number {
    ($($key:ident).+, $parse:expr) => {
        Access {
            read: |plan, text| {
                plan.$($key).+ = $parse(text)?;
                Ok(())
            },
            write: |plan| plan.$($key).+.into(),
        }
    };
}

/// Switch, off by default.
macro_rules! flag {
    ($section:ident . $key:ident) => {
        Access {
            read: |plan, text| {
                plan.$section.$key = text == "true";
                Ok(())
            },
            write: |plan| plan.$section.$key.into(),
        }
    };
}

/// All fields except `mpps_plan`, `workload` and `ports`, in the order of JSON.
pub static FIELDS: &[Field] = &[
    Field::new(
        ("", "seed"),
        ("seed", "N"),
        Kind::Count,
        ALL,
        "Seed of the payload data (both ends must agree) and of random gaps",
        number!(seed, values::seed),
    )
    .default("1"),
    Field::new(
        ("traffic", "streams"),
        ("packet", "PACKET"),
        Kind::Streams,
        TRAFFIC,
        "Packet of any headers, in place of UDP between --src and --dest: 'eth / vlan vid=10 / ipv4 dst=10.0.0.2 / \
         tcp src=1024..2047 dst=80'; see docs/use/traffic.md. Each ends with a tag, by which it is known when it \
         comes back (af_packet, af_xdp, xdp, dpdk, null, loop)",
        Access {
            read: |plan, text| {
                plan.traffic.streams = Some(values::streams(text)?);
                Ok(())
            },
            write: |plan| match &plan.traffic.streams {
                Some(streams) => streams.json(),
                None => Value::Null,
            },
        },
    )
    .sparse(),
    Field::new(
        ("traffic", "src"),
        ("src", "IP|A-B|NET/BITS"),
        Kind::Text,
        TRAFFIC,
        "Source address of the packets, or several: from A to B (10.99.0.1-10.99.3.254), or those that hosts of a \
         network have (10.99.0.0/22, fd99::/120); need not be the host's own on af_packet, af_xdp and xdp [default: \
         udp: the port's address, else the one that the host's routes choose; af_packet, af_xdp and xdp: the \
         interface's; dpdk: none]",
        may!(traffic.src, values::sources),
    ),
    Field::new(
        ("traffic", "src_ports"),
        ("src-port-range", "A-B"),
        Kind::Text,
        TRAFFIC,
        "Source ports; each with each destination port is a flow [default: 10000-10063; udp: one port per lane]",
        may!(traffic.src_ports, values::ports),
    ),
    Field::new(
        ("traffic", "dest"),
        ("dest", "HOST:PORT"),
        Kind::Text,
        TRAFFIC,
        "Destination: IP:PORT, [IPv6]:PORT or NAME:PORT, or a range of ports, IP:PORT-PORT; in place of the address \
         several, as of --src: A-B:PORT, NET/BITS:PORT, [fd99::/120]:PORT. A name is resolved at the start, to the \
         first of its addresses that is of the source's family",
        may!(traffic.dest, values::target),
    ),
    Field::new(
        ("traffic", "dest_mac"),
        ("dest-mac", "MAC"),
        Kind::Text,
        TRAFFIC,
        "MAC address to send to; found by ARP or neighbour discovery if not given",
        may!(traffic.dest_mac, values::mac),
    ),
    Field::new(
        ("traffic", "gateway"),
        ("gateway", "IP"),
        Kind::Text,
        TRAFFIC,
        "Router to send to, if not the one that the host's routing table names",
        may!(traffic.gateway, values::ip),
    ),
    Field::new(
        ("traffic", "both_ways"),
        ("both-ways", ""),
        Kind::Flag,
        TRAFFIC,
        "Send from the second port to the first as well, at the same time: each way has the rate, the sizes and the \
         flows given here, and rows, loss, latency and a verdict of its own",
        flag!(traffic.both_ways),
    ),
    Field::new(
        ("traffic", "back_dest_mac"),
        ("back-dest-mac", "MAC"),
        Kind::Text,
        TRAFFIC,
        "--dest-mac of the way back (--both-ways)",
        may!(traffic.back_dest_mac, values::mac),
    ),
    Field::new(
        ("traffic", "back_gateway"),
        ("back-gateway", "IP"),
        Kind::Text,
        TRAFFIC,
        "--gateway of the way back (--both-ways): the router's address at the second port",
        may!(traffic.back_gateway, values::ip),
    ),
    Field::new(
        ("traffic", "vlan"),
        ("vlan", "ID"),
        Kind::Count,
        TRAFFIC,
        "VLAN tag of the packets, 1 to 4094",
        may_number!(traffic.vlan, values::vlan),
    ),
    Field::new(
        ("traffic", "step"),
        ("step", "HOW"),
        Kind::Text,
        TRAFFIC,
        "How ranges of addresses and ports make flows: combine (each value with each of all others; source ports \
         change first, then destination ports, source addresses, destination addresses), or together (all step at \
         once, the shorter ranges over again)",
        text!(traffic.step, values::step),
    )
    .default("combine"),
    Field::new(
        ("traffic", "flows"),
        ("flows", "N"),
        Kind::Count,
        TRAFFIC,
        "Use only the first N flows of the ranges",
        may_number!(traffic.flows, values::flows),
    ),
    Field::new(
        ("traffic", "count"),
        ("count", "N"),
        Kind::Count,
        TRAFFIC,
        "Send N packets in all, over all lanes, and end; both ways: N each way. With --rate N departures are due, and \
         those missed are among them. A --duration that is over first ends the run [default: as many packets as the \
         duration allows]",
        may_number!(traffic.count, values::count),
    ),
    Field::new(
        ("traffic", "payload_size"),
        ("payload-size", "BYTES"),
        Kind::Count,
        TRAFFIC,
        "UDP payload, bytes: 16 up to the MTU [default: 18: a frame of 64 bytes over IPv4, 84 over IPv6]",
        may_number!(traffic.payload_size, values::payload_size),
    )
    .not_with("frame-size"),
    Field::new(
        ("traffic", "frame_size"),
        ("frame-size", "BYTES"),
        Kind::Count,
        TRAFFIC,
        "Frame with FCS, bytes, as RFC 2544 counts it",
        may_number!(traffic.frame_size, values::frame_size),
    ),
    Field::new(
        ("traffic", "ttl"),
        ("ttl", "N"),
        Kind::Count,
        TRAFFIC,
        "TTL or hop limit",
        number!(traffic.ttl, |text| values::whole(text, 1..=u8::MAX)),
    )
    .default("64"),
    Field::new(
        ("traffic", "dscp"),
        ("dscp", "N"),
        Kind::Count,
        TRAFFIC,
        "DSCP: 0 to 63, or the name of a class, such as EF, AF41 or CS6",
        number!(traffic.dscp, values::dscp),
    )
    .default("0"),
    Field::new(
        ("load", "rate"),
        ("rate", "RATE"),
        Kind::Text,
        TRAFFIC,
        "Packets or layer-1 bits a second over all lanes: 3.5Mpps, 250kpps, 1Gbps, 10% (of the link); bps, kbps, Mbps \
         and Gbps count preamble and inter-frame gap (20 bytes a frame) [default: as fast as the path takes packets]",
        Access {
            read: |plan, text| {
                plan.load.rate = Some(RateText::parse(text).map_err(|want| format!("want {want}"))?);
                Ok(())
            },
            write: |plan| plan.load.rate.as_ref().map(RateText::to_string).into(),
        },
    )
    .hyphen(),
    Field::new(
        ("load", "then"),
        ("then", "RATE@TIME"),
        Kind::Text,
        TRAFFIC,
        "Another rate from TIME after the start to the end, in one run with --rate: 500kpps@60s; not on xdp",
        may!(load.then, rate::step),
    )
    .hyphen(),
    Field::new(
        ("load", "pacing"),
        ("pacing", "HOW"),
        Kind::Text,
        TRAFFIC,
        "How departures are spread: constant, poisson, or burst=N (N packets back to back)",
        text!(load.pacing, values::pacing),
    )
    .default("constant"),
    Field::new(
        ("load", "catch_up"),
        ("catch-up", "TIME"),
        Kind::Text,
        TRAFFIC,
        "How far a lane may fall behind its schedule and catch up; what is older counts as missed",
        text!(load.catch_up, values::catch_up),
    )
    .hyphen()
    .default("5ms"),
    Field::new(
        ("load", "scale"),
        ("scale", "SHARE"),
        Kind::Text,
        TRAFFIC,
        "Multiply the rates of all streams by this, 1% to 1000%, but for those with scale = false: 50%; beside \
         --traffic or --packet",
        may!(load.scale, values::scale),
    )
    .hyphen()
    .only_with("packet")
    .sparse(),
    Field::new(
        ("selection", "streams"),
        ("packet", "PACKET"),
        Kind::Streams,
        LISTENERS,
        "Packet of any headers that a sender has as its --packet: packets are taken by the tag at their end (--seed), \
         whatever their addresses and ports (af_packet, af_xdp, xdp, dpdk, null, loop)",
        Access {
            read: |plan, text| {
                plan.selection.streams = Some(values::streams(text)?);
                Ok(())
            },
            write: |plan| match &plan.selection.streams {
                Some(streams) => streams.json(),
                None => Value::Null,
            },
        },
    )
    .sparse(),
    Field::new(
        ("selection", "take"),
        ("take", "WHICH"),
        Kind::Text,
        FORWARD,
        "Which frames to forward: foreign (all but those for this host's own addresses), udp (by --ip and --port), \
         all [default: foreign; udp with --ip or --port]",
        may!(selection.take, forward::take),
    ),
    Field::new(
        ("selection", "take"),
        ("take", "WHICH"),
        Kind::Text,
        CAPTURE,
        "Which frames to take from the host (af_xdp): foreign (all but those for the host's own addresses), udp, all \
         [default: those asked for by --ip, --port and --proto; else foreign]",
        may!(selection.take, forward::take),
    ),
    Field::new(
        ("selection", "ip"),
        ("ip", "IP"),
        Kind::Text,
        DROP,
        "Take only packets to this address, or to several (A-B, NET/BITS); mpps answers ARP and neighbour \
         solicitation for them if the host does not (Ethernet paths)",
        may!(selection.ip, values::addresses),
    ),
    Field::new(
        ("selection", "ip"),
        ("ip", "IP"),
        Kind::Text,
        REFLECT,
        "Take only packets to this address, or to several (A-B, NET/BITS); mpps answers ARP and neighbour \
         solicitation for them if the host does not (Ethernet paths) [default: the interface's own]",
        may!(selection.ip, values::addresses),
    ),
    Field::new(
        ("selection", "ip"),
        ("ip", "IP"),
        Kind::Text,
        FORWARD,
        "Forward only UDP packets from or to this address",
        may!(selection.ip, |text| values::ip(text).map(ranges::one)),
    ),
    Field::new(
        ("selection", "ip"),
        ("ip", "IP"),
        Kind::Text,
        CAPTURE,
        "Keep only packets from or to this address",
        may!(selection.ip, |text| values::ip(text).map(ranges::one)),
    ),
    Field::new(
        ("selection", "ports"),
        ("port", "A-B"),
        Kind::Text,
        DROP,
        "Take only packets to these UDP ports (Ethernet paths) [default: as for reflect]",
        may!(selection.ports, values::ports),
    ),
    Field::new(
        ("selection", "ports"),
        ("port", "A-B"),
        Kind::Text,
        REFLECT,
        "Take only packets to these UDP ports (Ethernet paths) [default: all; on one of the host's own addresses, \
         those below the ephemeral ports (net.ipv4.ip_local_port_range) that no program has open]",
        may!(selection.ports, values::ports),
    ),
    Field::new(
        ("selection", "ports"),
        ("port", "A-B"),
        Kind::Text,
        FORWARD,
        "Forward only UDP packets from or to these ports",
        may!(selection.ports, values::ports),
    ),
    Field::new(
        ("selection", "ports"),
        ("port", "A-B"),
        Kind::Text,
        CAPTURE,
        "Keep only UDP and TCP packets from or to these ports",
        may!(selection.ports, values::ports),
    ),
    Field::new(
        ("selection", "proto"),
        ("proto", "PROTO"),
        Kind::Text,
        CAPTURE,
        "Keep only packets of this protocol: udp, tcp, icmp (ICMPv6 too), arp, or an IP protocol's number",
        may!(selection.proto, capture::protocol),
    )
    .hyphen(),
    Field::new(
        ("forward", "mode"),
        ("mode", "MODE"),
        Kind::Text,
        FORWARD,
        "How to change frames: io (not at all), macswap (swap the MAC addresses), 5tswap (swap MAC addresses, IP \
         addresses, and UDP or TCP ports), l2fwd (source MAC: the sending port's; destination MAC: --dest-mac) \
         [default: io between the ports of a pair, macswap on a port without a partner]",
        may!(forward.mode, forward::mode),
    ),
    Field::new(
        ("forward", "dest_mac"),
        ("dest-mac", "MAC[,MAC…]"),
        Kind::Text,
        FORWARD,
        "Destination MAC address of sent frames (l2fwd): one for all ports, or one per sending port, in the order of \
         the ports",
        may!(forward.dest_mac, forward::macs),
    ),
    Field::new(
        ("forward", "drain"),
        ("drain", "TIME"),
        Kind::Text,
        FORWARD,
        "Hold frames until --burst of them have come or the oldest has waited this long, 0 to 10ms: bursts get \
         fuller, frames leave later",
        text!(forward.drain, values::drain),
    )
    .hyphen()
    .default("0"),
    Field::new(
        ("forward", "work"),
        ("work", "TIME[,…]"),
        Kind::Text,
        FORWARD,
        "Work that a lane does on each frame beside forwarding it, as a stand-in for a heavier program: a time for \
         which it spins, 0 to 100us, such as 200ns, and after a comma reads=N and writes=N (words at random places of \
         its memory, up to 1000 each) and memory=SIZE (up to 4GiB) [default: none; memory: 64MiB]",
        may!(forward.work, forward::work),
    ),
    Field::new(
        ("forward", "split_directions"),
        ("split-directions", ""),
        Kind::Flag,
        FORWARD,
        "Give each direction of a pair its own lanes: --lanes N means N per direction",
        flag!(forward.split_directions),
    ),
    Field::new(
        ("capture", "output"),
        ("output", "FILE"),
        Kind::Text,
        CAPTURE,
        "Write the packets to FILE as pcapng ('-': standard output, for a pipe: | tshark -r -)",
        Access {
            read: |plan, text| {
                plan.capture.output = Some(text.into());
                match text {
                    "" => Err("want FILE".to_owned()),
                    _ => Ok(()),
                }
            },
            write: |plan| plan.capture.output.as_ref().map(|path| path.to_string_lossy()).into(),
        },
    )
    .required('o'),
    Field::new(
        ("capture", "snap_len"),
        ("snap-len", "BYTES"),
        Kind::Count,
        CAPTURE,
        "Keep at most this many bytes of each packet, 1 to 262144",
        number!(capture.snap_len, capture::snap_len),
    )
    .default("262144"),
    Field::new(
        ("capture", "rotate_size"),
        ("rotate-size", "SIZE"),
        Kind::Text,
        CAPTURE,
        "Start a new file (FILE.1.pcapng, FILE.2.pcapng, …) before one grows larger than this: 100MB, 1GiB",
        may!(capture.rotate_size, capture::rotate_size),
    )
    .hyphen(),
    Field::new(
        ("capture", "max_files"),
        ("max-files", "N"),
        Kind::Count,
        CAPTURE,
        "Keep the newest N files and remove older ones; needs --rotate-size",
        may_number!(capture.max_files, |text| values::whole(text, 1..=1_000_000)),
    )
    .only_with("rotate-size"),
    Field::new(
        ("capture", "count"),
        ("count", "N"),
        Kind::Count,
        CAPTURE,
        "Stop after N packets",
        may_number!(capture.count, values::count),
    ),
    Field::new(
        ("capture", "buffer"),
        ("buffer", "SIZE"),
        Kind::Text,
        CAPTURE,
        "Memory per lane for packets not yet written, 1MiB to 16GiB: it bridges the pauses of a slow disk or reader",
        text!(capture.buffer, capture::buffer),
    )
    .hyphen()
    .default("32MiB"),
    Field::new(
        ("times", "duration"),
        ("duration", "TIME"),
        Kind::Text,
        ALL,
        "How long to run: a number with us, ms, s, m or h; 0: until interrupted [default: 10s; drop, reflect, forward \
         and capture: until interrupted]",
        may!(times.duration, values::duration),
    )
    .hyphen(),
    Field::new(
        ("times", "start_at"),
        ("start-at", "TIME"),
        Kind::Text,
        ALL,
        "When to start: +5s from now, a time of day (2026-11-29T18:00:00.25Z), or @NS since 1970; a method's first \
         trial starts then [default: once all is ready]",
        may!(times.start_at, values::start::start_at),
    )
    .hyphen(),
    Field::new(
        ("times", "interval"),
        ("interval", "TIME"),
        Kind::Text,
        ALL,
        "Length of one row of the time series, 100us to 1h",
        text!(times.interval, values::interval),
    )
    .hyphen()
    .default("100ms"),
    Field::new(
        ("times", "settle"),
        ("settle", "TIME"),
        Kind::Text,
        TRAFFIC,
        "How long a packet may take to come back; receiving goes on for this long at the end",
        text!(times.settle, values::settle),
    )
    .hyphen()
    .default("1s"),
    Field::new(
        ("times", "settle_early"),
        ("settle-early", ""),
        Kind::Flag,
        TRAFFIC,
        "End receiving before --settle is over, once every packet is back and nothing has come for 50 ms",
        flag!(times.settle_early),
    ),
    Field::new(
        ("lanes", "lanes"),
        ("lanes", "N"),
        Kind::Count,
        ALL,
        "Lanes: threads, each with its own queue; on xdp, sending threads, each with its own core [default: 1]",
        may_number!(lanes.lanes, values::lanes),
    ),
    Field::new(
        ("lanes", "tx_lanes"),
        ("tx-lanes", "N"),
        Kind::Count,
        TRAFFIC,
        "Lanes that only send; needs --rx-lanes, except with send",
        may_number!(lanes.tx_lanes, values::lanes),
    )
    .not_with("lanes"),
    Field::new(
        ("lanes", "rx_lanes"),
        ("rx-lanes", "N"),
        Kind::Count,
        TRAFFIC,
        "Lanes that only receive; needs --tx-lanes",
        may_number!(lanes.rx_lanes, values::lanes),
    )
    .not_with("lanes"),
    Field::new(
        ("lanes", "cores"),
        ("cores", "LIST"),
        Kind::Text,
        ALL,
        "Cores to pin the lanes to, in order: 0,2-3 [default: not pinned; xdp: the last ones]",
        may!(lanes.cores, values::cores),
    ),
    Field::new(
        ("lanes", "burst"),
        ("burst", "N"),
        Kind::Count,
        ALL,
        "Most frames moved in one call, 1 to 256; not on xdp [default: by path]",
        may_number!(lanes.burst, values::burst),
    ),
    Field::new(
        ("lanes", "tx_burst"),
        ("tx-burst", "N"),
        Kind::Count,
        TRAFFIC,
        "Most packets sent in one call, 1 to 256; not on xdp [default: --burst]",
        may_number!(lanes.tx_burst, values::burst),
    ),
    Field::new(
        ("lanes", "rx_burst"),
        ("rx-burst", "N"),
        Kind::Count,
        TRAFFIC,
        "Most frames received in one call, 1 to 256; sendrecv only, not on xdp [default: --burst]",
        may_number!(lanes.rx_burst, values::burst),
    ),
    Field::new(
        ("lanes", "on_full"),
        ("on-full", "HOW"),
        Kind::Text,
        REFLECT,
        "When the port does not take packets at once: wait (for room, up to 10 ms, receiving nothing meanwhile), or \
         drop (count them and receive on) [default: wait; xdp: drop]",
        may!(lanes.on_full, values::on_full),
    ),
    Field::new(
        ("lanes", "on_full"),
        ("on-full", "HOW"),
        Kind::Text,
        FORWARD,
        "When a port does not take frames at once: wait (for room, up to 10 ms, receiving nothing meanwhile), or drop \
         (count them and receive on, as DPDK's l2fwd does) [default: wait; xdp: drop]",
        may!(lanes.on_full, values::on_full),
    ),
    Field::new(
        ("lanes", "busy_poll"),
        ("busy-poll", ""),
        Kind::Flag,
        ALL,
        "Never sleep, even when idle: for cores that nothing else uses; not on xdp",
        flag!(lanes.busy_poll),
    ),
    Field::new(
        ("lanes", "nice"),
        ("nice", "N"),
        Kind::Integer,
        ALL,
        "Nice value of the lanes' threads, -20 to 19: below 0 the scheduler takes the core from others for them \
         (root)",
        may_number!(lanes.nice, values::nice),
    )
    .not_with("fifo"),
    Field::new(
        ("lanes", "fifo"),
        ("fifo", "PRIO"),
        Kind::Count,
        ALL,
        "Real-time priority of the lanes' threads, 1 to 99 (SCHED_FIFO; root): no other thread takes the core, but \
         where one waits the kernel takes it for 50 ms of each second; not with --busy-poll, unless that is switched \
         off",
        may_number!(lanes.fifo, values::fifo),
    ),
    Field::new(
        ("checks", "tolerance"),
        ("tolerance", "RATIO"),
        Kind::Text,
        TRAFFIC,
        "How far the offered rate of a valid trial may differ from the intended one: 0.1% or 0.001",
        text!(checks.tolerance, values::ratio),
    )
    .hyphen()
    .default("0.1%"),
    Field::new(
        ("checks", "no_verify"),
        ("no-verify", ""),
        Kind::Flag,
        DROP,
        "Count every UDP packet as received, stamped or not",
        flag!(checks.no_verify),
    ),
    Field::new(
        ("checks", "max_flows"),
        ("max-flows", "N"),
        Kind::Count,
        DROP,
        "Number of flows to follow by sequence number",
        number!(checks.max_flows, values::flows),
    )
    .default("4096"),
    Field::new(
        ("device", "eal"),
        ("eal", "ARGS"),
        Kind::Text,
        ALL,
        "Arguments for DPDK's environment abstraction layer, quoted as one: \"--no-huge -m 512\" (dpdk)",
        Access {
            read: |plan, text| {
                plan.device.eal = Some(text.to_owned());
                Ok(())
            },
            write: |plan| plan.device.eal.as_deref().into(),
        },
    )
    .hyphen(),
    Field::new(
        ("device", "flow_rules"),
        ("flow", "RULE"),
        Kind::Texts,
        ALL,
        "Flow rule in testpmd's syntax, set on each port for the length of the run: \"ingress pattern eth / ipv4 / \
         udp / end actions queue index 0 / end\"; may be given more than once (dpdk; ntuple filters on af_packet, \
         af_xdp, xdp)",
        Access {
            read: |plan, text| {
                plan.device.flow_rules.push(text.to_owned());
                Ok(())
            },
            write: |plan| plan.device.flow_rules.as_slice().into(),
        },
    ),
];
