//! Findings on a run as data: a name, numbers and a sentence. Programs read name and numbers, people the sentence.

use serde::Serialize;
use std::fmt;

/// How often a remark of a name makes a run invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalidates {
    /// The remark is a reason why the run is not valid.
    Always,
    /// The remark is a reason or a warning, by its numbers or by the workload.
    Sometimes,
    /// The remark is a warning.
    Never,
}

impl Invalidates {
    /// Returns the word in the documentation.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Sometimes => "sometimes",
            Self::Never => "never",
        }
    }
}

/// Declares [`RemarkName`] with its list, names, values and meanings from one table, so that they can't differ.
macro_rules! remarks {
    ($($remark:ident = $name:literal, $invalid:ident, [$($value:literal),*]: $meaning:literal,)*) => {
        /// Subject of a remark.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum RemarkName { $(#[doc = $meaning] $remark,)* }

        impl RemarkName {
            /// All names, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$remark,)*];

            /// Returns the name that the JSON uses.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$remark => $name,)* }
            }

            /// Returns how often such a remark makes a run invalid.
            pub const fn invalidates(self) -> Invalidates {
                match self { $(Self::$remark => Invalidates::$invalid,)* }
            }

            /// Returns the keys of the values that such a remark may have, beside [`TRACK`].
            pub const fn values(self) -> &'static [&'static str] {
                match self { $(Self::$remark => &[$($value),*],)* }
            }

            /// Returns the meaning, as Markdown without a full stop.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$remark => $meaning,)* }
            }
        }
    };
}

// The table in docs/use/verdict.md is made from this one.
remarks! {
    DeviceGone = "device_gone", Always, []:
        "the device failed or vanished during the run",
    NothingSent = "nothing_sent", Always, ["cause", "stream", "streams"]:
        "no packet was sent, or none of one `stream` or of so many `streams`",
    TooShort = "too_short", Always, ["duration_ns", "least_ns"]:
        "a signal ended the run before it had a rate",
    MissedDepartures = "missed_departures", Sometimes,
        ["missed_packets", "due_packets", "missed_ratio", "off_ratio", "allowed_ratio", "cause", "stream", "streams"]:
        "departures that were due and not sent. Of a reason: `off_ratio`, the deviation from the intended rate, and \
         `cause`; of a warning: `missed_ratio`; of one stream among several: `stream`, of more of them: `streams`",
    PortDown = "port_down", Always, ["down_ns"]:
        "a port of this host was down while packets went from one port to another. `down_ns` is 0 if only the evidence \
         in `known` shows it",
    CouldNotLeave = "could_not_leave", Sometimes, ["down_ns", "allowed_ratio", "cause"]:
        "packets of a run without a rate could not leave this host for a while",
    SurroundingsChanged = "surroundings_changed", Never, ["known"]:
        "links, addresses, routes or MTUs of this host changed",
    NoNeighbor = "no_neighbor", Sometimes, ["unanswered_ns", "unanswered_ratio", "allowed_ratio"]:
        "the next host on the way did not answer for its MAC address",
    ReversePathFilter = "reverse_path_filter", Never, ["packets"]:
        "the reverse path filter of a receiver dropped packets",
    RefusedAfterwards = "refused_afterwards", Sometimes, ["packets", "allowed_ratio"]:
        "the kernel or device refused packets after they were counted as sent. No `allowed_ratio` for `reflect` and \
         `forward`",
    InterfaceDropped = "interface_dropped", Never, ["packets"]:
        "the interface dropped packets that it should have sent, of the test or of others",
    OwnQueuesDropped = "own_queues_dropped", Sometimes, ["packets", "test_packets", "allowed_ratio"]:
        "queueing disciplines of this host dropped packets; `test_packets`: of the test at most. `reflect` and \
         `forward` have `packets` alone",
    OwnDeviceDropped = "own_device_dropped", Sometimes, ["packets", "test_packets"]:
        "a device of this host dropped packets instead of sending them; `test_packets`: of the test at most",
    QueuesAdded = "queues_added", Never, ["queues"]:
        "the interface got more queues during the run",
    WentToHost = "went_to_host", Sometimes, ["packets", "counter"]:
        "packets of the test went to the host instead of mpps; `counter`: the path's counter that shows them",
    MoreLeftThanTaken = "more_left_than_taken", Never, ["left_packets", "taken_packets"]:
        "a forwarder left more frames to the host than it took",
    DroppedByHost = "dropped_by_host", Sometimes, ["packets", "cause"]:
        "this host dropped packets before mpps could take them",
    Unsplit = "unsplit", Never, ["frames"]:
        "merged frames could not be split into packets",
    CutFrames = "cut_frames", Sometimes, ["frames"]:
        "frames came without their ends; a `capture` is then not valid",
    Truncated = "truncated", Never, ["packets"]:
        "datagrams were longer than the largest frame, and were cut",
    RowsAndLanesDiffer = "rows_and_lanes_differ", Always, ["lane_packets", "row_packets"]:
        "a defect of mpps: the sent packets of lanes and rows differ",
    MoreThanSent = "more_than_sent", Always, ["packets"]:
        "a defect of mpps: more packets came back than were sent",
    CameBackTwice = "came_back_twice", Never, ["times", "duplicate_packets", "rx_packets"]:
        "nearly every packet came back more than once",
    BeyondWindow = "beyond_window", Always, ["packets"]:
        "packets came back too late to be distinguished from duplicates",
    FlowContended = "flow_contended", Always, ["times"]:
        "flows moved to another queue or CPU while a packet of them was being counted",
    FlowMoved = "flow_moved", Never, ["times", "reordered_packets"]:
        "flows moved between queues or CPUs, which may have reordered packets",
    Untracked = "untracked", Never, ["packets", "flows"]:
        "packets were of flows beyond the `flows` that are tracked (`--max-flows`)",
    NothingCameBack = "nothing_came_back", Never, ["packets", "where", "known"]:
        "none of the sent `packets` came back",
    Late = "late", Never, ["packets", "settle_ns"]:
        "packets came back after the settle time",
    WhereLost = "where_lost", Never, ["packets", "where", "counted_packets", "known"]:
        "`packets` were lost; `counted_packets`: those that the counters of that place show",
    CollectorLate = "collector_late", Never, ["ranked_packets", "measured_packets"]:
        "the collector was kept from running for seconds. With values: percentiles rest on `ranked_packets` only",
    Stopped = "stopped", Never, ["times", "stopped_ns"]:
        "the process was stopped, and no other remark names this as a cause",
    StoodStill = "stood_still", Never, ["times", "still_ns"]:
        "all of mpps stood still, and no other remark names this as a cause",
    HostInterfered = "host_interfered", Never, ["cause", "waited_ratio", "stolen_ratio"]:
        "the host kept lanes from their cores, and no other remark names this as a cause",
    NothingReceived = "nothing_received", Never, ["arrived_packets", "left_packets"]:
        "a receiver got nothing; its interfaces counted `arrived_packets`, and `left_packets` went to the host",
    LeftToHost = "left_to_host", Never, ["packets", "port"]:
        "packets for UDP ports of other programs were left to the host; `port`: if the remark is about one port",
    ImplausibleSequence = "implausible_sequence", Never, ["packets", "skipped_numbers"]:
        "packets had sequence numbers far from those of their flow",
    ContestedGap = "contested_gap", Never, ["skipped_numbers"]:
        "a flow went on where it had been before packets skipped numbers",
    ImplausibleRxTime = "implausible_rx_time", Never, ["packets"]:
        "packets had noted times of arrival that can't be",
    GapAfterFirst = "gap_after_first", Never, ["packets"]:
        "lost packets lie between the first packets of a flow and the next",
    SenderRestarts = "sender_restarts", Never, ["times"]:
        "the numbers of a flow began again",
    OtherRun = "other_run", Never, ["packets"]:
        "packets of another run had the addresses, ports and data of this one",
    LateOfAnEarlierTrial = "late_of_an_earlier_trial", Never, ["packets"]:
        "packets of an earlier trial arrived during this one",
    KeptFromGoingRound = "kept_from_going_round", Never, ["packets", "reason"]:
        "a reflector kept packets from going round; `reason`: as in [`reasons`](counts.md#reasons)",
    LaneMoved = "lane_moved", Never, ["lane", "core", "allowed_cores"]:
        "a lane was moved off its core from outside",
    DeviceError = "device_error", Never, []:
        "a path reported that its device was down, failed or vanished",
    CpuTimeSpent = "cpu_time_spent", Never, ["limit"]:
        "SIGXCPU ended the run; `limit`: `cpu`, `real_time` or `none`",
    PriorityRefused = "priority_refused", Never, ["lane"]:
        "the kernel refused the priority that was asked for",
    Output = "output", Never, []:
        "a file could not be written, or not whole",
    SentAfterOrder = "sent_after_order", Never, ["packets"]:
        "packets left after an order to their stream held",
    BeganLate = "began_late", Never, ["late_ns"]:
        "the last lane began after the instant of `--start-at`",
    LanePanicked = "lane_panicked", Always, ["lane"]:
        "a defect of mpps: a lane panicked",
    FileTooSlow = "file_too_slow", Always, ["packets"]:
        "a capture lacks packets because its file was written more slowly than they came",
    FileFailed = "file_failed", Always, ["packets"]:
        "the file of a capture could not be written; `packets`: those that came later",
    CaptureUnaccounted = "capture_unaccounted", Always, ["taken_packets", "accounted_packets"]:
        "a defect of mpps: packets of a capture are not accounted for",
    SampleIncomplete = "sample_incomplete", Never, ["lacking_frames", "frames"]:
        "the file of `--sample-pcap` lacks frames because it was written more slowly than they came",
    ProgramsUnknown = "programs_unknown", Never, []:
        "the time of programs in the kernel is not known",
    CoresTaken = "cores_taken", Never, ["takers", "taken_ns"]:
        "a trace shows the programs that took the lanes' cores; `taken_ns`: in the order of `takers`",
    LanesShareCores = "lanes_share_cores", Never, ["lanes", "cores"]:
        "there are more lanes than cores",
    BusyPollShared = "busy_poll_shared", Never, []:
        "lanes that share cores never sleep (`--busy-poll`)",
    LanesFillCores = "lanes_fill_cores", Never, ["lanes"]:
        "the lanes that send take all cores",
    CoresUnused = "cores_unused", Never, ["cores", "lanes"]:
        "no lane runs on these `cores` of `--cores`",
    FifoLimit = "fifo_limit", Never, ["rank"]:
        "`--fifo`: what the kernel's limit of real-time threads means for this run",
    NiceRanksInSession = "nice_ranks_in_session", Never, []:
        "`--nice` ranks lanes only among threads of their session",
    Untagged = "untagged", Never, ["stream", "packets", "all_packets"]:
        "`packets` of a capture have no tag: they are known by their content, and have no latency and no order; \
         without `packets`: of a `stream` with `tag = \"none\"` nobody knows which packets come",
    FewerFlows = "fewer_flows", Never, ["flows", "wanted_flows"]:
        "fewer flows are used than were asked for, as each takes a socket",
    SourcePortsMoved = "source_ports_moved", Never, ["source_ports", "other_run_id"]:
        "another run uses the default source ports",
    StrangersRun = "strangers_run", Never, ["other_run_id", "runs"]:
        "a run of another user claims the same flows; `runs`: further ones, which are not named",
    OtherRunsUnread = "other_runs_unread", Never, []:
        "other runs on the interface could not be looked for",
}

/// Key of the value that names the track of a remark, if a run has several tracks and the remark is about one.
pub const TRACK: &str = "track";

/// Value of a remark. The key names its unit.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum RemarkValue {
    /// Whole number.
    Count(u64),
    /// Share of one.
    Ratio(f64),
    /// Name.
    Text(String),
    /// Values of one kind.
    List(Vec<RemarkValue>),
}

impl From<u64> for RemarkValue {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<usize> for RemarkValue {
    fn from(count: usize) -> Self {
        Self::Count(count as u64)
    }
}

impl From<f64> for RemarkValue {
    fn from(ratio: f64) -> Self {
        Self::Ratio(ratio)
    }
}

impl From<&str> for RemarkValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for RemarkValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl<T: Into<Self>> FromIterator<T> for RemarkValue {
    fn from_iter<I: IntoIterator<Item = T>>(all: I) -> Self {
        Self::List(all.into_iter().map(Into::into).collect())
    }
}

/// One finding on a run: its name, its numbers and the sentence for people.
#[derive(Clone, Debug, PartialEq)]
pub struct Remark {
    /// Subject of the remark.
    pub name: RemarkName,
    /// Key and value of each number or name that the sentence holds.
    pub values: Vec<(&'static str, RemarkValue)>,
    /// Sentence for people, without a full stop.
    pub sentence: String,
}

impl Remark {
    /// Creates a remark without values.
    pub fn new(name: RemarkName, sentence: impl Into<String>) -> Self {
        Self {
            name,
            values: Vec::new(),
            sentence: sentence.into(),
        }
    }

    /// Adds a value. The key is one of [`RemarkName::values`], or [`TRACK`].
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl Into<RemarkValue>) -> Self {
        debug_assert!(
            key == TRACK || self.name.values().contains(&key),
            "{} has no value {key}",
            self.name.as_str()
        );
        self.values.push((key, value.into()));
        self
    }

    /// Adds a value if there is one.
    #[must_use]
    pub fn with_some(self, key: &'static str, value: Option<impl Into<RemarkValue>>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// Returns the value of a key.
    pub fn value(&self, key: &str) -> Option<&RemarkValue> {
        self.values.iter().find(|(of, _)| *of == key).map(|(_, value)| value)
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

/// Returns the sentences of remarks.
pub fn sentences(remarks: &[Remark]) -> Vec<&str> {
    remarks.iter().map(|remark| remark.sentence.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_remark_and_each_of_its_values_has_a_name_of_its_own() {
        let names: BTreeSet<_> = RemarkName::ALL.iter().map(|name| name.as_str()).collect();
        assert_eq!(names.len(), RemarkName::ALL.len());
        for name in RemarkName::ALL {
            let values: BTreeSet<_> = name.values().iter().collect();
            assert_eq!(values.len(), name.values().len(), "{name:?}");
            assert!(!values.contains(&TRACK), "{name:?}");
        }
    }

    #[test]
    #[should_panic(expected = "late has no value ports")]
    fn a_value_that_the_table_lacks_is_a_defect() {
        let _ = Remark::new(RemarkName::Late, "late").with("ports", 5u64);
    }
}
