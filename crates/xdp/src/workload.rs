//! The programs of each workload: their constants, the sizes of their maps, and what a sender has beside.

use crate::abi::{FlowAddresses, FlowPorts, Image, Lane, MOST_WRITERS, Plan, SETS, TIMES_KEPT, bytes_of};
use crate::load::Which;
use crate::open::{BATCH, Order, XdpDevice, check_transmit, load, possible_cpus};
use crate::port::{Departure, Sending, Windows, XdpPort};
use crate::spec::{Arrival, DropSpec, ReflectSpec, StreamSpec, TrafficSpec};
use crate::{encode, sys};
use mpps_io::kernel::KernelPort;
use mpps_io::{Error, ErrorKind, Fact, Result, addresses};
use mpps_sys::map::{Mapping, Shared};
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};

/// Time that packets may wait for the others of their batch, s.
const BATCH_S: f64 = 8e-6;

/// Words of the flows' windows of sequence numbers.
fn window_words(plan: &Plan, spec: &TrafficSpec) -> u32 {
    if spec.receive {
        plan.flows * plan.window_words
    } else {
        1
    }
}

/// Departures of which it is kept how late they were.
fn slips(plan: &Plan) -> u32 {
    if plan.slips > 1 { plan.flows * plan.slips } else { 1 }
}

/// Send times that are kept of packets without a schedule.
fn times(spec: &TrafficSpec) -> u32 {
    if spec.receive && spec.rate_pps.is_none() {
        (spec.cores.len() * spec.streams.len().max(1)).max(1) as u32 * TIMES_KEPT
    } else {
        1
    }
}

/// Returns the error if an image has more fields than the programs have room for.
fn too_many() -> Error {
    let cause = format!("want {MOST_WRITERS} fields that vary at the most, or af_xdp");
    Error::new("set up", "xdp", cause, ErrorKind::Unsupported)
}

/// Gives each flow its ports.
fn set_ports(places: &[FlowPorts], flows: u32, spec: &TrafficSpec) {
    for (flow, ports) in (0..flows).zip(places.iter()) {
        let (source, destination) = as_it_leaves(spec, spec.flows.ports(flow));
        ports.source.store(source.swap_bytes(), Relaxed);
        ports.destination.store(destination.swap_bytes(), Relaxed);
    }
}

/// Gives each flow its addresses, and the sums that depend on them.
fn set_addresses(places: &[FlowAddresses], ports: &[FlowPorts], plan: &Plan, spec: &TrafficSpec) {
    let put = |places: &[AtomicU32; 4], ip| {
        places
            .iter()
            .zip(encode::words(ip))
            .for_each(|(place, word)| place.store(word, Relaxed));
    };
    let header = &spec.headers[plan.l3 as usize..];
    for (flow, (ports, between)) in (0..plan.flows).zip(ports.iter().zip(places.iter())) {
        let (src, dst) = as_it_leaves(spec, spec.flows.addresses(flow));
        let (src, dst) = (addresses::at(spec.src, src), addresses::at(spec.dst, dst));
        let (sum, check) = encode::sums(plan, header, src, dst);
        ports.sum.store(sum, Relaxed);
        ports.check.store(check, Relaxed);
        put(&between.source, src);
        put(&between.destination, dst);
    }
}

/// Returns the two of a pair, source first, as they are when a packet leaves: on the way back of two they change
/// places.
fn as_it_leaves<T>(spec: &TrafficSpec, (a, b): (T, T)) -> (T, T) {
    match spec.arrival {
        Arrival::AcrossBack => (b, a),
        Arrival::Back | Arrival::Across => (a, b),
    }
}

/// Packets of any headers, as the programs have them: constants, the words of their tables, the program that sends.
struct Made {
    constants: Vec<encode::Constant>,
    tables: Vec<u64>,
    /// Sizes of streams, in turn.
    turns: Vec<u64>,
    program: &'static str,
    tagged: bool,
}

impl Made {
    fn of(spec: &TrafficSpec) -> Result<Self> {
        if !spec.streams.is_empty() {
            let encode::Streams {
                streams,
                images,
                sized,
                tables,
                turns,
            } = encode::streams(spec).ok_or_else(too_many)?;
            return Ok(Self {
                constants: vec![
                    ("STREAMS", bytes_of(&streams)),
                    ("IMAGES", bytes_of(&images)),
                    ("SIZED", bytes_of(&sized)),
                ],
                tables,
                turns,
                program: "send_mixed",
                tagged: true,
            });
        }
        let Some(packet) = &spec.packet else {
            return Ok(Self {
                constants: Vec::new(),
                tables: Vec::new(),
                turns: Vec::new(),
                program: "send",
                tagged: false,
            });
        };
        let (image, tables): (Image, _) = encode::image(packet).ok_or_else(too_many)?;
        Ok(Self {
            constants: vec![("IMAGE", bytes_of(&image))],
            tables,
            turns: Vec::new(),
            program: "send_tagged",
            tagged: true,
        })
    }

    /// Entries of the map of tables.
    fn words(&self) -> u32 {
        self.tables.len().max(1) as u32
    }
}

/// Gives each lane its flows and its headers; of several streams, each of their lanes.
fn aim_mixed(sending: &Sending, spec: &TrafficSpec, (first_writer, places): (u32, u32)) {
    let streams = spec.streams.len();
    for (number, core) in spec.cores.iter().enumerate() {
        let writer = first_writer + number as u32 * (places - 1);
        let Some(clock) = sending.lane(*core, None) else {
            continue;
        };
        clock.done.store(0, Relaxed);
        clock.number.store(number as u32, Relaxed);
        clock.writer.store(writer, Relaxed);
        for (place, stream) in spec.streams.iter().enumerate() {
            let Some(lane) = sending.lane(*core, Some(place)) else {
                continue;
            };
            let (flows, seats) = (u64::from(stream.flows()), stream.lanes.len().max(1) as u64);
            let first = |seat: usize| (seat as u64 * flows / seats) as u32;
            let Some(seat) = stream.lanes.iter().position(|lane| *lane == number) else {
                continue;
            };
            lane.done.store(0, Relaxed);
            lane.first_flow.store(stream.first_flow() + first(seat), Relaxed);
            lane.flow_step.store(1, Relaxed);
            lane.flows.store(first(seat + 1) - first(seat), Relaxed);
            lane.number.store((number * streams + place) as u32, Relaxed);
            lane.writer.store(writer + place as u32, Relaxed);
            lane.run.store(spec.run.into(), Relaxed);
            set_headers(lane, &stream.packets[0].headers);
        }
    }
}

/// Gives a lane the headers of its packets, as much of them as it has room for.
fn set_headers(lane: &Lane, headers: &[u8]) {
    let mut padded = headers.to_vec();
    padded.resize(size_of_val(&lane.headers), 0);
    for (word, bytes) in lane.headers.iter().zip(padded.as_chunks::<8>().0) {
        word.store(u64::from_ne_bytes(*bytes), Relaxed);
    }
}

/// Gives each lane its flows and its headers.
fn aim(sending: &Sending, spec: &TrafficSpec, (first_writer, places): (u32, u32)) {
    let (flows, lanes) = (spec.flows.count(), spec.cores.len());
    // With the UDP header: its ports and checksum are each packet's own.
    let mut headers = spec.headers.clone();
    if spec.packet.is_none() {
        headers.extend([0, 0, 0, 0]);
        headers.extend(((8 + spec.payload_len) as u16).to_be_bytes());
    }
    // Should a thread be moved to another core while it sends, that core's lane has nothing to send.
    sending.lanes.iter().for_each(|lane| lane.done.store(1, Relaxed));
    if !spec.streams.is_empty() {
        return aim_mixed(sending, spec, (first_writer, places));
    }
    for (number, core) in spec.cores.iter().enumerate() {
        let number = number as u32;
        let Some(lane) = sending.lanes.get(*core) else { continue };
        lane.done.store(0, Relaxed);
        // Neighbours in memory belong to one lane, so that lanes don't take each other's cache lines.
        let first = |lane: u32| (u64::from(lane) * u64::from(flows) / lanes as u64) as u32;
        lane.first_flow.store(first(number), Relaxed);
        lane.flow_step.store(1, Relaxed);
        lane.flows.store(first(number + 1) - first(number), Relaxed);
        lane.number.store(number, Relaxed);
        lane.run.store(spec.run.into(), Relaxed);
        lane.writer.store(first_writer + number, Relaxed);
        set_headers(lane, &headers);
    }
}

impl XdpDevice {
    /// Loads the programs of `sendrecv` or `send` on one device.
    ///
    /// # Errors
    /// When the kernel or the driver refuses.
    pub fn traffic(self, spec: &TrafficSpec) -> Result<XdpPort> {
        let port = self.clone().traffic_to(self, spec)?;
        port.check_departure()?;
        Ok(port)
    }

    /// Loads the programs for packets that leave by this device and are received at `to`, which alone gets an XDP
    /// program.
    fn traffic_to(self, to: Self, spec: &TrafficSpec) -> Result<XdpPort> {
        let from = Departure {
            device: self.device,
            name: self.config.device,
        };
        let fixed_batch = self.config.batch;
        let cpus = possible_cpus();
        let lanes = spec.cores.len();
        let gaps = (lanes.max(1) * crate::abi::OCTAVES) as u32;
        let made = Made::of(spec)?;
        let all_lanes = cpus * stride(spec);
        let order = Order {
            which: Which::Traffic,
            series: spec.series,
            complete: &|plan, _| {
                encode::traffic(plan, spec)?;
                plan.device[0] = from.device.ifindex;
                let made = made.constants.iter().cloned();
                Ok(made.chain([("EXPONENTIAL", encode::exponential())]).collect())
            },
            entries: &|plan| {
                vec![
                    ("LANES_BY_CPU", all_lanes),
                    ("FLOW_PORTS", plan.flows),
                    ("FLOW_ADDRESSES", if spec.flows.is_plain() { 1 } else { plan.flows }),
                    ("FLOW_WINDOWS", plan.flows),
                    ("WINDOWS", window_words(plan, spec)),
                    ("SLIPS", slips(plan)),
                    ("TIMES", times(spec)),
                    ("GAPS", gaps),
                    ("TABLES", made.words()),
                    ("TURNS", made.turns.len().max(1) as u32),
                ]
            },
            programs: if made.tagged { &["receive_tagged"] } else { &["receive"] },
            lanes,
            kinds: match (spec.receive, spec.rate_pps) {
                (false, _) => 0,
                (true, None) => 1,
                (true, Some(_)) => 2,
            },
            answers: true,
        };
        let mut port = load(vec![to], &order)?;
        let rate = spec.rate_pps.map(|pps| pps / lanes.max(1) as f64);
        let batch = fixed_batch.unwrap_or_else(|| batch_of(rate));
        let plan = &port.plan;
        let (flows, first_writer) = (plan.flows, encode::writers(plan.sources, 0, plan.places).0);
        let (words, slips) = (window_words(plan, spec), slips(plan));
        let loaded = port.loaded.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        sys::make_interruptible();
        let sending = Sending {
            send: loaded.xdp(made.program)?,
            inject: loaded.xdp("inject")?,
            cores: spec.cores.clone(),
            lanes: loaded.map("LANES_BY_CPU", all_lanes)?,
            gaps: loaded.map("GAPS", gaps)?,
            ports: loaded.map("FLOW_PORTS", flows)?,
            threads: (0..lanes).map(|_| AtomicI32::new(0)).collect(),
            batch: AtomicU32::new(batch),
            fixed_batch: fixed_batch.is_some(),
            windows: Windows {
                flows: loaded.map("FLOW_WINDOWS", flows)?,
                words: loaded.map("WINDOWS", words)?,
                slips: loaded.map("SLIPS", slips)?,
            },
            spec: spec.clone(),
            from,
        };
        if made.tagged {
            let places: Mapping<AtomicU64> = loaded.map("TABLES", made.words())?;
            places
                .iter()
                .zip(&made.tables)
                .for_each(|(place, word)| place.store(*word, Relaxed));
            let turns: Mapping<AtomicU64> = loaded.map("TURNS", made.turns.len().max(1) as u32)?;
            turns
                .iter()
                .zip(&made.turns)
                .for_each(|(place, turn)| place.store(*turn, Relaxed));
        } else {
            set_ports(&sending.ports, flows, spec);
        }
        if !made.tagged && !spec.flows.is_plain() {
            set_addresses(&loaded.map("FLOW_ADDRESSES", flows)?, &sending.ports, plan, spec);
        }
        aim(&sending, spec, (first_writer, plan.places));
        if lanes > 0 {
            port.facts.push(Fact::new("batch", batch.to_string()));
        }
        port.sending = Some(sending);
        Ok(port)
    }

    /// Loads the program of `reflect`.
    ///
    /// # Errors
    /// As [`XdpDevice::traffic`].
    pub fn reflect(self, spec: &ReflectSpec) -> Result<XdpPort> {
        let order = Order {
            which: Which::Reflect,
            series: spec.series,
            complete: &|plan, _| {
                let mut constants = encode::taken(plan, &spec.taken)?;
                constants.push(encode::unanswered(&spec.unanswered));
                if let Some(seed) = spec.tagged {
                    encode::tagged(plan, seed);
                }
                Ok(constants)
            },
            entries: &|plan| vec![("SEEN", plan.sources * SETS), ("RETURNED", plan.sources)],
            programs: if spec.tagged.is_some() {
                &["reflect_tagged"]
            } else {
                &["reflect"]
            },
            lanes: 0,
            kinds: 0,
            answers: false,
        };
        load(vec![self], &order)
    }

    /// Loads the program of `drop`.
    ///
    /// # Errors
    /// As [`XdpDevice::traffic`].
    pub fn drop(self, spec: &DropSpec) -> Result<XdpPort> {
        let sizes = encode::FlowSizes::of(spec.max_flows);
        sizes.check(&self.config.device, encode::available_memory())?;
        let order = Order {
            which: Which::Drop,
            series: spec.series,
            complete: &|plan, _| {
                encode::dropping(plan, spec, sizes);
                let mut constants = encode::taken(plan, &spec.taken)?;
                constants.extend(encode::ends(plan, &spec.streams));
                Ok(constants)
            },
            entries: &|plan| {
                vec![
                    ("TABLE", plan.table),
                    ("FLOWS", plan.max_flows),
                    ("DOUBTS", plan.max_flows),
                    ("WINDOWS", plan.max_flows * plan.window_words),
                ]
            },
            programs: if spec.tagged.is_some() {
                &["drop_tagged"]
            } else {
                &["drop"]
            },
            lanes: 0,
            kinds: u32::from(spec.followed()),
            answers: false,
        };
        let mut port = load(vec![self], &order)?;
        let loaded = port.loaded.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        port.flows = Some(loaded.map("FLOW_COUNT", 1)?);
        Ok(port)
    }
}

/// Loads the programs of `sendrecv` from one device to another: those of the way there, and those of the way back. One
/// way, the latter have no lanes, and no packet is received by them: they answer at the first device, and hear.
///
/// # Errors
/// When the kernel or a driver refuses.
pub fn across([from, to]: [XdpDevice; 2], [there, back]: &[TrafficSpec; 2]) -> Result<[XdpPort; 2]> {
    let mut there = from.clone().traffic_to(to.clone(), there)?;
    let mut back = to.traffic_to(from, back)?;
    // A driver may send what programs give it only while it has one itself.
    there.check_departure()?;
    back.check_departure()?;
    // The fact `batch` is shown with the device that packets are made for.
    let batch = |port: &mut XdpPort| {
        let place = port.facts.iter().position(|fact| fact.name == "batch");
        place.map(|place| port.facts.remove(place))
    };
    let batches = [batch(&mut back), batch(&mut there)];
    for (port, fact) in [&mut there, &mut back].into_iter().zip(batches) {
        port.facts.extend(fact);
    }
    Ok([there, back])
}

/// Lanes that a CPU has: one; of several streams one for each, and one that keeps the time.
fn stride(spec: &TrafficSpec) -> u32 {
    match spec.streams.len() as u32 {
        0 => 1,
        streams => streams + 1,
    }
}

/// Frames that are made at a time: few if packets leave one by one, so that none waits long for the others.
fn batch_of(lane_pps: Option<f64>) -> u32 {
    let Some(pps) = lane_pps else { return BATCH };
    ((pps * BATCH_S) as u32).next_power_of_two().clamp(4, BATCH)
}

impl XdpPort {
    /// Refuses a device that does not send what its lanes give it.
    fn check_departure(&self) -> Result<()> {
        match &self.sending {
            Some(sending) if !sending.cores.is_empty() => check_transmit(&sending.from.device),
            _ => Ok(()),
        }
    }

    /// Makes programs of `sendrecv` and `send` ready for another trial, as if they had been loaded for it: nothing of
    /// the trial before is left in their maps. The address that was heard stays. False: they were not made for such a
    /// trial, and are as they were. It must be over.
    ///
    /// Programs are made for trials that differ in rate and length alone: paced ones up to the rate of the first, or
    /// ones that are not paced.
    pub fn renew(&mut self, spec: &TrafficSpec) -> bool {
        let Some(sending) = &self.sending else { return false };
        let made_for = &sending.spec;
        let slower = |rate: Option<f64>, most: Option<f64>| match (rate, most) {
            (Some(rate), Some(most)) => rate <= most,
            (rate, most) => rate == most,
        };
        let streams = || spec.streams.iter().zip(&made_for.streams);
        let slower = slower(spec.rate_pps, made_for.rate_pps)
            && streams().all(|(of, made_for)| slower(of.rate_pps, made_for.rate_pps));
        let like_it = TrafficSpec {
            rate_pps: made_for.rate_pps,
            run: made_for.run,
            streams: streams()
                .map(|(of, made_for)| StreamSpec {
                    rate_pps: made_for.rate_pps,
                    ..of.clone()
                })
                .chain(spec.streams.iter().skip(made_for.streams.len()).cloned())
                .collect(),
            ..spec.clone()
        };
        if !slower || like_it != *made_for {
            return false;
        }
        // One that sends nothing, as it only answers, is not begun, and counts all the same.
        if self.begun.swap(false, Relaxed) || spec.cores.is_empty() {
            self.forget(sending);
        }
        let first_writer = encode::writers(self.plan.sources, 0, self.plan.places).0;
        aim(sending, spec, (first_writer, self.plan.places));
        if !sending.fixed_batch {
            let rate = spec.rate_pps.map(|pps| pps / spec.cores.len().max(1) as f64);
            sending.batch.store(batch_of(rate), Relaxed);
        }
        self.end_ns.store(u64::MAX, Relaxed);
        self.looked_at.store(0, Relaxed);
        let run = &self.run[0];
        run.start_ns.store(0, Relaxed);
        run.end_ns.store(u64::MAX, Relaxed);
        run.stopped.store(0, Release);
        true
    }

    /// Empties the maps.
    fn forget(&self, sending: &Sending) {
        fn clear<T: Shared>(map: &Mapping<T>) {
            // SAFETY: between two trials no thread of this process looks at the maps: the thread that begins a trial
            // has the port to itself.
            unsafe { map.clear() };
        }
        // Programs that run now count nothing any more.
        self.stop();
        clear(&sending.windows.flows);
        clear(&sending.windows.words);
        clear(&sending.windows.slips);
        clear(&sending.gaps);
        clear(&sending.lanes);
        clear(&self.rows);
        clear(&self.sources);
        clear(&self.refused);
        if let Some(histograms) = &self.histograms {
            clear(histograms);
        }
    }
}
