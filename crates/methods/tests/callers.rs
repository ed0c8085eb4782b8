//! Methods without the program: other callers have settings and views of their own.

use mpps_methods::compare::{self, Compare, Quantity, Ran, Runs, Variant};
use mpps_methods::ndr::{self, Ndr};
use mpps_methods::search::{Goal, Ratio};
use mpps_methods::{Ask, Common, Teller, View};
use mpps_pages::document::Document;
use mpps_plan::values::rate::RateText;
use mpps_run::fail::Result;
use mpps_run::host::{Opens, Sinks, Steps};
use mpps_run::{Host, Plan, Run};
use mpps_stats::Sink;
use serde_json::json;
use std::cell::{Cell, RefCell};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Views that keep what they are given.
#[derive(Default)]
struct Kept {
    progress: Arc<Mutex<Vec<String>>>,
    trials: Cell<usize>,
    lines: RefCell<Vec<String>>,
    document: RefCell<Document>,
    ended: Cell<bool>,
}

impl View for Kept {
    fn teller(&self) -> Teller {
        let progress = Arc::clone(&self.progress);
        Arc::new(move |line| progress.lock().unwrap().push(line.to_owned()))
    }

    fn trial(&self, _: &Ask) -> Option<Box<dyn Sink>> {
        self.trials.set(self.trials.get() + 1);
        None
    }

    fn result(&self, lines: &[String], document: &Document) -> Result<()> {
        *self.lines.borrow_mut() = lines.to_vec();
        *self.document.borrow_mut() = document.clone();
        Ok(())
    }

    fn end(&self, unwritten: &[String]) -> Result<()> {
        assert!(unwritten.is_empty(), "{unwritten:?}");
        self.ended.set(true);
        Ok(())
    }
}

/// Steps of a caller that needs none.
struct NoSteps;

impl Steps for NoSteps {
    fn open(&self, _: Opens<'_>) -> Result<Sinks> {
        Ok(Vec::new())
    }
}

#[test]
fn a_search_runs_for_a_caller_without_files() {
    let plan = json!({
        "mpps_plan": 1, "workload": "sendrecv", "ports": ["loop:capacity=2kpps"],
        "traffic": { "src": "10.0.0.1", "dest": "10.0.0.2:9000" },
    });
    let common = Common {
        run: Run::of(mpps_plan::Plan::of_json(&plan.to_string()).unwrap()),
        min_rate: None,
        max_rate: Some(RateText::parse("4kpps").unwrap()),
        pause: None,
        settle: Some(Duration::from_millis(20)),
        folder: None,
        resume: false,
        junit: None,
        files: Vec::new(),
        device_note: None,
        expect: Vec::new(),
        command: vec!["a caller".to_owned()],
        version: "0.1.0",
    };
    let goal = Goal {
        initial_ns: 50_000_000,
        final_ns: 50_000_000,
        sum_ns: 50_000_000,
        width: 0.1,
        ..Goal::csit(Ratio::ZERO)
    };
    let (view, host) = (
        Kept::default(),
        Host {
            interruptions: &|| 0,
            steps: &NoSteps,
        },
    );
    let ndr = Ndr::new(&[goal], false, Duration::from_secs(5));
    let code = ndr::run(&common, &ndr, (&host, &view)).unwrap();
    // A host that other programs disturb finds nothing.
    assert!(matches!(code, 0 | 3), "{code}");
    let document = view.document.borrow();
    assert_eq!((document.test.as_str(), document.complete), ("ndr", code == 0));
    assert_eq!(document.command, ["a caller"]);
    assert_eq!(document.trials.len(), view.trials.get());
    assert!(view.lines.borrow().len() >= 2 && view.ended.get());
    assert!(!view.progress.lock().unwrap().is_empty());
}

/// Runs whose second variant receives twice as much.
struct Twice;

impl Runs for Twice {
    fn run(&self, variant: usize) -> Result<Ran> {
        let received = 1_000.0 * (variant + 1) as f64;
        Ok(Ran::Told(json!({ "valid": true, "received_pps": received })))
    }

    fn interrupted(&self) -> bool {
        false
    }
}

#[test]
fn a_comparison_takes_plans_and_results_of_its_caller_s_runs() {
    let variant = |name: &str, port: &str| Variant {
        name: name.to_owned(),
        text: port.to_owned(),
        plan: Plan::of_printed(&json!({ "mpps_plan": 1, "workload": "drop", "ports": [port] }).to_string()).unwrap(),
        frame_size: None,
        takes: Duration::ZERO,
        chosen: Vec::new(),
    };
    let compare = Compare {
        metrics: vec![Quantity::ReceivedPps.into()],
        margin: 0.02,
        force: false,
        rounds: None,
        pause: Duration::ZERO,
        retries: 0,
        seed: 1,
        folder: None,
        resume: false,
        command: Vec::new(),
        version: "0.1.0",
    };
    let view = Kept::default();
    let variants = vec![variant("A", "loop:"), variant("B", "loop:delay=1ms")];
    let code = compare::runs(&compare, variants, (String::new(), Vec::new()), (&view, &Twice)).unwrap();
    assert_eq!((code, view.ended.get()), (0, true));
    let verdict = view.document.borrow().verdict.clone();
    assert_eq!(
        verdict,
        ["B is 2.0000 (2.0000 to 2.0000) times A in received_pps: better"]
    );
    // A line before the first of 16 runs, and one after each.
    assert_eq!(view.progress.lock().unwrap().len(), 17);
}
