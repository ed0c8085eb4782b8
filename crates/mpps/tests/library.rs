//! The library as another program uses it, on a path that needs no device.

use mpps::{Error, Event, FromArgs, Plan, Sink, run, session};
use std::sync::{Arc, Mutex};

const LINE: &str = "sendrecv loop: --src 10.0.0.1 --dest 10.0.0.2:9000 --rate 10kpps --duration 30ms --settle 100ms \
                    --interval 10ms";

fn plan() -> Plan {
    Plan::from_args(LINE.split_whitespace()).expect("a plan")
}

/// What a plan was refused for.
fn refused<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    match result {
        Err(Error::Usage(line)) => line,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn a_plan_is_the_same_from_words_and_from_json_and_with_another_value_it_is_another() {
    let plan = plan();
    assert_eq!(Plan::from_json(&plan.to_json()).expect("a plan"), plan);
    assert_eq!(plan.get("load.rate").and_then(|rate| rate.as_str()), Some("10kpps"));
    let faster = plan.with("load.rate", "20kpps").expect("a plan");
    assert_ne!(faster, plan);
    assert_eq!(faster.with("load.rate", "10kpps").expect("a plan"), plan);
    assert!(refused(plan.with("load.rte", "20kpps")).contains("load.rte"));
    assert!(refused(plan.with("load.rate", "fast")).contains("load.rate"));
    assert!(refused(Plan::from_args(["sendrecv", "nowhere:"])).contains("nowhere"));
}

#[test]
fn trials_of_one_session_have_other_sizes_rates_and_flows_and_no_other_addresses() {
    let plan = plan();
    let sizes = session(&plan, |session| {
        let mut sizes = Vec::new();
        for size in [64, 128, 1518] {
            let told = session.trial(&plan.with("traffic.frame_size", size)?, &mut [])?;
            assert_eq!(told.tx, told.rx + told.lost + told.late);
            sizes.push(told.frame_size);
        }
        for (field, value) in [("traffic.src", "10.0.0.9"), ("traffic.dest", "10.0.0.8:9000")] {
            let line = refused(session.trial(&plan.with(field, value)?, &mut []));
            assert!(line.contains(field), "{line}");
        }
        let told = session.trial(&plan.with("traffic.flows", 3)?.with("load.rate", "5kpps")?, &mut [])?;
        assert_eq!(told.intended_pps, Some(5000.0));
        Ok(sizes)
    });
    assert_eq!(sizes.expect("a session"), [64, 128, 1518]);
    let listens = Plan::from_args("drop null: --duration 1ms".split(' ')).expect("a plan");
    assert!(refused(session(&listens, |_| Ok(()))).contains("no trials"));
}

#[test]
fn a_run_tells_its_events_from_the_start_to_the_end_with_all_rows_between() {
    let seen = Arc::new(Mutex::new((Vec::new(), 0)));
    let kept = Arc::clone(&seen);
    let sink = move |event: &Event<'_>| {
        let mut seen = kept.lock().expect("a lock");
        let name = match event {
            Event::Start(_) => "start",
            Event::Row(row) => {
                seen.1 += row.tx;
                "row"
            }
            Event::End(_) => "end",
            _ => return,
        };
        seen.0.push(name);
    };
    let sinks: Vec<Box<dyn Sink>> = vec![Box::new(sink)];
    let told = run(&plan(), sinks).expect("a run");
    let seen = seen.lock().expect("a lock");
    assert_eq!((seen.0.first(), seen.0.last()), (Some(&"start"), Some(&"end")));
    let rows = seen.0.iter().filter(|name| **name == "row").count();
    assert_eq!(rows + 2, seen.0.len(), "{:?}", seen.0);
    assert_eq!(seen.1, told.tx);
    assert!(told.plan.is_some());
}

#[test]
fn addresses_at_both_ends_are_refused_where_flows_have_them_and_what_makes_the_flows_is_named() {
    let line = |more: &str| {
        let line = format!(
            "sendrecv loop: --src 10.0.0.1-10.0.0.9 --dest 10.0.0.5-10.0.0.14:9000 --src-port-range 10000 {more}"
        );
        Plan::from_args(line.split_whitespace())
    };
    assert!(refused(line("")).contains("10.0.0.5 is among the source addresses"));
    assert!(refused(line("--step together")).contains("10.0.0.5 is among the source addresses"));
    assert!(refused(line("--flows 5")).contains("10.0.0.5 is among the source addresses"));
    line("--flows 4").expect("flows whose addresses are apart");
    for (given, name) in [
        ("--flows 1", "--flows 1: 1 flow for 2"),
        ("--src-port-range 7", "--src-port-range 7: 1 flow for 2"),
        (
            "--dest 10.0.0.2-10.0.0.3:9000 --src-port-range 7 --lanes 3",
            "--src-port-range 7 by --dest 10.0.0.2-10.0.0.3:9000: 2 flows for 3",
        ),
    ] {
        let line = format!("sendrecv loop: --lanes 2 --src 10.0.0.1 {given}");
        let line = line.replace("--lanes 2", if given.contains("--lanes") { "" } else { "--lanes 2" });
        let told = refused(Plan::from_args(line.split_whitespace()));
        assert!(told.starts_with(name), "{told}");
    }
    let plan = Plan::from_args("sendrecv loop: --lanes 2".split(' ')).expect("a plan");
    let told = refused(plan.with("traffic.flows", 1));
    assert!(told.contains("traffic.flows (--flows) 1: 1 flow for 2"), "{told}");
}

#[test]
fn a_destination_by_name_is_that_of_the_session_in_each_trial() {
    let line = format!("{LINE} --tolerance 1").replace("10.0.0.2:9000", "localhost:9000");
    let plan = Plan::from_args(line.split_whitespace()).expect("a plan");
    let names = session(&plan, |session| {
        let mut names = Vec::new();
        for seed in [1, 1, 7] {
            let told = session.trial(&plan.with("seed", seed)?, &mut [])?;
            let fact = told.host.iter().find(|fact| fact.name == "destination_name");
            names.push(fact.map(|fact| fact.value.clone()));
        }
        Ok(names)
    });
    assert_eq!(names.expect("a session"), vec![Some("localhost".to_owned()); 3]);
}

#[test]
fn two_sessions_run_at_once_in_one_process() {
    let rates = [4_000.0, 8_000.0];
    let sent = std::thread::scope(|scope| {
        let sessions = rates.map(|pps| {
            scope.spawn(move || {
                let plan = plan().with("load.rate", format!("{pps}pps"))?;
                session(&plan, |session| {
                    let trial = |_| Ok(session.trial(&plan, &mut [])?.due);
                    (0..3).map(trial).collect::<Result<Vec<_>, Error>>()
                })
            })
        });
        sessions.map(|session| session.join().expect("no panic").expect("a session"))
    });
    assert_eq!(sent, [vec![Some(120); 3], vec![Some(240); 3]]);
}

#[test]
fn the_first_trial_of_a_session_starts_at_its_instant_and_a_trial_may_have_one_of_its_own() {
    let plan = plan().with("times.start_at", "+500ms").expect("a plan");
    let errors = session(&plan, |session| {
        let own = plan.with("times.start_at", "+400ms")?;
        [&plan, &plan, &own]
            .into_iter()
            .map(|plan| Ok(session.trial(plan, &mut [])?.start_error_ns.is_some()))
            .collect::<Result<Vec<_>, Error>>()
    });
    assert_eq!(errors.expect("a session"), [true, false, true]);
}
