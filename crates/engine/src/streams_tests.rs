use super::*;

fn rate(pps: u64) -> Rate {
    Rate::new(pps, 1).expect("a rate")
}

fn plans() -> [StreamPlan; 2] {
    let lanes = 2;
    let plan = |rate| StreamPlan { rate, lanes };
    [plan(None), plan(Some(rate(10)))]
}

/// Streams of a trial that starts in a second.
fn begun() -> (Streams, u64) {
    let (streams, start_ns) = (Streams::new(), monotonic_ns() + 1_000_000_000);
    streams.check(start_ns, &plans()).expect("no orders");
    streams.begin(start_ns, &plans()).expect("no orders");
    (streams, start_ns)
}

fn after(ms: u64) -> At {
    At::AfterStart(Duration::from_millis(ms))
}

#[test]
fn a_lane_follows_the_orders_of_its_stream_in_the_order_of_their_instants() {
    let streams = Streams::new();
    let order = |stream, what, at| streams.order(&[(StreamId(stream), what)], at).expect("an order");
    order(1, Do::Rate(rate(5)), after(3));
    order(1, Do::Pause, At::Soonest);
    order(0, Do::Pause, after(1));
    let start_ns = monotonic_ns() + 1_000_000_000;
    streams.check(start_ns, &plans()).expect("orders");
    streams.begin(start_ns, &plans()).expect("orders");
    let mut lane = streams.followed(1);
    assert_eq!(lane.next(start_ns - 1), None);
    assert_eq!(lane.look_ns(), start_ns);
    assert_eq!(lane.next(start_ns), Some((start_ns, Do::Pause)));
    order(1, Do::Stop, after(9));
    assert_eq!(lane.next(start_ns), None);
    assert_eq!(lane.look_ns(), start_ns + LOOK_NS);
    let late = start_ns + 20_000_000;
    assert_eq!(lane.next(late), Some((start_ns + 3_000_000, Do::Rate(rate(5)))));
    assert_eq!(lane.next(late), Some((start_ns + 9_000_000, Do::Stop)));
    assert_eq!(lane.next(late), None);
}

#[test]
fn an_order_takes_the_place_of_those_that_were_to_hold_later() {
    let (streams, start_ns) = begun();
    let order = |what, ms| streams.order(&[(StreamId(0), what)], after(ms)).expect("an order");
    let mut lane = streams.followed(0);
    assert_eq!(order(Do::Pause, 10), Some(start_ns + 10_000_000));
    order(Do::Start, 20);
    order(Do::Stop, 1_000_000);
    assert_eq!(lane.next(start_ns), None);
    order(Do::Stop, 15);
    // Refused, and the order before it stands.
    streams
        .order(&[(StreamId(0), Do::Start)], after(16))
        .expect_err("stopped");
    let late = start_ns + 30_000_000;
    assert_eq!(lane.next(late), Some((start_ns + 10_000_000, Do::Pause)));
    assert_eq!(lane.next(late), Some((start_ns + 15_000_000, Do::Stop)));
    assert_eq!(lane.next(start_ns + 1_000_000_000_000_000), None);
    assert!(streams.was_to_send(0, start_ns + 1));
}

#[test]
fn streams_serve_one_trial_even_before_it_has_begun() {
    let streams = Streams::new();
    streams.check(0, &plans()).expect("the first");
    streams.check(0, &plans()).expect_err("another one");
}

#[test]
fn a_lane_that_finds_the_book_in_use_looks_again_at_once() {
    let (streams, start_ns) = begun();
    let mut lane = streams.followed(0);
    streams.order(&[(StreamId(0), Do::Pause)], after(1)).expect("an order");
    let book = streams.book();
    assert_eq!((lane.next(start_ns), lane.look_ns()), (None, start_ns));
    // The order may be that it sends nothing from now on.
    assert!(lane.may_hold(start_ns));
    drop(book);
    assert_eq!((lane.next(start_ns), lane.look_ns()), (None, start_ns + 1_000_000));
    assert!(!lane.may_hold(start_ns + LOOK_NS));
}

#[test]
fn an_order_that_cannot_be_followed_is_refused_with_what_would_be_right() {
    let (streams, _) = begun();
    streams
        .order(&[(StreamId(1), Do::Start)], after(100))
        .expect("an order");
    streams.order(&[(StreamId(0), Do::Stop)], after(100)).expect("an order");
    for (stream, what, at, part) in [
        (2, Do::Pause, after(100), "want 0 to 1"),
        (
            1,
            Do::Rate(rate(11)),
            after(100),
            "11 pps: memory was made for the plan's rate: want 10 pps",
        ),
        (0, Do::Start, after(200), "stopped by then: want it paused"),
        (0, Do::Rate(rate(1)), after(200), "want a plan with a rate"),
    ] {
        let refused = streams
            .order(&[(StreamId(stream), what)], at)
            .expect_err(part)
            .to_string();
        let whole = refused.starts_with(&format!("stream {stream}: ")) && refused.contains(part);
        assert!(whole, "{refused}");
    }
    // None of several orders is given if one is refused.
    let both = [(StreamId(1), Do::Stop), (StreamId(2), Do::Stop)];
    streams.order(&both, after(100)).expect_err("no such stream");
    streams
        .order(&[(StreamId(1), Do::Pause)], after(100))
        .expect("not stopped");
    let again = streams.check(0, &plans()).expect_err("one trial");
    assert!(again.to_string().contains("want new ones"), "{again}");
    streams.end();
    let over = streams
        .order(&[(StreamId(1), Do::Pause)], after(200))
        .expect_err("no trial");
    assert!(over.to_string().contains("the trial is over"), "{over}");
}

#[test]
fn an_instant_that_lanes_could_miss_is_refused() {
    let streams = Streams::new();
    streams.begin(monotonic_ns(), &plans()).expect("no orders");
    let refused = streams
        .order(&[(StreamId(0), Do::Start)], after(1))
        .expect_err("too near");
    assert!(
        refused.to_string().contains("want one 10000 us ahead or more"),
        "{refused}"
    );
    let refused = streams.order(&[], At::Time(ClockTime::Monotonic(1))).expect_err("past");
    assert!(refused.to_string().contains(" us ago: "), "{refused}");
}

#[test]
fn early_orders_that_are_refused_stay_for_another_trial() {
    let streams = Streams::new();
    let order = |stream| {
        let stop = [(StreamId(stream), Do::Stop)];
        assert_eq!(streams.order(&stop, At::Soonest), Ok(None), "not known yet");
    };
    (0..2).for_each(order);
    assert!(streams.check(0, &plans()[..1]).is_err());
    streams.check(0, &plans()).expect("two streams");
    // From now on an order that does not fit is refused as it is given.
    streams
        .order(&[(StreamId(2), Do::Stop)], At::Soonest)
        .expect_err("no such stream");
    streams.begin(0, &plans()).expect("two streams");
}

#[test]
fn streams_whose_trial_did_not_take_place_are_over() {
    let streams = Streams::new();
    assert!(!streams.is_over());
    streams.end();
    assert!(streams.is_over());
    streams
        .order(&[(StreamId(0), Do::Stop)], At::Soonest)
        .expect_err("no trial");
    streams.check(0, &plans()).expect_err("no trial");
}

#[test]
fn counts_are_final_once_every_lane_has_ended_and_the_row_of_its_last_packet_has_closed() {
    let (streams, start_ns) = begun();
    let lanes = [0, 0, 1].map(|stream| streams.followed(stream));
    let is_final = |until_ns| {
        streams.note(until_ns, (7, 1), [(7, 1), (0, 0)].into_iter());
        [0, 1].map(|stream| streams.counts(StreamId(stream)).is_some_and(|counts| counts.is_final))
    };
    lanes[0].ended(start_ns + 500);
    lanes[2].ended(start_ns);
    assert_eq!(is_final(1_000), [false, false]);
    lanes[1].ended(start_ns + 1_000);
    assert_eq!(is_final(1_000), [false, false]);
    assert_eq!(is_final(1_001), [true, false]);
}

#[test]
fn a_stream_was_to_send_unless_it_paused_from_the_start_on() {
    let (streams, start_ns) = begun();
    let order = |stream, what, at| streams.order(&[(StreamId(stream), what)], at).expect("an order");
    order(0, Do::Pause, At::AfterStart(Duration::ZERO));
    order(0, Do::Start, after(50));
    order(1, Do::Pause, after(1));
    let to_send = |stream, ms: u64| streams.was_to_send(stream, start_ns + ms * 1_000_000);
    assert_eq!([to_send(0, 49), to_send(0, 50), to_send(0, 51)], [false, false, true]);
    assert!(to_send(1, 2));
}
