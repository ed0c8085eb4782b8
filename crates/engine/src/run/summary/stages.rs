//! Stages of the lanes' loops, and the bursts and packets that took longest.

use super::Measured;
use crate::outcome::LaneOutcome;
use mpps_stats::StageTable;
use mpps_trace::{LatePacket, SlowBurst, StageCost, StageRow};

/// Returns the stage table. With several tracks, a lane's time belongs to both: only their sum has the table.
pub(super) fn stage_rows(m: &Measured<'_>) -> Vec<StageRow> {
    let lanes = m.counters.iter().enumerate().filter(|_| !m.one_track);
    lanes
        .flat_map(|(lane, counters)| counters.stage_rows(lane as u32))
        .collect()
}

pub(super) fn stage_cost(m: &Measured<'_>) -> Option<StageCost> {
    let tables = || {
        m.counters
            .iter()
            .map(|lane| &lane.stages)
            .filter(|table| table.wall_ns() > 0)
    };
    let wall_ns: u64 = tables().map(StageTable::wall_ns).sum();
    let readings: u64 = tables().map(|table| table.readings.get()).sum();
    let ns: f64 = tables()
        .map(|table| (table.readings.get() * table.mark_ps.get()) as f64 / 1e3)
        .sum();
    let prices = tables().map(|table| table.mark_ps.get() as f64 / 1e3).sum::<f64>();
    (wall_ns > 0 && !m.one_track).then(|| StageCost {
        readings,
        reading_ns: prices / tables().count() as f64,
        share: ns / wall_ns as f64,
        lost: 0,
    })
}

/// Returns the bursts that took longest, over all lanes.
pub(super) fn slowest(m: &Measured<'_>) -> Vec<SlowBurst> {
    let of_lane = |(lane, outcome): (usize, &LaneOutcome)| {
        let burst = move |burst: &SlowBurst| SlowBurst {
            lane: lane as u32,
            ..*burst
        };
        outcome.slowest.iter().map(burst).collect::<Vec<_>>()
    };
    let lanes = m.outcomes.iter().enumerate().filter(|_| !m.one_track);
    let mut all: Vec<SlowBurst> = lanes.flat_map(of_lane).collect();
    all.sort_by_key(|burst| std::cmp::Reverse(burst.round.took_ns()));
    all
}

/// Returns the packets that came latest, over the lanes that receive in this track.
pub(super) fn latest(m: &Measured<'_>) -> Vec<LatePacket> {
    let lanes = m.common.lanes.iter().zip(m.outcomes).enumerate();
    let lanes = lanes.filter(|(_, (plan, _))| !m.one_track || plan.rx);
    let of_lane = |(lane, (_, outcome)): (usize, (_, &LaneOutcome))| {
        let packet = move |packet: &LatePacket| LatePacket {
            lane: lane as u32,
            ..*packet
        };
        outcome.latest.iter().map(packet).collect::<Vec<_>>()
    };
    let mut all: Vec<LatePacket> = lanes.flat_map(of_lane).collect();
    all.sort_by_key(|packet| std::cmp::Reverse(packet.delay_ns()));
    all
}
