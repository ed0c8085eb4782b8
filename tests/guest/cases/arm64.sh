# A processor of arm64: doctor has its name, lanes read its counter, a trace is written and read; DPDK, by a driver that
# needs no NIC.
# arm64: all
# limit: 420
. "$LIB"

two_hosts
$MPPS doctor --json >/run/out/doctor.json 2>/run/err
for finding in '2 cores (Neoverse-N1)' '40.0 ns (25.000 MHz)' arch_sys_counter; do
    grep -q "\"finding\": \"$finding\"" /run/out/doctor.json || failed "doctor does not say '$finding'"
done
grep -q 'no hypervisor visible' /run/out/doctor.json && failed "a guest is taken for a machine"
# pair NAME PORT [ARGUMENT…]: 300 packets from a to b and back.
pair() {
    name=$1 port=$2
    shift 2
    ip netns exec b $MPPS reflect $port --ip 10.9.1.2 --json /run/out/reflect.json >/run/reflect 2>&1 &
    reflector=$!
    until_true 60 grep -q ready /run/reflect || failed "$name: $(cat /run/reflect)"
    ip netns exec a $MPPS sendrecv $port --src 10.9.1.1 --dest 10.9.1.2:9000 --count 300 --rate 200pps $PATIENT \
        --quiet --json /run/out/$name.json "$@" 2>/run/err || failed "$name: $(cat /run/err /run/reflect)"
    kill -INT $reflector
    wait $reflector || failed "$name: reflect ended with $?: $(cat /run/reflect)"
    grep -q '"clock": "cntvct"' /run/out/$name.json || failed "$name: $(grep -m 1 '"clock"' /run/out/$name.json)"
    grep -q '"clock_tick_ns": "40.000"' /run/out/$name.json || failed "$name: $(grep clock /run/out/$name.json)"
    for number in $name.json/tx_packets $name.json/rx_packets reflect.json/tx_packets; do
        [ "$(key /run/out/${number%/*} ${number#*/})" = 300 ] || failed "$name, $number: $(cat /run/err /run/reflect)"
    done
}
pair dpdk dpdk:net_af_packet0,iface=eth1
pair run af_packet:eth1 --trace /run/out/run.pftrace.gz
$MPPS trace /run/out/run.pftrace.gz >/run/out/trace 2>&1 || failed "trace: $(cat /run/out/trace)"
cat /run/out/trace
$MPPS sendrecv loop: --count 200 --rate 200pps $PATIENT --quiet --json /run/out/loop.json || failed "loop ended with $?"
echo ok
