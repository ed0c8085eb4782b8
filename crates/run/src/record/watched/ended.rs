//! End of a watch: its reader is stopped, and what it has read becomes the results.

use super::{LaneThread, Read, Reader, Source, Watched};
use mpps_sys::clock::monotonic_ns;
use mpps_sys::evidence::{OthersRan, Rival};
use mpps_sys::proc_stat::threads;
use mpps_trace::{Explained, KernelDrops, KernelEvent, LeftOut, Taker, displaced, time};
use mpps_watch::Watch;
use std::sync::atomic::Ordering;

fn lack(what: &str, why: String) -> LeftOut {
    LeftOut {
        what: what.to_owned(),
        count: 0,
        why,
    }
}

/// Returns the results of a watch that saw nothing, and why.
pub(super) fn nothing(lanes: Vec<LaneThread>, why: String) -> Watched {
    Watched {
        lanes,
        left_out: vec![lack("what took the cores, and the kernel's reasons for drops", why)],
        ..Watched::default()
    }
}

/// Stops the thread that reads events, and returns the results.
pub(super) fn stop(reader: Reader, lanes: Vec<LaneThread>) -> Watched {
    let names = threads();
    let ended_ns = monotonic_ns();
    reader.over.store(true, Ordering::Release);
    reader.thread.thread().unpark();
    let Ok(Read {
        source,
        mut events,
        left_out: beyond,
        drops,
    }) = reader.thread.join()
    else {
        return nothing(
            lanes,
            "the thread that reads the kernel's events has panicked".to_owned(),
        );
    };
    events.sort_by_key(|event| event.at_ns);
    let mut left_out = lost_events(beyond, source.lost());
    let soft = soft_left(&source);
    let kernel_drops = source.kernel().map(|watch| KernelDrops {
        list: drops.grew,
        unseen: own_words(watch.unseen_drops()),
    });
    let own = names.iter().map(|(tid, _)| *tid);
    let own: Vec<i32> = own.chain(lanes.iter().map(|lane| lane.tid)).collect();
    let (takers, missing) = match &source {
        Source::Kernel(watch) => (watch.takers(), without(watch)),
        Source::Own(_, why, before) => {
            let explained = Explained::new(&events, &own).with_names(&names);
            takers_by_switches(&explained, &events, &lanes, ended_ns, (why, before))
        }
    };
    left_out.extend(missing.into_iter().chain(soft));
    Watched {
        takers,
        drops: kernel_drops,
        own,
        names,
        left_out,
        events,
        lanes,
    }
}

/// Names events that were left out for lack of memory, and events that were lost.
fn lost_events(beyond: u64, lost: u64) -> Vec<LeftOut> {
    let all = [
        (
            beyond,
            "the memory for them was full: kept are those near long waits of lanes for their cores",
        ),
        (lost, "they came faster than they could be read"),
    ];
    let left_out = |(count, why): (u64, &str)| LeftOut {
        what: "events of the kernel".to_owned(),
        count,
        why: why.to_owned(),
    };
    all.into_iter().filter(|(count, _)| *count > 0).map(left_out).collect()
}

/// Names soft interrupts, if they were not looked at to the end.
fn soft_left(source: &Source) -> Option<LeftOut> {
    source.kernel().and_then(Watch::soft_left).map(|after| {
        let after = time(after.as_nanos() as f64);
        let why = format!(
            "the lanes' own calls bring so many that looking at each would slow the lanes down: not looked at \
             from {after} on"
        );
        lack("what soft interrupts took", why)
    })
}

/// Names what the kernel has no tracepoints for.
fn without(watch: &Watch) -> Vec<LeftOut> {
    let no_such = "this kernel has no such tracepoint";
    let missing = watch.without().iter().map(|what| lack(what, no_such.to_owned()));
    missing.collect()
}

/// Finds what took the cores from the switches of the program's own threads alone, and names what these don't show.
/// `why`: the kernel's tracepoints could not be opened.
fn takers_by_switches(
    explained: &Explained,
    events: &[KernelEvent],
    lanes: &[LaneThread],
    ended_ns: u64,
    (why, before): (&str, &OthersRan),
) -> (Vec<Taker>, Vec<LeftOut>) {
    let what = "what took the cores, own threads apart, and the kernel's reasons for drops";
    let of = |lane: &LaneThread| (lane.lane, lane.tid, lane.cpu);
    let gaps = displaced(events, &lanes.iter().map(of).collect::<Vec<_>>(), ended_ns);
    let takers = explained.takers(&gaps);
    let why = format!("{why}{}", by_processor_time(&takers, before));
    (takers, vec![lack(what, why)])
}

fn own_words(unseen: Vec<(&'static str, &'static str)>) -> Vec<(String, String)> {
    let owned = |(what, why): (&str, &str)| (what.to_owned(), why.to_owned());
    unseen.into_iter().map(owned).collect()
}

/// Names threads of other programs that may have used the cores that were taken. Everybody can read how long each
/// thread has run since, and on which core it was last.
fn by_processor_time(takers: &[Taker], before: &OthersRan) -> String {
    /// Most threads named per core, and the least time that a thread must have run to be named, ns.
    const NAMED: usize = 3;
    const WORTH_NAMING_NS: u64 = 1_000_000;
    let mut others = before.since(WORTH_NAMING_NS);
    others.sort_by_key(|rival| std::cmp::Reverse(rival.ran_ns));
    let mut cores: Vec<u32> = takers.iter().map(|taker| taker.cpu).collect();
    cores.sort_unstable();
    cores.dedup();
    let of_core = |core: u32| {
        let there = others.iter().filter(|rival| rival.core == core as usize).take(NAMED);
        let named = there.map(
            |Rival {
                 name, thread, ran_ns, ..
             }| {
                let ran = time(*ran_ns as f64);
                format!("{name} (thread {thread}) for {ran}")
            },
        );
        let named: Vec<String> = named.collect();
        (!named.is_empty()).then(|| format!("; last seen on core {core}, and run meanwhile: {}", named.join(", ")))
    };
    cores.into_iter().filter_map(of_core).collect()
}
