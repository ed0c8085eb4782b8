use super::*;
use mpps_stats::{Percentiles, Remark, RemarkName, StreamSummary};
use proptest::prelude::*;

fn run(tx: u64, lost: u64) -> Summary {
    Summary {
        tx,
        rx: tx - lost,
        lost,
        loss_ratio: lost as f64 / tx.max(1) as f64,
        duration_ns: 1_000_000_000,
        offered_pps: tx as f64,
        received_pps: tx as f64 - lost as f64,
        frame_size: 64,
        latency: Latency {
            count: tx,
            min: 1_000,
            mean: 2_500.0,
            percentiles: Some(Percentiles {
                p50: 2_000,
                p90: 3_000,
                p99: 4_000,
                p999: 5_000,
            }),
            max: 6_000,
        },
        ..Summary::default()
    }
}

fn met(text: &str, of: &Summary) -> bool {
    Expect::parse(text)
        .unwrap_or_else(|why| panic!("{text}: {why}"))
        .judge(of)
        .met
}

#[test]
fn bounds_are_met_or_not_in_the_units_that_they_are_written_in() {
    let run = run(10_000, 10);
    for good in [
        "loss<0.11%",
        "loss<=0.1%",
        "loss_ratio==0.1%",
        "lost==10",
        "lost<1%",
        "p50<=2us",
        "p99 < 4.1us",
        "p99.9>=5us",
        "latency_ns.max<1ms",
        "mean>2.4us",
        "sent==10000",
        "received>=9.9kpps",
        "received>99%",
        "offered<6.73Mbps",
        "late==0",
        "missed<1",
        "min>0",
    ] {
        assert!(met(good, &run), "{good}");
    }
    for bad in [
        "loss<0.1%",
        "lost<10",
        "p99<4us",
        "received>1Mpps",
        "received==100%",
        "max<=5.9us",
    ] {
        assert!(!met(bad, &run), "{bad}");
    }
}

#[test]
fn what_was_not_measured_is_not_met() {
    let run = run(10_000, 0);
    for text in [
        "scheduled.p99<1s",
        "arrival.p99<1s",
        "wake_up.max<1s",
        "gap.max<1s",
        "host_dropped==0",
    ] {
        let told = Expect::parse(text).unwrap().judge(&run);
        assert_eq!(
            (told.measured, told.met, told.told.as_str()),
            (None, false, "not measured"),
            "{text}"
        );
    }
    for text in ["loss<100%", "lost==0", "p99<1s", "late==0"] {
        assert!(!met(text, &Summary::default()), "{text}");
    }
}

#[test]
fn what_a_method_finds_lies_between_bounds_and_only_a_known_one_meets_a_demand() {
    let of = |text: &str, lower, upper| {
        let told = Expect::parse(text).unwrap().judge_found(Between { lower, upper }, 64);
        (told.met, told.told)
    };
    let (low, high) = (Some(600_000.0), Some(640_000.0));
    for (text, lower, upper, met) in [
        ("ndr>1kpps", low, high, true),
        ("ndr>600kpps", low, high, false),
        ("ndr>=600kpps", low, high, true),
        ("ndr>=620kpps", low, high, false),
        ("ndr<640kpps", low, high, true),
        ("ndr<630kpps", low, high, false),
        ("ndr<1Gpps", low, None, false),
        ("ndr>1pps", None, high, false),
        ("pdr>1pps", None, None, false),
        ("ndr>400Mbps", low, high, true),
        ("throughput>410Mbps", low, high, false),
        ("recovery<=2ms", Some(2e6), Some(2e6), true),
        ("recovery<2ms", Some(2e6), Some(2e6), false),
        ("back_to_back==64", Some(64.0), Some(64.0), true),
        ("mfr==600kpps", low, high, false),
    ] {
        let (is, told) = of(text, lower, upper);
        assert_eq!(is, met, "{text}: {told}");
    }
    assert_eq!(of("ndr>1kpps", low, None).1, "600.0 kpps or more");
    let undecided = |text: &str, lower, upper| {
        let told = Expect::parse(text).unwrap().judge_found(Between { lower, upper }, 64);
        told.note.as_deref() == Some(NOT_DECIDED)
    };
    for (text, lower, upper, open) in [
        ("ndr>1Mpps", low, None, true),
        ("ndr>1Mpps", low, high, false),
        ("ndr>620kpps", low, high, true),
        ("ndr>1kpps", None, high, true),
        ("ndr>640kpps", None, high, false),
        ("ndr<1kpps", low, None, false),
        ("ndr<1Mpps", low, None, true),
        ("pdr>1pps", None, None, true),
        ("recovery<2ms", Some(2e6), Some(2e6), false),
        ("mfr==500kpps", low, high, false),
        ("mfr==620kpps", low, high, true),
    ] {
        assert_eq!(undecided(text, lower, upper), open, "{text}");
    }
    assert_eq!(of("ndr>1kpps", low, high).1, "600.0 kpps, and less than 640.0 kpps");
    assert_eq!(of("ndr>1kpps", None, None).1, "not found");
    // A run finds none of them, a method none of a run's.
    assert!(!met("ndr>1pps", &run(10_000, 0)));
    assert_eq!(Expect::parse("ndr>1pps").unwrap().found().map(Found::name), Some("ndr"));
    assert_eq!(Expect::parse("loss<1%").unwrap().found(), None);
    assert!(
        Expect::parse("ndr>1")
            .unwrap_err()
            .contains("want a rate such as 1Mpps")
    );
}

#[test]
fn a_run_too_short_for_its_bound_is_told() {
    let note = |text: &str, tx| Expect::parse(text).unwrap().judge(&run(tx, 0)).note;
    let told = note("loss<0.0001%", 10_000).expect("too short");
    assert!(told.contains("0.030 %") && told.contains("3,000,000"), "{told}");
    assert_eq!(note("loss<0.0001%", 3_000_001), None);
    assert_eq!(note("loss==0", 100), None);
    assert!(met("loss<=0.0", &run(100, 0)) && !met("loss==0", &run(100, 1)));
    assert!(note("p999<1s", 999).is_some() && note("p999<1s", 1000).is_none());
}

#[test]
fn what_can_not_be_measured_so_is_refused_with_what_would_be_right() {
    for (text, why) in [
        ("", "such as 'loss<0.01%'"),
        ("loss", "such as 'loss<0.01%'"),
        ("loss=0", "want one of"),
        ("speed<1", "'speed' is not measured: want loss"),
        ("loss<1ms", "want a ratio"),
        (
            "loss<0.1",
            "want its unit: loss<0.1%, or loss<10% where 0.1 is a part of one",
        ),
        ("loss_ratio <= 0.001", "loss_ratio<=0.001%, or loss_ratio<=0.1% where"),
        ("loss<1", "want its unit: loss<1%, or loss<100% where"),
        ("loss<0.0001", "loss<0.01% where"),
        ("loss<5", "want a ratio"),
        ("p99<5", "want a time"),
        ("p99<5MS", "want a time"),
        ("p99<-5us", "want a time"),
        ("lost<1.5", "want a number of packets"),
        ("received<1mpps", "want a number of packets, or a rate"),
        ("<1", "'' is not measured"),
        ("loss<", "want a ratio"),
        ("loss<NaN", "want a ratio"),
    ] {
        let told = Expect::parse(text).expect_err(text);
        assert!(told.contains(why), "{text}: {told}");
    }
}

/// Returns a stream, of which `lost` of 10,000 packets were lost.
fn stream(name: &str, lost: u64) -> StreamSummary {
    let of = run(10_000, lost);
    StreamSummary {
        name: name.to_owned(),
        frame_size: 361.5,
        tx: of.tx,
        rx: of.rx,
        lost,
        due: Some(10_000),
        offered_pps: of.offered_pps,
        received_pps: of.received_pps,
        loss_ratio: of.loss_ratio,
        latency: of.latency,
        latency_scheduled: Some(of.latency),
        latency_arrival: Some(of.latency),
        wake_up: Some(of.latency),
        valid: true,
        ..StreamSummary::default()
    }
}

fn of_streams() -> Summary {
    let mut untracked = stream("probe", 0);
    untracked.latency.percentiles = None;
    Summary {
        streams: vec![stream("gold", 0), untracked, stream("both", 10)],
        groups: vec![stream("users", 10), stream("both", 20)],
        ..run(30_000, 10)
    }
}

#[test]
fn a_demand_on_a_stream_or_a_group_is_judged_by_its_results_alone() {
    let run = of_streams();
    for good in [
        "loss(gold)==0",
        "lost( gold ) < 1",
        "p99(gold)<4.1us",
        "scheduled.p50(gold)<=2us",
        "arrival.p50(gold)<=2us",
        "wake_up_ns.max(gold)<1ms",
        "loss(users)<=0.1%",
        "received(gold)>=10kpps",
        "received(gold)>30.51Mbps",
        "received(gold)<30.53Mbps",
        "sent(gold)==100%",
        "max(probe)<1ms",
        "missed(gold)==0",
        // A stream goes before a group of its name.
        "lost(both)==10",
    ] {
        assert!(met(good, &run), "{good}");
    }
    for bad in [
        "loss(users)<0.1%",
        "p99(gold)<4us",
        "arrival.p99(gold)<4us",
        "lost(both)==20",
        "received(gold)>30kpps",
    ] {
        assert!(!met(bad, &run), "{bad}");
    }
    let expect = Expect::parse(" p99(gold) < 4us").unwrap();
    assert_eq!(
        (expect.to_string().as_str(), expect.stream()),
        ("p99(gold)<4us", Some("gold"))
    );
    assert_eq!(Expect::parse("p99<4us").unwrap().stream(), None);
    // No method finds it.
    assert_eq!(Expect::parse("loss(gold)<1%").unwrap().in_method(), None);
    // A stream of 10,000 packets tells less than the run of 30,000.
    let told = Expect::parse("loss(gold)<0.02%").unwrap().judge(&run);
    assert!(told.met && told.note.is_some_and(|note| note.contains("of 10,000 packets")));
}

#[test]
fn a_demand_on_what_is_not_there_is_not_met_and_says_what_is() {
    let told = |text: &str, run: &Summary| {
        let told = Expect::parse(text).unwrap().judge(run);
        assert!(!told.met && told.measured.is_none() && told.note.is_none(), "{text}");
        assert_eq!(told.expected, text);
        told.told
    };
    let run = of_streams();
    assert_eq!(
        told("loss(gols)==0", &run),
        "no stream or group 'gols': did you mean 'gold'?"
    );
    assert_eq!(
        told("loss(x)==0", &run),
        "no stream or group 'x': want gold, probe, both, users"
    );
    assert_eq!(
        told("loss(x)==0", &Summary::default()),
        "no stream or group 'x': the run has none: want --traffic FILE, or no name"
    );
    let many = Summary {
        streams: (10..50).map(|n| stream(&format!("customer{n}"), 0)).collect(),
        ..Summary::default()
    };
    assert!(told("loss(x)==0", &many).ends_with("customer16, customer17 and 32 more"));
    assert_eq!(
        told("p99(probe)<1s", &run),
        "not measured: want track = true in the stream, or its group"
    );
    // Of a stream that is not valid nothing is proven.
    let mut run = run;
    run.streams[0].valid = false;
    run.streams[0].invalid_reasons = vec![Remark::new(RemarkName::MissedDepartures, "late")];
    let note = Expect::parse("loss(gold)==0").unwrap().judge(&run).note;
    assert_eq!(note.as_deref(), Some("gold is not valid"));
}

#[test]
fn a_demand_on_a_stream_that_no_stream_can_meet_is_refused() {
    for (text, why) in [
        ("p99()<1us", "'p99()': want a stream or a group, such as p99(gold)"),
        (
            "foreign(gold)==0",
            "'foreign(gold)': foreign is not measured by stream: want loss, lost",
        ),
        ("host_dropped(gold)==0", "not measured by stream"),
        ("gap.p99(gold)<1us", "gap.p99 is not measured by stream"),
        ("mfr(gold)>1Mpps", "mfr is not measured by stream"),
        ("speed(gold)<1", "'speed' is not measured: want loss"),
        ("loss(gold)=0", "want one of < <= == >= >"),
        (
            "loss(gold)<0.1",
            "loss(gold)<0.1%, or loss(gold)<10% where 0.1 is a part of one",
        ),
        ("loss(gold<1%", "'loss(gold' is not measured"),
    ] {
        let told = Expect::parse(text).expect_err(text);
        assert!(told.contains(why), "{text}: {told}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in ".{0,40}") {
        let _ = Expect::parse(&text);
    }

    #[test]
    fn a_demand_and_its_opposite_are_never_both_met(bound in 0u64..20, lost in 0u64..20) {
        let run = run(100, lost);
        for (sign, opposite) in [("<", ">="), ("<=", ">")] {
            prop_assert_ne!(met(&format!("lost{sign}{bound}"), &run), met(&format!("lost{opposite}{bound}"), &run));
        }
    }
}
