# Lanes may be placed on cores that the kernel was told to leave alone, and on none that is not there.
# arguments: isolcpus=1
# amd64: 6.1
. "$LIB"

grep -q '^1$' /sys/devices/system/cpu/isolated || failed "core 1 is not isolated"
# shellcheck disable=SC2086 # words
$MPPS sendrecv loop: --cores 1 --count 200 --rate 200pps $PATIENT --quiet --json /run/out/run.json ||
    failed "--cores 1 ended with $?"
[ "$(key /run/out/run.json rx_packets)" = 200 ] || failed "came back: $(key /run/out/run.json rx_packets)"
grep -q '"core": 1' /run/out/run.json || failed "the lane is on another core"
# The same command would pass with --cores 1.
$MPPS sendrecv loop: --cores 7 --count 200 --rate 200pps 2>/run/err && failed "--cores 7 was taken"
grep -q 'core 7: .*want some of \[0, 1\]' /run/err || failed "$(cat /run/err)"
echo ok
