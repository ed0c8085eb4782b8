# Zero-copy mode that virtio_net refuses: the feature that the device lacks is named; in copy mode it is as ever.
# nics: virtio-net-pci,VIRTIO_XDP
# options: -netdev hubport,id=n0,hubid=0 -device NIC,netdev=n0,mac=52:54:00:00:00:01
# options: -netdev hubport,id=n1,hubid=0
# options: -device NIC,netdev=n1,mac=52:54:00:00:00:02,disable-legacy=on,iommu_platform=on,queue_reset=off
# amd64: 7
. "$LIB"

modprobe virtio_net
until_true 20 sh -c '[ "$(ls -d /sys/class/net/*/device 2>/dev/null | wc -l)" = 2 ]' ||
    failed "want two interfaces, there are: $(ls /sys/class/net | tr '\n' ' ')"
for last in 1 2; do
    device=$(grep -l "00:0$last\$" /sys/class/net/*/address | head -n 1)
    device=$(basename "$(dirname $device)")
    ip link set $device name nic$last
    ip addr add 10.9.$last.1/24 dev nic$last
    ip link set nic$last up
done
# wants DEVICE FEATURE: its refusal names that.
wants() {
    $MPPS reflect af_xdp:$1,mode=zerocopy --duration 1s >/run/refused 2>&1
    [ $? = 2 ] || failed "$1: $(cat /run/refused)"
    cat /run/refused
    grep -q "zero-copy mode: virtio_net refuses it (.*) and takes copy mode: it wants a device with $2" /run/refused ||
        failed "$1: $(cat /run/refused)"
    $MPPS doctor >/run/doctor
    grep -q "wants $2" /run/doctor || failed "doctor: $(grep -A 4 "nic $1" /run/doctor)"
    for mode in auto copy; do
        $MPPS reflect af_xdp:$1,mode=$mode --duration 100ms --quiet --json /run/out/$1-$mode.json >/run/taken 2>&1
        grep -q '"mode": "copy"' /run/out/$1-$mode.json || failed "$1 mode=$mode: $(cat /run/taken)"
    done
}
wants nic1 VIRTIO_F_ACCESS_PLATFORM
wants nic2 VIRTIO_F_RING_RESET
echo ok
