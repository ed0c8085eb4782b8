# A PCI NIC by vfio-pci behind an IOMMU, bound as doctor advises: two of them on one wire. 1,000 packets there and back
# at a share of the link, frames for others, long frames with a tag, a link that goes and comes, a device that is
# removed.
# nics: e1000e vmxnet3 igb virtio-net-pci,iommu_platform=on,disable-legacy=on
# quick-nics: e1000e
# machine: q35,kernel-irqchip=split
# options: -device intel-iommu,intremap=on,caching-mode=on,device-iotlb=on
# options: -device pcie-root-port,id=r0,slot=1 -device pcie-root-port,id=r1,slot=2
# options: -netdev hubport,id=n0,hubid=0 -device NIC,id=d0,netdev=n0,bus=r0,mac=52:54:00:00:00:01
# options: -netdev hubport,id=n1,hubid=0 -device NIC,id=d1,netdev=n1,bus=r1,mac=52:54:00:00:00:02
# arguments: intel_iommu=on iommu=pt
# memory: 2000
# limit: 300
# quick: 6.1
# amd64: 6.1
. "$LIB"

set -- $(nics)
[ $# = 2 ] || failed "want two NICs, there are: $*"
bind "$@"
# Pages of 4 KiB lie anywhere, and QEMU's igb sends no frame that reaches from one into another.
echo 300 >/proc/sys/vm/nr_hugepages
from=$1 to=$2 mac=52:54:00:00:00:02

# send NAME ARGUMENT…: a run of sendrecv, to $mac. With run=exec it takes the place of the shell, so that a signal
# reaches it.
run=
send() {
    name=$1
    shift
    $run $MPPS sendrecv dpdk:$from$options --src 10.9.0.1 --dest 10.9.0.2:9000 --dest-mac $mac "$@" \
        $PATIENT --json /run/out/$name.json >/run/out/$name 2>&1
}

# came_back NAME PACKETS
came_back() {
    [ "$(key /run/out/$1.json rx_packets)" = "$2" ] || failed "$1: want $2 back: $(cat /run/out/$1 /run/out/listener)"
}

# ended NAME: ends the listener, whose report must say that many packets.
ended() {
    kill -INT $listener 2>/dev/null
    wait $listener
    [ "$(key /run/out/listener.json tx_packets)" = "$1" ] || failed "reflected, want $1: $(cat /run/out/listener)"
}

# A share of the link that is some 300 packets of 64 bytes a second.
case $NIC in
    vmxnet3) share=0.002% bps=10000000000 ;;
    virtio-net-pci) share=300pps bps= ;;
    *) share=0.02% bps=1000000000 ;;
esac
if [ -z "$bps" ]; then
    send unknown --rate 1% --count 1 && failed "a share of a link whose speed nobody knows was taken"
    grep -q 'a rate in pps or bps: the device does not tell its link speed' /run/out/unknown ||
        failed "$(cat /run/out/unknown)"
fi
listen reflect dpdk:$to
send plain --rate $share --count 1000 || failed "sendrecv: $(cat /run/out/plain /run/out/listener)"
came_back plain 1000
grep -q "\"link_bps\": \"$bps\"" /run/out/plain.json || [ -z "$bps" ] || failed "the link is not of $bps bit/s"
grep -q '"dpdk_ipackets": 1000' /run/out/plain.json || failed "the NIC counted: $(grep dpdk_ /run/out/plain.json)"
# Of packets that came alone some were seen in the ring. The driver for virtio-net has no rte_eth_rx_queue_count.
rings=$(grep -A 9 '"rx_rings"' /run/out/plain.json)
highest=$(echo "$rings" | sed -n 's/.*"highest": \([0-9]*\),/\1/p')
size=$(echo "$rings" | sed -n 's/.*"size": \(.*\),/\1/p')
case $NIC in
    virtio-net-pci) grep -q '"rx_rings": \[\],$' /run/out/plain.json || failed "rx_rings: $rings" ;;
    *) [ "$highest" -gt 0 ] && [ "$highest" -le "$size" ] || failed "the ring's fill: $rings" ;;
esac
printf '%s\t%s\tdpdk on %s\tworks\n' "$KERNEL" "$(uname -r)" "$NIC" >>/run/out/found
# Frames for another address are not for us.
mac=52:54:00:00:00:99
send foreign --rate 300pps --count 50 || failed "foreign: $(cat /run/out/foreign)"
[ "$(key /run/out/foreign.json tx_packets)" = 50 ] || failed "sent to another address: $(cat /run/out/foreign)"
came_back foreign 0
ended 1000

# Rules are refused with the driver's reason.
case $NIC in igb) why='Not supported action' ;; *) why='takes no flow rules at all (function not implemented)' ;; esac
for actions in drop 'queue index 0'; do
    $MPPS drop dpdk:$to --flow "ingress pattern eth / ipv4 / udp dst is 9000 / end actions $actions / end" \
        --duration 1s >/run/out/rule 2>&1
    echo "$actions: ended with $?: $(head -n 1 /run/out/rule)"
    grep -q "$why" /run/out/rule || failed "a rule: $(cat /run/out/rule)"
done

send refused --rate 300pps --count 1 --frame-size 9000 && failed "a frame above the MTU was taken"
grep -q 'frame-size 9000: above the MTU of .*: want 1518 at the most' /run/out/refused ||
    failed "$(cat /run/out/refused)"
options=,mtu=9000
case $NIC in virtio-net-pci) ;; *) options=$options,csum=device ;; esac
listen reflect dpdk:$to,mtu=9000,promisc=on
send long --rate 300pps --count 300 --frame-size 9000 --vlan 5 ||
    failed "long frames: $(cat /run/out/long /run/out/listener)"
came_back long 300
ended 300

# The wire of the sender goes and comes, then the device of the reflector is taken away.
options= mac=52:54:00:00:00:02
listen reflect dpdk:$to --interval 500ms --csv /run/rows
run=exec send ends --rate 300pps --duration 300s &
sender=$!
until_true 60 passing /run/rows 100 || failed "nothing comes: $(cat /run/out/ends)"
echo set_link d0 off >>/run/out/ask
until_true 60 grep -q "link is down\|no carrier" /run/out/ends || failed "nobody saw the link go: $(cat /run/out/ends)"
until_true 60 silent /run/rows || failed "packets pass without a link: $(cat /run/out/listener)"
echo set_link d0 on >>/run/out/ask
until_true 60 passing /run/rows $((before + 300)) || failed "nothing comes with the link: $(cat /run/out/ends)"
echo device_del d1 >>/run/out/ask
until_true 90 sh -c "! kill -0 $listener 2>/dev/null" || failed "the reflector did not end: $(cat /run/out/listener)"
grep -q 'device is being removed from this host' /run/out/listener || failed "$(cat /run/out/listener)"
until_true 60 sh -c "! test -e /sys/bus/pci/devices/$to" || failed "the device is still there"
wait $listener
code=$?
[ $code = 3 ] || failed "the reflector ended with $code: $(cat /run/out/listener)"
reflected=$(key /run/out/listener.json tx_packets)
grep -q '"the device failed or vanished during the run: the report ends there"' /run/out/listener.json ||
    failed "the reflector's report: $(cat /run/out/listener.json)"
kill -INT $sender
wait $sender || failed "the sender ended with $?: $(cat /run/out/ends)"
back=$(key /run/out/ends.json rx_packets)
[ $back -gt $before ] && [ $back -le $reflected ] ||
    failed "reflected $before before the link went, $reflected in all; came back $back"
grep -q 'had no carrier for .*, from ' /run/out/ends.json || failed "$(cat /run/out/ends)"
echo ok
