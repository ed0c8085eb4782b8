//! Books of streams: which packets of a run count for which stream, group and size, and a lane's entries in them.
//!
//! Each stream is a track of its own, and so is each size of frames. A group adds up the tracks of its streams. Among
//! many streams, only groups have percentiles; a group is then a track as well, and its packets are entered twice.

use crate::plan::{KnownBy, Packets};
use mpps_io::kernel::KernelTrack;
use mpps_stats::{Delay, LaneSeries, Recorder, StreamBook, StreamKind, Tally, Time, Timing};
use mpps_wire::FrameSize;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Most streams that have percentiles of their own without asking for them.
pub const MOST_RANKED: usize = 64;
/// Most sizes that have results of their own; of more, ranges have.
const MOST_SIZES: usize = 16;
/// Ranges of sizes, bytes with FCS (RFC 2819).
const RANGES: [RangeInclusive<usize>; 8] = [
    0..=64,
    65..=127,
    128..=255,
    256..=511,
    512..=1023,
    1024..=1518,
    1519..=9216,
    9217..=usize::MAX,
];
/// Shortest row of a stream, ns.
const LEAST_ROW_NS: u64 = 100_000_000;
/// Time between two looks for rows that close, ns.
const LOOK_NS: u64 = 10_000_000;
/// In place of a track.
const NONE: u32 = u32::MAX;

/// Tracks and books of the streams of a plan.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    /// Books: streams, then groups, then sizes.
    pub(crate) books: Vec<StreamBook>,
    /// By track: whether latencies have percentiles. The first tracks are those of the streams.
    ranked: Vec<bool>,
    /// By stream: track of its group, if groups have tracks.
    groups: Vec<Option<usize>>,
    /// By stream, then by size: track of the size; none if all frames have one size, or sizes have no tracks.
    sizes: Vec<Vec<usize>>,
    /// By stream: number of the lengths of its frames, and whether they are those of a capture.
    lens: Vec<(usize, bool)>,
    /// By stream: nobody knows whether its packets come.
    untagged: Vec<bool>,
}

impl Layout {
    /// Lays out streams, groups and sizes.
    pub(crate) fn of(packets: &Packets) -> Self {
        let mut layout = Self::of_streams(packets);
        layout.add_sizes(packets);
        layout
    }

    /// Lays out streams and groups, for a receiver without a sender: which sizes the missing packets had, it does not
    /// know of each.
    pub(crate) fn of_streams(packets: &Packets) -> Self {
        let streams = &packets.streams;
        let many = streams.len() > MOST_RANKED;
        let mut layout = Self {
            lens: streams
                .iter()
                .map(|stream| (stream.lens().len(), stream.replay.is_some()))
                .collect(),
            untagged: streams
                .iter()
                .map(|stream| stream.known_by == KnownBy::Headers)
                .collect(),
            ..Self::default()
        };
        for (track, stream) in streams.iter().enumerate() {
            layout.track(StreamKind::Stream, &stream.name, vec![track], !many || stream.tracked);
        }
        layout.groups = vec![None; streams.len()];
        let mut names: Vec<&str> = Vec::new();
        for name in streams.iter().filter_map(|stream| stream.group.as_deref()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        for name in names {
            let of = |at: &usize| streams[*at].group.as_deref() == Some(name);
            let own: Vec<usize> = (0..streams.len()).filter(of).collect();
            if !many {
                layout.books.push(StreamBook {
                    kind: StreamKind::Group,
                    name: name.to_owned(),
                    tracks: own,
                    ranked: true,
                });
                continue;
            }
            let track = layout.ranked.len();
            own.iter().for_each(|stream| layout.groups[*stream] = Some(track));
            layout.track(StreamKind::Group, name, vec![track], true);
        }
        layout
    }

    /// Adds a track, and the book of it alone.
    fn track(&mut self, kind: StreamKind, name: &str, tracks: Vec<usize>, ranked: bool) {
        self.ranked.push(ranked);
        self.books.push(StreamBook {
            kind,
            name: name.to_owned(),
            tracks,
            ranked,
        });
    }

    fn add_sizes(&mut self, packets: &Packets) {
        let sizes_of = |stream: &crate::PacketStream| {
            let more = stream.kernel_headers + FrameSize::FCS_LEN;
            stream.lens().iter().map(|len| len + more).collect()
        };
        let by_stream: Vec<Vec<usize>> = packets.streams.iter().map(sizes_of).collect();
        let mut all: Vec<usize> = by_stream.concat();
        all.sort_unstable();
        all.dedup();
        if all.len() < 2 {
            self.sizes = vec![Vec::new(); by_stream.len()];
            return;
        }
        let classes: Vec<RangeInclusive<usize>> = match all.len() > MOST_SIZES {
            false => all.iter().map(|size| *size..=*size).collect(),
            true => {
                let used = |range: &&RangeInclusive<usize>| all.iter().any(|size| range.contains(size));
                let within = |range: &RangeInclusive<usize>| {
                    let within = || all.iter().copied().filter(|size| range.contains(size));
                    within().min().unwrap_or(0)..=within().max().unwrap_or(0)
                };
                RANGES.iter().filter(used).map(within).collect()
            }
        };
        let first = self.ranked.len();
        for (place, class) in classes.iter().enumerate() {
            let name = match class.start() == class.end() {
                true => class.start().to_string(),
                false => format!("{}-{}", class.start(), class.end()),
            };
            self.track(StreamKind::Size, &name, vec![first + place], true);
        }
        let class_of = |size: &usize| first + classes.iter().position(|class| class.contains(size)).unwrap_or(0);
        self.sizes = by_stream
            .iter()
            .map(|sizes| sizes.iter().map(class_of).collect())
            .collect();
    }

    /// Returns the tracks of a packet by the number of its image, as [`MixCodec`](crate::codec::mix::MixCodec) numbers
    /// them: lengths of captures follow all images.
    fn tracks_by_image(&self) -> Vec<[u32; 3]> {
        let of_stream = |(stream, sizes): (usize, &Vec<usize>)| {
            let mut tracks = [NONE; 3];
            let own = [Some(stream), self.groups[stream]].into_iter().flatten();
            let place = own.zip(&mut tracks).map(|(track, to)| *to = track as u32).count();
            let with = move |size: Option<usize>| {
                let mut tracks = tracks;
                if let Some(size) = size {
                    tracks[place] = size as u32;
                }
                tracks
            };
            match sizes.is_empty() {
                true => vec![with(None); self.lens[stream].0],
                false => sizes.iter().map(|size| with(Some(*size))).collect(),
            }
        };
        let of = |captured: bool| {
            let own = move |(stream, _): &(usize, &Vec<usize>)| self.lens[*stream].1 == captured;
            self.sizes.iter().enumerate().filter(own).flat_map(of_stream)
        };
        of(false).chain(of(true)).collect()
    }

    /// Returns how time is cut into rows of streams.
    pub(crate) fn timing(timing: Timing) -> Timing {
        Timing {
            interval_ns: timing.interval_ns.max(LEAST_ROW_NS),
            ..timing
        }
    }

    /// Makes the series of one lane, by track.
    pub(crate) fn series(&self, timing: Timing, receives: bool, timed: bool) -> Vec<LaneSeries> {
        let timing = Self::timing(timing);
        let series = |ranked: &bool| LaneSeries::of_stream(timing, *ranked && receives).with_arrivals(timed);
        self.ranked.iter().map(series).collect()
    }

    /// Returns bytes of books and series.
    pub(crate) fn bytes(&self, timing: Timing, (receiving, all): (usize, usize), timed: bool) -> u64 {
        let timing = Self::timing(timing);
        let of = |receives: bool, lanes: usize| -> u64 {
            let series = |ranked: &bool| LaneSeries::bytes_of_stream(timing, *ranked && receives, timed);
            self.ranked.iter().map(series).sum::<u64>() * lanes as u64
        };
        let ranked = self.books.iter().filter(|book| book.ranked).count() as u64;
        let histograms = ranked * Time::ranked(timed).len() as u64 * 8 * mpps_stats::BUCKETS as u64;
        histograms + of(true, receiving) + of(false, all.saturating_sub(receiving))
    }
}

/// Returns, by stream and then by size of its frames, the number of the size among those that have results of their
/// own, up to 16; empty if there is one size in all.
pub fn size_classes(packets: &Packets) -> Vec<Vec<usize>> {
    let sizes = Layout::of(packets).sizes;
    let first = sizes.iter().flatten().min().copied().unwrap_or(0);
    let of = |sizes: &Vec<usize>| sizes.iter().map(|track| track - first).collect();
    sizes.iter().map(of).collect()
}

/// A lane's entries in the books.
#[derive(Debug, Default)]
pub(crate) struct Books<'r> {
    /// By track.
    recorders: Vec<Recorder<'r>>,
    layout: Option<Arc<Layout>>,
    /// Tracks with counts that wait for [`Books::flush`], and by track whether it is among them.
    waiting: Vec<usize>,
    waits: Vec<bool>,
    /// By size of all streams, those of one stream beside each other: tracks of a packet, `NONE` where there are fewer.
    of_image: Vec<[u32; 3]>,
    /// By image: packets sent that are not booked yet, and the images that have some.
    sent: Vec<u64>,
    of_sent: Vec<u32>,
    /// Time of the last of them, and end of the row that they are booked in, ns.
    sent_ns: u64,
    row_end_ns: u64,
    /// By track: packets that came and wait for [`Books::came_at`], and the tracks that have some.
    came: Vec<u32>,
    of_came: Vec<u32>,
    /// Time of the next look for rows that close, ns.
    look_ns: u64,
}

impl<'r> Books<'r> {
    /// Takes the series of a lane, one for each track of the layout.
    pub(crate) fn new(layout: Arc<Layout>, series: &'r [LaneSeries]) -> Self {
        let of_image = layout.tracks_by_image();
        Self {
            recorders: series.iter().map(LaneSeries::recorder).collect(),
            waiting: Vec::with_capacity(series.len()),
            waits: vec![false; series.len()],
            sent: vec![0; of_image.len()],
            of_sent: Vec::with_capacity(of_image.len()),
            sent_ns: 0,
            row_end_ns: 0,
            of_image,
            came: vec![0; series.len()],
            of_came: Vec::with_capacity(series.len()),
            layout: Some(layout),
            look_ns: 0,
        }
    }

    /// Calls `book` with the recorder of each track of a stream that is of no size.
    #[inline]
    fn each(&mut self, stream: usize, mut book: impl FnMut(&mut Recorder<'r>)) {
        let Some(layout) = &self.layout else { return };
        let group = layout.groups.get(stream).copied().flatten();
        for track in [Some(stream), group].into_iter().flatten() {
            self.enter(track, &mut book);
        }
    }

    /// Calls `book` with the recorder of each track of a packet, by the number of its image.
    #[inline]
    fn each_of(&mut self, image: usize, mut book: impl FnMut(&mut Recorder<'r>)) {
        for track in self.of_image.get(image).copied().unwrap_or([NONE; 3]) {
            self.enter(track as usize, &mut book);
        }
    }

    /// Calls `book` with the recorder of a track, if there is one.
    #[inline]
    fn enter(&mut self, track: usize, book: impl FnOnce(&mut Recorder<'r>)) {
        let Some(recorder) = self.recorders.get_mut(track) else {
            return;
        };
        book(recorder);
        if recorder.is_dirty() && !std::mem::replace(&mut self.waits[track], true) {
            self.waiting.push(track);
        }
    }

    /// Counts packets by their images, which were sent at `at_ns`. Those of one row are booked together, when the next
    /// begins.
    #[inline]
    pub(crate) fn sent(&mut self, images: impl Iterator<Item = u32>, at_ns: u64) {
        if at_ns >= self.row_end_ns {
            self.book_sent(at_ns);
        }
        for image in images {
            let Some(sent) = self.sent.get_mut(image as usize) else {
                return;
            };
            if *sent == 0 {
                self.of_sent.push(image);
            }
            *sent += 1;
        }
        self.sent_ns = at_ns;
    }

    /// Returns whether nobody knows whether packets of an image come. The first track of each is its stream's.
    fn is_untagged(&self, image: usize) -> bool {
        let stream = self.of_image[image][0] as usize;
        self.layout
            .as_ref()
            .is_some_and(|layout| layout.untagged.get(stream) == Some(&true))
    }

    /// Books the packets that were sent before the row of `at_ns`.
    #[cold]
    fn book_sent(&mut self, at_ns: u64) {
        while let Some(image) = self.of_sent.pop() {
            let packets = std::mem::take(&mut self.sent[image as usize]);
            for track in self.of_image[image as usize] {
                let sent_ns = self.sent_ns;
                let untagged = self.is_untagged(image as usize);
                self.enter(track as usize, |recorder| {
                    recorder.sent_now(sent_ns, packets);
                    if untagged {
                        recorder.sent_untagged(sent_ns, packets);
                    }
                });
            }
        }
        self.row_end_ns = self.recorders.first().map_or(u64::MAX, |first| first.row_end_ns(at_ns));
    }

    /// Books `n` departures of a stream that were due at `at_ns` and not sent.
    #[cold]
    pub(crate) fn missed(&mut self, stream: usize, at_ns: u64, n: u64) {
        self.each(stream, |recorder| recorder.missed(at_ns, n));
    }

    /// Counts a packet that came in order, by the number of its image: [`Books::came_at`] books it.
    #[inline]
    pub(crate) fn came(&mut self, image: usize) {
        let Some(tracks) = self.of_image.get(image) else {
            return;
        };
        for track in tracks {
            let Some(came) = self.came.get_mut(*track as usize) else {
                return;
            };
            if *came == 0 {
                self.of_came.push(*track);
            }
            *came += 1;
        }
    }

    /// Books the packets that came, which were all sent at one time and arrived at another.
    #[inline]
    pub(crate) fn came_at(&mut self, sent_ns: u64, at_ns: u64) {
        while let Some(track) = self.of_came.pop() {
            let packets = std::mem::take(&mut self.came[track as usize]);
            self.enter(track as usize, |recorder| {
                recorder.received_n(sent_ns, at_ns, packets, &[]);
            });
        }
    }

    /// Books packets of one image that came in order and whose slips are known, as [`Recorder::received_n`].
    #[inline]
    pub(crate) fn slipped(&mut self, image: usize, sent_ns: u64, at_ns: u64, slips: &[u64]) {
        self.each_of(image, |recorder| {
            recorder.received_n(sent_ns, at_ns, slips.len() as u32, slips);
        });
    }

    /// Books a packet that is known by its content, as [`Recorder::counted`].
    pub(crate) fn counted(&mut self, image: usize, sent_ns: u64, at_ns: u64) {
        self.each_of(image, |recorder| {
            recorder.counted(sent_ns, at_ns);
        });
    }

    /// Books one packet, as [`Recorder::received`].
    pub(crate) fn received(&mut self, image: usize, sent_ns: u64, delay: Delay, slip: Option<u64>, distance: u64) {
        self.each_of(image, |recorder| {
            recorder.received(sent_ns, delay, slip, distance);
        });
    }

    /// Books a copy of a packet that was sent at `sent_ns`.
    #[cold]
    pub(crate) fn copied(&mut self, image: usize, sent_ns: u64) {
        self.each_of(image, |recorder| recorder.event(sent_ns, |t| t.duplicates += 1));
    }

    /// Books `n` packets that arrived at a receiver without a sender, as [`Recorder::arrived_n`].
    #[inline]
    pub(crate) fn arrived_n(&mut self, stream: usize, at_ns: u64, n: u32, latency_ns: Option<u64>) {
        self.each(stream, |recorder| recorder.arrived_n(at_ns, n, latency_ns));
    }

    /// Books a packet that arrived there, as [`Recorder::arrived`].
    pub(crate) fn arrived(&mut self, stream: usize, at_ns: u64, delay: Option<Delay>, distance: u64) {
        self.each(stream, |recorder| recorder.arrived(at_ns, delay, distance));
    }

    /// Books when the packets booked last arrived, as [`Recorder::timed`].
    #[inline]
    pub(crate) fn timed(&mut self, stream: usize, latency_ns: u64, arrivals_ns: &[u64]) {
        self.each(stream, |recorder| recorder.timed(latency_ns, arrivals_ns));
    }

    /// Adds `n` to the packets that were sent, as [`Recorder::expected`]: in the row that the stream booked last.
    #[inline]
    pub(crate) fn expected(&mut self, stream: usize, n: i64) {
        self.each(stream, |recorder| recorder.expected(n));
    }

    /// Books an event of a stream by its time, as [`Recorder::event`].
    #[cold]
    pub(crate) fn event(&mut self, stream: usize, at_ns: u64, change: impl Fn(&mut Tally)) {
        self.each(stream, |recorder| recorder.event(at_ns, &change));
    }

    /// Calls `book` with the recorder of each track of what somebody else has counted: of a stream, and of its size if
    /// its frames have one, or of a size.
    fn each_of_track(&mut self, track: KernelTrack, book: impl FnMut(&mut Recorder<'r>)) {
        let Some(layout) = &self.layout else { return };
        match track {
            KernelTrack::Run => {}
            KernelTrack::Size(size) => {
                let first = layout.sizes.iter().flatten().min().copied();
                if let Some(first) = first {
                    self.enter(first + size, book);
                }
            }
            KernelTrack::Stream(stream) => match layout.lens.get(stream) {
                Some((1, _)) if !self.of_image.is_empty() => {
                    let image = layout.lens.iter().take(stream).map(|(lens, _)| lens).sum();
                    self.each_of(image, book);
                }
                _ => self.each(stream, book),
            },
        }
    }

    /// Books a row that somebody else has counted; its last ns is `at_ns`.
    pub(crate) fn book(&mut self, track: KernelTrack, at_ns: u64, tally: &Tally) {
        self.each_of_track(track, |recorder| recorder.book(recorder.timing().row_of(at_ns), tally));
    }

    /// The same of `n` packets in a bucket of one time.
    pub(crate) fn book_bucket(&mut self, track: KernelTrack, at_ns: u64, (bucket, n): (usize, u64), time: Time) {
        self.each_of_track(track, |recorder| {
            recorder.book_bucket(recorder.timing().row_of(at_ns), time, bucket, n);
        });
    }

    /// The same of packets that came after the settle time, and of the largest distance of a reordered one.
    pub(crate) fn book_totals(&mut self, track: KernelTrack, late: u64, distance: u64) {
        self.each_of_track(track, |recorder| {
            recorder.late_after_close(late);
            recorder.farthest(distance);
        });
    }

    /// Moves the counts of a burst to the rings.
    #[inline]
    pub(crate) fn flush(&mut self) {
        while let Some(track) = self.waiting.pop() {
            self.waits[track] = false;
            if let Some(recorder) = self.recorders.get_mut(track) {
                recorder.flush();
            }
        }
    }

    /// Informs the collector how far the lane has come, if it is time for that.
    #[inline]
    pub(crate) fn advance(&mut self, now_ns: u64) {
        if now_ns >= self.look_ns && !self.recorders.is_empty() {
            self.close(now_ns);
        }
    }

    #[cold]
    fn close(&mut self, now_ns: u64) {
        self.look_ns = now_ns + LOOK_NS;
        if now_ns >= self.row_end_ns {
            self.book_sent(now_ns);
        }
        self.flush();
        self.recorders.iter_mut().for_each(|recorder| recorder.advance(now_ns));
    }

    /// Ends the series: every row is closed.
    pub(crate) fn end(mut self) {
        self.book_sent(self.sent_ns);
        self.flush();
        self.recorders.into_iter().for_each(Recorder::end);
    }
}
