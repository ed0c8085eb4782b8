# What a host of scripts/two-hosts.sh is, told by itself: PORT PROGRAM. A fact a line, name and value with a tab
# between; one that can't be had is left out. No program is needed for it; lspci and ethtool tell more where they are.
fact() {
    [ -z "$2" ] || printf '%s\t%s\n' "$1" "$2"
}
first() {
    head -n 1 "$1" 2>/dev/null
}
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
said=$("$2" --version 2>&1) || { echo "$2: $said" | head -n 1 >&2; exit 1; }
fact mpps "$said"
fact kernel "$(uname -r)"
model=$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)
# On arm64 a processor is numbers there.
fact CPU "${model:-$(lscpu 2>/dev/null | sed -n 's/^ *Model name: *//p' | head -n 1)}"
fact cores "$(nproc)"
fact governor "$(first /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor)"
fact 'NUMA nodes' "$(ls -d /sys/devices/system/node/node[0-9]* 2>/dev/null | wc -l)"
grep -q '^flags.* hypervisor' /proc/cpuinfo && fact machine virtual

# The device of the port: an interface, a PCI device, or the interface that has an address.
device=${1#*:}
device=${device%%,*}
case $1 in
udp:* | io_uring:*)
    case $device in
    \[*) address=${device#\[} address=${address%%\]*} ;;
    *) address=${device%%:*} ;;
    esac
    device=$(ip -o addr show 2>/dev/null | awk -v a="$address" '{ split($4, p, "/") } p[1] == a { print $2; exit }')
    ;;
dpdk:mac=*)
    device=$(grep -lis "^${device#mac=}$" /sys/class/net/*/address | head -n 1)
    device=${device%/address}
    device=${device##*/}
    ;;
dpdk:net_*)
    of=$(printf '%s\n' "$1" | sed -n 's/.*,\(iface\|remote\)=\([^,]*\).*/\2/p')
    fact 'virtual device' "$device"
    device=$of
    ;;
esac
node=
pci=
if [ -n "$device" ] && [ -e "/sys/class/net/$device" ]; then
    fact device "$device"
    node=/sys/class/net/$device/device
    told=$(ethtool -i "$device" 2>/dev/null)
    for what in driver:driver version:'driver version' firmware-version:firmware; do
        value=$(printf '%s\n' "$told" | sed -n "s/^${what%%:*}: //p")
        [ "$value" = N/A ] || fact "${what#*:}" "$value"
    done
    fact MTU "$(first "/sys/class/net/$device/mtu")"
    speed=$(first "/sys/class/net/$device/speed")
    case $speed in
    '' | -* | 0 | 65535) ;;
    *) fact 'speed, Mbit/s' "$speed" ;;
    esac
    pci=$(basename "$(readlink -f "$node" 2>/dev/null)" 2>/dev/null)
else
    for address in "$device" "0000:$device"; do
        if [ -n "$device" ] && [ -e "/sys/bus/pci/devices/$address" ]; then
            node=/sys/bus/pci/devices/$address
            pci=$address
            fact device "$address"
            fact driver "$(basename "$(readlink "$node/driver")" 2>/dev/null)"
        fi
    done
fi
if [ -n "$node" ]; then
    fact 'NUMA node of the device' "$(first "$node/numa_node")"
    case $pci in
    *:*:*.*)
        fact NIC "$(lspci -s "$pci" 2>/dev/null | cut -d ' ' -f 2-)"
        fact 'NIC, PCI id' "$(first "$node/vendor"):$(first "$node/device")"
        ;;
    esac
fi
exit 0
