//! The watch over a real kernel: as root, with the kernel's types at hand. Each test makes what it needs and is named
//! by what it holds; one that can't run here prints `SKIPPED` and why.

use mpps_sys::clock::monotonic_ns;
use mpps_sys::sched;
use mpps_trace::{Event, Explained, Gap, TakerKind};
use mpps_watch::{Lack, Lane, Options, OwnSwitches, ProgramTimes, Stamps, Watch};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, UdpSocket};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::time::{Duration, Instant};

/// Waits until no other test of this file loads programs: a watch sees the lanes of its own process only, but all share
/// two cores. A test may be a process of its own, so the lock is on the file of this binary, until the returned file is
/// closed.
fn turn() -> File {
    let binary = std::env::current_exe().and_then(File::open).expect("this binary");
    flock(&binary, FlockOperation::LockExclusive).expect("a lock");
    binary
}

fn skip(why: &str) {
    println!("SKIPPED: {why}");
}

/// `None`, and said, where this host has no watch.
fn watch(options: &Options) -> Option<Watch> {
    match Watch::start(options) {
        Ok(watch) => Some(watch),
        Err(lack) if rustix::process::geteuid().is_root() && std::fs::exists("/sys/kernel/btf/vmlinux").unwrap() => {
            // In a container root may lack the capabilities.
            match lack {
                Lack::Privileges(_) => skip(&lack.to_string()),
                lack => panic!("{lack}"),
            }
            None
        }
        Err(lack) => {
            skip(&lack.to_string());
            None
        }
    }
}

fn core() -> u32 {
    *sched::allowed_cores().last().expect("a core") as u32
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A lane that does nothing but look at the clock on its core, until told to stop: where it was away for 20 µs or more.
fn lane(cpu: u32, said: Option<u32>, stop: &AtomicBool, say: impl FnOnce(i32)) -> Vec<Gap> {
    sched::pin(cpu as usize).expect("the core is there");
    let tid = sched::thread_id();
    // Whatever comes once it is known is in a gap.
    let (mut gaps, mut last) = (Vec::new(), monotonic_ns());
    say(tid);
    while !stop.load(Relaxed) {
        let now = monotonic_ns();
        if now - last > 20_000 {
            gaps.push(Gap {
                lane: 5,
                tid,
                cpu: said,
                from_ns: last,
                to_ns: now,
            });
        }
        last = now;
    }
    gaps
}

/// What a spinner on the lane's core took by its own count (ns), by the sums, and by the events; `said`: the core that
/// the lane is said to be bound to.
fn with_spinner(watch: &mut Watch, said: Option<u32>) -> (u64, u64, u64) {
    let (cpu, stop) = (core(), AtomicBool::new(false));
    let (tell, tids) = std::sync::mpsc::channel();
    let (tell_lane, tell_spinner) = (tell.clone(), tell);
    let mut events = Vec::new();
    std::thread::scope(|scope| {
        let stop = &stop;
        let lane_thread = scope.spawn(move || lane(cpu, said, stop, |tid| tell_lane.send(tid).expect("it is heard")));
        let lane_tid = tids.recv().expect("a lane");
        watch.lanes(&[Lane {
            lane: 5,
            tid: lane_tid,
            cpu: said,
        }]);
        watch.clear();
        let spinner = std::thread::Builder::new().name("a spinner".to_owned());
        let spinner = spinner.spawn_scoped(scope, move || {
            sched::pin(cpu as usize).expect("the core is there");
            tell_spinner.send(sched::thread_id()).expect("it is heard");
            while !stop.load(Relaxed) && sched::thread_cpu_ns() < 300_000_000 {
                std::hint::spin_loop();
            }
            sched::thread_cpu_ns()
        });
        let spinner = spinner.expect("a thread");
        let spinner_tid = tids.recv().expect("a spinner");
        until("the spinner is done", || {
            watch.poll(&mut events);
            spinner.is_finished()
        });
        stop.store(true, Relaxed);
        let gaps = lane_thread.join().expect("a lane");
        watch.poll(&mut events);
        let own = [lane_tid, spinner_tid];
        let spun = |takers: &[mpps_trace::Taker]| {
            let found = takers.iter().find(|taker| taker.tid == spinner_tid);
            let taker = found.unwrap_or_else(|| panic!("{takers:?}"));
            assert_eq!((taker.kind, taker.name.as_str()), (TakerKind::Own, "a spinner"));
            assert_eq!((taker.lane, taker.cpu), (5, cpu));
            assert!(taker.max_ns <= taker.total_ns && taker.max_at_ns > gaps[0].from_ns);
            taker.total_ns
        };
        let explained = Explained::new(&events, &own);
        for gap in &gaps {
            let parts = explained.parts(gap);
            let sum: u64 = parts.iter().map(|part| part.amount).sum();
            assert_eq!(sum, gap.to_ns - gap.from_ns, "{parts:?}");
        }
        let by_sums = spun(&watch.takers());
        let by_events = spun(&explained.takers(&gaps));
        (spinner.join().expect("a spinner"), by_sums, by_events)
    })
}

#[test]
fn a_spinner_on_the_lanes_core_is_named_with_the_time_that_it_took() {
    let _turn = turn();
    let options = Options {
        cores: 1,
        records: true,
        ..Options::default()
    };
    let Some(mut watch) = watch(&options) else { return };
    for said in [Some(core()), None] {
        // Another program may disturb one try: it may be one whose switches this kernel hides.
        let mut tries = Vec::new();
        let right = (0..10).any(|_| {
            let (took, by_sums, by_events) = with_spinner(&mut watch, said);
            assert_eq!(watch.lost(), 0);
            tries.push((took, by_sums, by_events));
            let right = |named: u64| named >= took / 100 * 95 && named <= took / 100 * 105;
            right(by_sums) && right(by_events)
        });
        assert!(right, "{said:?}: {tries:?}");
        println!("{said:?}: {tries:?}");
    }
}

#[test]
fn soft_interrupts_of_a_lanes_own_calls_are_left_alone_where_they_are_many_and_looked_at_where_they_are_not() {
    let _turn = turn();
    let cpu = core();
    // A lane that only looks at the clock, and one whose every call is a packet to this very host.
    for calls in [false, true] {
        let Some(mut watch) = watch(&Options::default()) else {
            return;
        };
        let (stop, (tell, tids)) = (&AtomicBool::new(false), std::sync::mpsc::channel());
        std::thread::scope(|scope| {
            let body = move || match calls {
                false => drop(lane(cpu, Some(cpu), stop, |tid| tell.send(tid).expect("it is heard"))),
                true => {
                    sched::pin(cpu as usize).expect("the core is there");
                    tell.send(sched::thread_id()).expect("it is heard");
                    let to = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
                    let from = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
                    while !stop.load(Relaxed) {
                        from.send_to(&[0; 18], to.local_addr().expect("an address"))
                            .expect("sent");
                    }
                }
            };
            scope.spawn(body);
            let tid = tids.recv().expect("a lane");
            let lanes = [Lane {
                lane: 0,
                tid,
                cpu: Some(cpu),
            }];
            watch.lanes(&lanes);
            let mut events = Vec::new();
            if calls {
                until("soft interrupts are left alone", || {
                    watch.poll(&mut events);
                    watch.soft_left().is_some()
                });
            } else {
                for _ in 0..50 {
                    watch.poll(&mut events);
                    std::thread::sleep(Duration::from_millis(6));
                }
                assert_eq!(watch.soft_left(), None);
            }
            stop.store(true, Relaxed);
        });
    }
}

#[test]
fn what_was_started_with_privileges_goes_on_without() {
    let _turn = turn();
    let Some(mut watch) = watch(&Options {
        records: true,
        ports: vec![9..=9],
        ..Options::default()
    }) else {
        return;
    };
    let without = std::thread::spawn(move || {
        rustix::thread::set_capabilities(
            None,
            rustix::thread::CapabilitySets {
                effective: rustix::thread::CapabilitySet::empty(),
                permitted: rustix::thread::CapabilitySet::empty(),
                inheritable: rustix::thread::CapabilitySet::empty(),
            },
        )
        .expect("less is always allowed");
        assert!(matches!(Watch::start(&Options::default()), Err(Lack::Privileges(_))));
        watch.lanes(&[Lane {
            lane: 5,
            tid: sched::thread_id(),
            cpu: Some(core()),
        }]);
        sched::pin(core() as usize).expect("the core is there");
        let mut events = Vec::new();
        until("something happens on the core", || {
            std::thread::sleep(Duration::from_millis(5));
            watch.poll(&mut events);
            events
                .iter()
                .any(|event| matches!(event.event, Event::Waking { tid, .. } if tid == sched::thread_id()))
                && events.iter().any(|event| matches!(event.event, Event::Switch { .. }))
        });
        assert!(events.iter().all(|event| event.cpu < 1024));
        let _ = (watch.takers(), watch.drops(), watch.polls());
    });
    without.join().unwrap();
}

#[test]
fn without_privileges_a_lanes_own_switches_are_told_or_why_not() {
    let stop = AtomicBool::new(false);
    let (tell, tids) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            tell.send(sched::thread_id()).expect("it is heard");
            while !stop.load(Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let tid = tids.recv().expect("a thread");
        let seen = scope.spawn(move || {
            let _ = rustix::thread::set_capabilities(
                None,
                rustix::thread::CapabilitySets {
                    effective: rustix::thread::CapabilitySet::empty(),
                    permitted: rustix::thread::CapabilitySet::empty(),
                    inheritable: rustix::thread::CapabilitySet::empty(),
                },
            );
            let lane = Lane {
                lane: 0,
                tid,
                cpu: None,
            };
            let mut own = match OwnSwitches::start(&[lane]) {
                Ok(own) => own,
                Err(Lack::Privileges(why)) => {
                    assert!(why.contains("perf_event_paranoid"), "{why}");
                    return skip(&why);
                }
                Err(lack) => return skip(&lack.to_string()),
            };
            let mut events = Vec::new();
            until("it sleeps and wakes", || {
                own.poll(&mut events);
                events
                    .iter()
                    .any(|e| matches!(e.event, Event::SwitchedOut { tid: of, preempted: false } if of == tid))
                    && events
                        .iter()
                        .any(|e| matches!(e.event, Event::SwitchedIn { tid: of } if of == tid))
            });
        });
        let seen = seen.join();
        stop.store(true, Relaxed);
        seen.unwrap();
    });
}

#[test]
fn the_time_of_programs_is_counted_while_it_is_asked_for() {
    let _turn = turn();
    let Some(_watch) = watch(&Options::default()) else {
        return;
    };
    let ids: Vec<u32> = programs_of(std::process::id()).into_iter().collect();
    assert!(!ids.is_empty());
    let times = match ProgramTimes::of_ids(&ids) {
        Ok(times) => times,
        Err(lack) => return skip(&lack.to_string()),
    };
    until("a program has run", || {
        std::thread::sleep(Duration::from_millis(1));
        let all = times.read().expect("proc is there");
        assert_eq!(all.len(), ids.len());
        assert!(all.iter().all(|time| ids.contains(&time.id)));
        all.iter().any(|time| time.runs > 0 && time.total_ns > 0)
    });
}

/// Numbers of the programs that a process holds.
fn programs_of(process: u32) -> BTreeSet<u32> {
    let folder = std::fs::read_dir(format!("/proc/{process}/fdinfo")).expect("the process is there");
    let texts = folder
        .flatten()
        .filter_map(|file| std::fs::read_to_string(file.path()).ok());
    let id = |text: String| {
        text.lines()
            .find_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok())
    };
    texts.filter_map(id).collect()
}

/// This test program again, as a process of its own that does the part `part` (see [`a_part_of_another_test`]), in a
/// network namespace of its own.
struct Part {
    child: Child,
    ask: ChildStdin,
    answers: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Part {
    fn begin(part: &str) -> Self {
        let mut command = Command::new("unshare");
        command
            .args(["-n", "--"])
            .arg(std::env::current_exe().expect("this program"));
        command.args(["--exact", "a_part_of_another_test", "--nocapture", "--test-threads=1"]);
        command
            .env("MPPS_WATCH_PART", part)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().expect("unshare (util-linux)");
        let ask = child.stdin.take().expect("a pipe");
        let answers = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Self { child, ask, answers }
    }

    /// What it says after this word; `None`: it was skipped.
    fn answer(&mut self, word: &str) -> Option<String> {
        for line in self.answers.by_ref() {
            let line = line.expect("text");
            if let Some((_, answer)) = line.split_once(&format!("{word}:")) {
                return Some(answer.trim().to_owned());
            }
            if line.contains("SKIPPED") {
                println!("{line}");
                return None;
            }
        }
        panic!("it ended before it said {word}");
    }

    fn go_on(&mut self) {
        writeln!(self.ask, "go on").expect("it hears");
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_asked() {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("it is asked");
}

#[test]
fn a_part_of_another_test() {
    match std::env::var("MPPS_WATCH_PART").as_deref() {
        Ok("stopped") => part_stopped(),
        Ok("drops") => part_drops(),
        Ok("whose") => part_whose(),
        Ok("stranger") => part_stranger(),
        Ok("killed") => {
            let Some(_watch) = watch(&Options {
                records: true,
                ports: vec![9..=9],
                ..Options::default()
            }) else {
                return;
            };
            println!("ready: now");
            is_asked();
        }
        _ => {}
    }
}

fn part_stopped() {
    let options = Options {
        cores: 1,
        records: true,
        ..Options::default()
    };
    let Some(mut watch) = watch(&options) else { return };
    let (cpu, stop) = (core(), AtomicBool::new(false));
    let (tell, tids) = std::sync::mpsc::channel();
    let (stopped, by_events) = std::thread::scope(|scope| {
        let lane_thread = scope.spawn(|| lane(cpu, Some(cpu), &stop, |tid| tell.send(tid).expect("it is heard")));
        let tid = tids.recv().expect("a lane");
        watch.lanes(&[Lane {
            lane: 5,
            tid,
            cpu: Some(cpu),
        }]);
        println!("lane: {tid}");
        is_asked();
        stop.store(true, Relaxed);
        let gaps = lane_thread.join().expect("a lane");
        let mut events = Vec::new();
        watch.poll(&mut events);
        let stopped = |takers: &[mpps_trace::Taker]| -> u64 {
            let stopped = takers.iter().filter(|taker| taker.kind == TakerKind::Stopped);
            stopped.map(|taker| taker.total_ns).sum()
        };
        (
            stopped(&watch.takers()),
            stopped(&Explained::new(&events, &[tid]).takers(&gaps)),
        )
    });
    println!("sums: {stopped}\nevents: {by_events}");
}

#[test]
fn a_lane_that_was_stopped_by_a_signal_is_said_to_be() {
    let _turn = turn();
    let mut part = Part::begin("stopped");
    let Some(tid) = part.answer("lane") else { return };
    let process = Pid::from_child(&part.child);
    let stat = format!("/proc/{}/task/{tid}/stat", process.as_raw_pid());
    let is_stopped = || std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") T "));
    kill_process(process, Signal::STOP).expect("it is there");
    until("it is stopped", is_stopped);
    let from = monotonic_ns();
    std::thread::sleep(Duration::from_millis(3));
    let took = monotonic_ns() - from;
    kill_process(process, Signal::CONT).expect("it is there");
    until("it goes on", || !is_stopped());
    // It comes back to its core before it is asked.
    std::thread::sleep(Duration::from_millis(50));
    part.go_on();
    for by in ["sums", "events"] {
        let stopped: u64 = part.answer(by).expect("it was not skipped").parse().expect("a number");
        assert!(stopped >= took, "{by}: {stopped} of {took} ns");
        println!("{by}: {stopped} of {took} ns");
    }
}

fn part_drops() {
    let up = Command::new("ip").args(["link", "set", "lo", "up"]).status();
    if !up.is_ok_and(|status| status.success()) {
        return skip("ip (iproute2) is not there");
    }
    const PORT: u16 = 7341;
    let here = |port| (Ipv4Addr::LOCALHOST, port);
    let options = Options {
        records: true,
        ports: vec![PORT..=PORT + 1],
        ..Options::default()
    };
    let Some(mut watch) = watch(&options) else { return };
    let sender = UdpSocket::bind(here(9000)).expect("a socket");
    let receiver = UdpSocket::bind(here(PORT)).expect("a socket");
    rustix::net::sockopt::set_socket_recv_buffer_size(&receiver, 1).expect("the least that there is");
    receiver.set_nonblocking(true).expect("a socket");
    const SENT: u64 = 300;
    for _ in 0..SENT {
        sender.send_to(&[0; 500], here(PORT)).expect("loopback");
    }
    let mut data = [0; 1000];
    let received = std::iter::from_fn(|| receiver.recv(&mut data).ok()).count() as u64;
    let mut events = Vec::new();
    watch.poll(&mut events);
    // A closed port of the test's, and one that is not.
    for port in [PORT + 1, PORT + 2] {
        for _ in 0..7 {
            // It may hear that nobody is there.
            let _ = sender.send_to(&[0; 20], here(port));
        }
    }
    let drops = watch.drops();
    let of = |reason: &str| {
        drops
            .iter()
            .find(|drop| drop.reason == reason)
            .map_or(0, |drop| drop.ours)
    };
    println!(
        "received: {received}\nfull: {}\nclosed: {}\nall: {drops:?}",
        of("SOCKET_RCVBUFF"),
        of("NO_SOCKET")
    );
    watch.poll(&mut events);
    let of = events.iter().filter_map(|event| match &event.event {
        Event::Drop(drop) => Some(drop.clone()),
        _ => None,
    });
    let record = of.clone().find(|drop| drop.reason == "NO_SOCKET").expect("a record");
    println!(
        "count: {}\nplace: {}\ndevice: {}\nours: {}",
        of.count(),
        record.place,
        record.device,
        record.ours
    );
}

#[test]
fn packets_that_the_kernel_drops_are_counted_by_reason() {
    let _turn = turn();
    let mut part = Part::begin("drops");
    let Some(received) = part.answer("received") else {
        return;
    };
    let mut number = |word: &str| part.answer(word).expect("a number").parse::<u64>().expect("a number");
    let (full, closed) = (number("full"), number("closed"));
    let received: u64 = received.parse().expect("a number");
    let all = part.answer("all").expect("all reasons");
    if all.contains("NOT_SPECIFIED") && full == 0 {
        return skip("this kernel does not tell why it drops packets (Linux 5.17)");
    }
    assert!(received > 0 && received < 300, "{received}");
    assert_eq!((full, closed), (300 - received, 7), "{received} received: {all}");
    let count: u64 = part.answer("count").expect("records").parse().expect("a number");
    assert!(count > 0 && count <= full + closed);
    let place = part.answer("place").expect("a place");
    println!("{received} received, {full} and {closed} dropped, the latter in {place}: {all}");
    assert!(place.contains("udp") || place == "[kernel]", "{place}");
    assert_eq!(part.answer("device").as_deref(), Some("lo"));
    assert_eq!(part.answer("ours").as_deref(), Some("true"));
}

/// A port that nobody listens on, and times that packets are stamped with: this run's, and another's.
const CLOSED: u16 = 7351;
const OURS: u64 = 123_456_789_012;
const THEIRS: u64 = OURS + 1;

/// Sends that many packets with this stamp to a closed port of this namespace.
fn send_stamped(to: &str, time_ns: u64, count: usize) {
    let any = if to.contains(':') { "[::]:0" } else { "0.0.0.0:0" };
    let sender = UdpSocket::bind(any).expect("a socket");
    let mut payload = [0; 100];
    payload[8..16].copy_from_slice(&time_ns.to_le_bytes());
    for _ in 0..count {
        // It may hear that nobody is there.
        while sender.send_to(&payload, (to, CLOSED)).is_err() {}
    }
}

fn loopback_is_up() -> bool {
    let up = Command::new("ip").args(["link", "set", "lo", "up"]).status();
    up.is_ok_and(|status| status.success())
}

/// Watches in its own network namespace, first with a lane that stamps packets, then without.
fn part_whose() {
    if !loopback_is_up() {
        return skip("ip (iproute2) is not there");
    }
    for stamps in [true, false] {
        let options = Options {
            lanes: vec![Lane {
                lane: 0,
                tid: sched::thread_id(),
                cpu: Some(core()),
            }],
            ports: vec![CLOSED..=CLOSED],
            records: true,
            ..Options::default()
        };
        let Some(mut watch) = watch(&options) else { return };
        assert!(watch.stamps(1).is_none());
        let words = watch.stamps(0).expect("a lane");
        let places = words.len() - Stamps::PLACES_AT;
        // More than there are places for, and the one in question among the newest.
        let times = (0..places as u64 + 100).map(|n| OURS - 10 * places as u64 + 10 * n);
        for (n, time) in times.enumerate().take_while(|_| stamps) {
            words[Stamps::PLACES_AT + n % places].store(time, Relaxed);
            words[0].store(n as u64 + 1, Release);
        }
        println!("watching: {stamps}");
        is_asked();
        send_stamped("127.0.0.1", OURS, 3);
        send_stamped("::1", OURS, 2);
        send_stamped("127.0.0.1", THEIRS, 4);
        // Older than all that are known: there is no telling but by the namespace.
        send_stamped("127.0.0.1", 5, 1);
        let drops = watch.drops();
        let ours: u64 = drops.iter().map(|drop| drop.ours).sum();
        let mut events = Vec::new();
        watch.poll(&mut events);
        let drop = |event: &mpps_trace::KernelEvent| match &event.event {
            Event::Drop(drop) if drop.ours => Some(u64::from(drop.packets)),
            _ => None,
        };
        let recorded: u64 = events.iter().filter_map(drop).sum();
        println!("ours: {ours}\nrecorded: {recorded}\nall: {drops:?}");
    }
}

/// Another host's part, in another network namespace: packets of that run and of another, to the same port.
fn part_stranger() {
    if !loopback_is_up() {
        return skip("ip (iproute2) is not there");
    }
    loop {
        println!("there: now");
        is_asked();
        send_stamped("127.0.0.1", OURS, 10);
        send_stamped("::1", OURS, 20);
        send_stamped("127.0.0.1", THEIRS, 40);
        println!("sent: all");
        is_asked();
    }
}

#[test]
fn a_dropped_packet_is_the_runs_by_its_stamp_wherever_it_is_and_without_stamps_by_the_namespace() {
    let _turn = turn();
    let mut whose = Part::begin("whose");
    let mut stranger = Part::begin("stranger");
    for (stamps, ours) in [("true", 3 + 2 + 1 + 10 + 20), ("false", 3 + 2 + 4 + 1)] {
        let Some(said) = whose.answer("watching") else { return };
        assert_eq!(said, stamps);
        if stranger.answer("there").is_none() {
            return;
        }
        stranger.go_on();
        stranger.answer("sent").expect("it was not skipped");
        stranger.go_on();
        whose.go_on();
        for by in ["ours", "recorded"] {
            let found: u64 = whose.answer(by).expect("a count").parse().expect("a number");
            assert_eq!(found, ours, "{by}, with stamps: {stamps}: {:?}", whose.answer("all"));
        }
    }
}

#[test]
fn a_process_that_is_killed_leaves_no_program() {
    let _turn = turn();
    let mut part = Part::begin("killed");
    if part.answer("ready").is_none() {
        return;
    }
    let mine = programs_of(part.child.id());
    assert!(mine.len() >= 2, "{mine:?}");
    let loaded = || -> BTreeSet<u32> {
        aya::programs::loaded_programs()
            .flatten()
            .map(|program| program.id())
            .collect()
    };
    assert!(mine.is_subset(&loaded()));
    kill_process(Pid::from_child(&part.child), Signal::KILL).expect("it is there");
    part.child.wait().expect("it ends");
    until("its programs are gone", || mine.is_disjoint(&loaded()));
}
