# Trouble with a PCI NIC that the kernel's driver drives: a link that goes and comes back, and a device that is removed,
# while packets pass; runs end with whole reports that name it. On igb another number of queues between runs: virtio-net
# has one queue here.
# nics: igb virtio-net-pci,iommu_platform=on,disable-legacy=on,VIRTIO_XDP
# options: -device pcie-root-port,id=r0,slot=1 -device pcie-root-port,id=r1,slot=2
# options: -netdev hubport,id=n0,hubid=0 -device NIC,netdev=n0,bus=r0,mac=52:54:00:00:00:01
# options: -netdev hubport,id=n1,hubid=0 -device NIC,netdev=n1,bus=r1,mac=52:54:00:00:00:02,id=nic1
# limit: 420
# amd64: 7
. "$LIB"

two_nics
# begin PATH OPTIONS: a reflector on b, and packets to it.
begin() {
    case $1 in
        udp | io_uring) to=$1:10.9.0.2:9000 ;;
        *) to=$1:eth1$2 ;;
    esac
    rm -f /run/out/sender.json /run/out/reflector.json /run/reflector.csv
    ip netns exec b $MPPS reflect $to --json /run/out/reflector.json --csv /run/reflector.csv \
        --interval 500ms >/run/reflect 2>&1 &
    reflector=$!
    until_true 60 grep -q ready /run/reflect || failed "$1: $(cat /run/reflect)"
    ip netns exec a $MPPS sendrecv af_packet:eth1 --src 10.9.0.1 --dest 10.9.0.2:9000 --dest-mac 52:54:00:00:00:02 \
        --duration 10m --rate 100pps $PATIENT --json /run/out/sender.json >/run/sender 2>&1 &
    sender=$!
    until_true 60 passing /run/reflector.csv 0 || failed "$1: nothing comes: $(cat /run/sender /run/reflect)"
}
# end NAME TEXT: both end, and the reflector's report is whole and has the text.
end() {
    kill -INT $sender 2>/dev/null
    wait $sender
    kill -INT $reflector 2>/dev/null
    wait $reflector
    [ -s /run/out/sender.json ] && [ -s /run/out/reflector.json ] ||
        failed "$1: no report: $(cat /run/sender /run/reflect)"
    grep -v ' pps ' /run/reflect
    grep -v 'is ready on' /run/reflect | grep -q "$2" || failed "$1: '$2' is not said: $(grep -v ' pps ' /run/reflect)"
    [ "$(key /run/out/reflector.json rx_packets)" -gt 0 ] || failed "$1: nothing received"
    echo "$1: sent $(key /run/out/sender.json tx_packets), reflected $(key /run/out/reflector.json tx_packets)"
}
link() {
    ip netns exec b cat /sys/class/net/eth1/carrier | grep -q $1
}
model=$NIC
case $NIC in
    virtio-net-pci)
        model=$model,iommu_platform=on,disable-legacy=on,guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off
        model=$model,guest_csum=off
        ;;
    igb)
        tool ethtool ethtool
        # With up to four of eight queues each has two interrupts, with more one.
        for queues in 1 5 2; do
            ip netns exec b ethtool -L eth1 combined $queues || failed "ethtool -L combined $queues"
            two_nics
            found=$(exchange af_xdp ,mode=zerocopy)
            echo "$queues queues: $found"
            [ "$found" = works ] || failed "af_xdp on $queues queues: $found"
        done
        ;;
esac
for path in udp io_uring af_packet af_xdp,mode=copy af_xdp,mode=zerocopy xdp; do
    options=${path#"${path%%,*}"} path=${path%%,*}
    begin $path $options
    echo 'set_link n1 off' >>/run/out/ask
    until_true 60 link 0 || failed "$path$options: the link stays"
    until_true 60 silent /run/reflector.csv || failed "$path$options: packets pass without a link"
    echo 'set_link n1 on' >>/run/out/ask
    until_true 60 link 1 || failed "$path$options: no link again"
    until_true 60 passing /run/reflector.csv $((before + 100)) ||
        failed "$path$options: nothing comes after the link has: $(cat /run/reflect)"
    end "$path$options, a link that went" 'eth1 had no carrier'
    back=$(key /run/out/sender.json rx_packets)
    [ $back -gt $before ] || failed "$path$options: of $before before the link went and some after it $back came back"
done
for path in udp io_uring af_packet af_xdp,mode=copy af_xdp,mode=zerocopy xdp; do
    options=${path#"${path%%,*}"} path=${path%%,*}
    begin $path $options
    echo 'device_del nic1' >>/run/out/ask
    case $path in
        udp | io_uring)
            until_true 60 sh -c '! ip -n b link show eth1 >/dev/null 2>&1' || failed "$path: the device stays"
            ;;
        *)
            until_true 60 sh -c "! kill -0 $reflector 2>/dev/null" ||
                failed "$path$options does not end: $(cat /run/reflect)"
            ;;
    esac
    case $path in
        udp | io_uring) want=eth1 ;;
        *) want=vanished ;;
    esac
    end "$path$options, a device that was removed" $want
    echo "device_add $model,netdev=n1,bus=r1,mac=52:54:00:00:00:02,id=nic1" >>/run/out/ask
    two_nics
done
echo ok
