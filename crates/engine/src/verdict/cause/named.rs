//! Names of causes, which programs read beside the sentence.

use mpps_stats::KeptOffBy;

/// Cause that a sentence names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::verdict) enum Cause {
    /// A signal stopped the process.
    Stopped,
    /// All of mpps stood still without a signal.
    StoodStill,
    /// The link was down.
    LinkDown,
    /// The link was up, and packets could not leave: no route, for example.
    NoWay,
    /// The lanes were kept from their cores.
    KeptOff(KeptOffBy),
    /// The lanes were away from their clocks without waiting for a core.
    AwayFromClock,
    /// A ring, buffer or queue behind the sending lanes was full.
    PathTookNothing,
    /// A device of this host dropped packets instead of sending them.
    DeviceDropped,
    /// A queueing discipline of this host dropped packets.
    QueueDropped,
    /// Lanes that receive waited for room to send.
    NoRoomToSend,
    /// The lanes were busy all the time.
    LanesBusy,
    /// No cause explains enough.
    NotKnown,
}

impl Cause {
    /// Returns the name in the JSON.
    pub(in crate::verdict) fn as_str(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::StoodStill => "stood_still",
            Self::LinkDown => "link_down",
            Self::NoWay => "no_way",
            // `not_known` is the name if nothing shows that the lanes lacked their cores.
            Self::KeptOff(KeptOffBy::NotKnown) => "threads_or_quota",
            Self::KeptOff(by) => by.as_str(),
            Self::AwayFromClock => "away_from_clock",
            Self::PathTookNothing => "path_took_nothing",
            Self::DeviceDropped => "device_dropped",
            Self::QueueDropped => "queue_dropped",
            Self::NoRoomToSend => "no_room_to_send",
            Self::LanesBusy => "lanes_busy",
            Self::NotKnown => "not_known",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_a_name_of_its_own_and_stands_in_the_documentation() {
        let kept_off = [
            KeptOffBy::OtherThreads,
            KeptOffBy::OwnThreads,
            KeptOffBy::CpuQuota,
            KeptOffBy::RealTime,
            KeptOffBy::Hypervisor,
            KeptOffBy::NotKnown,
        ];
        let others = [
            Cause::Stopped,
            Cause::StoodStill,
            Cause::LinkDown,
            Cause::NoWay,
            Cause::AwayFromClock,
            Cause::PathTookNothing,
            Cause::DeviceDropped,
            Cause::QueueDropped,
            Cause::NoRoomToSend,
            Cause::LanesBusy,
            Cause::NotKnown,
        ];
        let mut names: Vec<_> = kept_off
            .map(Cause::KeptOff)
            .iter()
            .chain(&others)
            .map(|of| of.as_str())
            .collect();
        let page = include_str!("../../../../../docs/use/verdict.md");
        for name in &names {
            assert!(
                page.contains(&format!("| `{name}` |")),
                "docs/use/verdict.md lacks {name}"
            );
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), kept_off.len() + others.len());
    }
}
