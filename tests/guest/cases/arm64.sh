# A processor of arm64: doctor has its name, lanes read its counter, a trace is written and read.
# arm64: all
# limit: 420
. "$LIB"

two_hosts
$MPPS doctor --json >/run/out/doctor.json 2>/run/err
for finding in '2 cores (Neoverse-N1)' '40.0 ns (25.000 MHz)' arch_sys_counter; do
    grep -q "\"finding\": \"$finding\"" /run/out/doctor.json || failed "doctor does not say '$finding'"
done
grep -q 'no hypervisor visible' /run/out/doctor.json && failed "a guest is taken for a machine"
ip netns exec b $MPPS reflect af_packet:eth1 --json /run/out/reflect.json >/run/reflect 2>&1 &
reflector=$!
until_true 60 grep -q ready /run/reflect || failed "$(cat /run/reflect)"
ip netns exec a $MPPS sendrecv af_packet:eth1 --src 10.9.0.1 --dest 10.9.0.2:9000 --count 300 --rate 200pps $PATIENT \
    --quiet --json /run/out/run.json --trace /run/out/run.pftrace.gz 2>/run/err || failed "sendrecv: $(cat /run/err)"
kill -INT $reflector
wait $reflector || failed "reflect ended with $?: $(cat /run/reflect)"
grep -q '"clock": "cntvct"' /run/out/run.json || failed "another clock: $(grep -m 1 '"clock"' /run/out/run.json)"
grep -q '"clock_tick_ns": "40.000"' /run/out/run.json || failed "no tick: $(grep clock /run/out/run.json)"
for number in run.json/tx_packets run.json/rx_packets reflect.json/tx_packets; do
    [ "$(key /run/out/${number%/*} ${number#*/})" = 300 ] || failed "$number: $(cat /run/err /run/reflect)"
done
$MPPS trace /run/out/run.pftrace.gz >/run/out/trace 2>&1 || failed "trace: $(cat /run/out/trace)"
cat /run/out/trace
$MPPS sendrecv loop: --count 200 --rate 200pps $PATIENT --quiet --json /run/out/loop.json || failed "loop ended with $?"
echo ok
