//! How much work the verifier has with the programs: each start waits for it, and the kernel refuses a program at a
//! million instructions. The programs of `forward` are looked at where they are tried.

#[path = "programs/mod.rs"]
mod programs;
#[allow(dead_code, unreachable_pub, reason = "a part is used")]
#[path = "../src/sys.rs"]
mod sys;

use programs::abi::{
    ADDRESSES, Axis, Image, Loops, MOST_SIZES, MOST_STREAMS, MOST_SUMS, MOST_WRITERS, OWN, Plan, Sized, Stream, Within,
    flag,
};
use programs::{Constant, Object, bytes_of};

static DROP: Object<{ include_bytes!("../bpf/drop.bpf.o").len() }> = Object(*include_bytes!("../bpf/drop.bpf.o"));
static TRAFFIC: Object<{ include_bytes!("../bpf/traffic.bpf.o").len() }> =
    Object(*include_bytes!("../bpf/traffic.bpf.o"));
static REFLECT: Object<{ include_bytes!("../bpf/reflect.bpf.o").len() }> =
    Object(*include_bytes!("../bpf/reflect.bpf.o"));

/// A plan that uses everything.
fn plan() -> Plan {
    let mut plan: Plan = programs::plan();
    plan.flags = flag::BY_CPU | flag::CHECK_DATA | flag::OPEN_CHECKSUMS | flag::OWN_MAC | flag::RECEIVE;
    plan.flags |= flag::PACED | flag::RANDOM | flag::STAMPED | flag::VETH | flag::SEVERAL;
    (plan.addresses4_count, plan.addresses6_count) = (ADDRESSES as u32, ADDRESSES as u32);
    (plan.answer4_count, plan.answer6_count) = (ADDRESSES as u32, ADDRESSES as u32);
    plan.lanes = 64;
    plan.window_words = 16;
    plan.max_flows = 1024;
    plan.table = 2048;
    plan.flows = 1024;
    plan.src_count = 1024;
    plan.slips = 8;
    plan.l3 = 14;
    plan.l4 = 34;
    plan.payload_len = 1472;
    plan.frame_len = 1514;
    plan.own = Within {
        high: 0,
        low: 0x0a63_0001,
        count: 16_382,
        v6: 0,
    };
    plan.flags |= flag::ANSWER_OWN;
    plan
}

#[test]
fn no_program_takes_the_verifier_long() {
    if !programs::can_load() {
        return;
    }
    let (all, none) = (programs::port_bits(|_| true), programs::port_bits(|_| false));
    let ports = [
        Constant("PORTS", bytes_of(&all)),
        Constant("HOST_PORTS", bytes_of(&none)),
    ];
    let loops = programs::abi::bytes_of(&Loops {
        secret: [1, 2],
        own4_count: OWN as u32,
        own6_count: OWN as u32,
        broadcasts_count: OWN as u32,
        ..Loops::default()
    });
    let watchful = [
        Constant("PORTS", bytes_of(&all)),
        Constant("HOST_PORTS", bytes_of(&none)),
        Constant("LOOPS", &loops),
    ];
    // Eight streams of eight sizes, with all that an image has room for.
    let mut image = Image {
        headers: 112,
        data: 1300,
        writers: MOST_WRITERS as u32,
        sums: MOST_SUMS as u32,
        ..Image::default()
    };
    for (at, writer) in image.writer.iter_mut().enumerate() {
        (writer.at, writer.kind, writer.factor) = (14 + 8 * at as u32, at as u32 % 3, [1; MOST_SUMS]);
    }
    for (at, sum) in image.sum.iter_mut().enumerate() {
        (sum.at, sum.rest, sum.inner) = (40 + 8 * at as u32, 1, [1; MOST_SUMS]);
    }
    let of_sizes = |sizes: u32| {
        let stream = |at: u32| Stream {
            first: at * 100,
            end: (at + 1) * 100,
            seats: 64,
            sizes,
            cycle: 12,
            ..Stream::default()
        };
        let streams: [Stream; MOST_STREAMS] = std::array::from_fn(|at| stream(at as u32));
        let sized = Sized {
            data: 1300,
            ..Sized::default()
        };
        (streams, [sized; MOST_STREAMS * MOST_SIZES])
    };
    let (images, (one, one_sized), (mix, mix_sized)) = ([image; MOST_STREAMS], of_sizes(1), of_sizes(8));
    let streams_of_one_size = [
        Constant("STREAMS", bytes_of(&one)),
        Constant("IMAGES", bytes_of(&images)),
        Constant("SIZED", bytes_of(&one_sized)),
    ];
    let streams_of_sizes = [
        Constant("STREAMS", bytes_of(&mix)),
        Constant("IMAGES", bytes_of(&images)),
        Constant("SIZED", bytes_of(&mix_sized)),
    ];
    let streams = |mut plan: Plan| {
        plan.flags |= flag::TAGGED | flag::SIZES | flag::JOINS;
        (plan.streams, plan.places, plan.senders) = (8, 24, 8 * 64);
        plan
    };
    let unpaced = |mut plan: Plan| {
        plan.flags &= !flag::PACED;
        plan
    };
    let polled = |mut plan: Plan| {
        (plan.flags, plan.clock_every) = (plan.flags & !flag::BY_CPU, 16);
        plan
    };
    let ipv6 = |mut plan: Plan| {
        (plan.flags, plan.l4, plan.payload_len) = (plan.flags | flag::IPV6, 54, 1452);
        plan
    };
    let varying = |mut plan: Plan| {
        plan.flags |= flag::ADDRESSES_VARY | flag::TOGETHER;
        plan.own.v6 = u32::from(plan.flags & flag::IPV6 != 0);
        plan.peer = plan.own;
        plan.axis = [1000, 1, 16_382, 16_382].map(|count| Axis { count, every: 1 });
        plan
    };
    let between = |mut plan: Plan, way| {
        plan.flags |= way;
        plan
    };
    let cases = [
        (&DROP.0[..], "drop", plan(), &ports[..]),
        (&TRAFFIC.0[..], "receive", plan(), &[]),
        (&TRAFFIC.0[..], "receive", ipv6(plan()), &[]),
        (&TRAFFIC.0[..], "receive", varying(plan()), &[]),
        (&TRAFFIC.0[..], "receive", varying(ipv6(plan())), &[]),
        (&TRAFFIC.0[..], "receive", between(ipv6(plan()), flag::ACROSS), &[]),
        (
            &TRAFFIC.0[..],
            "receive",
            between(varying(ipv6(plan())), flag::ACROSS),
            &[],
        ),
        (
            &TRAFFIC.0[..],
            "receive",
            between(varying(ipv6(plan())), flag::TURNED),
            &[],
        ),
        (&TRAFFIC.0[..], "send", between(plan(), flag::TURNED), &[]),
        (&TRAFFIC.0[..], "send", varying(plan()), &[]),
        (&TRAFFIC.0[..], "send", varying(ipv6(plan())), &[]),
        (&TRAFFIC.0[..], "streams", streams(plan()), &streams_of_one_size[..]),
        (&TRAFFIC.0[..], "streams", streams(plan()), &streams_of_sizes[..]),
        (
            &TRAFFIC.0[..],
            "streams",
            unpaced(streams(plan())),
            &streams_of_sizes[..],
        ),
        (&DROP.0[..], "drop", polled(plan()), &ports[..]),
        (&TRAFFIC.0[..], "receive", polled(plan()), &[]),
        (&REFLECT.0[..], "reflect", plan(), &ports[..]),
        (&REFLECT.0[..], "reflect", plan(), &watchful[..]),
        (&REFLECT.0[..], "reflect", polled(plan()), &watchful[..]),
    ];
    for (object, name, plan, constants) in cases {
        for (program, instructions) in programs::verified(object, &plan, constants) {
            println!("{program} of {name}: {instructions}");
            assert!(
                instructions < programs::MOST_VERIFIED,
                "{program} of {name}: {instructions}"
            );
        }
    }
}
