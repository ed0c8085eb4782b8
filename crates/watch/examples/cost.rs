//! What a watch costs: switches of two threads on one core, without a watch, with sums, and with records, in turns.
//!
//! `cost CORE [ROUNDS]` prints ns a switch; `cost --hold CORES SECONDS [--records]` only watches those cores, so that
//! another program can be measured on them meanwhile.

use mpps_watch::{Lane, Options, ProgramTimes, Watch};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Of 100,000 exchanges of a byte between two threads on one core: two switches each.
fn exchanges(cpu: usize, mut watch: Option<&mut Watch>) -> (f64, usize) {
    const TIMES: usize = 100_000;
    let (mut read_a, mut write_a) = std::io::pipe().expect("a pipe");
    let (mut read_b, mut write_b) = std::io::pipe().expect("a pipe");
    let done = AtomicBool::new(false);
    let (tell, tids) = std::sync::mpsc::channel();
    let mut events = Vec::new();
    let mut count = 0;
    let took = std::thread::scope(|scope| {
        let tell_b = tell.clone();
        let done = &done;
        scope.spawn(move || {
            let _ = mpps_sys::sched::pin(cpu);
            let _ = tell_b.send(mpps_sys::sched::thread_id());
            let mut byte = [0];
            for _ in 0..TIMES + 1 {
                let _ = read_a.read_exact(&mut byte);
                let _ = write_b.write_all(&byte);
            }
        });
        let measured = scope.spawn(move || {
            let _ = mpps_sys::sched::pin(cpu);
            let mut byte = [0];
            let _ = write_a.write_all(&byte);
            let _ = read_b.read_exact(&mut byte);
            let begin = Instant::now();
            for _ in 0..TIMES {
                let _ = write_a.write_all(&byte);
                let _ = read_b.read_exact(&mut byte);
            }
            let took = begin.elapsed();
            done.store(true, Relaxed);
            took
        });
        let tid = tids.recv().expect("a thread");
        if let Some(watch) = watch.as_deref_mut() {
            let cpu = Some(cpu as u32);
            watch.lanes(&[Lane { lane: 0, tid, cpu }]);
        }
        while !done.load(Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
            if let Some(watch) = watch.as_deref_mut() {
                watch.poll(&mut events);
                count += events.len();
                events.clear();
            }
        }
        measured.join().expect("it ends")
    });
    (took.as_nanos() as f64 / (2 * TIMES) as f64, count)
}

fn start(records: bool, cores: u32) -> Watch {
    let options = Options {
        cores,
        ports: vec![5000..=6000],
        records,
        ..Options::default()
    };
    match Watch::start(&options) {
        Ok(watch) => watch,
        Err(lack) => {
            eprintln!("{lack}");
            std::process::exit(1);
        }
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |place: usize, or: usize| words.get(place).and_then(|word| word.parse().ok()).unwrap_or(or);
    if words.first().is_some_and(|word| word == "--hold") {
        let cores = words.get(1).map(String::as_str).unwrap_or("0").split(',');
        let lanes: Vec<Lane> = cores
            .filter_map(|cpu| cpu.parse().ok())
            .map(|cpu| Lane {
                lane: cpu,
                tid: mpps_sys::sched::thread_id(),
                cpu: Some(cpu),
            })
            .collect();
        let mut watch = start(words.iter().any(|word| word == "--records"), lanes.len() as u32);
        watch.lanes(&lanes);
        let (begin, mut events, mut count) = (Instant::now(), Vec::new(), 0);
        println!("watching");
        while begin.elapsed() < Duration::from_secs(number(2, 10) as u64) {
            std::thread::sleep(Duration::from_millis(20));
            watch.poll(&mut events);
            count += events.len();
            events.clear();
        }
        return println!("{count} events, {} lost in {:?}", watch.lost(), begin.elapsed());
    }
    let cpu = number(0, 0);
    let mut all: [Vec<f64>; 3] = Default::default();
    let mut events = (0, 0);
    for _ in 0..number(1, 9) {
        all[0].push(exchanges(cpu, None).0);
        all[1].push(exchanges(cpu, Some(&mut start(false, 1))).0);
        let mut watch = start(true, 1);
        let (took, count) = exchanges(cpu, Some(&mut watch));
        all[2].push(took);
        events = (events.0 + count, events.1 + watch.lost());
    }
    for (name, mut took) in ["without", "sums", "records"].into_iter().zip(all) {
        took.sort_by(f64::total_cmp);
        println!(
            "{name}: least {:.0}, median {:.0} ns a switch",
            took[0],
            took[took.len() / 2]
        );
    }
    println!("{} events, {} lost", events.0, events.1);

    // What the programs take by the kernel's own count.
    let mut watch = start(true, 1);
    let folder = std::fs::read_dir("/proc/self/fdinfo").expect("proc is there");
    let texts = folder
        .flatten()
        .filter_map(|file| std::fs::read_to_string(file.path()).ok());
    let ids: Vec<u32> = texts
        .filter_map(|text| {
            text.lines()
                .find_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok())
        })
        .collect();
    match ProgramTimes::of_ids(&ids) {
        Ok(times) => {
            exchanges(cpu, Some(&mut watch));
            for time in times.read().unwrap_or_default().iter().filter(|time| time.runs > 0) {
                println!(
                    "program {}: {} runs, {} ns each",
                    time.id,
                    time.runs,
                    time.total_ns / time.runs
                );
            }
        }
        Err(lack) => println!("{lack}"),
    }
}
