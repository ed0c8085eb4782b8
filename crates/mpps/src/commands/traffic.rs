//! `traffic`: checks traffic files, shows and writes the packets that they describe.

use crate::cli::{Looked, TrafficAction};
use crate::fail::{Result, print, print_words, unwritable, usage};
use mpps_report::{CaptureHeader, JsonTarget, pcapng_of, same_file};
use mpps_run::privilege::as_user;
use mpps_traffic::{Form, LONGEST, Moment, Packet, Traffic, Wrong, in_order, schema};
use std::fs::File;
use std::io::{self, Read};
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

/// Reads traffic, and works out the forms of its packets.
fn read(of: &Looked) -> Result<(Traffic, Vec<Form>)> {
    if let Some(text) = &of.packet {
        return of_packet(of, text);
    }
    let set = of.set.iter().map(|pair| match pair.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => Err(usage(format!("--set {pair}: want NAME=VALUE"))),
    });
    let set = set.collect::<Result<Vec<_>>>()?;
    let file = of.file.as_deref().unwrap_or(Path::new("-"));
    let (name, text) = as_user(|| text_of(file))?;
    let located = |wrong: Wrong| match wrong.at.is_empty() {
        true if wrong.at.start == 0 => usage(format!("{name}: {}", wrong.line)),
        _ => usage(wrong.in_file(&name, &text)),
    };
    let traffic = Traffic::parse(&text, &set).map_err(located)?;
    let forms = traffic.forms(of.seed).map_err(located)?;
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

/// Returns the name and the text of a file, which is no longer than traffic may be.
fn text_of(file: &Path) -> Result<(String, String)> {
    let name = match file == Path::new("-") {
        true => "standard input".to_owned(),
        false => file.display().to_string(),
    };
    let mut text = Vec::new();
    let most = LONGEST as u64 + 1;
    let read = match file == Path::new("-") {
        true => io::stdin().lock().take(most).read_to_end(&mut text),
        false => File::open(file).and_then(|file| file.take(most).read_to_end(&mut text)),
    };
    read.map_err(|error| usage(format!("{name}: {error}")))?;
    match String::from_utf8(text) {
        Ok(text) => Ok((name, text)),
        Err(_) => Err(usage(format!("{name}: want a text in UTF-8"))),
    }
}

/// Prints a line for each stream.
fn check(of: &Looked) -> Result<()> {
    let (traffic, forms) = read(of)?;
    print(|out| {
        for (stream, form) in traffic.streams.iter().zip(&forms) {
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
            writeln!(
                out,
                "{}: {} flow{}, {sizes}, {} bytes of headers; {varies}",
                stream.name,
                form.flows(),
                if form.flows() == 1 { "" } else { "s" },
                form.header_len()
            )?;
        }
        Ok(())
    })
}

/// Prints the first packets.
fn show(of: &Looked, packets: u32) -> Result<()> {
    let (traffic, forms) = read(of)?;
    let several = traffic.streams.len() > 1;
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
    let header = CaptureHeader {
        interface: "traffic".into(),
        description: of
            .file
            .as_ref()
            .map_or_else(String::new, |file| file.display().to_string()),
        snap_len: u32::from(u16::MAX) + 18,
        application: format!("mpps {}", env!("CARGO_PKG_VERSION")),
        ..CaptureHeader::default()
    };
    let file = pcapng_of(header, made);
    Ok(target.write_bytes(&file)?)
}
