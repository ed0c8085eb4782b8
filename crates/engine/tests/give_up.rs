//! Before the first packet each lane and then the main thread are told that they have opened what they need: once, and
//! a run does not take place where one of them can't give up what it should.

use mpps_engine::{Common, DropPlan, LanePlan, Opened, Owner, run_drop};
use mpps_io::null::{NoSource, NullConfig, NullPort};
use std::io;
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

static TOLD: Mutex<Vec<(Opened, ThreadId)>> = Mutex::new(Vec::new());

fn note(opened: Opened) -> io::Result<()> {
    let mut told = TOLD.lock().expect("no panic");
    told.push((opened, std::thread::current().id()));
    Ok(())
}

fn refuse(opened: Opened) -> io::Result<()> {
    match opened {
        Opened::Lane(1) => Err(io::Error::from_raw_os_error(1)),
        _ => Ok(()),
    }
}

/// Owner whose threads give up what this function says.
#[derive(Debug)]
struct GivesUp(fn(Opened) -> io::Result<()>);

impl Owner for GivesUp {
    fn opened(&self, thread: Opened) -> io::Result<()> {
        (self.0)(thread)
    }
}

fn run(give_up: fn(Opened) -> io::Result<()>) -> Result<mpps_stats::Summary, mpps_engine::RunError> {
    let lane = LanePlan {
        rx: true,
        tx: false,
        core: None,
    };
    let common = Common {
        lanes: vec![lane; 2],
        duration: Some(Duration::from_millis(20)),
        share_cores: true,
        owner: Arc::new(GivesUp(give_up)),
        ..Common::default()
    };
    let port = NullPort::new(NullConfig::default(), 2, [2, 0, 0, 0, 0, 1], NoSource);
    let plan = DropPlan {
        common,
        ip: None,
        ports: None,
        excluded_ports: Box::default(),
        verify: false,
        tagged: None,
        streams: None,
        max_flows: 1,
        link: None,
    };
    run_drop(&port, &plan, &mut [], &|| 0)
}

#[test]
fn each_thread_is_told_once_and_the_main_thread_last() {
    run(note).expect("a run");
    let told = TOLD.lock().expect("no panic");
    let mut who: Vec<_> = told.iter().map(|(opened, _)| *opened).collect();
    assert_eq!(who.pop(), Some(Opened::Main));
    who.sort_by_key(|opened| format!("{opened:?}"));
    assert_eq!(who, [Opened::Lane(0), Opened::Lane(1)]);
    let mut threads: Vec<_> = told.iter().map(|(_, thread)| format!("{thread:?}")).collect();
    assert_eq!(
        told.last().map(|(_, thread)| *thread),
        Some(std::thread::current().id())
    );
    threads.sort();
    threads.dedup();
    assert_eq!(threads.len(), 3, "each on its own thread");
}

#[test]
fn a_run_does_not_take_place_where_a_thread_keeps_what_it_should_not() {
    let refused = run(refuse).expect_err("no run").to_string();
    assert!(
        refused.contains("give up privileges") && refused.contains("lane 1"),
        "{refused}"
    );
}
