# A host set up for measuring by its boot arguments: isolated cores without a tick, pages of 1 GiB, two NUMA nodes.
# doctor and isolate say so, lanes go where they should, and their memory is on their node.
# options: -object memory-backend-ram,id=m0,size=2G -object memory-backend-ram,id=m1,size=3G
# options: -numa node,nodeid=0,cpus=0-1,memdev=m0 -numa node,nodeid=1,cpus=2-3,memdev=m1
# arguments: nohz=on highres=on
# arguments: isolcpus=managed_irq,domain,2-3 nohz_full=2-3 rcu_nocbs=2-3 irqaffinity=0-1 mitigations=off skew_tick=1
# arguments: default_hugepagesz=1G hugepagesz=1G hugepages=1 selinux=0
# cores: 4
# memory: 5120
# limit: 900
# amd64: 6.1
. "$LIB"

tool python3 python3
$MPPS doctor --json >/run/out/doctor.json || failed "doctor ended with $?"
# said AREA ITEM PATTERN: a finding of doctor's.
said() {
    found=$(python3 -c '
import json, sys
of = json.load(open("/run/out/doctor.json"))["findings"]
print(*[f["finding"] for f in of if (f["area"], f["item"]) == (sys.argv[1], sys.argv[2])])' "$1" "$2")
    echo "$1, $2: $found"
    # shellcheck disable=SC2254 # a pattern
    case $found in
        $3) ;;
        *) failed "doctor says of $1, $2: $found; want $3" ;;
    esac
}
said cores affinity "cores 0-1 without --cores; with it the isolated ones too"
said cores isolated "cores 2-3: pin lanes there with --cores"
said cores nohz_full "cores 2-3: pin lanes there with --cores"
said hypervisor mitigations "none active (mitigations=off)"
said hugepages "1 GiB" "1 reserved, 1 free: * on node 0, * on node 1"
said memory NUMA "2 nodes (0: cores 0-1; 1: cores 2-3): pin lanes to the NIC's node"
said isolation boot \
    "isolcpus=managed_irq,domain,2-3; nohz_full=2-3; rcu_nocbs=2-3; irqaffinity=0-1; skew_tick=1"
$MPPS isolate 2-3 --dry-run >/run/out/isolate || failed "isolate ended with $?"
grep -q '^# (nothing is missing)' /run/out/isolate || failed "isolate: $(tail -n 7 /run/out/isolate)"

two_hosts
# lane CORE NODE PORT [COMMAND…]: runs a lane on this core ("": none is named) behind the command, and looks where it
# may run, and where its packets' memory is, the largest mapping: on this node ("": on whichever).
lane() {
    core=$1 node=$2 port=$3
    shift 3
    ip netns exec a "$@" $MPPS drop $port ${core:+--cores $core} --json /run/out/lane.json >/run/out/lane 2>&1 &
    run=$!
    until_true 120 sh -c "grep -q ready /run/out/lane || ! kill -0 $run 2>/dev/null"
    until_true 30 sh -c "cat /proc/$run/task/*/comm | grep -q lane0" || failed "$port: no lane: $(cat /run/out/lane)"
    cpus=$(sed -n 's/^Cpus_allowed_list:\t//p' $(grep -l lane0 /proc/$run/task/*/comm | sed 's/comm$/status/'))
    cat /proc/$run/numa_maps >/run/out/maps
    largest=$(PORT=$port python3 - <<'END'
import os
# The rings of af_packet are the kernel's.
rings = os.environ["PORT"].startswith("af_packet")
best = (0, "none")
for line in open("/run/out/maps"):
    words = dict(word.split("=", 1) for word in line.split() if "=" in word)
    size = int(words.get("kernelpagesize_kB", 4))
    on = {name: int(words[name]) * size for name in ("N0", "N1") if name in words}
    anonymous = "file" not in words and " heap" not in line and " stack" not in line
    if "socket:" in line if rings else anonymous or "huge" in line or "memfd" in line:
        best = max(best, (sum(on.values()), f"{size} KiB pages on {' and '.join(on)}"))
print(best[1])
END
)
    kill -INT $run
    wait $run || failed "$port on ${core:-any core}: ended with $?: $(cat /run/out/lane)"
    echo "$port, core ${core:-not named}: may run on $cpus, memory: $largest"
    case $core in
        "") case $cpus in 0 | 1 | 0-1) ;; *) failed "without --cores the lane may run on $cpus" ;; esac ;;
        *) [ "$cpus" = "$core" ] || failed "the lane may run on $cpus, want $core" ;;
    esac
    # shellcheck disable=SC2254 # a pattern
    case $largest in
        ${node:-*}) ;;
        *) failed "its memory is $largest; want $node" ;;
    esac
}
# The kernel took the page of 1 GiB where it was: on the node of these cores.
huge=1
grep -q 0 /sys/devices/system/node/node1/hugepages/hugepages-1048576kB/nr_hugepages && huge=0
echo "the page of 1 GiB is on node $huge"
lane "" "" af_packet:eth1
lane 3 "4 KiB pages on N1" af_packet:eth1
lane 1 "4 KiB pages on N0" af_packet:eth1
lane 3 "4 KiB pages on N1" af_xdp:eth1
lane 1 "4 KiB pages on N0" af_xdp:eth1
lane $((huge * 2 + 1)) "1048576 KiB pages on N$huge" af_xdp:eth1,pages=huge-1g
# DPDK's own memory is on the main thread's node: without a page there, normal pages, all on that node. Where the main
# thread has both nodes, the lane's decides; normal pages are then on either.
lane 3 "4 KiB pages on N0" dpdk:net_null0,no-rx=1
lane $((huge * 2 + 1)) "1048576 KiB pages on N$huge" dpdk:net_null0,no-rx=1 taskset -c 0-3
lane $((3 - huge * 2)) "4 KiB pages on *" dpdk:net_null0,no-rx=1 taskset -c 0-3
# With pages on both nodes the buffers are on the lane's, and the main thread is on node 0.
echo 0 >/proc/sys/vm/nr_hugepages
for node in 0 1; do
    echo 100 >/sys/devices/system/node/node$node/hugepages/hugepages-2048kB/nr_hugepages
done
lane 3 "2048 KiB pages on N1" dpdk:net_null0,no-rx=1
lane 1 "2048 KiB pages on N0" dpdk:net_null0,no-rx=1
echo ok
