//! Every command that README.md and docs/ show is run as it is printed, or left out for a reason given here. One that
//! is in neither list fails the test: put it where it belongs.
//!
//! Each recipe has a lab of the default name for itself, in a mount namespace whose `/run` is its own, so that neither
//! the user's lab nor another recipe is in its way. Runs without a `--duration` get one of 300 ms, and wait as long for
//! what comes back.

use std::process::Command;

use mpps_tests::{Finished, Scratch, Shown, cases, missing, no_dpdk, program, run_command, shown, skip};

/// Commands of one page that belong together, in order.
struct Recipe {
    page: &'static str,
    /// Run in a shell on host b before.
    before: &'static str,
    commands: &'static [&'static str],
}

const fn recipe(page: &'static str, commands: &'static [&'static str]) -> Recipe {
    Recipe {
        page,
        before: "",
        commands,
    }
}

const README: &str = "README.md";
const QUICK: &str = "docs/use/quick-start.md";
const CAPTURE: &str = "docs/use/capture.md";
const DPDK: &str = "docs/paths/dpdk.md";
const FORWARDING: &str = "docs/use/forwarding.md";
const AF_XDP: &str = "docs/paths/af_xdp.md";
const XDP: &str = "docs/paths/xdp.md";

/// A second link between the hosts, and three more: eth2 to eth4.
const LINKS: &str = "for i in 2 3 4; do ip link add eth$i type veth peer name eth$i netns mpps-lab-a || exit; \
                     ip link set eth$i up; ip -n mpps-lab-a link set eth$i up; done; ethtool -K eth2 gro on; \
                     ip netns exec mpps-lab-a ethtool -K eth2 gro on";

/// As [`LINKS`], and a bridge between the first two; the test's packets of host a are no business of its own stack.
/// A literal, so that more can be put behind it.
macro_rules! bridge {
    () => {
        "ip link add eth2 type veth peer name eth2 netns mpps-lab-a && ip link set eth2 up && \
                      ip -n mpps-lab-a link set eth2 up && ip link add sw0 type bridge && ip link set eth1 master sw0 \
                      && ip link set eth2 master sw0 && ip link set sw0 up && \
                      until grep -q 3 /sys/class/net/eth2/brport/state; do sleep 0.05; done"
    };
}
const BRIDGE: &str = bridge!();

/// The same, and the files of streams that the page on traffic has, in their order.
const MIXES: &str = concat!(
    bridge!(),
    "; awk '/^```toml/ {n++; f = 1; next} /^```/ {f = 0} f {print > (\"block\" n)}' ",
    env!("CARGO_MANIFEST_DIR"),
    "/../docs/use/traffic.md && mv block2 mix.toml && mv block3 classes.toml && mv block4 bursts.toml && \
     mv block5 office.toml"
);

/// A router between two links.
const ROUTER: &str = "ip link add eth2 type veth peer name eth2 netns mpps-lab-a && ip link set eth2 up && \
                      ip -n mpps-lab-a link set eth2 up && ip addr add 198.18.0.254/24 dev eth1 && \
                      ip addr add 198.18.1.254/24 dev eth2 && sysctl -qw net.ipv4.ip_forward=1";

/// One packet of each kind that the page on traffic shows, from one port to another.
const PACKETS: &[&str] = &[
    "mpps sendrecv af_packet:eth1 af_packet:eth2 --duration 1s --rate 5kpps --packet \"eth / vlan vid=10..12 / ipv4 \
     / udp src=1024..1279 dst=9000\"",
    "mpps sendrecv af_xdp:eth1 af_xdp:eth2 --duration 1s --rate 5kpps --packet \"eth / ipv4 / udp src=inner-hash \
     dst=4789 / vxlan vni=5000..5003 / eth / ipv4 src=10.0.0.1*250 / udp\"",
    "mpps sendrecv af_packet:eth1 af_packet:eth2 --duration 1s --rate 5kpps --packet \"eth / ipv4 \
     src=random(10.0.0.0/8) ttl=random(32..128) / tcp src=random(1024..65535) dst=80 flags=syn\"",
    "mpps sendrecv af_packet:eth1 af_packet:eth2 --duration 1s --rate 50pps --frame-size 218 --packet \"eth / ipv4 \
     dscp=46 / udp src=16384 dst=16386\"",
    "mpps sendrecv af_packet:eth1 af_packet:eth2 --duration 1s --rate 5kpps --packet \"eth / ipv4 / udp dst=2152 / \
     gtpu teid=1..1000 / ipv4 src=10.45.0.1*250 / udp dst=53\"",
    "mpps sendrecv af_packet:eth1 af_packet:eth2 --duration 1s --rate 5kpps --packet \"eth / qinq vid=100..103 / \
     vlan vid=1..100 / ipv4 / udp\"",
    "mpps sendrecv af_packet:eth1 af_packet:eth2 --duration 1s --rate 5kpps --packet \"eth / mpls label=100..103 / \
     ipv4 / udp\"",
    "mpps sendrecv af_packet:eth1 af_packet:eth2 --duration 1s --rate 5kpps --packet \"eth / ipv6 / hopopts / udp \
     dst=9000\"",
    "mpps sendrecv af_packet:eth1 af_packet:eth2 --duration 1s --rate 5kpps --packet \"eth / ipv4 / gre key=1..8 / \
     ipv4 / udp\"",
    "mpps sendrecv af_packet:eth1 af_packet:eth2 --duration 1s --rate 100pps --packet \"eth / ipv4 / icmp type=8 \
     ident=7 seq=0..65535\"",
    "mpps sendrecv af_packet:eth1 af_packet:eth2 --duration 1s --rate 5kpps --packet \"eth / ipv6 / ipv4 / udp \
     dst=9000\"",
    "mpps sendrecv af_packet:eth1 af_packet:eth2 --duration 1s --rate 5kpps --frame-size 1502 --packet \"eth / ipv4 \
     / sctp\"",
];

const RECIPES: &[Recipe] = &[
    recipe(
        "docs/research/tap-study.md",
        &["mpps drop dpdk:net_null0 --duration 1s --eal \"--trace=lib.ethdev.* --trace-dir=dpdk-trace\""],
    ),
    recipe(
        README,
        &["mpps sendrecv af_packet --lab --rate 20kpps --duration 5s --verbose --csv run.csv --json run.json"],
    ),
    recipe(
        README,
        &[
            "mpps sendrecv af_packet --lab --rate 20kpps --duration 5s --expect 'loss<0.1%' --expect 'p99<20ms' \
             --junit mpps.xml",
        ],
    ),
    recipe(
        README,
        &["mpps sendrecv af_packet --lab --rate 20kpps --duration 5s --metrics --web"],
    ),
    recipe(
        "docs/use/live.md",
        &[
            "mpps sendrecv loop:loss=1% --rate 20kpps --duration 3s --metrics --web",
            "mpps sendrecv loop:loss=1% --rate 20kpps --duration 3s --prom mpps.prom",
            "mpps reflect null: --metrics=127.0.0.1:9469 --duration 3s",
        ],
    ),
    recipe(
        QUICK,
        &[
            "mpps reflect udp:10.99.0.2:9000",
            "mpps sendrecv udp:10.99.0.1 --dest 10.99.0.2:9000 --rate 100kpps --csv run.csv --json run.json",
        ],
    ),
    recipe(
        QUICK,
        &[
            "mpps reflect af_packet:eth1",
            "mpps sendrecv af_packet:eth1 --src 10.99.0.1 --dest 10.99.0.2:9000 --rate 100kpps",
        ],
    ),
    recipe(
        QUICK,
        &[
            "mpps reflect af_packet:eth1 --ip 10.99.0.88",
            "mpps sendrecv af_packet:eth1 --src 10.99.0.77 --dest 10.99.0.88:9000 --rate 50kpps",
        ],
    ),
    recipe(
        QUICK,
        &[
            "mpps reflect af_xdp:eth1",
            "mpps sendrecv af_xdp:eth1 --src 10.99.0.1 --dest 10.99.0.2:9000 --rate 50kpps",
        ],
    ),
    recipe(
        QUICK,
        &[
            "mpps reflect xdp:eth1",
            "mpps sendrecv xdp:eth1 --src 10.99.0.1 --dest 10.99.0.2:9000 --rate 50kpps",
        ],
    ),
    recipe(
        QUICK,
        &[
            "mpps reflect dpdk:net_memif0,role=server --ip 10.99.0.2 &",
            "mpps sendrecv dpdk:net_memif0 --src 10.99.0.1 --dest 10.99.0.2:9000 --rate 50kpps",
        ],
    ),
    recipe(
        QUICK,
        &[
            "mpps lab up",
            "mpps lab exec b -- mpps reflect af_xdp:eth1 &",
            "mpps lab exec a -- mpps sendrecv af_xdp:eth1 --src 10.99.0.1 --dest 10.99.0.2:9000 --rate 50kpps",
            "mpps lab down",
        ],
    ),
    recipe(
        QUICK,
        &[
            "mpps drop udp:10.99.0.2:9000",
            "mpps send udp:10.99.0.1 --dest 10.99.0.2:9000 --rate 50kpps",
        ],
    ),
    recipe(
        QUICK,
        &[
            "mpps drop udp:10.99.0.2:9000,gro=on",
            "mpps send udp:10.99.0.1,gso=on --dest 10.99.0.2:9000 --rate 50kpps",
        ],
    ),
    recipe(
        CAPTURE,
        &[
            "mpps capture af_packet:eth1 -o trace.pcapng --duration 10s",
            "mpps capture af_packet:eth1 -o dns.pcapng --port 53 --snap-len 128",
            "mpps capture af_packet:eth1 -o ring.pcapng --rotate-size 100MB --max-files 10",
            "mpps capture af_packet:eth1 -o - --quiet | tshark -r -",
            "mpps capture af_xdp:eth1,rx_time=kernel -o test.pcapng --port 9000",
        ],
    ),
    recipe(
        CAPTURE,
        &[
            "mpps sendrecv loop: --rate 20kpps --duration 2s --sample-pcap watch.pcapng,n=1000",
            "mpps reflect af_packet:eth1 --duration 3s --sample-pcap - | tcpdump -n -r -",
        ],
    ),
    recipe(
        DPDK,
        &[
            "mpps reflect dpdk:net_memif0,role=server --ip 10.99.0.2 &",
            "mpps sendrecv dpdk:net_memif0 --src 10.99.0.1 --dest 10.99.0.2:9000 --rate 100kpps --duration 5s",
        ],
    ),
    recipe(
        DPDK,
        &[
            "mpps reflect dpdk:net_memif0,role=server --ip 10.99.0.2 &",
            "mpps sendrecv dpdk:net_memif0 --src 10.99.0.1 --dest 10.99.0.2:9000 --rate 50kpps",
        ],
    ),
    recipe(DPDK, &["mpps reflect dpdk:net_af_packet0,iface=eth1 --ip 10.99.0.88"]),
    recipe(DPDK, &["mpps reflect dpdk:net_af_xdp0,iface=eth1 --ip 10.99.0.88"]),
    Recipe {
        page: DPDK,
        before: "ip link delete eth1",
        commands: &[
            "mpps reflect dpdk:net_tap0,iface=tap0 --ip 10.99.0.2 &",
            "until ip addr add 10.99.0.1/24 dev tap0 2>/dev/null; do sleep 0.1; done",
            "mpps sendrecv udp:10.99.0.1 --dest 10.99.0.2:9000 --rate 20kpps",
        ],
    },
    recipe(
        DPDK,
        &[
            "mpps send dpdk:net_null0,no-rx=1 --duration 3s",
            "mpps reflect dpdk:net_null0,size=60 --duration 3s",
        ],
    ),
    Recipe {
        page: DPDK,
        before: "mpps send dpdk:net_pcap0,tx_pcap=in.pcap --src 10.99.0.1 --dest 10.99.0.2:9000 --dest-mac \
                 02:00:00:00:00:02 --rate 1kpps --duration 100ms",
        commands: &[
            "mpps drop dpdk:net_pcap0,rx_pcap=in.pcap --no-verify --duration 1s",
            "mpps forward dpdk:net_pcap0,rx_pcap=in.pcap,tx_pcap=out.pcap --mode macswap --duration 1s",
        ],
    },
    Recipe {
        page: FORWARDING,
        before: LINKS,
        commands: &[
            "mpps forward af_packet:eth1 af_packet:eth2",
            "mpps forward af_packet:eth1",
            "mpps forward af_packet:eth1 af_packet:eth2 --mode l2fwd --dest-mac 02:00:00:00:00:0a,02:00:00:00:00:0b",
            "mpps forward af_xdp:eth1 af_xdp:eth2",
            "mpps forward af_xdp:eth1 af_packet:eth2",
            "mpps forward xdp:eth1 xdp:eth2",
            "mpps forward xdp:eth1 --mode 5tswap --port 9000",
            "mpps forward af_packet:eth1 af_packet:eth2 --port 9000-9063",
            "mpps forward af_xdp:eth1 af_xdp:eth2 af_xdp:eth3 af_xdp:eth4",
        ],
    },
    recipe(FORWARDING, &["mpps forward null: --mode 5tswap --duration 5s"]),
    recipe(FORWARDING, &["mpps forward null: --work 200ns,reads=4 --duration 5s"]),
    recipe(
        FORWARDING,
        &[
            "mpps lab up",
            "mpps lab exec b -- mpps forward af_xdp:eth1 --mode 5tswap --port 9000 &",
            "mpps lab exec a -- mpps sendrecv af_xdp:eth1 --src 10.99.0.1 --dest 10.99.0.2:9000 --rate 20kpps \
             --duration 3s",
        ],
    ),
    recipe(
        "docs/use/verdict.md",
        &[
            "mpps sendrecv loop:delay=200us,loss=1%,duplicate=1%,reorder=1%,reorder_distance=3,corrupt=1% --rate \
             20kpps --duration 2s",
        ],
    ),
    Recipe {
        page: QUICK,
        before: LINKS,
        commands: &[
            "mpps forward af_packet:eth1 af_packet:eth2",
            "mpps sendrecv af_packet:eth1 af_packet:eth2 --rate 20kpps",
        ],
    },
    Recipe {
        page: "docs/paths/two-ports.md",
        before: BRIDGE,
        commands: &[
            "mpps sendrecv af_packet:eth1 af_packet:eth2 --rate 20kpps",
            "mpps sendrecv af_packet:eth1 af_packet:eth2 --both-ways --rate 20kpps",
        ],
    },
    Recipe {
        page: "docs/paths/two-ports.md",
        before: BRIDGE,
        commands: &[
            "mpps sendrecv af_packet:eth1 af_packet:eth2 --src 198.18.0.1-198.18.63.254 \
                     --dest 198.19.0.1-198.19.63.254:9000-9999 --src-port-range 10000-10999 --step together --rate \
                     20kpps",
        ],
    },
    Recipe {
        page: "docs/paths/two-ports.md",
        before: ROUTER,
        commands: &[
            "mpps sendrecv af_packet:eth1 af_packet:eth2 --src 198.18.0.1 --dest 198.18.1.2:9000 \
                     --gateway 198.18.0.254 --rate 20kpps",
            "mpps sendrecv af_packet:eth1 af_packet:eth2 --both-ways --src 198.18.0.1 --dest 198.18.1.2:9000 \
                     --gateway 198.18.0.254 --back-gateway 198.18.1.254 --rate 20kpps",
        ],
    },
    recipe(
        "docs/use/traffic.md",
        &[
            "mpps sendrecv af_packet --lab --rate 20kpps --duration 3s --packet \"eth / ipv4 dst=10.99.0.2 / tcp \
             src=1..99 dst=80\"",
        ],
    ),
    Recipe {
        page: "docs/use/traffic.md",
        before: "printf '[vars]\\ntenants = 10\\n[[stream]]\\npacket = \"eth / ipv4 dst=10.99.0.2 / udp dst=4789 / \
                 vxlan vni=1..$tenants / eth / ipv4 / udp dst=9000\"\\n' > tenants.toml",
        commands: &[
            "mpps sendrecv af_packet --lab --rate 20kpps --duration 3s --traffic tenants.toml --set tenants=50",
        ],
    },
    Recipe {
        page: "docs/use/traffic.md",
        before: MIXES,
        commands: &[
            "mpps sendrecv af_packet:eth1 af_packet:eth2 --duration 1s --traffic mix.toml --streams-csv streams.csv",
            "mpps sendrecv af_xdp:eth1 af_xdp:eth2 --duration 1s --traffic mix.toml --scale 50% --expect \
             'loss(load)==0'",
            "mpps sendrecv af_packet:eth1 af_packet:eth2 --duration 1s --rate 10kpps --traffic classes.toml",
            "mpps sendrecv af_packet:eth1 af_packet:eth2 --duration 1s --traffic bursts.toml",
            "mpps sendrecv af_packet:eth1 af_packet:eth2 --both-ways --duration 1s --traffic bursts.toml",
        ],
    },
    Recipe {
        page: "docs/use/traffic.md",
        before: MIXES,
        commands: &[
            "mpps traffic pcap mix.toml -n 5000 -o office.pcapng",
            "mpps traffic check office.toml",
            "mpps send af_packet:eth1 --pcap office.pcapng",
            "mpps send af_packet:eth1 --pcap office.pcapng --set speed=max --set loops=10",
            "mpps sendrecv af_packet:eth1 af_packet:eth2 --pcap office.pcapng --rate 10kpps --settle 1s",
            "mpps sendrecv af_packet:eth1 af_packet:eth2 --traffic office.toml --duration 1s",
        ],
    },
    Recipe {
        page: "docs/use/traffic.md",
        before: concat!(
            "awk '/^```toml/ {n++; f = 1; next} /^```/ {f = 0} f {print > (\"block\" n)}' ",
            env!("CARGO_MANIFEST_DIR"),
            "/../docs/use/traffic.md && mv block6 syn.toml"
        ),
        commands: &["mpps sendrecv af_packet --lab --duration 1s --traffic syn.toml"],
    },
    Recipe {
        page: "docs/use/traffic.md",
        before: BRIDGE,
        commands: PACKETS,
    },
    Recipe {
        page: "docs/use/traffic.md",
        before: "printf '[[stream]]\\npacket = \"eth / vlan vid=10..12 / ipv4 / udp\"\\nsize = \"imix\"\\n' > mix.toml",
        commands: &[
            "mpps traffic show -n 3 --packet \"eth / vlan vid=10..12 / ipv4 dst=10.0.0.0/24 / udp dst=9000\"",
            "mpps traffic check mix.toml",
            "mpps traffic pcap mix.toml -n 1000 -o mix.pcapng",
            "mpps traffic schema > traffic.schema.json",
        ],
    },
    Recipe {
        page: "docs/use/plans.md",
        before: "mpps sendrecv loop:delay=1ms --rate 10kpps --duration 1s --print-plan > plan.json",
        commands: &[
            "mpps sendrecv loop:delay=1ms --rate 10kpps --duration 1s --print-plan",
            "mpps run plan.json",
        ],
    },
    Recipe {
        page: "docs/use/plans.md",
        before: "printf 'rate = \"20kpps\"\\nframe-size = 512\\nexpect = [\"loss<0.01%%\", \"p99<20ms\"]\\nout = \
                 \"results\"\\n' > nightly.toml",
        commands: &["mpps sendrecv loop:delay=1ms --config nightly.toml --duration 2s"],
    },
    Recipe {
        page: "docs/use/ci.md",
        before: "printf 'rate = \"20kpps\"\\nexpect = [\"loss<0.01%%\", \"p99<20ms\"]\\njunit = \"mpps.xml\"\\n' > \
                 mpps.toml",
        commands: &[
            "mpps sendrecv loop:delay=1ms --rate 20kpps --duration 5s --expect 'loss<0.01%' --expect 'p99<20ms' \
             --junit mpps.xml",
            "mpps sendrecv loop:delay=1ms --config mpps.toml",
        ],
    },
    recipe(
        "docs/use/reports.md",
        &["mpps sendrecv loop:delay=1ms --rate 10kpps --duration 2s --out results"],
    ),
    Recipe {
        page: "docs/use/reports.md",
        before: "for i in run other; do mpps sendrecv loop:delay=1ms --rate 10kpps --duration 300ms --settle 100ms \
                 --csv $i.csv --json $i.json || test $? = 3 || exit 1; done",
        commands: &[
            "mpps report run.json run.csv -o run.html",
            "mpps report run.json other.json run.csv other.csv -o both.html",
            "mpps plot run.csv other.csv -o both.png",
            "mpps report run.json run.csv -o public.html --redact",
        ],
    },
    Recipe {
        page: "docs/use/reports.md",
        before: "for i in c rust; do mpps ndr loop: --max-rate 1kpps --search-time 2s --out throughput-$i \
                 --goal loss=0,initial=100ms,final=100ms,sum=100ms,width=50% || test $? = 3 || exit 1; done",
        commands: &[
            "mpps report throughput-c throughput-rust -o both",
            "mpps plot throughput-c throughput-rust -o both.png",
        ],
    },
    recipe(
        "docs/paths/loop.md",
        &["mpps sendrecv loop:capacity=100kpps,queue=100 --rate 200kpps --duration 2s"],
    ),
    recipe("docs/use/isolation.md", &["mpps doctor --svg host.svg"]),
    recipe(AF_XDP, &["ethtool -l eth1"]),
    recipe(
        AF_XDP,
        &[
            "echo 2      > /sys/class/net/eth1/napi_defer_hard_irqs",
            "echo 200000 > /sys/class/net/eth1/gro_flush_timeout",
        ],
    ),
    recipe(
        XDP,
        &[
            "mpps reflect xdp:eth1",
            "mpps sendrecv xdp:eth1 --src 10.99.0.1 --dest 10.99.0.2:9000 --rate 50kpps",
        ],
    ),
    recipe(
        XDP,
        &[
            "mpps drop xdp:eth1 --port 9000",
            "mpps send xdp:eth1 --src 10.99.0.1 --dest 10.99.0.2:9000 --rate 20kpps",
        ],
    ),
];

/// Commands with any of these words are not run.
const LEFT_OUT: &[(&str, &str)] = &[
    ("make demo", "half a minute of several runs as fast as they go"),
    ("make test", "that is what runs this"),
    (
        "make build ARCH=arm64",
        "a cross build takes minutes; `make test-guests-all` makes it",
    ),
    ("make wheel", "python/tests/test_wheel.py makes and runs such a wheel"),
    (
        "make static",
        "minutes to build; scripts/packages.sh tries the program where it is there",
    ),
    ("make image", "wants a container engine"),
    (
        "mpps sendrecv udp: --duration 3s",
        "wants another host at 10.99.0.2; tests/kernel/udp.rs runs such packets and streams",
    ),
    ("docker run ", "wants a container engine"),
    (
        "mpps reflect udp:0.0.0.0:9000 --metrics=0.0.0.0:9469,host=bench1.lab",
        "goes on until it is ended; tests/results/readers.rs has Prometheus scrape by such a name",
    ),
    ("5.4 s of 10.0 s", "the picture of the view on a terminal, no command"),
    (
        "mpps ndr ",
        "a search takes minutes; tests/quiet/ndr.rs runs shorter ones",
    ),
    (
        "mpps rfc2544 ",
        "its tests take minutes; tests/rfc2544.rs runs shorter ones",
    ),
    (
        "mpps overload ",
        "a test takes minutes; tests/quiet/overload.rs runs shorter ones",
    ),
    (
        "--lanes-csv device.csv",
        "tests/quiet/overload.rs joins a forwarder's rows",
    ),
    (
        "mpps compare ",
        "rounds take minutes; tests/quiet/compare.rs runs shorter ones",
    ),
    ("mpps demo", "half a minute of several runs as fast as they go"),
    (
        "mpps isolate ",
        "changes this machine's kernel; tests/host/isolate.rs isolates cores of hosts made of files",
    ),
    ("wireshark", "opens a window"),
    ("0000:03:00.0", "a PCI device"),
    ("dpdk:03:00.0", "a PCI device"),
    ("dpdk:mac=", "a PCI or VMBus device"),
    ("driverctl", "changes the drivers of this machine"),
    ("dpdk-devbind.py", "changes the drivers of this machine"),
    ("modprobe", "changes this machine's kernel"),
    ("sysctl -w vm.", "changes this machine's memory"),
    ("apt-get", "installs programs"),
    ("dpdkproj", "another program, which is not public"),
    (
        "dpdk-testpmd",
        "tests/dpdk/dpdk_peers.rs runs testpmd, on memory of its own",
    ),
    ("socket=/run/pmd.sock", "its other end is that testpmd"),
    (
        "sudo ",
        "changes the groups of this machine; tests/host/lent.rs runs a program with capabilities",
    ),
    (
        "net_virtio_user",
        "vhost-net, which few kernels have, or testpmd at the other end",
    ),
    (
        "ip addr add 10.99.0.1/24 dev tap0 && ip link set tap0 up",
        "belongs to net_virtio_user",
    ),
    ("net_vhost", "tests/guest/cases/dpdk_vhost.sh runs it"),
    ("qemu-system", "tests/guest/cases/dpdk_vhost.sh runs it"),
    (
        "udp:10.99.0.1 --dest 10.99.0.2:9000 --rate 10kpps",
        "in a guest: tests/guest/cases/dpdk_vhost.sh runs it",
    ),
    (
        "dpdk:0000:01:00.0",
        "in a guest: tests/guest/cases/dpdk_vhost.sh runs it",
    ),
    (
        "t.pftrace.gz",
        "tests/trace/trace.rs keeps and reads traces of shorter runs",
    ),
    ("bench/tap_study.sh", "a minute of several runs"),
    ("iface=in0", "bench/tap_study.sh runs it"),
    (
        "babeltrace2 dpdk-trace",
        "tests/trace/trace.rs reads such a trace, where babeltrace2 is",
    ),
    ("br0", "tests/dpdk/dpdk.rs joins taps to a bridge"),
    ("dpdk:net_tap0,iface=tap1", "tests/dpdk/dpdk.rs joins taps to a bridge"),
    ("ethtool -L", "a veth's queues are as many as it was made with"),
    ("ethtool -X", "a veth has no indirection table"),
    ("--start-at", "tests/program/start.rs starts runs at instants to come"),
    ("--cores 2", "wants cores that this machine may not have"),
    ("af_xdp:eth1,first=2", "wants a NIC with ntuple filters"),
];

/// A shell that runs the recipe's steps, each with its output in files of its own, and writes their exit codes.
const STEPS: &str = r#"
mount --make-rprivate / && mount -t tmpfs none /run || exit 77
mkdir -p bin && ln -s "$0" bin/mpps && PATH=$PWD/bin:$PATH
# Until the step says that it is ready, or has ended.
listen() {
    # Its process is the listener itself, so that signals reach it.
    ${host:+ip netns exec mpps-lab-$host} sh -c "exec $2" > $1.out 2> $1.err & pid=$!
    listeners="$listeners $1:$pid"
    until grep -q 'is ready on' $1.err; do kill -0 $pid 2>/dev/null || break; sleep 0.05; done
}
run() { ${host:+ip netns exec mpps-lab-$host} sh -c "$2" > $1.out 2> $1.err; echo "$1 $?" >> codes; }
finish() {
    for l in $listeners; do kill -TERM ${l#*:} 2>/dev/null; wait ${l#*:}; echo "${l%:*} $?" >> codes; done
}
"#;

/// Commands that end only when they are ended.
fn listens(shown: &Shown) -> bool {
    shown.prompt.starts_with('b') || shown.command.ends_with('&')
}

/// Gives a run that would last long a duration, and a short settle time.
fn shortened(command: &str) -> String {
    let mut text = command.to_owned();
    let mut say = |workload: &str, option: &str| {
        if !command.contains(option) {
            let words = format!("mpps {workload} ");
            text = text.replacen(&words, &format!("{words}{option} 300ms "), 1);
        }
    };
    for workload in ["sendrecv", "send", "drop", "reflect", "forward", "capture"] {
        say(workload, "--duration");
    }
    say("sendrecv", "--settle");
    text
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Runs a recipe; what went wrong.
fn run(recipe: &Recipe, steps: &[&Shown]) -> Vec<String> {
    let own_lab = recipe.commands[0] == "mpps lab up";
    let mut script = STEPS.to_owned();
    if !own_lab {
        script += "host=; run up 'mpps lab up'\n";
    }
    if !recipe.before.is_empty() {
        script += &format!("host=b; run before {}\n", quoted(recipe.before));
    }
    for (i, step) in steps.iter().enumerate() {
        let host = match step.prompt.chars().next() {
            _ if own_lab => "",
            Some('a') => "a",
            _ => "b",
        };
        let command = step.command.trim_end_matches('&').trim_end();
        let line = match listens(step) {
            true => format!("host={host}; listen {i} {}\n", quoted(command)),
            false => format!("host={host}; run {i} {}\n", quoted(&shortened(command))),
        };
        script += &line;
    }
    // The end of the last sender: the listeners' turn.
    script += "finish\nexit 0\n";
    let scratch = Scratch::new();
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script]).arg(program());
    command.current_dir(scratch.path());
    let finished = run_command(command);
    judged(recipe, steps, &scratch, &finished)
}

fn judged(recipe: &Recipe, steps: &[&Shown], scratch: &Scratch, finished: &Finished) -> Vec<String> {
    if finished.code == Some(77) {
        skip(&format!(
            "{}: no file system can be mounted here: {}",
            recipe.page, finished.stderr
        ));
        return Vec::new();
    }
    let read = |name: &str| std::fs::read_to_string(scratch.file(name)).unwrap_or_default();
    let codes = read("codes");
    let code = |name: &str| {
        codes
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
    };
    let mut wrong = Vec::new();
    let names = (0..steps.len()).map(|i| i.to_string());
    let names = names.chain(
        recipe
            .before
            .split(' ')
            .next()
            .filter(|b| !b.is_empty())
            .map(|_| "before".to_owned()),
    );
    for name in names {
        let what = name.parse::<usize>().map_or(recipe.before, |i| &steps[i].command);
        let said = format!("{}{}", read(&format!("{name}.out")), read(&format!("{name}.err")));
        // A busy machine may keep a generator from its rate: that run is not valid, and still well.
        let ended: Option<i32> = code(&name);
        let measures = said.contains("VALID");
        // Not valid, or not what was asked for: a busy host can bring either.
        let well = ended == Some(0) || matches!(ended, Some(3 | 4)) && measures && !said.contains("vanished");
        if !well {
            wrong.push(format!(
                "{}: {what}: exit code {ended:?}: {said} {}",
                recipe.page, finished.stderr
            ));
        }
    }
    wrong
}

#[test]
fn every_command_of_the_pages_is_run_or_left_out_for_a_reason() {
    let all = shown();
    assert!(all.len() > 80, "the pages show {} commands", all.len());
    let mut unknown = Vec::new();
    for Shown { page, command, .. } in &all {
        let of_recipe = |r: &Recipe| r.page == page && r.commands.contains(&command.as_str());
        let left_out = LEFT_OUT.iter().any(|(words, _)| command.contains(words));
        if !left_out && !RECIPES.iter().any(of_recipe) {
            unknown.push(format!("{page}: {command}"));
        }
    }
    assert!(unknown.is_empty(), "not in tests/program/recipes.rs: {unknown:#?}");
    for recipe in RECIPES {
        let printed = |command: &&&str| all.iter().any(|s| s.page == recipe.page && s.command == **command);
        let gone: Vec<_> = recipe.commands.iter().filter(|command| !printed(command)).collect();
        assert!(gone.is_empty(), "{} shows no more: {gone:#?}", recipe.page);
    }
}

/// Tests that share the recipes: as many as there are cases below, or some recipes would never run.
const SHARDS: usize = 12;

fn every_recipe_of_the_pages_ends_well(shard: usize) {
    for (tool, package) in [
        ("unshare", "util-linux"),
        ("ip", "iproute2"),
        ("ethtool", "ethtool"),
        ("tshark", "tshark"),
    ] {
        if missing(tool, package) {
            return;
        }
    }
    if !rustix::process::geteuid().is_root() {
        return skip("labs need root");
    }
    let without_dpdk = no_dpdk();
    let all = shown();
    let mut wrong = Vec::new();
    for recipe in RECIPES.iter().skip(shard).step_by(SHARDS) {
        if without_dpdk && recipe.commands.iter().any(|c| c.contains("dpdk:")) {
            continue;
        }
        let found = |command: &&str| all.iter().find(|s| s.page == recipe.page && s.command == *command);
        let steps: Vec<_> = recipe.commands.iter().filter_map(found).collect();
        wrong.extend(run(recipe, &steps));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

cases!(
    every_recipe_of_the_pages_ends_well:
    shard_0 = 0,
    shard_1 = 1,
    shard_2 = 2,
    shard_3 = 3,
    shard_4 = 4,
    shard_5 = 5,
    shard_6 = 6,
    shard_7 = 7,
    shard_8 = 8,
    shard_9 = 9,
    shard_10 = 10,
    shard_11 = 11,
);
