//! Requests that the path refuses, and the programs that it makes of a plan.

use super::*;
use crate::draft::neighbor::Asked;
use crate::draft::{capture, forward, listen, traffic};
use crate::request::run_of;
use mpps_io::{Capabilities, FlowSet, Layer, addresses};
use mpps_plan::Workload;
use mpps_sys::sched::allowed_cores;
use std::net::Ipv4Addr;

/// Checks a plan as far as possible without a device.
fn planned(line: &str) -> Result<()> {
    let mut run = run_of(line);
    match run.plan.workload {
        Workload::Sendrecv | Workload::Send => traffic::Draft::new(run).map(drop),
        Workload::Drop | Workload::Reflect => listen::Listener::new(&mut run).map(drop),
        Workload::Forward => forward::Draft::new(run).map(drop),
        Workload::Capture => capture::Draft::new(run).map(drop),
    }
}

#[track_caller]
fn refused(line: &str) -> String {
    match planned(line) {
        Err(Failure::Usage(text)) => text,
        other => panic!("{line}: {other:?}"),
    }
}

const ENDS: &str = "--src 10.99.0.1 --dest 10.99.0.2:9000";

fn capabilities() -> Capabilities {
    Capabilities {
        path: "xdp",
        layer: Layer::Ethernet,
        max_frame: 1514,
        mac: Some([2, 0, 0, 0, 0, 7]),
        tx_checksum: false,
        one_flow_per_burst: false,
        link_bps: None,
        preferred_burst: 64,
    }
}

fn traffic_plan(line: &str) -> TrafficPlan {
    traffic::Draft::new(run_of(line))
        .and_then(|draft| draft.plan(&capabilities(), &Asked::new(&|| 0)))
        .unwrap_or_else(|e| panic!("{line}: {e:?}"))
}

#[test]
fn options_that_mean_nothing_in_the_kernel_are_refused_with_what_would_be_right() {
    let sending = format!("sendrecv xdp:none0 {ENDS}");
    let cases = [
        (format!("{sending} --burst 32"), ["--burst 32", "batch=N"]),
        (
            format!("{sending} --rate 1kpps --then 2kpps@1s"),
            ["--then 2kpps@1s", "another path"],
        ),
        (format!("{sending} --busy-poll"), ["--busy-poll", "left out"]),
        (
            format!("{sending} --tx-lanes 1 --rx-lanes 2"),
            ["--rx-lanes 2", "--lanes N"],
        ),
        (
            format!("send xdp:none0 {ENDS} --rx-lanes 1"),
            ["--rx-lanes 1", "left out"],
        ),
        ("reflect xdp:none0 --lanes 2".to_owned(), ["--lanes 2", "queues"]),
        ("reflect xdp:none0 --cores 0".to_owned(), ["--cores 0", "affinity"]),
        ("drop xdp:none0 --burst 8".to_owned(), ["--burst 8", "batch=N"]),
        ("drop xdp:none0 --busy-poll".to_owned(), ["--busy-poll", "xdp:none0"]),
        ("forward xdp:a xdp:b --lanes 1".to_owned(), ["--lanes 1", "queues"]),
        (
            "forward xdp:a xdp:b --split-directions".to_owned(),
            ["--split-directions", "left out"],
        ),
        (
            "forward xdp:a af_xdp:b".to_owned(),
            ["af_xdp:b", "xdp:b too, or both ports on af_xdp"],
        ),
        ("forward null: xdp:b".to_owned(), ["null:", "devmap"]),
        (
            "capture xdp:eth1 --output x".to_owned(),
            ["never come to user space", "af_xdp:eth1"],
        ),
        ("reflect xdp:eth1,mode=offload".to_owned(), ["mode", "native"]),
    ];
    for (line, parts) in cases {
        let text = refused(&line);
        assert!(
            !text.contains('\n') && parts.iter().all(|part| text.contains(part)),
            "{line}: {text}"
        );
    }
}

#[test]
fn what_works_is_not_refused() {
    for line in [
        format!(
            "sendrecv xdp:none0,batch=64 {ENDS} --tx-lanes 1 --rate 1Mpps --pacing burst=8 --catch-up 1ms --flows 3"
        ),
        format!("send xdp:none0 {ENDS} --vlan 5 --ttl 3 --dscp 46 --gateway 10.99.0.9 --frame-size 128 --seed 7"),
        format!("sendrecv xdp:none0 {ENDS} --pacing poisson --rate 1kpps --settle 2s --tolerance 1% --interval 1ms"),
        "reflect xdp:none0 --ip 10.99.0.2 --port 9000-9009".to_owned(),
        "drop xdp:none0 --no-verify --max-flows 9 --seed 4".to_owned(),
        "forward xdp:none0".to_owned(),
        "forward xdp:a xdp:b --mode l2fwd --dest-mac 02:00:00:00:00:01 --take all".to_owned(),
        "forward af_packet:none0 null:".to_owned(),
    ] {
        assert!(planned(&line).is_ok(), "{line}: {:?}", planned(&line));
    }
}

#[test]
fn each_sending_lane_has_a_core_of_its_own_and_one_lane_reads() {
    let allowed = allowed_cores();
    let plan = traffic_plan(&format!("sendrecv xdp:none0 {ENDS} --dest-mac 02:00:00:00:00:09"));
    let last = allowed.last().copied();
    let roles: Vec<_> = plan.common.lanes.iter().map(|l| (l.tx, l.rx, l.core)).collect();
    assert_eq!(roles, [(true, false, last), (false, true, None)]);
    assert_eq!(one_way(&plan, 0).unwrap().cores, Vec::from_iter(last));

    let core = allowed[0];
    let line = format!("send xdp:none0 {ENDS} --cores {core},{core} --dest-mac 02:00:00:00:00:09");
    assert_eq!(one_way(&traffic_plan(&line), 0).unwrap().cores, [core]);
    let unplanned = |line: String| {
        let draft = traffic::Draft::new(run_of(&line));
        match draft.and_then(|d| d.plan(&capabilities(), &Asked::new(&|| 0))) {
            Err(Failure::Usage(text)) => text,
            other => panic!("{line}: {other:?}"),
        }
    };
    let text = unplanned(format!("{line} --lanes 2"));
    assert!(text.contains("--cores: 1 core for 2 sending lanes"), "{text}");
    let many = allowed.len() + 1;
    let text = unplanned(format!("send xdp:none0 {ENDS} --lanes {many}"));
    assert!(text.contains(&format!("--lanes {many}: ")), "{text}");
}

#[test]
fn the_programs_of_a_sender_get_what_the_plan_says() {
    let line = "sendrecv xdp:none0 --src 10.99.0.1 --dest 10.99.0.2:9000-9001 --src-port-range 20000-20002 --flows 5 \
                --dest-mac 02:00:00:00:00:09 --vlan 5 --ttl 3 --payload-size 100 --seed 8 --rate 250kpps --settle 2s \
                --interval 10ms --catch-up 2ms";
    let plan = traffic_plan(line);
    let spec = one_way(&plan, 0).unwrap();
    assert_eq!(spec.headers.len(), 14 + 4 + 20);
    assert_eq!(spec.headers[..12], [2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 7]);
    assert_eq!((spec.headers[15], spec.headers[26]), (5, 3));
    let flows = FlowSet::new(20_000..=20_002, 9000..=9001, Some(5));
    assert_eq!((spec.flows, spec.payload_len, spec.seed), (flows, 100, 8));
    assert_eq!(
        (spec.rate_pps, spec.catch_up_ns, spec.receive),
        (Some(250_000.0), 2_000_000, true)
    );
    let series = Series {
        interval_ns: 10_000_000,
        settle_ns: 2_000_000_000,
    };
    assert_eq!(spec.series, series);
    // The MAC address is known: nobody is asked.
    assert_eq!(spec.answer.next_hop, None);
    // The engine closes rows after the settle time, whether anything comes back or not.
    let send = one_way(&traffic_plan(&line.replace("sendrecv", "send")), 0).unwrap();
    assert_eq!(send.series, series);
}

#[test]
fn a_listener_tells_its_program_addresses_ports_and_whom_to_answer_for() {
    let mut run = run_of("reflect xdp:none0 --ip 10.99.0.2 --port 9000-9009");
    let listener = listen::Listener::new(&mut run).unwrap();
    let spec = reflect_spec(
        &listener.reflect_plan(&run, &capabilities()).unwrap(),
        Taken::of(&listener.request()),
    );
    let ip = IpAddr::from([10, 99, 0, 2]);
    assert_eq!(
        (spec.taken.addresses, spec.taken.answer.addresses),
        (Listed::of(&[addresses::one(ip)]), Listed::of(&[addresses::one(ip)]))
    );
    assert_eq!(
        (spec.taken.ports, spec.taken.excluded_ports),
        (Some(9000..=9009), vec![])
    );
    let lanes = listener.reflect_plan(&run, &capabilities()).unwrap().common.lanes;
    assert_eq!(
        lanes.iter().map(|l| (l.tx, l.rx, l.core)).collect::<Vec<_>>(),
        [(false, true, None)]
    );
}

#[test]
fn a_forwarder_tells_its_programs_what_each_port_takes_and_where_it_sends() {
    let line = "forward xdp:a xdp:b --mode l2fwd --dest-mac 02:00:00:00:00:01,02:00:00:00:00:02 --port 53";
    let draft = forward::Draft::new(run_of(line)).unwrap();
    let capabilities = capabilities();
    let plan = draft.plan(&[&capabilities, &capabilities]).unwrap();
    let requests = draft.requests();
    let takes = requests.iter().map(|(_, request)| forward_take(request).unwrap());
    let (takes, remarks): (Vec<_>, Vec<_>) = takes.unzip();
    let spec = forward_spec(&plan, takes);
    assert!(remarks.iter().all(Option::is_none) && spec.ports.len() == 2 && plan.common.lanes.len() == 1);
    for (i, port) in spec.ports.iter().enumerate() {
        let take = ForwardTake::Udp {
            ip: None,
            ports: Some(53..=53),
        };
        let destination = [2, 0, 0, 0, 0, i as u8 + 1];
        assert_eq!(
            (&port.take, port.rewrite),
            (&take, ForwardRewrite::L2Forward { destination })
        );
    }
}

#[test]
fn more_addresses_than_a_program_has_room_for_are_refused_or_remarked() {
    let v4 = |n: u8| IpAddr::V4(Ipv4Addr::new(10, 0, 0, n));
    let v6 = |n: u16| IpAddr::from([0xfd99, 0, 0, 0, 0, 0, 0, n]);
    let all: Vec<_> = (0..9).map(v4).chain((0..17).map(v6)).collect();
    let (left, more) = left_to_host(all, 0);
    assert_eq!((left.len(), more), (8 + 16, 2));
    let mut device = NetDev::by_name("lo").unwrap();
    device.addresses = (0..9).map(|n| (v4(n), 24)).collect();
    let spec = "xdp:lo".parse().unwrap();
    match left_of(&device, &spec) {
        Err(Failure::Usage(text)) => assert!(text.contains("--take udp or --take all"), "{text}"),
        other => panic!("{other:?}"),
    }
}
