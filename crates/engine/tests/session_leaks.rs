//! A thousand trials of one session: nothing is left behind by them. Alone in its process, whose threads and
//! descriptors it counts.

#[path = "session/setup.rs"]
mod setup;

use mpps_engine::session;
use mpps_io::loopback::LoopConfig;
use setup::{loop_port, reason, traffic};
use std::time::Duration;

const TRIALS: usize = 1_000;
/// After so many all memory is there that is used again.
const WARM: usize = 100;
/// More would be 4 kB a trial.
const MOST_KB: u64 = 4_000;

/// Threads, descriptors, and resident memory in kB.
fn held() -> (usize, usize, u64) {
    let entries = |folder: &str| std::fs::read_dir(folder).expect("of our own").count();
    let status = std::fs::read_to_string("/proc/self/status").expect("of our own");
    let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let rss = rss.and_then(|rss| rss.trim().strip_suffix(" kB")?.parse().ok());
    (
        entries("/proc/self/task"),
        entries("/proc/self/fd"),
        rss.expect("a number of kB"),
    )
}

/// As [`held`], once it is no more than `most` threads and descriptors: a lane lets go of a trial a moment after its
/// result.
fn held_at_last(most: (usize, usize)) -> (usize, usize, u64) {
    let looks = (0..500).map(|_| {
        std::thread::sleep(Duration::from_millis(10));
        held()
    });
    let mut looks = looks.skip_while(|now| now.0 > most.0 || now.1 > most.1);
    looks.next().unwrap_or_else(held)
}

#[test]
fn a_thousand_trials_leave_nothing_behind() {
    let mut opening = traffic(2, 8, 18);
    opening.common.duration = Some(Duration::from_millis(1));
    opening.common.settle = Duration::ZERO;
    opening.common.interval = Duration::from_millis(1);
    let before = held();
    // What a trial loses, because it does not wait for it, is told as late in the next: each packet once.
    let (mut sent, mut counted, mut late, mut ends) = (0, 0, 0, Vec::new());
    session(&[&loop_port(LoopConfig::default(), 2)], &opening, &|| 0, |session| {
        let mut warm = held();
        for number in 0..TRIALS {
            if number == WARM {
                warm = held();
            }
            let told = session.trial(opening.clone(), &mut [], &|| 0).expect("a trial");
            assert_eq!(
                (told.foreign, told.corrupt, told.duplicates),
                (0, 0, 0),
                "{:?}",
                told.reasons
            );
            assert_eq!(told.tx + told.missed, 10);
            late += reason(&told, "late_of_an_earlier_trial");
            assert!(late <= sent - counted, "trial {number}: {late} late");
            sent += told.tx;
            counted += told.rx + told.late;
            ends.push(told.started.monotonic_ns + told.duration_ns);
            if number > 0 {
                let gap_ns = told.started.monotonic_ns - ends[number - 1];
                ends[number - 1] = gap_ns;
            }
        }
        let now = held_at_last((warm.0, warm.1));
        println!("threads, descriptors, kB: {before:?} before, {warm:?} at first, {now:?} in the end");
        assert!(now.0 <= warm.0 && now.1 <= warm.1, "{now:?}");
        assert!(now.2 < warm.2 + MOST_KB, "{} kB, then {}", warm.2, now.2);
    })
    .expect("a session");
    let after = held_at_last((before.0, before.1));
    assert!(
        after.0 <= before.0 && after.1 <= before.1,
        "{after:?} after the session"
    );
    ends.pop();
    ends.sort_unstable();
    let at = |part: usize| ends[(ends.len() - 1) * part / 100] as f64 / 1e6;
    println!("{sent} sent, {counted} came back in time or late, {late} in a later trial");
    println!(
        "between trials: {:.1} ms, 99 of 100 within {:.1} ms, at most {:.1} ms",
        at(50),
        at(99),
        at(100)
    );
}
