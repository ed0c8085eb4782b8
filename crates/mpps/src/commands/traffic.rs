//! `traffic`: checks traffic files, shows and writes the packets that they describe.

use crate::cli::{Looked, TrafficAction};
use crate::fail::{Result, print, print_words, printable, unwritable, usage};
use crate::traffic_file::TrafficText;
use mpps_report::{CaptureHeader, JsonTarget, pcapng_of, same_file};
use mpps_run::privilege::as_user;
use mpps_run::replay::{LastRead, Replayed};
use mpps_stats::count;
use mpps_traffic::{Form, Moment, Packet, Pcap, Stream, Tag, Traffic, Wrong, in_order, schema};
use std::path::Path;
use std::process::ExitCode;
use std::time::SystemTime;

/// Most bytes of packets in a capture file, which is made in memory.
const MOST_BYTES: u64 = 1 << 30;

/// Runs the command.
pub(crate) fn run(action: &TrafficAction) -> Result<ExitCode> {
    match action {
        TrafficAction::Check(of) => check(of)?,
        TrafficAction::Show { of, packets } => show(of, *packets)?,
        TrafficAction::Pcap { of, packets, output } => as_user(|| pcap(of, *packets, output))?,
        TrafficAction::Schema => print_words(|out| writeln!(out, "{:#}", schema()))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads traffic, and works out the forms of the packets that are made.
fn read(of: &Looked) -> Result<(Traffic, Vec<Form>)> {
    if let Some(text) = &of.packet {
        return of_packet(of, text);
    }
    let file = TrafficText::read(of.file.as_deref().unwrap_or(Path::new("-")))?;
    let traffic = file.traffic(&of.set)?;
    file.check_captures(&traffic)?;
    let forms = traffic.forms(of.seed).map_err(|wrong| file.refused(&wrong))?;
    Ok((traffic, forms))
}

fn of_packet(of: &Looked, text: &str) -> Result<(Traffic, Vec<Form>)> {
    let located = |wrong: Wrong| usage(format!("--packet: column {}: {}", wrong.position(text).1, wrong.line));
    let packet = Packet::parse(text).map_err(located)?;
    let mut traffic = Traffic::of_packet(packet);
    if let Some(size) = &of.frame_size {
        let size = mpps_traffic::Size::parse(size).map_err(|wrong| usage(format!("--frame-size: {}", wrong.line)))?;
        traffic.streams[0].size = Some(size);
    }
    let forms = traffic.forms(of.seed).map_err(located)?;
    Ok((traffic, forms))
}

/// Prints a line for each stream.
fn check(of: &Looked) -> Result<()> {
    let (traffic, forms) = read(of)?;
    let mut forms = forms.iter();
    let mut lines = Vec::new();
    for stream in &traffic.streams {
        match &stream.pcap {
            Some(pcap) => lines.push(captured(stream, pcap, of.seed)?),
            None => lines.extend(forms.next().map(|form| made_line(stream, form))),
        }
    }
    print(|out| lines.iter().try_for_each(|line| writeln!(out, "{line}")))
}

/// Returns a line on a stream whose packets are made.
fn made_line(stream: &Stream, form: &Form) -> String {
    let (smallest, largest) = form.sizes();
    let sizes = match smallest == largest {
        true => format!("{smallest} bytes"),
        false => format!("{smallest} to {largest} bytes, {:.1} on average", form.mean_size()),
    };
    let varies: Vec<String> = form
        .varies()
        .iter()
        .filter_map(|vary| vary.described(form.flows()))
        .collect();
    let varies = match varies.is_empty() {
        true => "nothing varies".to_owned(),
        false => format!("varying: {}", varies.join(", ")),
    };
    format!(
        "{}: {} flow{}, {sizes}, {} bytes of headers; {varies}",
        stream.name,
        form.flows(),
        if form.flows() == 1 { "" } else { "s" },
        form.header_len()
    )
}

/// Reads the capture of a stream, and returns a line on it.
fn captured(stream: &Stream, pcap: &Pcap, seed: u64) -> Result<String> {
    let read = as_user(|| Ok(Replayed::read(pcap, (true, true), 1, seed, &mut LastRead::default())))?;
    let read = read.map_err(|why| usage(format!("stream {}: {why}", stream.name)))?;
    let (facts, frames) = (&read.facts, &read.frames);
    let (smallest, largest) = read.sizes();
    let tagged = match stream.tag {
        Tag::Tail => "tagged",
        Tag::Tcp | Tag::None => "with room for a tag",
    };
    Ok(format!(
        "{}: capture {}: {} packets of {} in {:.6} s, {smallest} to {largest} bytes, {:.1} on average; {} {tagged}",
        stream.name,
        printable(&pcap.path),
        count(facts.packets),
        count(facts.read),
        facts.span_ns as f64 / 1e9,
        read.mean_size(),
        count(frames.tagged()),
    ))
}

/// Returns the streams whose packets are made, and says which are left out.
fn made(traffic: &Traffic) -> Result<Traffic> {
    let made = traffic.without_captures();
    let captured = || {
        traffic
            .streams
            .iter()
            .filter_map(|stream| Some((stream, stream.pcap.as_ref()?)))
    };
    if let (true, Some((stream, pcap))) = (made.streams.is_empty(), captured().next()) {
        return Err(usage(format!(
            "stream {}: its packets are in {}: want mpps traffic pcap, which has them as they are sent",
            stream.name,
            printable(&pcap.path)
        )));
    }
    for (stream, pcap) in captured() {
        eprintln!(
            "note: stream {} is left out: its packets are in {}",
            stream.name,
            printable(&pcap.path)
        );
    }
    Ok(made)
}

/// Prints the first packets.
fn show(of: &Looked, packets: u32) -> Result<()> {
    let (traffic, forms) = read(of)?;
    let several = traffic.streams.len() > 1;
    let traffic = made(&traffic)?;
    print(|out| {
        for due in in_order(&traffic, &forms).take(packets as usize) {
            if several {
                write!(out, "{} ", traffic.streams[due.stream].name)?;
            }
            writeln!(out, "{}", forms[due.stream].line(due.n))?;
        }
        Ok(())
    })
}

/// Writes the first packets to a file.
fn pcap(of: &Looked, packets: u32, output: &Path) -> Result<()> {
    let (traffic, forms) = read(of)?;
    if let [stream] = &traffic.streams[..]
        && let Some(pcap) = &stream.pcap
    {
        return pcap_of((stream, pcap), of, packets, output);
    }
    let traffic = made(&traffic)?;
    let largest = forms.iter().map(|form| form.sizes().1).max().unwrap_or_default();
    if u64::from(packets) * largest > MOST_BYTES {
        let most = MOST_BYTES / largest.max(1);
        return Err(usage(format!(
            "-n {packets}: want {most} packets of up to {largest} bytes at most"
        )));
    }
    if let Some(file) = of.file.as_deref().filter(|file| same_file(file, output)) {
        return Err(usage(format!(
            "-o {}: it is the traffic file {}",
            output.display(),
            file.display()
        )));
    }
    let target = JsonTarget::prepare(output).map_err(|error| unwritable("-o", &error))?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let start_ns = now.map_or(0, |since| since.as_nanos() as u64);
    let made = in_order(&traffic, &forms).take(packets as usize).map(|due| {
        let moment = Moment {
            run: 0,
            time_ns: due.at_ns,
        };
        (
            start_ns.saturating_add(due.at_ns),
            forms[due.stream].packet(due.n, moment),
        )
    });
    let file = pcapng_of(header_of(of), made);
    Ok(target.write_bytes(&file)?)
}

/// Writes the first packets of a capture, as they are sent.
fn pcap_of((stream, pcap): (&Stream, &Pcap), of: &Looked, packets: u32, output: &Path) -> Result<()> {
    let pcap = &Pcap {
        ahead: false,
        ..pcap.clone()
    };
    let read = Replayed::read(
        pcap,
        (stream.tag == Tag::Tail, false),
        1,
        of.seed,
        &mut LastRead::default(),
    );
    let replayed = read.map_err(|why| usage(format!("stream {}: {why}", stream.name)))?;
    if same_file(Path::new(&pcap.path), output) {
        return Err(usage(format!(
            "-o {}: it is the capture of stream {}",
            output.display(),
            stream.name
        )));
    }
    let target = JsonTarget::prepare(output).map_err(|error| unwritable("-o", &error))?;
    let mut bytes = 0;
    let made = (0..u64::from(packets))
        .map_while(|n| replayed.packet(n, 0))
        .take_while(|(_, frame)| {
            bytes += frame.len() as u64;
            bytes <= MOST_BYTES
        });
    let file = pcapng_of(header_of(of), made);
    Ok(target.write_bytes(&file)?)
}

fn header_of(of: &Looked) -> CaptureHeader {
    CaptureHeader {
        interface: "traffic".into(),
        description: of
            .file
            .as_ref()
            .map_or_else(String::new, |file| file.display().to_string()),
        snap_len: u32::from(u16::MAX) + 18,
        application: format!("mpps {}", env!("CARGO_PKG_VERSION")),
        ..CaptureHeader::default()
    }
}
