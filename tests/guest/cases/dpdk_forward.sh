# Four NICs by vfio-pci: 1,000 packets through a forwarder with two of them, and back, and through one that has one.
# nics: e1000e
# more-nics: vmxnet3 igb
# machine: q35,kernel-irqchip=split
# options: -device intel-iommu,intremap=on,caching-mode=on,device-iotlb=on
# options: -device pcie-root-port,id=r0,slot=1 -device pcie-root-port,id=r1,slot=2
# options: -device pcie-root-port,id=r2,slot=3 -device pcie-root-port,id=r3,slot=4
# options: -netdev hubport,id=n0,hubid=0 -device NIC,id=d0,netdev=n0,bus=r0,mac=52:54:00:00:00:01
# options: -netdev hubport,id=n1,hubid=0 -device NIC,id=d1,netdev=n1,bus=r1,mac=52:54:00:00:00:02
# options: -netdev hubport,id=n2,hubid=1 -device NIC,id=d2,netdev=n2,bus=r2,mac=52:54:00:00:00:03
# options: -netdev hubport,id=n3,hubid=1 -device NIC,id=d3,netdev=n3,bus=r3,mac=52:54:00:00:00:04
# arguments: intel_iommu=on iommu=pt
# memory: 2500
# limit: 300
# amd64: 6.1
# more: 6.1
. "$LIB"

set -- $(nics)
[ $# = 4 ] || failed "want four NICs, there are: $*"
bind "$@"
echo 400 >/proc/sys/vm/nr_hugepages

# ends JSON PID: a forwarder's or reflector's report.
ends() {
    kill -INT $2
    wait $2 || failed "$1 ended with $?: $(cat /run/out/$1)"
}

# through NAME ARGUMENT…: 1,000 packets from the first NIC and back.
through() {
    name=$1
    shift
    $MPPS sendrecv dpdk:$from --src 10.9.0.1 --dest 10.9.0.2:9000 "$@" --count 1000 --rate 300pps $PATIENT \
        --json /run/out/$name.json >/run/out/$name 2>&1 || failed "$name: $(cat /run/out/$name /run/out/forward)"
    [ "$(key /run/out/$name.json rx_packets)" = 1000 ] || failed "$name: $(cat /run/out/$name /run/out/forward)"
}

from=$1
$MPPS forward dpdk:$2 dpdk:$3 --json /run/out/forward.json >/run/out/forward 2>&1 &
forwarder=$!
listen reflect dpdk:$4 --ip 10.9.0.2
until_true 60 sh -c "grep -q ready /run/out/forward || ! kill -0 $forwarder 2>/dev/null"
# The forwarder takes frames for others (the peer's address is asked for through it), the reflector does not.
through two
ends listener $listener
ends forward $forwarder
[ "$(key /run/out/listener.json tx_packets)" = 1000 ] || failed "reflected: $(cat /run/out/listener)"
# 1,000 each way, a question for the peer's address and its answer, and what the NICs' own stacks say.
[ "$(key /run/out/forward.json tx_packets)" -ge 2002 ] || failed "forwarded: $(cat /run/out/forward)"

$MPPS forward dpdk:$2 --mode 5tswap --json /run/out/one.json >/run/out/one 2>&1 &
forwarder=$!
until_true 60 sh -c "grep -q ready /run/out/one || ! kill -0 $forwarder 2>/dev/null"
through back --dest-mac 52:54:00:00:00:02
ends one $forwarder
[ "$(key /run/out/one.json tx_packets)" = 1000 ] || failed "turned round: $(cat /run/out/one)"
echo ok
