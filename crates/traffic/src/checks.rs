//! Faults that several streams have together, or that only a run has. Each is refused at its place in the file.

use crate::file::Traffic;
use crate::form::Form;
use crate::node::Node;
use crate::stream::{CAPTURED, Load, Stream};
use crate::text::{Read, Wrong, did_you_mean, quoted};
use mpps_wire::TAG_FLOWS;
use std::collections::BTreeMap;

impl Stream {
    /// Returns the fault of a packet, at its place in the file, or in the packet's text if it is from no file.
    fn located(&self, wrong: Wrong) -> Wrong {
        match (self.text_at, self.at.is_empty()) {
            (_, true) => wrong,
            // The whole packet is the stream's.
            (Some(from), _) if wrong.at != (0..self.packet.text.len()) => {
                Wrong::new(from + wrong.at.start..from + wrong.at.end, wrong.line)
            }
            _ => Wrong::new(self.at.clone(), wrong.line),
        }
    }

    /// Returns whether it says itself how fast it is.
    fn is_rated(&self) -> bool {
        match self.load {
            Load::Rate(_) => true,
            Load::Most => self.burst.is_some() || self.is_timed(),
            Load::Weight(_) => false,
        }
    }
}

impl Traffic {
    /// Works out the forms of all streams whose packets are made ([`Traffic::without_captures`]).
    ///
    /// # Errors
    /// Names a fault of a packet, at the place of its text in the file, or in the packet's text if it is from no
    /// file.
    pub fn forms(&self, seed: u64) -> Result<Vec<Form>, Wrong> {
        let mut forms = Vec::with_capacity(self.streams.len());
        let mut flows = 0;
        for stream in self.streams.iter().filter(|stream| stream.pcap.is_none()) {
            let at = |wrong: Wrong| stream.located(wrong);
            let form = Form::of(stream, seed, flows).map_err(at)?;
            flows += form.flows();
            if flows > TAG_FLOWS {
                let line = format!(
                    "stream {}: {flows} flows with those before: want {TAG_FLOWS} at most",
                    stream.name
                );
                return Err(at(Wrong::new(0..stream.packet.text.len(), line)));
            }
            forms.push(form);
        }
        Ok(forms)
    }

    /// Refuses what no run sends, though its packets can be shown: streams with a rate beside others without one.
    ///
    /// # Errors
    /// Names the fault, and its place in the file.
    pub fn check_run(&self) -> Result<(), Wrong> {
        if !self.streams.iter().any(Stream::is_rated) {
            return Ok(());
        }
        let unrated = |stream: &&Stream| matches!(stream.load, Load::Most) && !stream.is_rated();
        match self.streams.iter().find(unrated) {
            None => Ok(()),
            Some(stream) => Err(Wrong::new(
                stream.at.clone(),
                format!(
                    "stream {}: other streams have a rate: want a rate in each stream, or a weight in each",
                    quoted(&stream.name)
                ),
            )),
        }
    }

    /// Checks what several streams say together.
    pub(crate) fn check(&self, file: &Node) -> Read<()> {
        let weights = self
            .streams
            .iter()
            .filter(|stream| matches!(stream.load, Load::Weight(_)))
            .count();
        if weights > 0 && weights < self.streams.len() {
            let other = self
                .streams
                .iter()
                .find(|stream| !matches!(stream.load, Load::Weight(_)));
            let name = other.map_or("", |stream| stream.name.as_str());
            let at = other.map_or(file.at.clone(), |stream| stream.at.clone());
            return Err(Wrong::new(
                at,
                format!("stream {}: want weight in each stream or in none", quoted(name)),
            ));
        }
        self.check_order()?;
        for stream in &self.streams {
            let wrong = |line: String| {
                Err(Wrong::new(
                    stream.at.clone(),
                    format!("stream {}: {line}", quoted(&stream.name)),
                ))
            };
            if stream.repeat > 1 && stream.packets.is_none() && stream.burst.is_none_or(|burst| burst.count.is_none()) {
                return wrong("repeat: want packets, or burst with a count, that end it".into());
            }
            if stream.pacing.as_deref() == Some("burst") {
                return wrong("pacing burst: want burst = { packets = N, gap = TIME } in its place".into());
            }
            if stream.pcap.is_none() && stream.pacing.as_deref() == Some(CAPTURED) {
                return wrong("pacing captured: want pcap, whose spacing it is".into());
            }
            if stream.burst.is_some() && stream.load != Load::Most {
                return wrong("burst: its packets and gap are its rate: want no rate and no weight".into());
            }
        }
        Ok(())
    }

    /// Refuses streams that would never begin: behind themselves, behind none, or behind one without an end.
    fn check_order(&self) -> Read<()> {
        let before = self.before();
        let names = || self.streams.iter().map(|stream| stream.name.as_str());
        for (stream, before) in self.streams.iter().zip(&before) {
            let wrong = |line: String| {
                let line = format!("stream {}: after {line}", quoted(&stream.name));
                Err(Wrong::new(stream.at.clone(), line))
            };
            let Some(after) = &stream.after else { continue };
            let name = quoted(&after.stream);
            let Some(before) = before.map(|at| &self.streams[at]) else {
                let near = did_you_mean(&after.stream, names());
                return wrong(format!("{name}: no such stream{near}"));
            };
            if before.load == Load::Most && before.burst.is_none() && !before.is_timed() {
                return wrong(format!("{name}: want a rate there, which says when it ends"));
            }
            let loops = before.pcap.as_ref().is_some_and(|pcap| pcap.loops.is_some());
            if !loops && before.packets.is_none() && before.burst.is_none_or(|burst| burst.count.is_none()) {
                return wrong(format!(
                    "{name}: want packets there, or burst with a count, that end it"
                ));
            }
        }
        // Streams of a circle never lead to one that begins by itself.
        let mut ends = vec![false; self.streams.len()];
        for first in 0..self.streams.len() {
            let (mut path, mut at) = (Vec::new(), Some(first));
            while let Some(here) = at.filter(|here| !ends[*here]) {
                path.push(here);
                if path.len() > self.streams.len() {
                    let stream = &self.streams[first];
                    let line = format!("stream {}: after: a circle, which never begins", quoted(&stream.name));
                    return Err(Wrong::new(stream.at.clone(), line));
                }
                at = before[here];
            }
            path.into_iter().for_each(|here| ends[here] = true);
        }
        Ok(())
    }

    /// Returns for each stream the one that it begins after, if there is one of that name.
    pub fn before(&self) -> Vec<Option<usize>> {
        let names = self.streams.iter().map(|stream| stream.name.as_str());
        let places: BTreeMap<&str, usize> = names.zip(0..).collect();
        let before = |stream: &Stream| places.get(stream.after.as_ref()?.stream.as_str()).copied();
        self.streams.iter().map(before).collect()
    }
}
