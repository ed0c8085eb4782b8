# A virtual function of igb with that of another igb as the peer: every path of the kernel's by its own driver, and by
# vfio-pci, bound as doctor advises, 1,000 packets there and back at a share of the link, also with its own physical
# function as the peer; a link that goes and comes, and a card that is removed.
# machine: q35,kernel-irqchip=split
# options: -device intel-iommu,intremap=on,caching-mode=on,device-iotlb=on
# options: -device pcie-root-port,id=r0,slot=1 -device pcie-root-port,id=r1,slot=2
# options: -netdev hubport,id=n0,hubid=0 -device igb,id=d0,netdev=n0,bus=r0,mac=52:54:00:00:00:11
# options: -netdev hubport,id=n1,hubid=0 -device igb,id=d1,netdev=n1,bus=r1,mac=52:54:00:00:00:12
# arguments: intel_iommu=on iommu=pt
# memory: 2000
# limit: 420
# amd64: 7
. "$LIB"

set -- $(nics)
[ $# = 2 ] || failed "want two NICs, there are: $*"
modprobe igb
for place in 1 2; do
    function=$1
    shift
    until_true 20 test -d /sys/bus/pci/devices/$function/net || failed "$function: no interface"
    name=$(ls /sys/bus/pci/devices/$function/net)
    ip link set $name up
    echo 1 >/sys/bus/pci/devices/$function/sriov_numvfs || failed "$function makes no virtual function"
    ip link set $name vf 0 mac 52:54:00:00:00:0$place
    # One that the kernel's own driver has taken keeps the address that it had.
    virtual=$(basename "$(readlink /sys/bus/pci/devices/$function/virtfn0)")
    eval "virtual$place=$virtual name$place=$name"
done
until_true 30 sh -c "grep -q 1 /sys/class/net/$name1/carrier && grep -q 1 /sys/class/net/$name2/carrier" ||
    failed "no link: $(ip link)"
NIC="igb VF"
two_nics
wrong=
for path in udp io_uring af_packet af_xdp xdp; do
    case $path in
        xdp) want="*its driver does not send frames that XDP programs give it (ndo_xdp_xmit)*" ;;
        *) want=works ;;
    esac
    judge $path "$want" "$NIC"
done
[ -z "$wrong" ] || failed "not as it should be:$wrong"
for host in a b; do
    ip netns del $host
done
for function in $virtual1 $virtual2; do
    until_true 20 test -d /sys/bus/pci/devices/$function/net || failed "$function: its interface does not come back"
done
bind $virtual1 $virtual2
echo 300 >/proc/sys/vm/nr_hugepages

listen reflect dpdk:$virtual2 --ip 10.9.0.2
# Some 300 packets of 64 bytes a second.
$MPPS sendrecv dpdk:$virtual1 --src 10.9.0.1 --dest 10.9.0.2:9000 --count 1000 --rate 0.02% $PATIENT \
    --json /run/out/vf.json >/run/out/vf 2>&1 || failed "sendrecv: $(cat /run/out/vf /run/out/listener)"
[ "$(key /run/out/vf.json rx_packets)" = 1000 ] || failed "$(cat /run/out/vf /run/out/listener)"
# From the physical function of the first, by the kernel's driver.
ip addr add 10.9.0.7/24 dev $name1
$MPPS sendrecv af_packet:$name1 --dest 10.9.0.2:9000 --count 1000 --rate 300pps $PATIENT \
    --json /run/out/pf.json >/run/out/pf 2>&1 || failed "sendrecv: $(cat /run/out/pf /run/out/listener)"
[ "$(key /run/out/pf.json rx_packets)" = 1000 ] || failed "$(cat /run/out/pf /run/out/listener)"
kill -INT $listener
wait $listener
[ "$(key /run/out/listener.json tx_packets)" = 2000 ] || failed "reflected: $(cat /run/out/listener)"
printf '%s\t%s\tdpdk on igb VF\tworks\n' "$KERNEL" "$(uname -r)" >>/run/out/found

listen reflect dpdk:$virtual2 --ip 10.9.0.2 --interval 500ms --csv /run/rows
$MPPS sendrecv dpdk:$virtual1 --src 10.9.0.1 --dest 10.9.0.2:9000 --duration 300s --rate 300pps $PATIENT \
    --json /run/out/ends.json >/run/out/ends 2>&1 &
sender=$!
until_true 60 passing /run/rows 100 || failed "nothing comes: $(cat /run/out/ends)"
echo set_link d0 off >>/run/out/ask
until_true 60 silent /run/rows || failed "packets pass without a link: $(cat /run/out/listener)"
echo set_link d0 on >>/run/out/ask
until_true 60 passing /run/rows $((before + 300)) || failed "nothing comes with the link: $(cat /run/out/ends)"
echo device_del d1 >>/run/out/ask
until_true 90 sh -c "! kill -0 $listener 2>/dev/null" || failed "the reflector did not end: $(cat /run/out/listener)"
wait $listener
code=$?
[ $code = 3 ] && grep -q 'device is being removed from this host' /run/out/listener ||
    failed "the reflector ended with $code: $(cat /run/out/listener)"
until_true 60 sh -c "! test -e /sys/bus/pci/devices/$virtual2" || failed "the function is still there"
kill -INT $sender
wait $sender || failed "the sender ended with $?: $(cat /run/out/ends)"
back=$(key /run/out/ends.json rx_packets)
[ $back -gt $before ] || failed "reflected $before before the link went; came back $back"
grep -q 'had no carrier for .*, from ' /run/out/ends.json || failed "$(cat /run/out/ends)"
echo ok
