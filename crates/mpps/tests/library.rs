//! The library as another program uses it, on a path that needs no device.

use mpps::{Error, Event, Plan, Sink, run, session};
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
