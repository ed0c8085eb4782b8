use super::*;
use proptest::prelude::*;

fn at(at_ns: u64, event: Event) -> KernelEvent {
    KernelEvent { at_ns, cpu: 1, event }
}

fn switch(at_ns: u64, prev: (i32, &str, i64), next: (i32, &str)) -> KernelEvent {
    let event = Event::Switch {
        prev_tid: prev.0,
        prev_comm: prev.1.to_owned(),
        prev_state: prev.2,
        prev_prio: 120,
        next_tid: next.0,
        next_comm: next.1.to_owned(),
        next_prio: 120,
    };
    at(at_ns, event)
}

fn timer(at_ns: u64, took_ns: u64) -> KernelEvent {
    let name = "local_timer".to_owned();
    at(at_ns, Event::Vector { name, took_ns })
}

fn net_rx(at_ns: u64, took_ns: u64) -> KernelEvent {
    at(at_ns, Event::Softirq { vector: 3, took_ns })
}

fn waking(at_ns: u64, tid: i32) -> KernelEvent {
    let comm = "lane".to_owned();
    let target_cpu = 1;
    at(at_ns, Event::Waking { tid, comm, target_cpu })
}

const GAP: Gap = Gap {
    lane: 0,
    tid: 7,
    cpu: Some(1),
    from_ns: 100,
    to_ns: 200,
};

fn parts(events: &[KernelEvent]) -> Vec<(String, u64)> {
    let parts = Explained::new(events, &[7, 8]).parts(&GAP);
    parts.into_iter().map(|part| (part.what, part.amount)).collect()
}

fn named(parts: &[(&str, u64)]) -> Vec<(String, u64)> {
    parts.iter().map(|&(what, amount)| (what.to_owned(), amount)).collect()
}

const UNEXPLAINED: &str = "unexplained (hypervisor, firmware, page fault or what was not watched)";

#[test]
fn a_gap_without_events_is_unexplained() {
    assert_eq!(parts(&[]), named(&[(UNEXPLAINED, 100)]));
}

#[test]
fn nested_time_is_the_innermosts() {
    // rustc from 110 to 190, in it a soft interrupt from 120 to 150, in it a timer from 130 to 140.
    let events = [
        switch(110, (7, "lane", 0), (77, "cargo")),
        timer(140, 10),
        net_rx(150, 30),
        switch(190, (77, "rustc", 0), (7, "lane")),
    ];
    let right = named(&[
        ("rustc (thread 77) had the core", 50),
        ("soft interrupt NET_RX", 20),
        ("local_timer interrupt", 10),
        (UNEXPLAINED, 20),
    ]);
    assert_eq!(parts(&events), right);
}

#[test]
fn a_visit_that_begins_before_and_ends_after_is_cut_to_the_gap() {
    let events = [
        switch(10, (7, "lane", 0), (8, "writer")),
        switch(900, (8, "writer", 1), (7, "lane")),
    ];
    assert_eq!(parts(&events), named(&[("own thread writer (8) had the core", 100)]));
    // Only one end of the visit was seen.
    assert_eq!(
        parts(&events[..1]),
        named(&[("own thread writer (8) had the core", 100)])
    );
    assert_eq!(
        parts(&events[1..]),
        named(&[("own thread writer (8) had the core", 100)])
    );
}

#[test]
fn a_lane_that_was_stopped_or_slept_is_not_said_to_be_displaced() {
    let events = [
        switch(110, (7, "lane", 0x104), (77, "rustc")),
        waking(150, 7),
        timer(160, 5),
        switch(190, (77, "rustc", 0), (7, "lane")),
    ];
    let right = named(&[
        ("stopped by a signal", 40),
        ("rustc (thread 77) had the core", 35),
        ("local_timer interrupt", 5),
        (UNEXPLAINED, 20),
    ]);
    assert_eq!(parts(&events), right);
    let events = [
        switch(100, (7, "lane", 2), (0, "swapper/1")),
        waking(180, 7),
        switch(200, (0, "swapper/1", 0), (7, "lane")),
    ];
    let right = named(&[
        ("asleep in the kernel (a page fault, a lock or a disk)", 80),
        ("the idle task had the core", 20),
    ]);
    assert_eq!(parts(&events), right);
}

#[test]
fn without_the_others_names_a_displaced_lane_is_told_from_one_that_slept() {
    let out = |at_ns, preempted| at(at_ns, Event::SwitchedOut { tid: 7, preempted });
    let events = [
        out(100, true),
        at(140, Event::SwitchedIn { tid: 7 }),
        out(150, false),
        at(180, Event::SwitchedIn { tid: 7 }),
    ];
    let right = named(&[
        ("another thread had the core", 40),
        ("asleep, stopped, or woken and not on a core yet", 30),
        (UNEXPLAINED, 30),
    ]);
    assert_eq!(parts(&events), right);
}

#[test]
fn without_the_others_names_threads_of_this_program_still_have_theirs() {
    let out = |at_ns, tid, preempted| at(at_ns, Event::SwitchedOut { tid, preempted });
    let on = |at_ns, tid| at(at_ns, Event::SwitchedIn { tid });
    let events = [
        out(100, 7, true),
        on(120, 8),
        out(150, 8, false),
        on(160, 7),
        // On another core it takes nothing of this one.
        KernelEvent { cpu: 2, ..on(170, 8) },
    ];
    let right = named(&[
        ("another thread had the core", 30),
        ("own thread 8 had the core", 30),
        (UNEXPLAINED, 40),
    ]);
    assert_eq!(parts(&events), right);
    let explained = Explained::new(&events, &[7, 8]).with_names(&[(8, "mpps-files".to_owned())]);
    assert_eq!(explained.parts(&GAP)[1].what, "own thread mpps-files (8) had the core");
    let takers = explained.takers(&[GAP]);
    let own = takers
        .iter()
        .find(|taker| taker.kind == TakerKind::Own)
        .expect("it had the core");
    assert_eq!(
        (own.tid, own.name.as_str(), own.count, own.total_ns),
        (8, "mpps-files", 1, 30)
    );
}

#[test]
fn the_gaps_of_a_lane_are_when_it_was_displaced() {
    let out = |at_ns, tid, preempted| at(at_ns, Event::SwitchedOut { tid, preempted });
    let on = |at_ns, tid| at(at_ns, Event::SwitchedIn { tid });
    let events = [
        on(5, 7),
        out(100, 7, true),
        out(105, 8, true),
        on(160, 7),
        out(200, 7, false),
        on(300, 7),
        out(400, 7, true),
    ];
    let gap = |from_ns, to_ns| Gap { from_ns, to_ns, ..GAP };
    assert_eq!(
        displaced(&events, &[(0, 7, Some(1))], 450),
        [gap(100, 160), gap(400, 450)]
    );
}

#[test]
fn where_a_switch_was_lost_nobody_is_blamed() {
    let events = [
        switch(110, (7, "lane", 0), (77, "rustc")),
        switch(190, (78, "cc1", 0), (7, "lane")),
    ];
    assert_eq!(parts(&events), named(&[(UNEXPLAINED, 100)]));
}

#[test]
fn visits_are_counted_once_and_the_longest_is_told() {
    let events = [
        switch(110, (7, "lane", 0), (77, "rustc")),
        // Splits the visit.
        timer(120, 5),
        switch(150, (77, "rustc", 0), (7, "lane")),
        switch(160, (7, "lane", 0), (77, "rustc")),
        switch(170, (77, "rustc", 0), (7, "lane")),
        switch(320, (7, "lane", 0), (77, "rustc")),
        switch(330, (77, "rustc", 0), (7, "lane")),
    ];
    let later = Gap {
        from_ns: 300,
        to_ns: 400,
        ..GAP
    };
    let takers = Explained::new(&events, &[7]).takers(&[later, GAP]);
    let of = |kind| takers.iter().find(|taker| taker.kind == kind).expect("it is there");
    let rustc = of(TakerKind::Thread);
    assert_eq!(
        (rustc.count, rustc.total_ns, rustc.max_ns, rustc.max_at_ns),
        (3, 55, 35, 110)
    );
    assert_eq!(
        (rustc.name.as_str(), rustc.tid, rustc.cpu, rustc.lane),
        ("rustc", 77, 1, 0)
    );
    assert_eq!((of(TakerKind::Vector).count, of(TakerKind::Vector).total_ns), (1, 5));
    let unexplained = of(TakerKind::Unexplained);
    assert_eq!(
        (unexplained.count, unexplained.total_ns, unexplained.max_ns),
        (2, 140, 90)
    );
}

#[test]
fn a_lane_that_is_bound_to_no_core_is_followed() {
    let mut moved = switch(160, (77, "cc1", 0), (7, "lane"));
    moved.cpu = 2;
    let mut came = switch(120, (0, "idle", 0), (77, "cc1"));
    came.cpu = 2;
    // The lane is displaced on core 1, and woken on core 2, where another thread runs.
    let mut woken = waking(130, 7);
    woken.event = Event::Waking {
        tid: 7,
        comm: "lane".to_owned(),
        target_cpu: 2,
    };
    let events = [switch(110, (7, "lane", 0), (78, "rustc")), came, woken, moved];
    let gap = Gap { cpu: None, ..GAP };
    let parts = Explained::new(&events, &[7]).parts(&gap);
    let parts: Vec<_> = parts.into_iter().map(|part| (part.what, part.amount)).collect();
    let right = named(&[
        ("cc1 (thread 77) had the core", 30),
        ("rustc (thread 78) had the core", 20),
        (UNEXPLAINED, 50),
    ]);
    assert_eq!(parts, right);
}

fn any_event() -> impl Strategy<Value = KernelEvent> {
    // Mostly small numbers, so that things meet; now and then any.
    let time = || prop_oneof![9 => 0..400u64, 1 => any::<u64>()];
    let tid = || prop_oneof![9 => 0..5i32, 1 => any::<i32>()];
    let event = prop_oneof![
        (tid(), prop_oneof![Just(0), Just(1i64), Just(4), any::<i64>()], tid())
            .prop_map(|(prev, state, next)| { switch(0, (prev, "p", state), (next, "n")).event }),
        time().prop_map(|took_ns| timer(0, took_ns).event),
        (any::<u32>(), time()).prop_map(|(vector, took_ns)| Event::Softirq {
            vector: vector % 12,
            took_ns
        }),
        time().prop_map(|took_ns| Event::Irq {
            irq: 3,
            name: "nic".to_owned(),
            took_ns
        }),
        tid().prop_map(|tid| waking(0, tid).event),
        (tid(), any::<bool>()).prop_map(|(tid, preempted)| Event::SwitchedOut { tid, preempted }),
        tid().prop_map(|tid| Event::SwitchedIn { tid }),
        tid().prop_map(|tid| Event::Signal { signal: 19, tid }),
        Just(Event::Drop(crate::Drop::default())),
    ];
    (time(), 0..3u32, event).prop_map(|(at_ns, cpu, event)| KernelEvent { at_ns, cpu, event })
}

fn any_gap() -> impl Strategy<Value = Gap> {
    let time = || prop_oneof![9 => 0..400u64, 1 => any::<u64>()];
    (0..2u32, 0..5i32, prop::option::of(0..3u32), time(), time()).prop_map(|(lane, tid, cpu, from_ns, to_ns)| Gap {
        lane,
        tid,
        cpu,
        from_ns,
        to_ns,
    })
}

proptest! {
    #[test]
    fn parts_add_up_to_the_gap(events in prop::collection::vec(any_event(), 0..60), gap in any_gap()) {
        let explained = Explained::new(&events, &[1]);
        let parts = explained.parts(&gap);
        let sum: u128 = parts.iter().map(|part| u128::from(part.amount)).sum();
        prop_assert_eq!(sum, u128::from(gap.to_ns.saturating_sub(gap.from_ns)));
        prop_assert!(parts.iter().all(|part| part.amount > 0));
        let takers = explained.takers(&[gap]);
        let sum: u128 = takers.iter().map(|taker| u128::from(taker.total_ns)).sum();
        prop_assert_eq!(sum, u128::from(gap.to_ns.saturating_sub(gap.from_ns)));
        prop_assert!(takers.iter().all(|taker| taker.max_ns <= taker.total_ns && taker.count > 0));
    }

    #[test]
    fn no_instant_has_two_culprits(events in prop::collection::vec(any_event(), 0..60)) {
        let explained = Explained::new(&events, &[]);
        for pieces in explained.pieces.values().chain(explained.off.values()) {
            prop_assert!(pieces.iter().all(|piece| piece.from < piece.to));
            prop_assert!(pieces.windows(2).all(|two| two[0].to <= two[1].from), "{:?}", pieces);
        }
    }

    #[test]
    fn the_order_of_events_that_differ_in_time_does_not_matter(
        events in prop::collection::btree_map(0..1000u64, any_event(), 0..40),
        gap in any_gap(),
    ) {
        let ordered: Vec<_> =
            events.into_iter().map(|(at_ns, event)| KernelEvent { at_ns, ..event }).collect();
        let mut turned = ordered.clone();
        turned.reverse();
        prop_assert_eq!(Explained::new(&ordered, &[1]).parts(&gap), Explained::new(&turned, &[1]).parts(&gap));
    }
}
