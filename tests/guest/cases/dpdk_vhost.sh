# A guest and its host joined by vhost-user: virtio-net in the guest, DPDK's net_vhost in a reflector on the host. 1,000
# packets there and back by the kernel's driver and by DPDK. Debian's VFIO wants an IOMMU, which is not here, so it is
# by uio_pci_generic.
# host: reflect dpdk:net_vhost0,iface=OUT/vhost --ip 10.9.0.2 --json OUT/host.json
# options: -object memory-backend-memfd,id=memory,size=1500M,share=on -numa node,memdev=memory
# options: -chardev socket,id=vhost,path=OUT/vhost -netdev vhost-user,id=n0,chardev=vhost
# options: -device pcie-root-port,id=r0,slot=1
# options: -device virtio-net-pci,disable-legacy=on,netdev=n0,bus=r0,mac=52:54:00:00:00:01
# limit: 240
# amd64: 6.1
. "$LIB"

set -- $(nics)
[ $# = 1 ] || failed "want one NIC, there are: $*"
modprobe virtio_net
until_true 20 sh -c 'ls /sys/class/net/*/device >/dev/null 2>&1' || failed "no interface"
name=$(basename "$(dirname /sys/class/net/*/device)")
ip link set lo up
ip addr add 10.9.0.1/24 dev $name
ip link set $name up
wrong=
for path in udp af_packet dpdk; do
    case $path in
        udp) from=udp:10.9.0.1 ;;
        af_packet) from=af_packet:$name ;;
        dpdk)
            handler=uio_pci_generic bind $1
            from=dpdk:$1
            ;;
    esac
    $MPPS sendrecv $from --src 10.9.0.1 --dest 10.9.0.2:9000 --count 1000 --rate 300pps $PATIENT \
        --json /run/out/$path.json >/run/out/$path 2>&1
    code=$?
    [ $code/$(key /run/out/$path.json rx_packets) = 0/1000 ] || {
        cat /run/out/$path
        wrong="$wrong $path"
        continue
    }
    printf '%s\t%s\t%s on virtio-net-pci of vhost-user\tworks\n' "$KERNEL" "$(uname -r)" $path >>/run/out/found
done
[ -z "$wrong" ] || failed "not as it should be:$wrong"
echo ok
