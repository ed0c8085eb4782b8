# A guest and its host joined by vhost-user: virtio-net in the guest, DPDK's net_vhost on the host. 1,000 packets there
# and back with the reflector on the host, which has two queues, by the kernel's driver and by DPDK; and 1,000 with
# the reflector in the guest. Debian's VFIO wants an IOMMU, which is not here, so DPDK's are by uio_pci_generic.
# host: reflect dpdk:net_vhost0,iface=OUT/vhost,queues=2 --lanes 2 --ip 10.9.0.2 --json OUT/host.json
# host: sendrecv dpdk:net_vhost0,iface=OUT/sender,link_wait=200 --src 10.9.1.2 --dest 10.9.1.1:9000 \
# host: --dest-mac 52:54:00:00:00:02 --duration 1h --rate 300pps --tolerance 100% --catch-up 1s --csv OUT/sender.csv
# options: -object memory-backend-memfd,id=memory,size=1500M,share=on -numa node,memdev=memory
# options: -chardev socket,id=vhost,path=OUT/vhost -netdev vhost-user,id=n0,chardev=vhost,queues=2
# options: -chardev socket,id=sender,path=OUT/sender -netdev vhost-user,id=n1,chardev=sender
# options: -device pcie-root-port,id=r0,slot=1 -device pcie-root-port,id=r1,slot=2
# options: -device virtio-net-pci,disable-legacy=on,mq=on,vectors=6,netdev=n0,bus=r0,mac=52:54:00:00:00:01,VIRTIO_XDP
# options: -device virtio-net-pci,disable-legacy=on,netdev=n1,bus=r1,mac=52:54:00:00:00:02
# limit: 240
# amd64: 6.1
. "$LIB"

set -- $(nics)
[ $# = 2 ] || failed "want two NICs, there are: $*"
modprobe virtio_net
for device in $1 $2; do
    until_true 20 sh -c "ls /sys/bus/pci/devices/$device/virtio*/net >/dev/null 2>&1" || failed "no interface"
    name=$(ls /sys/bus/pci/devices/$device/virtio*/net)
    ip link set $name up
done
# The host has sent since the driver began.
listen reflect af_packet:$name
until_true 60 passing /run/out/sender.csv 1000 || failed "the host: $(cat /run/out/host1 /run/out/listener)"
kill -INT $listener
wait $listener || failed "reflect ended with $?: $(cat /run/out/listener)"
[ "$(key /run/out/listener.json tx_packets)" -ge 1000 ] || failed "reflected: $(cat /run/out/listener)"
name=$(ls /sys/bus/pci/devices/$1/virtio*/net)
ip link set lo up
ip addr add 10.9.0.1/24 dev $name
wrong=
for path in udp io_uring af_packet af_xdp xdp dpdk; do
    case $path in
        udp | io_uring) from=$path:10.9.0.1 ;;
        af_packet | af_xdp | xdp) from=$path:$name ;;
        dpdk)
            handler=uio_pci_generic
            bind $1
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
    printf '%s\t%s\t%s on virtio-net-pci of vhost-user\tworks\n' "$KERNEL" "$(uname -r)" \
        $path${handler:+,$handler} >>/run/out/found
done
[ -z "$wrong" ] || failed "not as it should be:$wrong"
echo ok
