# A PCI NIC with the kernel's driver: two of them on one wire, each in a namespace, every path of the kernel's.
# nics: e1000e vmxnet3 igb virtio-net-pci,iommu_platform=on,disable-legacy=on,VIRTIO_XDP
# options: -device pcie-root-port,id=r0,slot=1 -device pcie-root-port,id=r1,slot=2
# options: -netdev hubport,id=n0,hubid=0 -device NIC,netdev=n0,bus=r0,mac=52:54:00:00:00:01
# options: -netdev hubport,id=n1,hubid=0 -device NIC,netdev=n1,bus=r1,mac=52:54:00:00:00:02
# limit: 420
# amd64: 7
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
[ -z "$wrong" ] || failed "not as it should be:$wrong"
echo ok
