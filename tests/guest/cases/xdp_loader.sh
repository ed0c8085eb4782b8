# A dispatcher of libxdp on the interface, and programs that come while ours is there.
# limit: 420
# amd64: 6.12
. "$LIB"

tool xdp-loader xdp-tools
tool ethtool ethtool
# folder OBJECT: where it is, this machine's or the unpacked one.
folder() {
    dirname "$(ls /usr/lib/x86_64-linux-gnu/bpf/$1 $GUESTS/programs/usr/lib/x86_64-linux-gnu/bpf/$1 2>/dev/null |
        head -n 1)"
}
export LIBXDP_OBJECT_PATH=$(folder xdp-dispatcher.o)
object=$(folder xdpfilt_alw_all.o)/xdpfilt_alw_all.o
two_hosts
# The sender on af_packet has no XDP program: without GRO a veth drops what a program sends back to it.
ip netns exec a ethtool -K eth1 gro on || failed "GRO stays off"
# In the namespace of the network alone, as `ip netns exec` hides the file system of BPF.
on_b="nsenter --net=/run/netns/b"
$on_b xdp-loader load -m native eth1 $object || failed "xdp-loader attaches nothing"
$on_b xdp-loader status eth1
$on_b xdp-loader status eth1 | grep -q xdp_dispatcher || failed "no dispatcher"
for path in af_xdp:eth1 af_xdp:eth1,mode=skb xdp:eth1; do
    $on_b $MPPS reflect $path --duration 1s >/run/refused 2>&1
    cat /run/refused
    grep -q 'attach to eth1: another XDP program is attached: "xdp_dispatcher" (id [0-9]*), which runs .*xdp-loader' \
        /run/refused || failed "$path: $(cat /run/refused)"
done
[ "$(exchange af_packet)" = works ] || failed "af_packet beside it: $(cat /run/sender)"
# As the refusal advises.
$on_b $(grep -o 'xdp-loader unload eth1 --all' /run/refused) || failed "unload"
for path in af_xdp:eth1 xdp:eth1; do
    $on_b $MPPS reflect $path >/run/reflect 2>&1 &
    reflector=$!
    until_true 60 grep -q ready /run/reflect || failed "$path: $(cat /run/reflect)"
    for words in "load -m native eth1 $object" "load -m skb eth1 $object" "unload eth1 --all"; do
        # shellcheck disable=SC2086 # words
        ! $on_b xdp-loader $words || failed "xdp-loader $words"
    done
    ip netns exec a $MPPS sendrecv af_packet:eth1 --src 10.9.0.1 --dest 10.9.0.2:9000 --count 200 --rate 100pps \
        $PATIENT --quiet --json /run/out/sender.json || failed "the sender ended with $?"
    [ "$(key /run/out/sender.json rx_packets)" = 200 ] || failed "$path: back $(key /run/out/sender.json rx_packets)"
    kill -INT $reflector
    wait $reflector
done
echo ok
