# A PCI NIC with the kernel's driver: two of them on one wire, each in a namespace, every path of the kernel's;
# frames with a tag, and long ones.
# nics: e1000e vmxnet3 igb virtio-net-pci,iommu_platform=on,disable-legacy=on,VIRTIO_XDP
# options: -device pcie-root-port,id=r0,slot=1 -device pcie-root-port,id=r1,slot=2
# options: -netdev hubport,id=n0,hubid=0 -device NIC,netdev=n0,bus=r0,mac=52:54:00:00:00:01
# options: -netdev hubport,id=n1,hubid=0 -device NIC,netdev=n1,bus=r1,mac=52:54:00:00:00:02
# limit: 420
# amd64: 7
# arm64: arm64-7.0-64k
# arm64-nics: igb
. "$LIB"

two_nics
wrong=
for path in udp io_uring af_packet af_xdp,mode=copy af_xdp,mode=zerocopy xdp; do
    options=${path#"${path%%,*}"} path=${path%%,*}
    case $NIC/$options in
        # The drivers of the others have no zero-copy, and that of e1000e no XDP.
        igb/* | virtio-net-pci/*) ;;
        */,mode=copy) options= ;;
        */,mode=zerocopy) continue ;;
    esac
    case $NIC/$path in
        e1000e/xdp) want="*its driver does not send frames that XDP programs give it (ndo_xdp_xmit)*" ;;
        *) want=works ;;
    esac
    judge $path "$want" $NIC $options
done
# A share of the link, as the driver tells its speed; and a filter of the NIC's, or why there is none.
case $NIC in
    virtio-net-pci) ;;
    vmxnet3) share=0.002% ;;
    *) share=0.02% ;;
esac
if [ -n "${share:-}" ]; then
    found=$(RATE=$share exchange af_packet)
    echo "af_packet at $share: $found"
    [ "$found" = works ] || wrong="$wrong share"
fi
rule='ingress pattern eth / ipv4 / udp dst is 9000 / end actions drop / end'
tool ethtool ethtool
case $NIC in
    # igb's filters are off, and ethtool can't switch them on for the one that QEMU emulates.
    igb)
        ip netns exec b ethtool -K eth1 ntuple on
        why='refuses this ntuple filter'
        ;;
    *) why='has no ntuple filters: Operation not supported' ;;
esac
ip netns exec b $MPPS drop af_packet:eth1 --flow "$rule" --duration 1s >/run/out/rule 2>&1 && failed "a filter was made"
echo "a filter: $(head -n 1 /run/out/rule)"
grep -q "$why" /run/out/rule || wrong="$wrong filter"
# A NIC may drop frames with the tag of a VLAN that the host has not, or take the tag off, which XDP then does not see.
modprobe 8021q
for host in a b; do
    ip -n $host link add link eth1 name vlan5 type vlan id 5 && ip -n $host link set vlan5 up || failed "no VLAN 5"
    ip netns exec $host ethtool -K eth1 rxvlan off || failed "rxvlan stays on"
done
two_nics
# tagged PATH [ARGUMENT…]: 300 packets with a tag, there and back.
tagged() {
    path=$1
    shift
    found=$(COUNT=300 exchange $path "" --vlan 5 --dest-mac 52:54:00:00:00:02 "$@")
    echo "$path, tagged $*: $found"
    [ "$found" = works ] || wrong="$wrong $path-tagged"
}
for path in af_packet af_xdp xdp; do
    [ $NIC/$path = e1000e/xdp ] || tagged $path
done
for host in a b; do
    ip -n $host link set eth1 mtu 9000 || failed "no MTU of 9,000"
done
two_nics
# On vmxnet3 none arrives, nor does ping's.
if [ $NIC = vmxnet3 ]; then
    ip netns exec a ping -c 3 -W 2 -M do -s 1972 10.9.0.2 || failed "frames of 2,000 bytes do not pass"
    ! ip netns exec a ping -c 3 -W 2 -M do -s 8972 10.9.0.2 || failed "long frames pass: ask mpps"
fi
[ $NIC = vmxnet3 ] || tagged af_packet --frame-size 9000
# They came back intact with checksums that the NIC made; virtio-net's are made by whoever sends.
case $NIC in virtio-net-pci) made=software ;; *) made=device ;; esac
grep -q "\"udp_checksum\": \"$made\"" /run/out/af_packet.json || wrong="$wrong checksum"
[ -z "$wrong" ] || failed "not as it should be:$wrong"
echo ok
