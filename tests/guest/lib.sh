# For the scripts of cases, which source it by `. "$LIB"`.

# The kernel's modules are where they were unpacked. A program of its own, as doctor's advice is followed word by word.
mkdir -p /run/bin /run/kmod
ln -s /bin/kmod /run/kmod/modprobe
[ "$(uname -m)" != x86_64 ] || ln -sf $GUESTS/tools/bin/kmod /run/kmod/modprobe
cat >/run/bin/modprobe <<END
#!/bin/sh
LD_LIBRARY_PATH=$GUESTS/tools/lib/x86_64-linux-gnu exec /run/kmod/modprobe -d $GUESTS/kernels/$KERNEL "\$@"
END
chmod +x /run/bin/modprobe
# The kernel loads on demand what it would find on a machine of its own.
echo /run/bin/modprobe >/proc/sys/kernel/modprobe
PATH=/run/bin:$PATH

# doctor reads what the kernel was built with.
[ ! -d $GUESTS/kernels/$KERNEL/boot ] || mount --bind $GUESTS/kernels/$KERNEL/boot /boot

# failed WHY: the case is over.
failed() {
    echo "$*"
    exit 1
}

# until_true SECONDS COMMAND…: waits for it.
until_true() {
    left=$(($1 * 10))
    shift
    until "$@"; do
        left=$((left - 1))
        [ $left -gt 0 ] || return 1
        sleep 0.1
    done
}

# tool NAME PACKAGE: a program of this machine's, or of its package that was unpacked, with the libraries beside it.
tool() {
    ! command -v $1 >/dev/null || return 0
    for at in $GUESTS/programs/sbin/$1 $GUESTS/programs/usr/sbin/$1; do
        [ -x $at ] || continue
        printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$@"\n' \
            $GUESTS/programs/usr/lib/x86_64-linux-gnu:$GUESTS/programs/lib/x86_64-linux-gnu $at >/run/bin/$1
        chmod +x /run/bin/$1
        return 0
    done
    echo "skipped: no $1 here (package $2)"
    exit 0
}

# Two namespaces, a and b, with a veth pair between them: eth1, 10.9.0.1 and 10.9.0.2.
two_hosts() {
    modprobe veth
    for host in a b; do
        ip netns add $host
        ip -n $host link set lo up
    done
    ip link add eth1 netns a type veth peer name eth1 netns b
    ip -n a addr add 10.9.0.1/24 dev eth1
    ip -n b addr add 10.9.0.2/24 dev eth1
    ip -n a link set eth1 up
    ip -n b link set eth1 up
}

# take_nic NUMBER HOST [NAME]: the guest's NIC whose MAC address ends so, as NAME (eth1) of that namespace. Again after
# it was removed and added.
take_nic() {
    case $NIC in virtio-net-pci) modprobe virtio_net ;; *VF) modprobe igbvf ;; *) modprobe $NIC ;; esac
    ip netns list | grep -q $2 || ip netns add $2
    ! ip -n $2 link show ${3:-eth1} >/dev/null 2>&1 || return 0
    # The names are read again at each try: one that was just added is not there yet.
    until_true 60 sh -c "grep -q '00:0$1\$' /sys/class/net/*/address" || failed "no NIC for $2: $(ip link)"
    device=$(grep -l "00:0$1\$" /sys/class/net/*/address)
    ip link set "$(basename "$(dirname "$device")")" netns $2 name ${3:-eth1}
    ip -n $2 link set lo up
    ip -n $2 addr add 10.9.0.$1/24 dev ${3:-eth1}
    ip -n $2 link set ${3:-eth1} up
}

# two_nics: NICs 1 and 2 as eth1 of the namespaces a and b, once they have a link, which takes igb four seconds.
two_nics() {
    take_nic 1 a
    take_nic 2 b
    until_true 30 ip netns exec a ping -c 1 -W 1 10.9.0.2 >/dev/null || failed "no link: $(ip -n a link; ip -n b link)"
}

# judge PATH WANT [NIC [OPTIONS]]: exchanges packets, notes for the table what was found, and adds the path to `wrong`
# where that is not the pattern WANT.
judge() {
    found=$(exchange $1 $4)
    printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$KERNEL" "$(uname -r)" "$1$4${3:+ on $3}" "$found" "$(uname -m)" \
        "$(sed -n 's/^KernelPageSize: *\([0-9]*\) kB/\1/p' /proc/self/smaps | head -n 1)" >>/run/out/found
    echo "$1$4: $found"
    # shellcheck disable=SC2254 # a pattern
    case $found in
        $2) ;;
        *) wrong="$wrong $1" ;;
    esac
}

# key FILE NAME: a number of a run's JSON.
key() {
    sed -n "s/^  \"$2\": \([0-9.]*\).*/\1/p" "$1"
}

# received CSV: packets that a run had received by the row that it wrote last, and in that row. A reflector's rows are
# of the moment, a sender's wait until packets that come late have come.
received() {
    awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "rx_packets") at = i }
        NR > 1 { n += last = $at } END { print n + 0, last + 0 }' $1 2>/dev/null || echo 0 0
}

# passing CSV N: more than N packets have come back.
passing() {
    [ "$(received $1 | cut -d ' ' -f 1)" -gt $2 ]
}

# silent CSV: none has come in the row that was written last. $before is how many came until then.
silent() {
    before=$(received $1)
    [ "${before#* }" = 0 ] && before=${before% *}
}

# PCI addresses of the NICs, in order.
nics() {
    grep -l ^0x0200 /sys/bus/pci/devices/*/class | cut -d/ -f6
}

# bind NIC…: gives them to vfio-pci (or $handler) as doctor advises, word by word, until it has nothing left to advise.
bind() {
    tool python3 python3
    for device; do
        for _ in 1 2 3 4; do
            $MPPS doctor $device --json >/run/doctor 2>/run/err || failed "doctor $device: $(cat /run/err)"
            command=$(python3 -c '
import json, sys
of = json.load(open("/run/doctor"))["findings"]
names = lambda f: sys.argv[1] in f["area"] + f["finding"] + f["command"]
of = [f["command"] for f in of if f["item"] == "dpdk" and f.get("command") and names(f)]
print(of[0] if of else "")' $device)
            [ -n "$command" ] || break
            echo "$device: $command"
            sh -c "$command" 2>/run/err || failed "doctor's advice: $command: $(cat /run/err)"
        done
        driver=$(basename "$(readlink -f /sys/bus/pci/devices/$device/driver)")
        [ "$driver" = ${handler:-vfio-pci} ] || failed "$device is not bound: $(cat /run/doctor)"
    done
}

# listen ARGUMENT…: a listener of mpps, until it is ready: its number in $listener, what it says in /run/out/listener.
listen() {
    $MPPS "$@" --json /run/out/listener.json >/run/out/listener 2>&1 &
    listener=$!
    until_true 60 sh -c "grep -q ready /run/out/listener || ! kill -0 $listener 2>/dev/null"
}

# A processor that is emulated keeps no schedule.
PATIENT="--tolerance 100% --catch-up 10s --settle 3s"

# counted NAME FILE: sets `code` where that count is not the number of packets.
counted() {
    n=$(key $2 $1)
    [ "$n" = ${COUNT:-1000} ] || code="$1 $n in $(basename $2)"
    [ "$n" -ge ${COUNT:-1000} ] || code="missing packets: $code"
}

# exchange PATH [OPTIONS [ARGUMENT…]]: 1,000 ($COUNT) packets at 300 ($RATE) a second from a to b and back. Says
# `works`, or what was refused. Up to three times while packets are missing: a guest that had no core for a second sends
# what is due at once, which is more than the rings of some NICs hold.
exchange() {
    for attempt in 1 2 3; do
        said=$(exchange_once "$@")
        case $said in "ended with missing "*) echo "attempt $attempt: $said" >&2 ;; *) break ;; esac
    done
    echo "$said"
}

exchange_once() {
    path=$1
    case $path in
        udp | io_uring) from=$1:10.9.0.1 to=$1:10.9.0.2:9000 ;;
        *) from=$1:eth1$2 to=$1:eth1$2 ;;
    esac
    shift $(($# < 2 ? $# : 2))
    ip netns exec b $MPPS reflect $to --json /run/out/$path-reflect.json >/run/reflect 2>&1 &
    reflector=$!
    until_true 60 sh -c "grep -q ready /run/reflect || ! kill -0 $reflector 2>/dev/null"
    # shellcheck disable=SC2086 # words
    ip netns exec a $MPPS sendrecv $from --src 10.9.0.1 --dest 10.9.0.2:9000 --count ${COUNT:-1000} \
        --rate ${RATE:-300pps} $PATIENT "$@" --quiet --json /run/out/$path.json 2>/run/sender
    code=$?
    kill -INT $reflector 2>/dev/null
    wait $reflector
    if [ $code = 0 ]; then
        for name in tx_packets rx_packets; do
            counted $name /run/out/$path.json
        done
        counted tx_packets /run/out/$path-reflect.json
    fi
    case $code in
        0) echo works ;;
        2) sed -n "s/^mpps: //p" /run/sender | head -n 1 ;;
        *) echo "ended with $code: $(head -n 1 /run/sender) $(head -n 3 /run/reflect | tr '\n' ' ')" ;;
    esac
}
