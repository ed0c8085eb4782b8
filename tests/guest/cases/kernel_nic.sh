# A PCI NIC with the kernel's driver: two of them on one wire, each in a namespace, every path of the kernel's.
# nics: e1000e vmxnet3 igb virtio-net-pci,iommu_platform=on,disable-legacy=on,VIRTIO_XDP
# options: -device pcie-root-port,id=r0,slot=1 -device pcie-root-port,id=r1,slot=2
# options: -netdev hubport,id=n0,hubid=0 -device NIC,netdev=n0,bus=r0,mac=52:54:00:00:00:01
# options: -netdev hubport,id=n1,hubid=0 -device NIC,netdev=n1,bus=r1,mac=52:54:00:00:00:02
# limit: 420
# amd64: 7
. "$LIB"

case $NIC in virtio-net-pci) module=virtio_net ;; *) module=$NIC ;; esac
modprobe $module
until_true 20 sh -c '[ "$(ls -d /sys/class/net/*/device 2>/dev/null | wc -l)" = 2 ]' ||
    failed "want two interfaces, there are: $(ls /sys/class/net | tr '\n' ' ')"
for host in a b; do
    case $host in a) last=1 ;; b) last=2 ;; esac
    ip netns add $host
    device=$(grep -l "00:0$last\$" /sys/class/net/*/address | head -n 1)
    device=$(basename "$(dirname $device)")
    ip link set $device netns $host name eth1
    ip -n $host link set lo up
    ip -n $host addr add 10.9.0.$last/24 dev eth1
    ip -n $host link set eth1 up
done
# A link of igb takes four seconds.
until_true 30 ip netns exec a ping -c 1 -W 1 10.9.0.2 >/dev/null || failed "no link: $(ip -n a link; ip -n b link)"
wrong=
for path in udp io_uring af_packet af_xdp xdp; do
    options=
    case $NIC/$path in
        # By zero copy, which `auto` takes, QEMU's igb receives nothing: its own counters stay where they were.
        igb/af_xdp) options=,mode=copy ;;
    esac
    case $NIC/$path in
        e1000e/xdp) want="*its driver does not send frames that XDP programs give it (ndo_xdp_xmit)*" ;;
        *) want=works ;;
    esac
    judge $path "$want" $NIC $options
done
[ -z "$wrong" ] || failed "not as it should be:$wrong"
echo ok
