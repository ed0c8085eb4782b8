//! Ports, pairs, lanes and modes that result from the arguments. No device is opened.

use super::{Draft, Mode};
use crate::fail::Failure;
use crate::request::run_of;
use mpps_engine::{ForwardPlan, ForwardSeat, Work};
use mpps_io::null::{NoSource, NullConfig, NullPort};
use mpps_io::{Port, Roles};
use mpps_stats::HostFact;
use mpps_wire::{MacAddr, Rewrite};
use std::time::Duration;

fn draft(words: &str) -> Result<Draft, Failure> {
    Draft::new(run_of(&format!("forward {words}")))
}

fn plan(words: &str) -> ForwardPlan {
    let draft = draft(words).expect("a draft");
    let ports: Vec<_> = (0..draft.ports.len())
        .map(|i| NullPort::new(NullConfig::default(), 1, [2, 0, 0, 0, 1, i as u8], NoSource))
        .collect();
    let capabilities: Vec<_> = ports.iter().map(Port::capabilities).collect();
    draft.plan(&capabilities).expect("a plan")
}

#[test]
fn every_port_has_a_queue_for_each_lane_that_serves_it() {
    for (words, lanes) in [
        ("null:", 1),
        ("null: --lanes 3", 3),
        ("null: null: --lanes 2", 2),
        ("null: null: null: --lanes 2", 4),
        ("null: null: null: --lanes 2 --split-directions", 6),
        ("null: null: null: null: --split-directions", 4),
    ] {
        let (draft, plan) = (draft(words).expect("a draft"), plan(words));
        assert_eq!(plan.common.lanes.len(), lanes, "{words}");
        let mut used: Vec<_> = draft.ports.iter().map(|port| vec![0; port.roles.len()]).collect();
        for lane in 0..lanes {
            let ForwardSeat { first, second, index } = plan.seat(lane);
            let [there, back] = plan.directions(lane);
            assert_eq!(second.is_some(), first + 1 < draft.ports.len(), "{words}");
            assert_eq!(draft.ports[first].first_lane + index, lane, "{words}");
            for (place, rx, tx) in [(first, there, back)]
                .into_iter()
                .chain(second.map(|s| (s, back, there)))
            {
                used[place][index] += 1;
                if second.is_some() {
                    assert_eq!(
                        draft.ports[place].roles[index],
                        Roles { rx, tx },
                        "{words}: lane {lane}"
                    );
                }
            }
        }
        assert!(used.iter().flatten().all(|&times| times == 1), "{words}: {used:?}");
    }
}

#[test]
fn pairs_are_wires_and_an_odd_port_swaps_unless_a_mode_is_given() {
    let rewrites = |words: &str| plan(words).ports.iter().map(|port| port.rewrite).collect::<Vec<_>>();
    assert_eq!(rewrites("null:"), [Rewrite::MacSwap]);
    assert_eq!(rewrites("null: null:"), [Rewrite::Io; 2]);
    assert_eq!(
        rewrites("null: null: null:"),
        [Rewrite::Io, Rewrite::Io, Rewrite::MacSwap]
    );
    assert_eq!(rewrites("null: null: null: --mode 5tswap"), [Rewrite::FiveTupleSwap; 3]);
    assert_eq!(rewrites("null: null: null: --mode io"), [Rewrite::Io; 3]);
    let told = |words: &str| {
        let host = plan(words).common.host;
        let mode = host.into_iter().find(|fact| fact.name == "forward_mode");
        mode.map(|fact| fact.value).unwrap_or_default()
    };
    assert_eq!(told("null: null: null:"), "io; macswap on the last port");
    assert_eq!(told("null: null: null: --mode macswap"), Mode::MacSwap.name());
}

#[test]
fn each_port_sends_to_its_own_destination_or_all_to_one() {
    let mac = |n| MacAddr([2, 0, 0, 0, 0, n]);
    let want = |sources: [u8; 3], to: [u8; 3]| -> Vec<Rewrite> {
        let ends = sources.into_iter().zip(to);
        ends.map(|(from, to)| Rewrite::L2Forward {
            source: MacAddr([2, 0, 0, 0, 1, from]),
            destination: mac(to),
        })
        .collect()
    };
    let rewrites = |macs: &str| {
        let plan = plan(&format!("null: null: null: --mode l2fwd --dest-mac {macs}"));
        plan.ports.iter().map(|port| port.rewrite).collect::<Vec<_>>()
    };
    assert_eq!(rewrites("02:00:00:00:00:09"), want([0, 1, 2], [9, 9, 9]));
    assert_eq!(
        rewrites("02:00:00:00:00:07,02:00:00:00:00:08,02:00:00:00:00:09"),
        want([0, 1, 2], [7, 8, 9])
    );
}

#[test]
fn a_drain_time_is_part_of_the_plan_and_told() {
    assert_eq!(plan("null: null:").drain, Duration::ZERO);
    let plan = plan("null: null: --drain 250us");
    assert_eq!(plan.drain, Duration::from_micros(250));
    assert!(plan.common.host.contains(&HostFact::new("drain_us", "250")));
}

#[test]
fn work_is_part_of_the_plan_and_shown() {
    assert_eq!(plan("null: null:").work, Work::default());
    let plan = plan("null: null: --work 200ns,reads=2");
    assert_eq!((plan.work.ns, plan.work.reads, plan.work.memory), (200, 2, 64 << 20));
    let said = "200 ns, 2 reads and 0 writes in 67108864 bytes on each frame";
    assert!(plan.common.host.contains(&HostFact::shown("work", said)));
}

#[test]
fn ports_that_do_not_go_together_are_refused() {
    for (words, part) in [
        ("null: loop: null:", "one path"),
        ("xdp:a xdp:b xdp:c xdp:d", "two ports at the most"),
        ("loop: loop: loop: --split-directions", "--split-directions"),
        ("af_packet:a af_packet:b af_packet:b", "port 2 and port 3"),
        ("null: null: null: --lanes 128 --split-directions", "--lanes 128"),
    ] {
        match draft(words) {
            Err(Failure::Usage(text)) => assert!(text.contains(part), "{words}: {text}"),
            other => panic!("{words}: {other:?}"),
        }
    }
    // An odd port of a path whose queues can't be split is not split.
    assert!(draft("loop:").is_ok());
}
