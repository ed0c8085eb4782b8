# PCI NICs where there is no IOMMU, as in most VMs: by VFIO in its mode without one, bound as doctor advises. Debian's
# kernels have no such mode, Ubuntu's do. On arm64 with pages of 64 KiB, too, where a huge page has 512 MiB.
# nics: e1000e virtio-net-pci,disable-legacy=on
# options: -device pcie-root-port,id=r0,slot=1 -device pcie-root-port,id=r1,slot=2
# options: -netdev hubport,id=n0,hubid=0 -device NIC,netdev=n0,bus=r0,mac=52:54:00:00:00:01
# options: -netdev hubport,id=n1,hubid=0 -device NIC,netdev=n1,bus=r1,mac=52:54:00:00:00:02
# memory: 3000
# limit: 240
# more: 6.8
# arm64: arm64-7.0-64k
# arm64-nics: e1000e
. "$LIB"

set -- $(nics)
[ $# = 2 ] || failed "want two NICs, there are: $*"
bind "$@"
listen reflect dpdk:$2
$MPPS sendrecv dpdk:$1 --src 10.9.0.1 --dest 10.9.0.2:9000 --dest-mac 52:54:00:00:00:02 --count 1000 --rate 300pps \
    $PATIENT --json /run/out/run.json >/run/out/run 2>&1 || failed "sendrecv: $(cat /run/out/run /run/out/listener)"
kill -INT $listener
wait $listener || failed "reflect ended with $?: $(cat /run/out/listener)"
for number in run.json/rx_packets listener.json/tx_packets; do
    [ "$(key /run/out/${number%/*} ${number#*/})" = 1000 ] || failed "$number: $(cat /run/out/run /run/out/listener)"
done
printf '%s\t%s\tdpdk,no IOMMU on %s\tworks\n' "$KERNEL" "$(uname -r)" "${NIC%%,*}" >>/run/out/found
echo ok
