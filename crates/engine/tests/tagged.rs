//! Test packets that are known by their tag: what `reflect` returns of them, and what `drop` counts.

mod plans;

use mpps_engine::{Common, DropPlan, LanePlan, Link, OnFull, ReflectPlan, run_drop, run_reflect};
use mpps_io::null::{NullConfig, NullPort, NullQueue, Source, Sources};
use mpps_io::{AddressRange, Burst, Capabilities, Fact, Frame, Port, Queue, QueueCounters, Result, Wait};
use mpps_stats::Summary;
use mpps_sys::clock::monotonic_ns;
use mpps_traffic::{Form, Moment, Traffic};
use mpps_wire::tagged::tag_of;
use mpps_wire::{MacAddr, Mark, ReflectFilter, build_arp_request, parse_slow_path, reflect_in_place};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SEED: u64 = 11;
const RUN: u8 = 9;
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// Headers of all kinds.
const PACKETS: [&str; 8] = [
    "eth / ipv4 / udp",
    "eth / vlan vid=5 / ipv6 / tcp flags=syn",
    "eth / ipv4 / icmp",
    "eth / ipv4 / udp / vxlan / eth / ipv6 / tcp",
    "eth / mpls label=7 / ipv4 / sctp",
    "eth / pppoe / ipv6 / udp",
    "eth / ipv4 / gre / ipv4 / icmp",
    "eth type=0x88b5",
];

fn form(packet: &str) -> Form {
    let text = format!("[[stream]]\npacket = '{packet}'\nsize = '202'\n");
    let traffic = Traffic::parse(&text, &[]).expect(packet);
    let mut forms = traffic.forms(SEED).expect(packet);
    forms.remove(0)
}

fn packet(form: &Form, n: u64) -> Vec<u8> {
    sent_at(form, n, monotonic_ns() - 1_000_000)
}

fn sent_at(form: &Form, n: u64, time_ns: u64) -> Vec<u8> {
    form.packet(n, Moment { run: RUN, time_ns })
}

/// Frames, one after the other.
struct Frames(std::vec::IntoIter<Vec<u8>>);

impl Source for Frames {
    fn fill(&mut self, frame: &mut [u8]) -> usize {
        let Some(next) = self.0.next() else { return 0 };
        frame[..next.len()].copy_from_slice(&next);
        next.len()
    }
}

/// A null device that keeps what it is given to send.
struct Keeping<S: Sources> {
    null: NullPort<S>,
    sent: Arc<Mutex<Vec<Vec<u8>>>>,
}

struct KeepingQueue<'p, S: Source> {
    null: NullQueue<'p, S>,
    sent: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl<S: Sources> Port for Keeping<S> {
    type Pool = <NullPort<S> as Port>::Pool;
    type Queue<'p>
        = KeepingQueue<'p, S::Source>
    where
        Self: 'p;

    fn capabilities(&self) -> &Capabilities {
        self.null.capabilities()
    }

    fn pool(&self, queue: usize) -> Result<Self::Pool> {
        self.null.pool(queue)
    }

    fn queue<'p>(&'p self, queue: usize, pool: &'p Self::Pool) -> Result<Self::Queue<'p>> {
        Ok(KeepingQueue {
            null: self.null.queue(queue, pool)?,
            sent: Arc::clone(&self.sent),
        })
    }

    fn counters(&self, queue: usize) -> QueueCounters {
        self.null.counters(queue)
    }

    fn facts(&self) -> Vec<Fact> {
        self.null.facts()
    }
}

impl<'p, S: Source> Queue for KeepingQueue<'p, S> {
    type Frame = <NullQueue<'p, S> as Queue>::Frame;

    fn receive(&mut self, burst: &mut Burst<Self::Frame>) -> Result<usize> {
        self.null.receive(burst)
    }

    fn allocate(&mut self, burst: &mut Burst<Self::Frame>, n: usize) -> Result<usize> {
        self.null.allocate(burst, n)
    }

    fn transmit(&mut self, burst: &mut Burst<Self::Frame>) -> Result<usize> {
        let mut sent = self.sent.lock().expect("no panic");
        sent.extend(burst.as_slice().iter().map(|frame| frame.bytes().to_vec()));
        self.null.transmit(burst)
    }

    fn wait(&mut self, what: Wait, timeout: Duration) -> Result<()> {
        self.null.wait(what, timeout)
    }
}

fn common(tx: bool) -> Common {
    Common {
        lanes: vec![LanePlan {
            rx: true,
            tx,
            core: None,
        }],
        duration: Some(Duration::from_millis(100)),
        share_cores: true,
        seed: SEED,
        ..Common::default()
    }
}

fn address(last: u8) -> AddressRange {
    [198, 18, 0, last].into()..=[198, 18, 0, last].into()
}

fn link() -> Link {
    Link {
        mac: MacAddr(MAC),
        answer_for: vec![address(2)],
        dest_mac: None,
        ..plans::link()
    }
}

/// Returns a question for the MAC address of 198.18.0.`last`.
fn arp(last: u8) -> Vec<u8> {
    let mut frame = vec![0; 60];
    let from = [198, 18, 0, 1].into();
    build_arp_request(&mut frame, MacAddr(PEER_MAC), from, [198, 18, 0, last].into(), None);
    frame
}

/// Returns a packet without a tag.
fn untagged(packet: &str) -> Vec<u8> {
    let mut frame = sent_at(&form(packet), 0, 0);
    let last = frame.len() - 1;
    frame[last] ^= 1;
    frame
}

fn reason(summary: &Summary, name: &str) -> u64 {
    let found = summary.reasons.iter().find(|(reason, _)| reason == name);
    found.map_or(0, |(_, n)| *n)
}

fn filter() -> ReflectFilter {
    ReflectFilter {
        tagged: Some(SEED),
        ..ReflectFilter::default()
    }
}

fn reflect(frames: Vec<Vec<u8>>) -> (Summary, Vec<Vec<u8>>) {
    let sent = Arc::default();
    let port = Keeping {
        null: NullPort::new(NullConfig::default(), 1, MAC, move |_: usize| {
            Frames(frames.clone().into_iter())
        }),
        sent: Arc::clone(&sent),
    };
    let plan = ReflectPlan {
        common: common(true),
        filter: filter(),
        link: Some(link()),
        on_full: OnFull::Wait,
    };
    let summary = run_reflect(&port, &plan, &mut [], &|| 0).expect("a run");
    let sent = sent.lock().expect("no panic").clone();
    (summary, sent)
}

#[test]
fn a_reflector_returns_tagged_packets_of_any_headers_and_answers_questions() {
    let tagged: Vec<Vec<u8>> = PACKETS.iter().map(|text| packet(&form(text), 3)).collect();
    // Many more than a sender's probes would need.
    let many = tagged.iter().cycle().take(PACKETS.len() * 100).cloned();
    let others = [
        arp(2),
        arp(3),
        untagged("eth / ipv4 / udp"),
        untagged("eth / ipv4 / tcp"),
    ];
    let (summary, mut sent) = reflect(others.into_iter().chain(many).collect());
    let want: Vec<Vec<u8>> = tagged
        .iter()
        .map(|frame| {
            let mut back = frame.clone();
            assert_eq!(reflect_in_place(&mut back, &filter(), false), Ok(()));
            assert_eq!(tag_of(&back, SEED).expect("a tag").0.mark, Mark::Returned);
            back
        })
        .collect();
    let answer = sent
        .iter()
        .position(|frame| frame[12..14] == [8, 6])
        .expect("an answer");
    assert!(parse_slow_path(&sent.remove(answer)).is_some());
    assert_eq!(sent.len(), 800);
    for (at, frame) in sent.iter().enumerate() {
        assert!(
            *frame == want[at % want.len()],
            "packet {at}: {}",
            PACKETS[at % want.len()]
        );
    }
    assert_eq!((summary.rx, summary.tx), (800, 800));
    assert_eq!(reason(&summary, "neighbor_service"), 2, "{:?}", summary.reasons);
    assert_eq!(reason(&summary, "not_tagged"), 2, "{:?}", summary.reasons);
    assert_eq!(summary.reasons.len(), 2, "{:?}", summary.reasons);
}

#[test]
fn between_two_reflectors_no_packet_goes_round() {
    let tagged: Vec<Vec<u8>> = PACKETS.iter().map(|text| packet(&form(text), 3)).collect();
    let (_, there) = reflect(tagged);
    let (summary, back) = reflect(there);
    assert_eq!((summary.rx, summary.tx, back.len()), (0, 0, 0));
    assert_eq!(reason(&summary, "returned"), 8, "{:?}", summary.reasons);
}

fn drop_of(frames: Vec<Vec<u8>>, verify: bool, max_flows: u32) -> Summary {
    let port = NullPort::new(NullConfig::default(), 1, MAC, move |_: usize| {
        Frames(frames.clone().into_iter())
    });
    let plan = DropPlan {
        common: common(false),
        // Tagged packets are taken all the same.
        ip: Some(address(77)),
        ports: Some(1..=1),
        excluded_ports: Box::new([9000]),
        verify,
        tagged: Some(0),
        streams: None,
        max_flows,
        link: Some(link()),
    };
    run_drop(&port, &plan, &mut [], &|| 0).expect("a run")
}

#[test]
fn packets_of_any_headers_are_counted_by_their_tag() {
    let forms: Vec<Form> = PACKETS.iter().map(|text| form(text)).collect();
    for form in &forms {
        let summary = drop_of((0..50).map(|n| packet(form, n)).collect(), true, 16);
        let counted = (
            summary.rx,
            summary.lost,
            summary.duplicates,
            summary.reordered,
            summary.corrupt,
        );
        assert_eq!(counted, (50, 0, 0, 0, 0), "{:?}", summary.reasons);
        assert_eq!(summary.reasons, [("flows".to_owned(), 1)]);
    }
}

#[test]
fn packets_that_are_lost_copied_overtaken_or_returned_are_counted_as_such() {
    let form = form("eth / ipv4 / tcp");
    let returned = |n| {
        let mut frame = packet(&form, n);
        // Turned twice, so that its source, which a flow is known by, is the same.
        assert_eq!(reflect_in_place(&mut frame, &filter(), false), Ok(()));
        assert_eq!(
            reflect_in_place(
                &mut frame,
                &ReflectFilter {
                    keep_ttl: true,
                    ..filter()
                },
                false
            ),
            Ok(())
        );
        frame
    };
    let mut frames: Vec<Vec<u8>> = [0, 1, 2, 4, 5, 6, 7].map(|n| packet(&form, n)).into();
    frames.swap(3, 4);
    frames.push(frames[6].clone());
    frames.extend([returned(8), packet(&form, 9)]);
    let summary = drop_of(frames, true, 16);
    let counted = (
        summary.rx,
        summary.lost,
        summary.duplicates,
        summary.reordered,
        summary.corrupt,
    );
    assert_eq!(counted, (9, 1, 1, 1, 0), "{:?}", summary.reasons);
}

#[test]
fn numbers_begin_again_without_a_gap() {
    let form = form("eth / ipv4 / icmp");
    let numbers = (1u64 << 32) - 20..(1 << 32) + 20;
    let summary = drop_of(numbers.map(|n| packet(&form, n)).collect(), true, 16);
    let counted = (summary.rx, summary.lost, summary.duplicates, summary.reordered);
    assert_eq!(counted, (40, 0, 0, 0), "{:?}", summary.reasons);
}

#[test]
fn changed_data_are_corrupt_if_they_are_verified() {
    let form = form("eth / ipv4 / udp / vxlan / eth / ipv6 / tcp");
    let frames = |at: usize| -> Vec<Vec<u8>> {
        let mut frames: Vec<Vec<u8>> = (0..9).map(|n| packet(&form, n)).collect();
        frames[4][at] ^= 1;
        frames
    };
    let data = form.header_len() + 3;
    let summary = drop_of(frames(data), true, 16);
    assert_eq!(
        (summary.rx, summary.corrupt, summary.lost),
        (8, 1, 1),
        "{:?}",
        summary.reasons
    );
    let summary = drop_of(frames(data), false, 16);
    assert_eq!(
        (summary.rx, summary.corrupt, summary.lost),
        (9, 0, 0),
        "{:?}",
        summary.reasons
    );
    // The tag itself: nobody knows whose packet that is.
    let summary = drop_of(frames(202 - 4 - 1), true, 16);
    assert_eq!(
        (summary.rx, summary.corrupt, summary.lost, summary.foreign),
        (8, 0, 1, 1)
    );
}

#[test]
fn frames_without_a_tag_are_counted_as_ever() {
    let mut frames = vec![
        arp(2),
        arp(3),
        untagged("eth / ipv4 / udp"),
        untagged("eth / ipv4 / tcp"),
    ];
    frames.push(untagged("eth / ipv4 mf=1 / udp"));
    frames.push(untagged("eth / ipv4 cksum=bad / udp"));
    frames.extend((0..4).map(|n| packet(&form("eth / ipv4 / tcp"), n)));
    let summary = drop_of(frames, true, 16);
    assert_eq!(
        (summary.rx, summary.corrupt, summary.foreign, summary.lost),
        (4, 1, 3, 0)
    );
    let reasons = [
        "neighbor_service",
        "foreign_not_udp",
        "foreign_not_stamped",
        "foreign_fragment",
    ];
    let counts = reasons.map(|name| reason(&summary, name));
    assert_eq!(counts, [2, 1, 1, 1], "{:?}", summary.reasons);
}

#[test]
fn sources_and_runs_have_books_of_their_own() {
    let of = |text: &str, run: u8, n: u64| {
        let moment = Moment {
            run,
            time_ns: monotonic_ns(),
        };
        form(text).packet(n, moment)
    };
    let mut frames = Vec::new();
    for n in 0..20 {
        frames.push(of("eth / ipv4 src=10.0.0.1 / tcp", 1, n));
        frames.push(of("eth / ipv4 src=10.0.0.2 / udp", 1, n + 500));
        frames.push(of("eth / ipv6 / udp", 1, n + 1000));
        frames.push(of("eth src=02:00:00:00:00:08 type=0x88b5", 1, n + 1500));
        frames.push(of("eth src=02:00:00:00:00:09 type=0x88b5", 1, n + 2000));
        frames.push(of("eth / ipv4 src=10.0.0.1 / tcp", 2, n + 2500));
    }
    let summary = drop_of(frames.clone(), true, 16);
    assert_eq!(
        (summary.rx, summary.lost, summary.duplicates),
        (120, 0, 0),
        "{:?}",
        summary.reasons
    );
    assert_eq!(reason(&summary, "flows"), 6);
    let summary = drop_of(frames, true, 4);
    assert_eq!((summary.rx, summary.lost), (120, 0), "{:?}", summary.reasons);
    assert_eq!(reason(&summary, "untracked_flow_packets"), 40);
}

#[test]
fn latency_is_measured_by_a_clock_that_is_this_hosts() {
    let form = form("eth / ipv4 / tcp");
    let frames = |time_ns: u64| (0..30).map(|n| sent_at(&form, n, time_ns + n)).collect();
    let summary = drop_of(frames(monotonic_ns() - 3_000_000), true, 16);
    assert_eq!(reason(&summary, "latency_not_measurable"), 0);
    // A clock that is ahead by 3 s.
    let summary = drop_of(frames(monotonic_ns() + 3_000_000_000), true, 16);
    assert_eq!((summary.rx, summary.lost), (30, 0));
    assert_eq!(reason(&summary, "latency_not_measurable"), 30);
}
