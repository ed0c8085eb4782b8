# What a guest does: the script of a case, then off. Sourced by the shell that is process 1.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/run TMPDIR=/run
mount -t cgroup2 none /sys/fs/cgroup 2>/dev/null
mount -t bpf none /sys/fs/bpf 2>/dev/null
mount -t tracefs none /sys/kernel/tracing 2>/dev/null
sh /run/out/script >/run/out/log 2>&1
echo $? >/run/out/code
sync
echo o >/proc/sysrq-trigger
while :; do sleep 1; done
