# The study of docs/research/tap-study.md where the kernel applies its rule. What came out is judged, and no rate.
# uml: uml
# memory: 2000
# limit: 900
. "$LIB"

modprobe tun || failed "no module tun"
STUDY_SECONDS=4 STUDY_RATE=200pps MPPS_BIN=$MPPS "$(dirname "$LIB")/../../bench/tap_study.sh" /run/out/study ||
    failed "it ended with $?"
cd /run/out/study
grep -q 'Flow rule #0 created' rule.log || failed "testpmd: $(grep -i flow rule.log)"
for name in rule rule.mpps; do
    grep -q 'skbedit queue_mapping 0' $name.tc || failed "$name: no rule of tc's: $(cat $name.tc)"
    grep -q ' [1-9][0-9]* pkt' $name.tc || failed "$name: it matched nothing: $(cat $name.tc)"
    [ "$(cat $name.out)" -gt 0 ] || failed "$name: nothing came out"
done
echo ok
