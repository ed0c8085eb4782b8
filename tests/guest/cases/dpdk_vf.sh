# A virtual function of igb by vfio-pci, bound as doctor advises, with the function of another igb, and with its own
# physical function, as the peer: 1,000 packets there and back.
# machine: q35,kernel-irqchip=split
# options: -device intel-iommu,intremap=on,caching-mode=on,device-iotlb=on
# options: -device pcie-root-port,id=r0,slot=1 -device pcie-root-port,id=r1,slot=2
# options: -netdev hubport,id=n0,hubid=0 -device igb,id=d0,netdev=n0,bus=r0,mac=52:54:00:00:00:01
# options: -netdev hubport,id=n1,hubid=0 -device igb,id=d1,netdev=n1,bus=r1,mac=52:54:00:00:00:02
# arguments: intel_iommu=on iommu=pt
# memory: 2000
# limit: 300
# amd64: 6.1
. "$LIB"

set -- $(nics)
[ $# = 2 ] || failed "want two NICs, there are: $*"
modprobe igb
for place in 0 1; do
    function=$1
    shift
    until_true 20 test -d /sys/bus/pci/devices/$function/net || failed "$function: no interface"
    name=$(ls /sys/bus/pci/devices/$function/net)
    ip link set $name up
    echo 1 >/sys/bus/pci/devices/$function/sriov_numvfs || failed "$function makes no virtual function"
    ip link set $name vf 0 mac 52:54:00:00:00:1$place
    # One that the kernel's own driver has taken keeps the address that it had.
    virtual=$(basename "$(readlink /sys/bus/pci/devices/$function/virtfn0)")
    eval "virtual$place=$virtual name$place=$name"
done
until_true 30 sh -c "grep -q 1 /sys/class/net/$name0/carrier && grep -q 1 /sys/class/net/$name1/carrier" ||
    failed "no link: $(ip link)"
bind $virtual0 $virtual1
echo 300 >/proc/sys/vm/nr_hugepages

listen reflect dpdk:$virtual1 --ip 10.9.0.2
$MPPS sendrecv dpdk:$virtual0 --src 10.9.0.1 --dest 10.9.0.2:9000 --count 1000 --rate 300pps $PATIENT \
    --json /run/out/vf.json >/run/out/vf 2>&1 || failed "sendrecv: $(cat /run/out/vf /run/out/listener)"
[ "$(key /run/out/vf.json rx_packets)" = 1000 ] || failed "$(cat /run/out/vf /run/out/listener)"
# From the physical function of the first, by the kernel's driver.
ip addr add 10.9.0.7/24 dev $name0
$MPPS sendrecv af_packet:$name0 --dest 10.9.0.2:9000 --count 1000 --rate 300pps $PATIENT \
    --json /run/out/pf.json >/run/out/pf 2>&1 || failed "sendrecv: $(cat /run/out/pf /run/out/listener)"
[ "$(key /run/out/pf.json rx_packets)" = 1000 ] || failed "$(cat /run/out/pf /run/out/listener)"
kill -INT $listener
wait $listener
[ "$(key /run/out/listener.json tx_packets)" = 2000 ] || failed "reflected: $(cat /run/out/listener)"
printf '%s\t%s\tdpdk on igb VF\tworks\n' "$KERNEL" "$(uname -r)" >>/run/out/found
echo ok
