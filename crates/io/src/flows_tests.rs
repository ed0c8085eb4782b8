use super::*;
use proptest::prelude::*;
use std::collections::HashSet;

const STEPS: [Step; 2] = [Step::Combine, Step::Together];

fn in_all(some: &FlowSet, all: &FlowSet, flow: u32) -> Option<u32> {
    let (src, dst) = some.ports(flow);
    all.flow_at(src, dst, some.addresses(flow))
}

#[test]
fn flows_within_others_are_told_as_one_by_one() {
    let sets = || {
        let ranges = [(10u16, 10u16), (10, 12), (11, 12), (11, 14), (9, 11)];
        let pairs = ranges.into_iter().flat_map(move |src| ranges.map(|dst| (src, dst)));
        let ports = pairs.flat_map(|((a, b), (c, d))| {
            [None, Some(1), Some(2), Some(4), Some(5), Some(7)].map(|limit| FlowSet::new(a..=b, c..=d, limit))
        });
        let addresses = [(1, 1), (2, 1), (1, 3), (3, 2)].into_iter().flat_map(|addresses| {
            let limits = [None, Some(3), Some(8), Some(11)];
            limits.into_iter().flat_map(move |limit| {
                let ports = [(10..=11, 9..=9), (10..=11, 9..=10), (10..=10, 9..=9)];
                ports.into_iter().flat_map(move |(src, dst)| {
                    STEPS.map(|step| FlowSet::of(src.clone(), dst.clone(), addresses, step, limit))
                })
            })
        });
        ports.chain(addresses)
    };
    for (some, all) in sets().flat_map(|some| sets().map(move |all| (some.clone(), all))) {
        let within = (0..some.count()).all(|flow| in_all(&some, &all, flow).is_some());
        assert_eq!(some.is_within(&all), within, "{some:?} {all:?}");
        let start = (0..some.count()).all(|flow| in_all(&some, &all, flow) == Some(flow));
        assert_eq!(some.is_start_of(&all), start, "{some:?} {all:?}");
    }
}

#[test]
fn together_all_ranges_step_at_once_and_the_longest_says_how_often() {
    let flows = FlowSet::of(1000..=1002, 9..=9, (5, 2), Step::Together, None);
    let all: Vec<_> = (0..flows.count())
        .map(|f| (flows.ports(f).0, flows.addresses(f)))
        .collect();
    assert_eq!(
        all,
        [
            (1000, (0, 0)),
            (1001, (1, 1)),
            (1002, (2, 0)),
            (1000, (3, 1)),
            (1001, (4, 0))
        ]
    );
    // The same values, but never together.
    assert_eq!(flows.flow_at(1001, 9, (0, 0)), None);
    assert_eq!(
        FlowSet::of(1..=4, 9..=9, (9, 9), Step::Together, Some(3)).address_counts(),
        (3, 3)
    );
}

#[test]
fn combined_ports_step_before_addresses() {
    let flows = FlowSet::of(1..=2, 7..=8, (2, 2), Step::Combine, None);
    let all: Vec<_> = (0..flows.count())
        .map(|f| (flows.ports(f), flows.addresses(f)))
        .collect();
    let ports = [(1, 7), (2, 7), (1, 8), (2, 8)];
    let addresses = [(0, 0), (1, 0), (0, 1), (1, 1)];
    let expected: Vec<_> = addresses
        .into_iter()
        .flat_map(|at| ports.map(|both| (both, at)))
        .collect();
    assert_eq!(all, expected);
}

#[test]
fn the_most_flows_have_their_numbers_too() {
    let flows = FlowSet::of(1..=u16::MAX, 1..=u16::MAX, (u32::MAX, u32::MAX), Step::Combine, None);
    assert_eq!(flows.count(), u32::MAX);
    for flow in [0, 1, u32::MAX / 2, u32::MAX - 1] {
        let (src, dst) = flows.ports(flow);
        assert_eq!(flows.flow_at(src, dst, flows.addresses(flow)), Some(flow));
    }
    assert_eq!(flows.flow_at(u16::MAX, u16::MAX, (u32::MAX, 0)), None);
    let flows = FlowSet::of(1..=9, 1..=9, (u32::MAX, 1), Step::Together, None);
    assert_eq!(flows.count(), u32::MAX);
    assert_eq!(flows.addresses(u32::MAX - 1), (u32::MAX - 1, 0));
    let counts = [65_535, 65_535, u32::MAX, u32::MAX];
    assert!(FlowSet::wanted(counts, Step::Combine) > u128::from(u64::MAX));
}

proptest! {
    #[test]
    fn every_flow_has_its_own_ports_and_is_found_by_them(
        s in any::<u16>(), sn in 0u16..40, d in any::<u16>(), dn in 0u16..40, limit in proptest::option::of(1u32..2000),
    ) {
        let flows = FlowSet::new(s..=s.saturating_add(sn), d..=d.saturating_add(dn), limit);
        let src_count = flows.src_ports().len() as u32;
        let mut seen = HashSet::new();
        prop_assert!(flows.is_plain());
        for f in 0..flows.count() {
            let (a, b) = flows.ports(f);
            // The numbers that flows have had from the beginning.
            prop_assert_eq!((a, b), (s + (f % src_count) as u16, d + (f / src_count) as u16));
            prop_assert_eq!(flows.flow_of(a, b), Some(f));
            prop_assert_eq!(flows.flow_at(a, b, (0, 0)), Some(f));
            prop_assert!(flows.src_ports().contains(&a) && flows.dst_ports().contains(&b));
            prop_assert!(seen.insert((a, b)));
        }
        prop_assert_eq!(flows.flow_of(s.wrapping_sub(1), d), None);
        let last = *flows.src_ports().end();
        prop_assert_eq!(flows.flow_of(last.wrapping_add(1), d).filter(|_| last != u16::MAX), None);
    }

    #[test]
    fn every_flow_has_its_own_ends_and_is_found_by_them_and_by_no_others(
        s in any::<u16>(), sn in 0u16..6, d in any::<u16>(), dn in 0u16..6, addresses in (1u32..6, 1u32..6),
        together: bool, limit in proptest::option::of(1u32..2000),
    ) {
        let (src, dst) = (s..=s.saturating_add(sn), d..=d.saturating_add(dn));
        let step = STEPS[usize::from(together)];
        let flows = FlowSet::of(src.clone(), dst.clone(), addresses, step, limit);
        let lengths = [src.len() as u32, dst.len() as u32, addresses.0, addresses.1];
        let wanted = FlowSet::wanted(lengths, step);
        prop_assert_eq!(u128::from(flows.count()), wanted.min(u128::from(limit.unwrap_or(u32::MAX))));
        let mut seen = HashSet::new();
        for f in 0..flows.count() {
            let ((a, b), at) = (flows.ports(f), flows.addresses(f));
            prop_assert_eq!(flows.flow_at(a, b, at), Some(f));
            prop_assert!(flows.src_ports().contains(&a) && flows.dst_ports().contains(&b));
            prop_assert!(at.0 < flows.address_counts().0 && at.1 < flows.address_counts().1);
            prop_assert!(seen.insert((a, b, at)));
        }
        // All that surrounds them: what is found is what there is.
        let around = |range: &RangeInclusive<u16>| range.start().saturating_sub(1)..=range.end().saturating_add(1);
        let mut found = 0;
        for (a, b) in around(&src).flat_map(|a| around(&dst).map(move |b| (a, b))) {
            for at in (0..=addresses.0).flat_map(|x| (0..=addresses.1).map(move |y| (x, y))) {
                prop_assert_eq!(flows.flow_at(a, b, at).is_some(), seen.contains(&(a, b, at)));
                found += u32::from(flows.flow_at(a, b, at).is_some());
            }
        }
        prop_assert_eq!(found, flows.count());
        let some = flows.first(flows.count().div_ceil(2));
        prop_assert!(some.is_start_of(&flows) && some.is_within(&flows));
    }

    #[test]
    fn lanes_share_out_every_flow(count in 1u32..500, lanes in 1u32..9) {
        let flows = FlowSet::new(1..=500, 9..=9, Some(count));
        prop_assert_eq!((0..lanes).map(|l| flows.count_of_lane(l, lanes)).sum::<u32>(), count);
    }
}

proptest! {
    #[test]
    fn ports_by_addition_are_those_by_division(
        src in 1u16..300, dst in 1u16..40, addresses in (1u32..20, 1u32..20), together: bool,
        limit in proptest::option::of(1u32..100_000), lanes in 1u32..9,
    ) {
        let step = STEPS[usize::from(together)];
        let flows = FlowSet::of(10..=9 + src, 90..=89 + dst, addresses, step, limit);
        for lane in 0..lanes {
            let divided = (lane..flows.count()).step_by(lanes as usize).map(|flow| flows.ports(flow));
            // Some of each lane's, as the whole of many flows takes long.
            prop_assert!(flows.ports_of_lane(lane, lanes).take(5_000).eq(divided.take(5_000)));
            let count = flows.ports_of_lane(lane, lanes).count();
            prop_assert_eq!(count, flows.count_of_lane(lane, lanes) as usize);
        }
    }
}
