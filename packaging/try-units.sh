#!/usr/bin/env bash
# Tries the units of a package for real: boots a folder that it is installed into, with systemd as the first process of
# namespaces of its own, starts a reflector on each path, and sends packets to it over a veth pair.
#
#   packaging/try-units.sh FOLDER          as root; scripts/packages.sh makes the folder
#
# Fails where a unit does not reflect, calls the system in a way that its filter forbids (it is killed then), or has a
# thread with a privilege in force. What fails is named by its unit, with its journal.
set -uo pipefail
root=$(realpath -e "${1:?try-units: the folder to boot is missing}") || exit

fail() { echo "try-units: $*" >&2 && exit 1; }
# Waits until a command succeeds: at most half a minute, for busy hosts.
within() {
    for _ in $(seq 150); do
        ! "$@" >/dev/null 2>&1 || return 0
        sleep 0.2
    done
    return 1
}

for path in udp io_uring af_packet af_xdp xdp; do
    place=$root/etc/systemd/system/mpps-reflect-$path@.service.d
    mkdir -p "$place"
    # A call that is forbidden kills, so that it is seen, and nothing starts again in secret.
    printf '[Service]\nRestart=no\nSystemCallErrorNumber=\n' >"$place/try.conf"
done
mkdir -p "$root/etc/mpps"
# Little memory, where the limit of locked memory can't be raised (no CAP_SYS_RESOURCE here).
echo 'PORT_OPTIONS=,chunk=2048,frames=2048,fill=512' >"$root/etc/mpps/mpps-reflect-af_xdp@eth1.conf"

# What systemd finds in a container: a root that is a shared mount, a cgroup hierarchy, its own /proc, /sys, /dev.
# shellcheck disable=SC2016 # the shell that is started expands it
boot='
root=$1
mount --make-rprivate / && mount --bind "$root" "$root" || exit 77
mount -t proc proc "$root/proc" && mount -t sysfs sysfs "$root/sys" || exit 77
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup" || exit 77
for folder in run tmp dev; do mount -t tmpfs -o mode=755 tmpfs "$root/$folder" || exit 77; done
chmod 1777 "$root/tmp"
for device in null zero full random urandom tty; do
    touch "$root/dev/$device" && mount --bind "/dev/$device" "$root/dev/$device" || exit 77
done
ln -s pts/ptmx "$root/dev/ptmx"
cd "$root" && mkdir -p .old && pivot_root . .old && umount -l .old && mount --make-rshared / || exit 77
exec /usr/bin/env -i container=lxc PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system
'
unshare --pid --mount --uts --ipc --net --cgroup --fork --kill-child \
    bash -c "$boot" boot "$root" >"$root/boot.log" 2>&1 &
parent=$! init=
stop() {
    [ -z "$init" ] || kill -KILL "$init" 2>/dev/null
    kill -KILL "$parent" 2>/dev/null
    wait "$parent" 2>/dev/null
}
trap stop EXIT
booted() {
    init=$(pgrep -P "$parent") && [ "$(cat "/proc/$init/comm")" = systemd ] &&
        inside systemctl is-system-running | grep 'running\|degraded' >/dev/null
}
inside() { nsenter -t "$init" -a /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 "$@"; }
ended() { ! kill -0 "$parent" 2>/dev/null; }
for _ in $(seq 150); do
    ! booted >/dev/null 2>&1 || break
    ! ended || { echo "systemd does not start here: $(tail -n 1 "$root/boot.log")" && exit 77; }
    sleep 0.2
done
booted || fail "systemd did not come up: $(tail -n 5 "$root/boot.log")"

inside sh -ec '
    ip link set lo up
    ip netns add b
    ip link add eth1 type veth peer name eth1 netns b
    ip addr add 10.99.0.2/24 dev eth1 && ip link set eth1 up
    ip -n b addr add 10.99.0.1/24 dev eth1 && ip -n b link set eth1 up
' || { echo "no veth pair can be made here" && exit 77; }
link_up() { inside ip link show eth1 | grep 'state UP' >/dev/null; }
within link_up || fail "the veth pair has no carrier"

# reflects UNIT FORMAT BOUNDING: whether it sends back what FORMAT's port sends, with this bounding set of capabilities.
reflects() {
    local unit=mpps-reflect-$1 sender=$2 bounding=$3 said pid
    inside systemctl start "$unit"
    answered() {
        inside systemctl is-active -q "$unit" || return 0
        said=$(inside ip netns exec b mpps sendrecv "$sender" --src 10.99.0.1 --dest 10.99.0.2:9000 --rate 1kpps \
            --duration 300ms --settle 200ms 2>&1)
        grep -q '^received  *[1-9]' <<<"$said"
    }
    if ! within answered || ! inside systemctl is-active -q "$unit"; then
        fail "$unit does not reflect: ${said:-}"$'\n'"$(inside systemctl status --no-pager "$unit" 2>&1 | tail -n 15)"
    fi
    pid=$(inside systemctl show -P MainPID "$unit")
    said=$(inside sh -c "cat /proc/$pid/task/*/status")
    ! grep '^CapEff:' <<<"$said" | grep -qv '0000000000000000$' || fail "$unit: a thread has privileges: $said"
    ! grep '^CapBnd:' <<<"$said" | grep -qvi "$bounding\$" || fail "$unit: bounding set is not $bounding: $said"
    ! grep '^Uid:' <<<"$said" | grep -q '[[:space:]]0[[:space:]]' || fail "$unit runs as root"
    ! grep '^Seccomp:' <<<"$said" | grep -qv '2$' || fail "$unit: system calls are not filtered"
    ! grep '^NoNewPrivs:' <<<"$said" | grep -qv '1$' || fail "$unit may gain privileges"
    inside systemctl stop "$unit"
    said=$(inside systemctl show -P Result "$unit")
    [ "$said" = success ] || fail "$unit ended with $said"
    echo "$unit reflects, without a privilege in force"
}
# Bits of linux/capability.h: NET_ADMIN 12, NET_RAW 13, PERFMON 38, BPF 39.
reflects udp@10.99.0.2:9000 udp:10.99.0.1 0000000000000000
reflects io_uring@10.99.0.2:9000 udp:10.99.0.1 0000000000000000
reflects af_packet@eth1 udp:10.99.0.1 0000008000003000
reflects af_xdp@eth1 udp:10.99.0.1 000000c000003000
# On veth the kernel sends frames of an XDP program only to an end that has one, too.
reflects xdp@eth1 af_xdp:eth1 000000c000001000
