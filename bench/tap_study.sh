#!/usr/bin/env bash
# The study of docs/research/tap-study.md: testpmd between two TAP devices, traced by `mpps trace peer`, beside
# `mpps forward`.
#
#   bench/tap_study.sh [FOLDER]      results (JSON, logs) into FOLDER, the table to standard output; root
#
# STUDY_SECONDS=4     length of one run
# STUDY_RATE=100kpps  what is sent into the first TAP device; "" for as fast as it goes
# STUDY_BUILD=FOLDER  one more run, of a testpmd whose functions are counted: DPDK is built there for it, unless it is
#                     there already (by `apt-get source`, meson and ninja)
# STUDY_QUEUES="1 2"  runs without a rule; "": none
# MPPS_BIN=…          the program (default: target/release/mpps)
#
# All devices are in a network namespace that goes with the script.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if [ -z "${STUDY_INSIDE:-}" ]; then
    STUDY_INSIDE=1 exec unshare --net -- "${BASH_SOURCE[0]}" "$@"
fi
unset SUDO_UID SUDO_GID SUDO_USER
mpps=${MPPS_BIN:-$here/../target/release/mpps}
seconds=${STUDY_SECONDS:-4}
rate=${STUDY_RATE-100kpps}
out=${1:-$(mktemp -d)}
mkdir -p "$out"
for tool in dpdk-testpmd ip tc python3; do
    command -v "$tool" >/dev/null || { echo "tap_study: $tool is missing" >&2; exit 1; }
done
# The forwarder has the first core, the sender the last.
last=$(($(nproc) - 1))
eal=("--lcores=(0,1)@(0-$last)" --no-huge -m 512 --iova-mode=va --no-shconf --no-telemetry --no-pci)
taps=(--vdev=net_tap0,iface=in0 --vdev=net_tap1,iface=out0)
pid=
trap '[ -z "$pid" ] || kill "$pid" 2>/dev/null || true' EXIT
# Its neighbours are looked for by IPv6, if the kernel has it, and its packets are none of the study's.
sysctl -qew net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
ip link set lo up

# count NAME: packets that the kernel has had from a device.
count() {
    ip -s -j link show dev "$1" |
        python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["stats64"]["rx"]["packets"])'
}

# await WHAT COMMAND…: until the command succeeds.
await() {
    local what=$1 tries=0
    shift
    until "$@" 2>/dev/null; do
        tries=$((tries + 1))
        [ "$tries" -lt 600 ] || { echo "tap_study: no $what" >&2; exit 1; }
        sleep 0.2
    done
}

devices_up() { ip link set in0 up && ip link set out0 up; }

# traffic NAME [OPTIONS]: sends for a while, and writes what came out of the other device. OPTIONS are af_packet's.
traffic() {
    local before after sent
    await "TAP devices" devices_up
    before=$(count out0)
    taskset -c "$last" "$mpps" send "af_packet:in0${2:-}" --src 10.9.0.1 --dest 10.9.0.2:9000 \
        --dest-mac 02:00:00:00:00:02 \
        ${rate:+--rate "$rate"} --duration "${seconds}s" --json "$out/$1.sent.json" --quiet >/dev/null 2>&1 || true
    sent=$(sed -n 's/^  "tx_packets": \([0-9]*\),$/\1/p' "$out/$1.sent.json")
    # Packets come out a moment after they were sent, but for those that are lost.
    for _ in $(seq 40); do
        after=$(count out0)
        [ $((after - before)) -lt "${sent:-0}" ] || break
        sleep 0.25
    done
    echo "$((after - before))" >"$out/$1.out"
}

# testpmd NAME QUEUES DEVICES… : with what $front holds in front of it.
testpmd() {
    local name=$1 queues=$2 log=$out/$1.log
    shift 2
    mkfifo "$out/$name.in"
    exec 3<>"$out/$name.in"
    taskset -c 0 "${front[@]}" dpdk-testpmd "${plugin[@]}" "${eal[@]}" "$@" -- -i --no-mlockall \
        --total-num-mbufs=16384 --rxq="$queues" --txq="$queues" --no-flush-rx <"$out/$name.in" >"$log" 2>&1 &
    pid=$!
    await "prompt of testpmd" grep -q 'testpmd> ' "$log"
    rm "$out/$name.in"
}

# ends: testpmd, when all was said.
ends() {
    echo stop >&3
    echo quit >&3
    wait "$pid" || true
    pid=
    exec 3>&-
}

echo "kernel $(uname -r), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg) before" | tee "$out/host.txt"

for queues in ${STUDY_QUEUES-1 2}; do
    front=() plugin=()
    testpmd "plain$queues" "$queues" "${taps[@]}"
    echo start >&3
    traffic "plain$queues"
    ends

    front=("$mpps" trace peer --json "$out/peer$queues.json" --) plugin=(-d '{plugin}')
    testpmd "peer$queues" "$queues" "${taps[@]}"
    echo start >&3
    traffic "peer$queues"
    ends

    taskset -c 0 "$mpps" forward dpdk:net_tap0,iface=in0 dpdk:net_tap1,iface=out0 --lanes "$queues" --busy-poll \
        --json "$out/mpps$queues.json" --quiet >"$out/mpps$queues.log" 2>&1 &
    pid=$!
    traffic "mpps$queues"
    kill -INT "$pid"
    wait "$pid" || true
    pid=
done

# A DPDK that says when each function begins and ends, its testpmd and net_tap: what the study built.
build_instrumented() {
    local log=$out/build.log
    # What is there is run as this user.
    mkdir -p "$STUDY_BUILD"
    if [ ! -O "$STUDY_BUILD" ] || [ -n "$(find "$STUDY_BUILD" -maxdepth 0 -perm /022)" ]; then
        echo "tap_study: STUDY_BUILD=$STUDY_BUILD: other users may write there: no function is counted" >&2
        return 1
    fi
    [ ! -x "$STUDY_BUILD/build/app/dpdk-testpmd" ] || return 0
    for tool in meson ninja gcc dpkg-source; do
        command -v "$tool" >/dev/null || { echo "tap_study: $tool is missing: no function is counted" >&2; return 1; }
    done
    mkdir -p "$STUDY_BUILD/apt/lists/partial"
    # Where sources come from, whatever this machine's own lists say.
    sed 's/^/deb-src http:\/\/deb.debian.org\//' >"$STUDY_BUILD/apt/sources.list" <<END
debian $(. /etc/os-release && echo "$VERSION_CODENAME") main
debian-security $(. /etc/os-release && echo "$VERSION_CODENAME")-security main
END
    local apt=(apt-get -qq -o Dir::Etc::sourcelist="$STUDY_BUILD/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
        -o Dir::State::lists="$STUDY_BUILD/apt/lists")
    (
        cd "$STUDY_BUILD"
        "${apt[@]}" update
        "${apt[@]}" source dpdk
        meson setup build dpdk-*/ -Dbuildtype=release -Dplatform=generic -Dtests=false -Denable_apps=test-pmd \
            -Denable_drivers=net/tap,net/null,bus/vdev,mempool/ring -Denable_trace_fp=true \
            -Dc_args=-finstrument-functions
        drivers=$(ninja -C build -t targets all | sed -n 's/^\(drivers\/librte_.*\.so\.[0-9.]*\): .*/\1/p')
        # shellcheck disable=SC2086 # a list
        ninja -C build app/dpdk-testpmd $drivers
    ) >"$log" 2>&1 || { echo "tap_study: DPDK was not built: $(tail -n 1 "$log")" >&2; return 1; }
}

if [ -n "${STUDY_BUILD:-}" ] && build_instrumented; then
    hook=$out/functions.so
    gcc -O2 -shared -fPIC "$here/peers/functions.c" -o "$hook" -lm
    # The program of the build in place of the packaged one. Its drivers are loaded with it, as `-d` refuses folders
    # below one that everybody may write to.
    front=(env "PATH=$STUDY_BUILD/build/app:$PATH" "LD_LIBRARY_PATH=$STUDY_BUILD/build/lib:$STUDY_BUILD/build/drivers"
        "FUNCTIONS=$out/functions.tsv" "LD_PRELOAD=$hook $(echo "$STUDY_BUILD"/build/drivers/librte_*.so)")
    plugin=()
    testpmd functions 1 "${taps[@]}"
    echo start >&3
    traffic functions
    ends
    # The functions that the worker forwards by, and the threads on which the driver's signal was handled.
    {
        python3 "$here/functions.py" "$out/functions.tsv" 0.0005 run_pkt_fwd_on_lcore
        python3 "$here/functions.py" "$out/functions.tsv" 0 tap_trigger_cb | grep ^thread
    } >"$out/functions.txt"
fi

# What the plug-in costs where a poll costs next to nothing.
for name in null nullpeer; do
    front=() plugin=()
    [ "$name" = null ] || { front=("$mpps" trace peer --quiet --json "$out/$name.json" --) plugin=(-d '{plugin}'); }
    testpmd "$name" 1 --vdev=net_null0
    echo start >&3
    sleep "$seconds"
    ends
done

# Without the rule and with it; or what the kernel says instead. It acts on what the kernel hands to the device by
# traffic control, so that is where these packets go.
rule='pattern eth / ipv4 / udp / end actions queue index 0 / end'
for name in norule rule; do
    # Its answer is wanted at once.
    front=(stdbuf -oL) plugin=()
    testpmd "$name" 1 "${taps[@]}"
    if [ "$name" = rule ]; then
        echo "flow create 0 ingress $rule" >&3
        await "answer to the rule" grep -q -e 'Flow rule #' -e 'Caught PMD error' -e 'Bad arguments' "$out/rule.log"
    fi
    if [ "$name" = norule ] || grep -q 'Flow rule #' "$out/rule.log"; then
        echo start >&3
        traffic "$name" ,qdisc=kernel
        tc -s filter show dev in0 parent 1: >"$out/$name.tc" 2>&1 || true
    fi
    ends
done
tc qdisc add dev lo ingress 2>/dev/null || true
tc filter add dev lo ingress protocol ip flower ip_proto udp action drop >"$out/flower.txt" 2>&1 || true
# By mpps, with a trace: two lanes, of which the rule chooses the first.
for name in norule.mpps rule.mpps; do
    flow=()
    [ "$name" = norule.mpps ] || flow=(--flow "ingress $rule")
    taskset -c 0 "$mpps" forward dpdk:net_tap0,iface=in0 dpdk:net_tap1,iface=out0 --lanes 2 "${flow[@]}" --quiet \
        --trace "$out/$name.pftrace.gz" --json "$out/$name.json" >"$out/$name.log" 2>&1 &
    pid=$!
    await "device, or a refusal" eval "devices_up || ! kill -0 $pid"
    if devices_up 2>/dev/null; then
        traffic "$name" ,qdisc=kernel
        tc -s filter show dev in0 parent 1: >"$out/$name.tc" 2>&1 || true
        kill -INT "$pid"
    fi
    wait "$pid" || true
    pid=
    [ ! -s "$out/$name.pftrace.gz" ] || "$mpps" trace "$out/$name.pftrace.gz" table >"$out/$name.table" || true
done

python3 - "$out" "$seconds" <<'PY'
import json, re, sys
from pathlib import Path
out, seconds = Path(sys.argv[1]), float(sys.argv[2])

def load(name):
    path = out / name
    return json.loads(path.read_text()) if path.exists() and path.stat().st_size else None

def kpps(packets):
    return f"{packets / seconds / 1e3:.1f} kpps"

print("\n| queues | forwarder | sent | came out | empty polls | ns each (half: at most) "
      "| packets a poll | ns a packet (half: at most, a call) | longest |")
print("|---|---|---|---|---|---|---|---|---|")
for queues in (1, 2):
    if not (out / f"plain{queues}.out").exists():
        continue
    for name, label in (("plain", "testpmd"), ("peer", "testpmd, traced"), ("mpps", "mpps forward")):
        sent = (load(f"{name}{queues}.sent.json") or {}).get("tx_packets", 0)
        came = int((out / f"{name}{queues}.out").read_text())
        cells = ["-"] * 5
        told = load(f"{name}{queues}.json")
        if name == "peer" and told and "lanes" in told:
            lanes = [lane for lane in told["lanes"] if lane["device"] == "net_tap0" and lane["receive"]["calls"]]
            add = lambda key: sum(lane[key] for lane in lanes)
            got = lambda key: sum(lane["receive"][key] for lane in lanes)
            polls, empty = add("polls"), add("empty_polls")
            half = lambda kind: "/".join(f"{lane[kind]['p50_ns']}" for lane in lanes)
            empty_ns = sum(lane["empty"]["total_ns"] for lane in lanes)
            longest = max(max(lane["receive"]["max_ns"], lane["empty"]["max_ns"]) for lane in lanes)
            cells = [f"{empty} of {polls} ({100 * empty / polls:.2f} %)",
                     f"{empty_ns / max(empty, 1):.1f} ({half('empty')})",
                     f"{got('packets') / max(got('calls'), 1):.2f}",
                     f"{got('total_ns') / max(got('packets'), 1):.0f} ({half('receive')})",
                     f"{longest / 1e6:.2f} ms"]
        if name == "mpps" and told:
            lanes = told.get("lanes", [])
            add = lambda key: sum(lane.get(key) or 0 for lane in lanes)
            bursts, empty = add("rx_bursts"), add("empty_polls")
            if bursts + empty:
                cells[0] = f"{empty} of {bursts + empty} ({100 * empty / (bursts + empty):.2f} %)"
                cells[2] = f"{sent / max(bursts, 1):.2f}"
        print(f"| {queues} | {label} | {kpps(sent)} | {kpps(came)} | " + " | ".join(cells) + " |")

def received(name):
    found = re.findall(r"RX-packets:\s*(\d+)", (out / f"{name}.log").read_text())
    return int(found[0]) if found else 0

bare, traced = received("null"), received("nullpeer")
if bare:
    print(f"\nnet_null: {bare / seconds / 1e6:.2f} Mpps alone, {traced / seconds / 1e6:.2f} Mpps traced "
          f"({100 * (traced - bare) / bare:+.1f} %)")
said = (out / "rule.log").read_text().splitlines()
print("\nthe rule, by testpmd: " + "; ".join(
    line for line in said if re.search("Flow rule #|PMD error|tap_flow|Disabling rte flow", line)))
ours = [line for line in (out / "rule.mpps.log").read_text().splitlines() if line.strip()]
print("the rule, by mpps: " + (ours[-1] if ours else "taken"))
print("tc flower: " + ("taken" if not (out / "flower.txt").read_text().strip() else
                       " / ".join((out / "flower.txt").read_text().split("\n")).strip(" /")))
if (out / "functions.txt").exists():
    print("\nfunctions of testpmd's worker, by a build with -finstrument-functions "
          f"({kpps(int((out / 'functions.out').read_text()))} came out):\n")
    print((out / "functions.txt").read_text())
print("\n| rule | forwarder | sent | came out | matched, as tc says |\n|---|---|---|---|---|")
for name, label, forwarder in (("norule", "none", "testpmd"), ("rule", "to queue 0", "testpmd"),
                               ("norule.mpps", "none", "mpps forward, 2 lanes"),
                               ("rule.mpps", "to queue 0", "mpps forward, 2 lanes")):
    if not (out / f"{name}.out").exists():
        continue
    sent = (load(f"{name}.sent.json") or {}).get("tx_packets", 0)
    matched = re.findall(r"Sent \d+ bytes (\d+) pkt", (out / f"{name}.tc").read_text())
    lanes = [lane["rx_packets"] for lane in (load(f"{name}.json") or {}).get("lanes", [])]
    came = (out / f"{name}.out").read_text().strip() + (f" (by lane: {', '.join(map(str, lanes))})" if lanes else "")
    print(f"| {label} | {forwarder} | {sent} | {came} | {', '.join(matched) or '-'} |")
for name in ("norule.mpps", "rule.mpps"):
    if (out / f"{name}.table").exists():
        print(f"\n{name}, from the trace:\n\n" + (out / f"{name}.table").read_text().strip())
for queues in (1, 2):
    if not (out / f"peer{queues}.log").exists():
        continue
    print(f"\n{queues} queue{'s' * (queues > 1)}, testpmd by `mpps trace peer`:\n")
    text = (out / f"peer{queues}.log").read_text()
    at = text.find("\nlane 0: ")
    print(text[at + 1:].strip() if at >= 0 else text[-2000:])
PY
