# A PCI NIC by vfio-pci behind an IOMMU, bound as doctor advises: two of them on one wire, 1,000 packets there and back.
# nics: e1000e vmxnet3 igb virtio-net-pci,iommu_platform=on,disable-legacy=on
# quick-nics: e1000e
# machine: q35,kernel-irqchip=split
# options: -device intel-iommu,intremap=on,caching-mode=on,device-iotlb=on
# options: -device pcie-root-port,id=r0,slot=1 -device pcie-root-port,id=r1,slot=2
# options: -netdev hubport,id=n0,hubid=0 -device NIC,netdev=n0,bus=r0,mac=52:54:00:00:00:01
# options: -netdev hubport,id=n1,hubid=0 -device NIC,netdev=n1,bus=r1,mac=52:54:00:00:00:02
# arguments: intel_iommu=on iommu=pt
# memory: 2000
# limit: 240
# quick: 6.1
# amd64: 6.1
. "$LIB"

devices=$(for device in /sys/bus/pci/devices/*; do
    case $(cat $device/class) in 0x0200*) basename $device ;; esac
done)
set -- $devices
[ $# = 2 ] || failed "want two NICs, there are: $devices"
for device; do
    $MPPS doctor $device --json >/run/doctor 2>/run/err || failed "doctor: $(cat /run/err)"
    # Until it has nothing left to advise.
    for _ in 1 2 3 4; do
        command=$(python3 -c '
import json, sys
of = json.load(open("/run/doctor"))["findings"]
names = lambda f: sys.argv[1] in f["area"] + f["finding"] + f["command"]
of = [f["command"] for f in of if f["item"] == "dpdk" and f.get("command") and names(f)]
print(of[0] if of else "")' $device)
        [ -n "$command" ] || break
        echo "$device: $command"
        sh -c "$command" || failed "doctor's advice: $command"
        $MPPS doctor $device --json >/run/doctor
    done
    driver=$(basename "$(readlink -f /sys/bus/pci/devices/$device/driver)")
    [ "$driver" = vfio-pci ] || failed "$device is not bound: $(cat /run/doctor)"
done
$MPPS reflect dpdk:$2 --json /run/out/reflect.json >/run/reflect 2>&1 &
reflector=$!
until_true 60 sh -c "grep -q ready /run/reflect || ! kill -0 $reflector 2>/dev/null"
$MPPS sendrecv dpdk:$1 --src 10.9.0.1 --dest 10.9.0.2:9000 --dest-mac 52:54:00:00:00:02 --count 1000 --rate 300pps \
    $PATIENT --quiet --json /run/out/sendrecv.json 2>/run/sender
code=$?
kill -INT $reflector
wait $reflector
cat /run/sender /run/reflect
[ $code = 0 ] || failed "sendrecv ended with $code"
[ "$(key /run/out/sendrecv.json rx_packets)" = 1000 ] || failed "came back: $(key /run/out/sendrecv.json rx_packets)"
printf '%s\t%s\tdpdk on %s\tworks\n' "$KERNEL" "$(uname -r)" "$NIC" >>/run/out/found
echo ok
