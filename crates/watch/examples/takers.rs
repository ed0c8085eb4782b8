//! Watches one core while a thread of this program spins there: `takers CORE SECONDS [--records] [--sums-only]`.

use mpps_watch::{Lane, Options, Watch};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |place: usize, or: u64| words.get(place).and_then(|word| word.parse().ok()).unwrap_or(or);
    let (cpu, seconds) = (number(0, 0) as u32, number(1, 2));
    let begin = Instant::now();
    let options = Options {
        cores: 1,
        ports: vec![1..=u16::MAX],
        records: words.iter().any(|word| word == "--records"),
        ..Options::default()
    };
    let mut watch = match Watch::start(&options) {
        Ok(watch) => watch,
        Err(lack) => return eprintln!("{lack}"),
    };
    println!(
        "began in {:?}; this kernel lacks {:?}",
        begin.elapsed(),
        watch.without()
    );

    let stop = AtomicBool::new(false);
    let (tell, tid) = std::sync::mpsc::channel();
    let mut events = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ = mpps_sys::sched::pin(cpu as usize);
            let _ = tell.send(rustix::thread::gettid().as_raw_pid());
            while !stop.load(Relaxed) {
                std::hint::spin_loop();
            }
        });
        watch.lanes(&[Lane {
            lane: 0,
            tid: tid.recv().expect("the thread says who it is"),
            cpu: Some(cpu),
        }]);
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(seconds) {
            std::thread::sleep(Duration::from_millis(20));
            watch.poll(&mut events);
        }
        stop.store(true, Relaxed);
    });
    for taker in watch.takers() {
        println!(
            "{:?} {} {} count={} total={} us max={} us at {}",
            taker.kind,
            taker.name,
            taker.tid,
            taker.count,
            taker.total_ns / 1000,
            taker.max_ns / 1000,
            taker.max_at_ns
        );
    }
    println!("{:?}\n{:?}", watch.drops(), watch.polls());
    println!("{} events, {} lost", events.len(), watch.lost());
    if words.iter().any(|word| word == "--print") {
        events.iter().for_each(|event| println!("{event:?}"));
    }
}
