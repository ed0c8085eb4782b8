# Four PCI NICs with the kernel's driver, on two wires: 1,000 packets through a forwarder with two of them, and back.
# nics: igb virtio-net-pci,iommu_platform=on,disable-legacy=on,VIRTIO_XDP
# options: -device pcie-root-port,id=r0,slot=1 -device pcie-root-port,id=r1,slot=2
# options: -device pcie-root-port,id=r2,slot=3 -device pcie-root-port,id=r3,slot=4
# options: -netdev hubport,id=n0,hubid=0 -device NIC,netdev=n0,bus=r0,mac=52:54:00:00:00:01
# options: -netdev hubport,id=n1,hubid=1 -device NIC,netdev=n1,bus=r1,mac=52:54:00:00:00:02
# options: -netdev hubport,id=n2,hubid=0 -device NIC,netdev=n2,bus=r2,mac=52:54:00:00:00:03
# options: -netdev hubport,id=n3,hubid=1 -device NIC,netdev=n3,bus=r3,mac=52:54:00:00:00:04
# memory: 2000
# limit: 300
# more: 7
. "$LIB"

take_nic 1 a
take_nic 2 b
take_nic 3 f
take_nic 4 f eth2
# What is in the middle has no address of this network.
ip -n f addr flush dev eth1
ip -n f addr flush dev eth2
wrong=
for path in af_packet af_xdp,mode=copy af_xdp,mode=zerocopy xdp; do
    options=${path#"${path%%,*}"} path=${path%%,*}
    ip netns exec f $MPPS forward $path:eth1$options $path:eth2$options --json /run/out/forward.json \
        >/run/out/forward 2>&1 &
    forwarder=$!
    until_true 60 sh -c "grep -q ready /run/out/forward || ! kill -0 $forwarder 2>/dev/null"
    found=$(exchange af_packet)
    kill -INT $forwarder 2>/dev/null
    wait $forwarder || found="$found; forward ended with $?: $(cat /run/out/forward)"
    forwarded=$(key /run/out/forward.json tx_packets)
    echo "$path$options: $found, forwarded $forwarded"
    [ "$found" = works ] && [ "$forwarded" -ge 2000 ] || wrong="$wrong $path$options"
done
[ -z "$wrong" ] || failed "not as it should be:$wrong"
echo ok
