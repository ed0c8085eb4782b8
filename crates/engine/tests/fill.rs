//! How full receive rings were is in rows, lanes and records, as the queue told it.

mod plans;

use mpps_engine::source::{SourceTemplate, TestSource};
use mpps_engine::{
    Common, DropPlan, ForwardPlan, ForwardPort, LanePlan, Link, OnFull, TraceOptions, Work, run_drop, run_forward,
};
use mpps_io::null::{NullConfig, NullPort};
use mpps_io::{Burst, Capabilities, Fact, Port, Queue, QueueCounters, Result, RoomUnit, RxRoom, Wait};
use mpps_stats::{Event, FillUnit, Row, RowFill, Sink, Summary};
use mpps_sys::clock::ClockSource;
use mpps_trace::Did;
use mpps_wire::{ChecksumMode, MacAddr, Rewrite, TakeFilter, Template, TemplateSpec};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What a queue says of its ring.
#[derive(Clone, Copy)]
struct Says {
    room: Option<RxRoom>,
    /// By turns.
    fills: [u64; 2],
}

/// A port whose queues say that.
struct Ringed<P>(P, Says);

struct RingedQueue<Q> {
    queue: Q,
    says: Says,
    looks: usize,
}

impl<P: Port> Port for Ringed<P> {
    type Pool = P::Pool;
    type Queue<'p>
        = RingedQueue<P::Queue<'p>>
    where
        Self: 'p;

    fn capabilities(&self) -> &Capabilities {
        self.0.capabilities()
    }

    fn pool(&self, queue: usize) -> Result<P::Pool> {
        self.0.pool(queue)
    }

    fn queue<'p>(&'p self, queue: usize, pool: &'p P::Pool) -> Result<Self::Queue<'p>> {
        Ok(RingedQueue {
            queue: self.0.queue(queue, pool)?,
            says: self.1,
            looks: 0,
        })
    }

    fn counters(&self, queue: usize) -> QueueCounters {
        self.0.counters(queue)
    }

    fn facts(&self) -> Vec<Fact> {
        self.0.facts()
    }
}

impl<Q: Queue> Queue for RingedQueue<Q> {
    type Frame = Q::Frame;

    fn receive(&mut self, burst: &mut Burst<Q::Frame>) -> Result<usize> {
        self.queue.receive(burst)
    }

    fn allocate(&mut self, burst: &mut Burst<Q::Frame>, n: usize) -> Result<usize> {
        self.queue.allocate(burst, n)
    }

    fn transmit(&mut self, burst: &mut Burst<Q::Frame>) -> Result<usize> {
        self.queue.transmit(burst)
    }

    fn rx_room(&self) -> Option<RxRoom> {
        self.says.room
    }

    fn rx_fill(&mut self) -> Option<u64> {
        self.looks += 1;
        Some(self.says.fills[self.looks % 2])
    }

    fn wait(&mut self, what: Wait, timeout: Duration) -> Result<()> {
        self.queue.wait(what, timeout)
    }
}

fn port(says: Says) -> Ringed<impl Port> {
    let source = |_| {
        let template = Template::new(&TemplateSpec {
            src_mac: MacAddr([2, 0, 0, 0, 0, 2]),
            dst_mac: MacAddr([2, 0, 0, 0, 0, 1]),
            vlan: None,
            src: IpAddr::V4(Ipv4Addr::new(10, 99, 0, 2)),
            dst: IpAddr::V4(Ipv4Addr::new(10, 99, 0, 1)),
            payload_len: 18,
            ttl: 64,
            dscp: 0,
            seed: 1,
            checksum: ChecksumMode::Software,
        });
        let template = SourceTemplate::Frame(Box::new(template.expect("addresses of one family")));
        TestSource::new(template, ClockSource::new().clock(), 10_000, 64)
    };
    let null = NullPort::new(NullConfig::default(), 1, [2, 0, 0, 0, 0, 1], source);
    Ringed(null, says)
}

/// Keeps the rows.
#[derive(Clone, Default)]
struct Rows(Arc<Mutex<Vec<Row>>>);

impl Sink for Rows {
    fn event(&mut self, event: &Event<'_>) {
        if let Event::Row(row) = event {
            self.0.lock().expect("rows").push((*row).clone());
        }
    }
}

fn common() -> Common {
    Common {
        lanes: vec![LanePlan {
            rx: true,
            tx: false,
            core: None,
        }],
        duration: Some(Duration::from_millis(200)),
        trace: Some(TraceOptions {
            all: true,
            ..TraceOptions::default()
        }),
        ..Common::default()
    }
}

fn drop_from(says: Says) -> (Summary, Vec<Row>) {
    let plan = DropPlan {
        common: common(),
        ip: None,
        ports: None,
        excluded_ports: Box::default(),
        verify: false,
        tagged: None,
        streams: None,
        max_flows: 4096,
        link: Some(Link {
            dest_mac: None,
            ..plans::link()
        }),
    };
    let rows = Rows::default();
    let summary = run_drop(&port(says), &plan, &mut [Box::new(rows.clone())], &|| 0).expect("a run");
    let rows = rows.0.lock().expect("rows").clone();
    (summary, rows)
}

const ROOM: RxRoom = RxRoom {
    size: 1000,
    count: 1,
    unit: RoomUnit::Packets,
    every: Duration::from_micros(100),
};

#[test]
fn rows_lanes_and_records_have_what_the_queue_tells() {
    let (summary, rows) = drop_from(Says {
        room: Some(ROOM),
        fills: [200, 600],
    });
    let [ring] = &summary.lanes[0].rx_rings[..] else {
        panic!("one ring: {:?}", summary.lanes)
    };
    assert_eq!((ring.size, ring.unit, ring.highest), (1000, FillUnit::Packets, 600));
    assert!(
        ring.looks > 2 && (ring.mean - 400.0).abs() <= 200.0 / ring.looks as f64 + 1.0,
        "{ring:?}"
    );
    let rate = summary.lanes[0].rx_packets as f64 * 1e9 / summary.duration_ns as f64;
    let lasts = ring.lasts_ns.expect("packets came") as f64;
    assert!(
        (lasts * rate / 1e9 / 1000.0 - 1.0).abs() < 0.01,
        "{lasts} ns at {rate}/s"
    );
    // No row has more than was found, and each look is in one.
    let fills: Vec<RowFill> = rows.iter().filter_map(|row| row.rx_fill).collect();
    assert!(!fills.is_empty());
    for fill in &fills {
        assert!([200_000, 600_000].contains(&fill.highest_ppm), "{fill:?}");
        assert!((200_000..=fill.highest_ppm).contains(&fill.mean_ppm), "{fill:?}");
    }
    assert_eq!(fills.iter().map(|fill| fill.highest_ppm).max(), Some(600_000));
    // The first look comes before the first round.
    let kept = summary.kept.expect("a trace was asked for");
    let bursts = kept.lanes[0].rounds.iter().filter(|round| round.did == Did::Burst);
    let seen: Vec<u32> = bursts.map(|round| round.fill).collect();
    assert!(seen.iter().all(|fill| [200, 600].contains(fill)), "{seen:?}");
    assert!(seen.contains(&600) && seen.contains(&200), "{seen:?}");
}

#[test]
fn where_a_path_can_not_tell_nothing_is_told() {
    let (summary, rows) = drop_from(Says {
        room: None,
        fills: [7, 7],
    });
    assert!(summary.lanes[0].rx_packets > 0 && summary.lanes[0].rx_rings.is_empty());
    assert!(rows.iter().all(|row| row.rx_fill.is_none()));
    let kept = summary.kept.expect("a trace was asked for");
    assert!(kept.lanes[0].rounds.iter().all(|round| round.fill == u32::MAX));
}

#[test]
fn each_ring_of_a_pair_of_ports_is_told_with_its_port() {
    let says = |fill| Says {
        room: Some(ROOM),
        fills: [fill; 2],
    };
    let forward = |name: &str| ForwardPort {
        name: name.to_owned(),
        take: TakeFilter::All,
        rewrite: Rewrite::Io,
    };
    let plan = ForwardPlan {
        common: Common {
            lanes: vec![LanePlan::BOTH],
            ..common()
        },
        ports: vec![forward("a"), forward("b")],
        split_directions: false,
        drain: Duration::ZERO,
        on_full: OnFull::Wait,
        work: Work::default(),
    };
    let rows = Rows::default();
    let ports = [port(says(100)), port(says(900))];
    let summary = run_forward(
        &[&ports[0], &ports[1]],
        &|_, _| None,
        &plan,
        &mut [Box::new(rows.clone())],
        &|| 0,
    )
    .expect("a run");
    let rings = &summary.lanes[0].rx_rings;
    let told: Vec<_> = rings.iter().map(|ring| (ring.port.as_deref(), ring.highest)).collect();
    assert_eq!(told, [(Some("a"), 100), (Some("b"), 900)]);
    // The row has the fuller of the two.
    let rows = rows.0.lock().expect("rows");
    let fills: Vec<_> = rows.iter().filter_map(|row| row.rx_fill).collect();
    assert!(
        !fills.is_empty() && fills.iter().all(|fill| fill.highest_ppm == 900_000),
        "{fills:?}"
    );
}
