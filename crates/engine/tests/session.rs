//! A session: ports opened once, any number of trials, and nothing of one in the next.

#[path = "session/setup.rs"]
mod setup;

use mpps_engine::{FlowSet, LanePlan, Opened, Owner, Rate, RunError, TrafficPlan, Trials, session};
use mpps_io::loopback::{LoopConfig, LoopPort};
use mpps_io::null::{NoSource, NullConfig, NullPort};
use mpps_io::{Burst, Capabilities, Error, ErrorKind, Fact, Layer, Port, Queue, QueueCounters, Result, Step, Wait};
use mpps_stats::{Event, Summary};
use mpps_sys::clock::monotonic_ns;
use mpps_wire::{MacAddr, ReflectFilter, SlowPath, build_arp_reply, parse_slow_path, reflect_in_place};
use setup::{Kept, MS, loop_port, reason, traffic};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Runs a trial; its rows, its lanes and its totals are of the same packets.
fn trial(session: &mut dyn Trials, plan: TrafficPlan) -> Summary {
    let (kept, receive) = (Kept::default(), plan.receive);
    let summary = session
        .trial(plan, &mut [Box::new(kept.clone())], &|| 0)
        .expect("a trial");
    let rows = kept.0.lock().unwrap();
    assert_eq!(rows.iter().map(|r| r.tx).sum::<u64>(), summary.tx);
    assert_eq!(rows.iter().map(|r| r.rx).sum::<u64>(), summary.rx);
    assert_eq!(rows.iter().map(|r| r.foreign).sum::<u64>(), summary.foreign);
    assert_eq!(summary.lanes.iter().map(|l| l.tx_packets).sum::<u64>(), summary.tx);
    let back = summary.rx + summary.lost + summary.late;
    assert_eq!(back, if receive { summary.tx } else { 0 });
    summary
}

fn timed(plan: TrafficPlan, duration: Duration, settle: Duration) -> TrafficPlan {
    let mut plan = plan;
    plan.common.duration = Some(duration);
    plan.common.settle = settle;
    plan
}

/// What strangers there were.
fn strangers(summary: &Summary) -> (u64, u64, u64) {
    (summary.foreign, summary.corrupt, summary.duplicates)
}

#[test]
fn trials_differ_in_rate_size_length_and_flows() {
    let opening = traffic(2, 64, 18);
    // Packets that a stalled host left on their way: they come first.
    let mut owed = 0;
    let told = session(&[&loop_port(LoopConfig::default(), 2)], &opening, &|| 0, |session| {
        [(20_000, 18, 64, 40), (5_000, 1_000, 7, 80), (50_000, 256, 2, 20)].map(|(pps, payload_len, flows, ms)| {
            let plan = TrafficPlan {
                rate: Rate::new(pps, 1),
                payload_len,
                frame_size: payload_len + 46,
                flows: FlowSet::new(10_000..=10_063, 9000..=9000, Some(flows)),
                ..opening.clone()
            };
            let summary = trial(session, timed(plan, ms * MS, 100 * MS));
            assert_eq!(summary.tx + summary.missed, pps * u64::from(ms) / 1_000);
            assert_eq!(summary.frame_size, payload_len + 46);
            assert_eq!(summary.intended_pps, Some(pps as f64));
            assert_eq!(reason(&summary, "late_of_an_earlier_trial"), owed);
            owed = summary.lost;
            assert_eq!(strangers(&summary), (0, 0, 0), "{:?}", summary.reasons);
            assert_eq!(summary.latency.count, summary.rx);
            summary.duration_ns
        })
    });
    assert_eq!(told.expect("a session"), [40_000_000, 80_000_000, 20_000_000]);
}

#[test]
fn trials_that_only_send_stand_beside_others() {
    let opening = traffic(1, 8, 18);
    let port = loop_port(LoopConfig::default(), 1);
    session(&[&port], &opening, &|| 0, |session| {
        for receive in [true, false, true, false] {
            let plan = TrafficPlan {
                receive,
                ..opening.clone()
            };
            let summary = trial(session, timed(plan, 10 * MS, 50 * MS));
            assert_eq!(summary.tx + summary.missed, 100);
            assert_eq!(strangers(&summary), (0, 0, 0));
        }
    })
    .expect("a session");
}

#[test]
fn sending_trials_on_a_port_that_receives_nothing() {
    let opening = TrafficPlan {
        receive: false,
        ..traffic(2, 8, 18)
    };
    let port = NullPort::new(NullConfig::default(), 2, [2, 0, 0, 0, 0, 1], NoSource);
    let sent = session(&[&port], &opening, &|| 0, |session| {
        [1_000, 10_000, 100_000].map(|pps| {
            let plan = TrafficPlan {
                rate: Rate::new(pps, 1),
                ..opening.clone()
            };
            let summary = trial(session, timed(plan, 20 * MS, Duration::ZERO));
            summary.tx + summary.missed
        })
    });
    assert_eq!(sent.expect("a session"), [20, 200, 2_000]);
}

/// Packets of a trial come back when it is over, some between it and the next, some in that one, which differs in
/// length, data and flows.
fn late_packets_are_known(layer: Layer, next: impl FnOnce(&mut TrafficPlan)) {
    let mut config = LoopConfig {
        delay_ns: 30_000_000,
        ..LoopConfig::default()
    };
    config.buffers.layer = layer;
    let mut opening = traffic(1, 64, 18);
    if layer == Layer::Payload {
        opening.link = None;
    }
    session(&[&loop_port(config, 1)], &opening, &|| 0, |session| {
        let first = trial(session, timed(opening.clone(), 20 * MS, 5 * MS));
        assert!(first.lost > 0, "{first:?}");
        assert_eq!(reason(&first, "late_of_an_earlier_trial"), 0);
        let mut plan = timed(opening.clone(), 60 * MS, 100 * MS);
        next(&mut plan);
        // As a rule all of them come by the next trial; on a host that stalls by one after it, with what that one lost.
        let mut owed = first.lost;
        while owed > 0 {
            let told = trial(session, plan.clone());
            println!("{layer:?}: {owed} lost, then {:?}", told.reasons);
            let late = reason(&told, "late_of_an_earlier_trial");
            assert!(late <= owed, "{late} late of {owed}");
            let remarked = told
                .warnings
                .iter()
                .any(|w| w.sentence.contains("of an earlier trial arrived during this one"));
            assert_eq!(remarked, late > 0, "{:?}", told.warnings);
            owed = owed - late + told.lost;
            assert_eq!(strangers(&told), (0, 0, 0), "{:?}", told.reasons);
        }
        let last = trial(session, plan);
        assert_eq!(strangers(&last), (0, 0, 0));
        assert_eq!(reason(&last, "late_of_an_earlier_trial"), 0);
    })
    .expect("a session");
}

#[test]
fn a_late_packet_of_an_earlier_trial_is_known_as_that() {
    for layer in [Layer::Ethernet, Layer::Payload] {
        late_packets_are_known(layer, |_| {});
        late_packets_are_known(layer, |plan| plan.payload_len = 600);
        late_packets_are_known(layer, |plan| plan.common.seed = 77);
        late_packets_are_known(layer, |plan| {
            plan.flows = FlowSet::new(10_000..=10_063, 9000..=9000, Some(1));
            (plan.payload_len, plan.common.seed) = (16, 78);
        });
    }
}

#[test]
fn a_trial_that_is_interrupted_has_its_result_and_the_session_no_further_one() {
    let opening = traffic(1, 8, 18);
    let port = loop_port(LoopConfig::default(), 1);
    session(&[&port], &opening, &|| 0, |session| {
        let mut plan = opening.clone();
        plan.common.duration = None;
        let asked = AtomicU32::new(0);
        // Some looks after the start.
        let interruptions = || u32::from(asked.fetch_add(1, Ordering::Relaxed) > 8);
        let summary = session.trial(plan, &mut [], &interruptions).expect("a result");
        assert!(summary.interrupted && summary.tx > 0, "{summary:?}");
        let refused = session.trial(opening.clone(), &mut [], &interruptions);
        assert!(matches!(refused, Err(RunError::Interrupted)), "{refused:?}");
        // Whoever takes the interruption back may go on.
        assert!(!trial(session, opening.clone()).interrupted);
    })
    .expect("a session");
}

#[test]
fn a_trial_that_the_port_was_not_opened_for_is_refused_and_the_session_goes_on() {
    let opening = traffic(2, 8, 18);
    let port = loop_port(LoopConfig::default(), 2);
    type Change = fn(&mut TrafficPlan);
    let cases: [(Change, &str); 7] = [
        (|p| p.common.lanes.truncate(1), "lanes"),
        (|p| p.common.lanes[0].rx = false, "lanes"),
        (|p| p.dst = [10, 99, 0, 3].into(), "want 10.99.0.1 to 10.99.0.2"),
        (|p| p.link = None, "MAC addresses"),
        (
            |p| p.flows = FlowSet::new(10_000..=10_008, 9000..=9000, None),
            "flows beyond",
        ),
        (
            |p| p.flows = FlowSet::new(10_000..=10_000, 9000..=9000, None),
            "1 flows for 2 sending lanes",
        ),
        (|p| p.payload_len = 1473, "want 16 to 1472"),
    ];
    session(&[&port], &opening, &|| 0, |session| {
        for (change, want) in cases {
            let mut plan = opening.clone();
            change(&mut plan);
            let refused = session.trial(plan, &mut [], &|| 0).expect_err("unfit").to_string();
            assert!(
                refused.contains(want) && refused.starts_with("the session was opened for other trials"),
                "{refused}"
            );
        }
        trial(session, opening.clone());
    })
    .expect("a session");
}

static TOLD: Mutex<Vec<Opened>> = Mutex::new(Vec::new());

/// Owner whose threads give up what this function says.
#[derive(Debug)]
struct GivesUp(fn(Opened) -> io::Result<()>);

impl Owner for GivesUp {
    fn opened(&self, thread: Opened) -> io::Result<()> {
        (self.0)(thread)
    }
}

#[test]
fn privileges_are_given_up_once_and_before_the_first_trial() {
    let mut opening = traffic(2, 8, 18);
    opening.common.owner = Arc::new(GivesUp(|opened| {
        TOLD.lock().unwrap().push(opened);
        Ok(())
    }));
    let told = || TOLD.lock().unwrap().len();
    session(&[&loop_port(LoopConfig::default(), 2)], &opening, &|| 0, |session| {
        assert_eq!((told(), TOLD.lock().unwrap().last().copied()), (3, Some(Opened::Main)));
        for _ in 0..3 {
            trial(session, opening.clone());
        }
    })
    .expect("a session");
    assert_eq!(told(), 3);
    let mut opening = traffic(2, 8, 18);
    opening.common.owner = Arc::new(GivesUp(|opened| match opened {
        Opened::Lane(1) => Err(io::Error::from_raw_os_error(1)),
        _ => Ok(()),
    }));
    let refused = session(&[&loop_port(LoopConfig::default(), 2)], &opening, &|| 0, |_| {
        panic!("not ready")
    });
    assert!(matches!(refused, Err(RunError::Path(_))), "{refused:?}");
}

#[test]
fn the_peer_is_asked_for_its_address_once() {
    let asked = Arc::new(AtomicU32::new(0));
    let (filter, questions) = (ReflectFilter::default(), Arc::clone(&asked));
    let turn = move |frame: &mut [u8]| match parse_slow_path(frame) {
        Some(SlowPath::ArpRequest {
            sender_mac,
            sender_ip,
            target_ip,
            vlan,
        }) => {
            questions.fetch_add(1, Ordering::Relaxed);
            let peer = MacAddr([2, 0, 0, 0, 0, 2]);
            build_arp_reply(frame, peer, target_ip, sender_mac, sender_ip, vlan) > 0
        }
        _ => reflect_in_place(frame, &filter, false).is_ok(),
    };
    let mut opening = traffic(1, 8, 18);
    let link = opening.link.as_mut().expect("an Ethernet path");
    (link.dest_mac, link.next_hop) = (None, Some(opening.dst));
    let port = LoopPort::new(LoopConfig::default(), 1, monotonic_ns, turn);
    session(&[&port], &opening, &|| 0, |session| {
        let before = asked.load(Ordering::Relaxed);
        assert!(before > 0);
        for _ in 0..3 {
            let summary = trial(session, opening.clone());
            assert_eq!(strangers(&summary), (0, 0, 0), "{:?}", summary.reasons);
        }
        assert_eq!(asked.load(Ordering::Relaxed), before);
    })
    .expect("a session");
}

/// What a lane's queue does on its next call.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Whim {
    #[default]
    None,
    Panic,
    Vanish,
    /// When it receives: it does not get on before a trial has begun.
    Linger,
}

/// A port whose queues have whims.
struct Moody<P> {
    port: P,
    whim: Arc<Mutex<Whim>>,
    /// A trial has begun.
    begun: Arc<AtomicBool>,
    /// It had while a queue lingered.
    lingered: AtomicBool,
}

struct MoodyQueue<'p, P, Q> {
    queue: Q,
    port: &'p Moody<P>,
}

impl<P: Port> Port for Moody<P> {
    type Pool = P::Pool;
    type Queue<'p>
        = MoodyQueue<'p, P, P::Queue<'p>>
    where
        Self: 'p;

    fn capabilities(&self) -> &Capabilities {
        self.port.capabilities()
    }
    fn pool(&self, queue: usize) -> Result<P::Pool> {
        self.port.pool(queue)
    }
    fn queue<'p>(&'p self, queue: usize, pool: &'p P::Pool) -> Result<Self::Queue<'p>> {
        let queue = self.port.queue(queue, pool)?;
        Ok(MoodyQueue { queue, port: self })
    }
    fn counters(&self, queue: usize) -> QueueCounters {
        self.port.counters(queue)
    }
    fn facts(&self) -> Vec<Fact> {
        self.port.facts()
    }
}

impl<P: Port, Q: Queue> Queue for MoodyQueue<'_, P, Q> {
    type Frame = Q::Frame;

    fn receive(&mut self, burst: &mut Burst<Q::Frame>) -> Result<usize> {
        let lingers = {
            let mut whim = self.port.whim.lock().unwrap();
            *whim == Whim::Linger && std::mem::replace(&mut *whim, Whim::None) == Whim::Linger
        };
        if lingers {
            let until = monotonic_ns() + 300_000_000;
            let begun = || self.port.begun.load(Ordering::SeqCst);
            while !begun() && monotonic_ns() < until {
                std::thread::sleep(MS);
            }
            self.port.lingered.store(begun(), Ordering::SeqCst);
        }
        self.queue.receive(burst)
    }
    fn allocate(&mut self, burst: &mut Burst<Q::Frame>, n: usize) -> Result<usize> {
        let whim = std::mem::replace(&mut *self.port.whim.lock().unwrap(), Whim::None);
        match whim {
            Whim::None | Whim::Linger => self.queue.allocate(burst, n),
            Whim::Panic => panic!("a lane that panics, as it is told to"),
            Whim::Vanish => Err(Error::new("send", "the device", "it has vanished", ErrorKind::Gone)),
        }
    }
    fn transmit(&mut self, burst: &mut Burst<Q::Frame>) -> Result<usize> {
        self.queue.transmit(burst)
    }
    fn flush(&mut self) -> Result<()> {
        self.queue.flush()
    }
    fn wait(&mut self, what: Wait, timeout: Duration) -> Result<()> {
        self.queue.wait(what, timeout)
    }
}

fn moody() -> Moody<impl Port> {
    Moody {
        port: loop_port(LoopConfig::default(), 2),
        whim: Arc::default(),
        begun: Arc::default(),
        lingered: AtomicBool::new(false),
    }
}

#[test]
fn no_trial_begins_while_a_lane_still_empties_its_queue_and_none_does_so_once_it_has_begun() {
    let (port, opening) = (moody(), traffic(2, 8, 18));
    let whim = || *port.whim.lock().unwrap();
    session(&[&port], &opening, &|| 0, |session| {
        // Before the first, and before another.
        for _ in 0..2 {
            port.begun.store(false, Ordering::SeqCst);
            *port.whim.lock().unwrap() = Whim::Linger;
            let until = monotonic_ns() + 60_000_000_000;
            while whim() == Whim::Linger {
                // A lane looks after its queue, and gets on with it only slowly.
                assert!(monotonic_ns() < until, "no lane looks after its queue");
                std::thread::sleep(MS);
            }
            let (begun, next, left) = (
                Arc::clone(&port.begun),
                Arc::clone(&port.whim),
                Arc::new(AtomicBool::new(false)),
            );
            let alone = Arc::clone(&left);
            let begins = move |event: &Event<'_>| {
                if matches!(event, Event::Start(_)) {
                    begun.store(true, Ordering::SeqCst);
                    // Lanes have not been told yet. For longer than they would wait between two trials, the first that
                    // takes something off its queue takes the whim, too.
                    *next.lock().unwrap() = Whim::Linger;
                    std::thread::sleep(200 * MS);
                    let whim = std::mem::replace(&mut *next.lock().unwrap(), Whim::None);
                    alone.store(whim == Whim::Linger, Ordering::SeqCst);
                }
            };
            let summary = session.trial(opening.clone(), &mut [Box::new(begins)], &|| 0);
            assert!(port.begun.load(Ordering::SeqCst) && summary.is_ok());
            assert!(!port.lingered.load(Ordering::SeqCst));
            assert!(left.load(Ordering::SeqCst));
        }
    })
    .expect("a session");
}

#[test]
fn a_lane_that_panics_is_told_and_there_are_no_further_trials() {
    let (port, opening) = (moody(), traffic(2, 8, 18));
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let ended = session(&[&port], &opening, &|| 0, |session| {
        trial(session, opening.clone());
        *port.whim.lock().unwrap() = Whim::Panic;
        for _ in 0..2 {
            let kept = Arc::clone(&heard);
            let sink = move |event: &Event<'_>| match event {
                Event::Start(_) => kept.lock().unwrap().push("start".to_owned()),
                Event::End(s) => kept
                    .lock()
                    .unwrap()
                    .push(format!("{} {}", s.valid, s.invalid_reasons[0])),
                _ => {}
            };
            let told = session.trial(opening.clone(), &mut [Box::new(sink)], &|| 0);
            assert!(matches!(told, Err(RunError::Panicked(0 | 1))), "{told:?}");
        }
        "ended"
    });
    assert_eq!(ended.expect("a session"), "ended");
    // The first has begun, and so has one end; the other has neither.
    let heard = heard.lock().unwrap();
    assert_eq!((heard.len(), heard[0].as_str()), (2, "start"), "{heard:?}");
    assert!(
        heard[1].starts_with("false lane ") && heard[1].contains("has panicked"),
        "{heard:?}"
    );
}

#[test]
fn lanes_of_a_million_flows_are_ready_ahead_of_the_start_and_send_nothing_before() {
    let first = Arc::new(AtomicU64::new(u64::MAX));
    let (turned, filter) = (Arc::clone(&first), ReflectFilter::default());
    let turn = move |frame: &mut [u8]| {
        turned.fetch_min(monotonic_ns(), Ordering::Relaxed);
        reflect_in_place(frame, &filter, false).is_ok()
    };
    let port = LoopPort::new(LoopConfig::default(), 1, monotonic_ns, turn);
    let flows = FlowSet::of(10_000..=10_999, 9000..=9000, (100, 10), Step::Combine, None);
    let unpaced = TrafficPlan {
        flows,
        rate: None,
        ..traffic(1, 8, 18)
    };
    let (start, called) = (Arc::new(AtomicU64::new(0)), AtomicU64::new(0));
    let told = Arc::clone(&start);
    let sink = move |event: &Event<'_>| {
        if let Event::Start(begins) = event {
            told.store(begins.started.monotonic_ns, Ordering::Relaxed);
        }
    };
    let summary = session(&[&port], &unpaced, &|| 0, |session| {
        called.store(monotonic_ns(), Ordering::Relaxed);
        session.trial(timed(unpaced.clone(), 10 * MS, 10 * MS), &mut [Box::new(sink)], &|| 0)
    });
    let summary = summary.expect("a session").expect("a trial");
    let (first, start) = (first.load(Ordering::Relaxed), start.load(Ordering::Relaxed));
    // 200 ns for each flow.
    assert!(
        start >= called.load(Ordering::Relaxed) + 200_000_000,
        "{start} {called:?}"
    );
    // A host that stood still for all of the 10 ms has sent none.
    assert!(summary.tx == 0 || (start > 0 && first >= start), "{first} {start}");
}

#[test]
fn a_device_that_vanishes_ends_its_trial_with_a_result() {
    let (port, opening) = (moody(), traffic(2, 8, 18));
    session(&[&port], &opening, &|| 0, |session| {
        *port.whim.lock().unwrap() = Whim::Vanish;
        let summary = trial(session, opening.clone());
        let told = summary
            .warnings
            .iter()
            .any(|note| note.sentence.contains("it has vanished"));
        assert!(!summary.valid && told, "{:?}", summary.warnings);
        // It was only told so; what is of that trial is not in the next.
        let summary = trial(session, opening.clone());
        let told = summary
            .warnings
            .iter()
            .any(|note| note.sentence.contains("it has vanished"));
        assert!(summary.tx + summary.missed == 100 && !told, "{:?}", summary.warnings);
    })
    .expect("a session");
}

#[test]
fn a_port_without_queues_enough_is_told_before_any_trial() {
    let opening = traffic(2, 8, 18);
    let refused = session(&[&loop_port(LoopConfig::default(), 1)], &opening, &|| 0, |_| {
        panic!("no session")
    });
    assert!(matches!(refused, Err(RunError::Path(_))), "{refused:?}");
    // A body may run no trial at all.
    let mut none = opening;
    none.common.lanes = vec![LanePlan::BOTH];
    let port = loop_port(LoopConfig::default(), 1);
    assert_eq!(session(&[&port], &none, &|| 0, |_| 5).expect("a session"), 5);
}
