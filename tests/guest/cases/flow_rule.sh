# Flow rules on a driver that takes them: net_tap, whose rules the kernel's tc flower applies to what it sends there.
# The rule of a study: UDP to a queue, and UDP dropped; each beside a run without it.
# uml: uml
# limit: 600
. "$LIB"

tool python3 python3
modprobe tun || failed "no module tun"
ip link set lo up
mkfifo /run/said
udp="ingress pattern eth / ipv4 / udp / end actions"

# drop LANES [RULE]: sends up to 974 packets through traffic control: a busy host is too late for some. $sent is how
# many left, $got what each lane received, then what the rule matched and dropped, as tc counts it.
drop() {
    $MPPS drop dpdk:net_tap0,iface=in0 --lanes $1 ${2:+--flow "$2"} --trace /run/out/$1.pftrace.gz \
        --json /run/out/drop.json 2>/run/said >/run/out/drop.log &
    dropper=$!
    # Whoever looks again and again keeps the one core that there is from what it waits for.
    exec 3</run/said
    while read -r line <&3; do
        echo "$line"
        case $line in *ready*) break ;; esac
    done
    cat <&3 >/run/out/drop.err &
    # shellcheck disable=SC2086 # words
    $MPPS send af_packet:in0,qdisc=kernel --src 10.9.0.1 --dest 10.9.0.2:9000-9063 --dest-mac 02:00:00:00:00:02 \
        --count 974 --rate 500pps --tolerance 100% --catch-up 10s --quiet --json /run/out/send.json ||
        failed "send ended with $?"
    sent=$(key /run/out/send.json tx_packets)
    tc -s -j filter show dev in0 parent 1: >/run/out/tc.json
    dropped=$(sed -n 's/.*"drops":\([0-9]*\).*/\1/p' /run/out/tc.json)
    through=$((sent - ${dropped:-0}))
    waited=0
    while [ "$(cat /sys/class/net/in0/statistics/tx_packets)" -lt $through ]; do
        waited=$((waited + 1))
        [ $waited -lt 60 ] || failed "of $through packets there are: $(ip -s link show in0; tc -s qdisc show dev in0)"
        sleep 1
    done
    kill -INT $dropper
    wait $dropper || failed "drop ended with $?"
    got=$(python3 -c '
import json
run = json.load(open("/run/out/drop.json"))
rules = [rule["options"] for rule in json.load(open("/run/out/tc.json")) if "options" in rule]
stats = [action["stats"] for rule in rules for action in rule.get("actions", [])]
print(*[lane["rx_packets"] for lane in run["lanes"]], *["tc %(packets)d %(drops)d" % each for each in stats])')
    echo "lanes $1, ${2:-no rule}: sent $sent, $got"
}

drop 1
[ "$got" = "$sent" ] || failed "without a rule: $got"
drop 1 "$udp queue index 0 / end"
[ "$got" = "$sent tc $sent 0" ] || failed "to queue 0: $got"
grep -q '"flow_rule_0": "ingress pattern eth / ipv4 / udp / end actions queue index 0 / end"' /run/out/drop.json ||
    failed "the rule is not in the result"
drop 1 "$udp drop / end"
[ "$got" = "0 tc $sent $sent" ] || failed "dropped: $got"
# Ports 9001 alone of 64 that take turns.
drop 1 "ingress pattern eth / ipv4 / udp dst is 9001 / end actions drop / end"
set -- $got
[ $3 -gt 0 ] && [ "$got" = "$((sent - $3)) tc $3 $3" ] || failed "one port dropped: $got"
# By its hash a flow goes to either queue; by the rule all go to the second. The trace shows both.
drop 2
case $got in "0 "* | *" 0" | *tc*) failed "two lanes without a rule: $got" ;; esac
$MPPS trace /run/out/2.pftrace.gz table
drop 2 "$udp queue index 1 / end"
[ "$got" = "0 $sent tc $sent 0" ] || failed "to queue 1: $got"
$MPPS trace /run/out/2.pftrace.gz table >/run/table || failed "no table"
cat /run/table
! grep -q '^ *0  receive' /run/table || failed "lane 0 received packets that the rule sends to lane 1"
grep -q "^ *1  receive .* $sent " /run/table || failed "lane 1 did not receive all"
# The same rule without count is taken, above.
$MPPS drop dpdk:net_tap0,iface=in0 --flow "$udp count / drop / end" --duration 1s 2>/run/err && failed "count was taken"
cat /run/err
grep -q 'net_tap says: action not supported.*takes the actions drop, passthru and queue' /run/err ||
    failed "count: $(cat /run/err)"
echo ok
