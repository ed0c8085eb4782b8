//! Temporary driver.
use mpps_io::kernel::*;
use mpps_wire::*;
use mpps_xdp::*;
use std::time::Duration;
fn now() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let secs: f64 = a[3].parse().unwrap();
    let spec: mpps_io::PortSpec = format!("xdp:{}", a[2]).parse().unwrap();
    let device = open(&check(&spec).unwrap()).unwrap();
    let series = Series { interval_ns: 100_000_000, settle_ns: if a[1] == "sendrecv" { 1_000_000_000 } else { 0 } };
    let t0 = std::time::Instant::now();
    let cores: Vec<usize> = a.get(5).map_or(vec![0], |c| c.split(',').map(|c| c.parse().unwrap()).collect());
    let rate: Option<f64> = a.get(4).map(|r| r.parse().unwrap()).filter(|r| *r > 0.0);
    let nflows: u32 = a.get(6).map_or(64, |c| c.parse().unwrap());
    let port = match a[1].as_str() {
        "reflect" => device.reflect(&ReflectSpec { series, taken: Taken::default() }),
        "drop" => device.drop(&DropSpec { series, taken: Taken::default(), verify: true, seed: 1, max_flows: 4096 }),
        w => {
            let payload_len = a.get(7).map_or(18, |c| c.parse().unwrap());
            let v6 = a.get(8).is_some();
            let (src, dst): (std::net::IpAddr, std::net::IpAddr) = if v6 { ("fd99::1".parse().unwrap(), "fd99::2".parse().unwrap()) } else { ("10.99.0.1".parse().unwrap(), "10.99.0.2".parse().unwrap()) };
            let t = Template::new(&TemplateSpec { src_mac: MacAddr([2, 0, 0, 0, 0, 1]), dst_mac: MacAddr([2, 0, 0, 0, 0, 2]), vlan: None, src, dst, payload_len, ttl: 64, dscp: 0, seed: 1, checksum: ChecksumMode::Device }).unwrap();
            let mut f = vec![0; t.frame_len()];
            t.write(&mut f, 0, 0, Stamp { seq: 0, time_ns: 0 });
            let l4 = if v6 { 54 } else { 34 };
            let pseudo = u16::from_le_bytes([f[l4 + 6], f[l4 + 7]]);
            let len = ((8 + payload_len) as u16).swap_bytes();
            let s = pseudo as u32 + len as u32;
            let sum = ((s & 0xffff) + (s >> 16)) as u16;
            device.traffic(&TrafficSpec { series, headers: f[..l4].to_vec(), sum, src, dst, payload_len, seed: 1, flows: Flows { src_first: 10000, src_count: nflows, dst_first: 9000, count: nflows }, cores: cores.clone(), receive: w == "sendrecv", rate_pps: rate, random: false, catch_up_ns: 5_000_000, answer: Answer::default() })
        }
    }.unwrap_or_else(|e| { eprintln!("{e}"); std::process::exit(1) });
    eprintln!("loaded in {:?}", t0.elapsed());
    for f in port.facts() { eprintln!("  {} {}", f.name, f.value); }
    let start = now() + 5_000_000;
    let end = start + (secs * 1e9) as u64;
    let sched: Vec<_> = rate.map(|r| { let n = cores.len() as u64; let step = ((1e9 / r * 2f64.powi(32)) as u128) << 32; (0..n).map(|i| LaneSchedule { first: step * i as u128, step: step * n as u128, unit: 1, packets: (r * secs) as u64 / n, random: None }).collect() }).unwrap_or_default();
    port.begin(KernelTimes { start_ns: start, end_ns: end }, &sched);
    let done = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|s| {
        for lane in 0..port.lanes() {
            let (port, cores, done) = (&port, &cores, &done);
            s.spawn(move || {
                unsafe { let mut set: libc::cpu_set_t = std::mem::zeroed(); libc::CPU_SET(cores[lane], &mut set); libc::sched_setaffinity(0, std::mem::size_of_val(&set), &set); }
                let t = std::time::Instant::now();
                port.send(lane).unwrap();
                eprintln!("lane {lane} in the kernel for {:?}", t.elapsed());
                done.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            });
        }
        std::thread::sleep(Duration::from_nanos(end.saturating_sub(now()) + 20_000_000));
        while done.load(std::sync::atomic::Ordering::SeqCst) < port.lanes() {
            for l in 0..port.lanes() { port.interrupt(l); }
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(100));
        port.stop();
    });
    let (mut tx, mut rx, mut sum, mut lat) = (0, 0, 0u64, 0u64);
    let (mut min, mut max) = (u64::MAX, 0);
    let mut all = KernelRow::default();
    port.take_rows(0, port.row_capacity(), &mut |_, r| { tx += r.tx; rx += r.rx; sum += r.latency.sum; lat += r.latency.count; if r.latency.count > 0 { min = min.min(r.latency.min); max = max.max(r.latency.max); } all.missed += r.missed; all.duplicates += r.duplicates; all.corrupt += r.corrupt; all.foreign += r.foreign; all.reordered += r.reordered; all.expected += r.expected });
    println!("{} tx {tx} ({:.3} Mpps) rx {rx} lost {} missed {} dup {} corrupt {} foreign {} reord {} expected {} mean latency {:.0} min {min} max {max} ns", a[1], tx as f64 / secs / 1e6, tx as i64 - rx as i64, all.missed, all.duplicates, all.corrupt, all.foreign, all.reordered, all.expected, sum as f64 / lat.max(1) as f64);
    for l in 0..port.lanes() { let t = port.lane_totals(l); let mut b = vec![]; let g = port.gaps(l, &mut |i, n| b.push((i, n))); println!("  lane {l} {t:?} undone {} gaps {g:?}", port.left_undone(l)); }
    for s in 0..port.sources() { println!("  source {s} {:?}", port.source_totals(s)); }
    let r: Vec<_> = port.reasons(0).into_iter().filter(|r| r.1 > 0).collect();
    println!("  {:?} {:?}", port.counters(0), r);
}
