# Every path of the kernel's: 1,000 packets there and back, or the refusal that names what it wants.
# quick: 5.10 6.1
# amd64: all
# arm64: all
# limit: 420
. "$LIB"

two_hosts
wrong=
for path in udp io_uring af_packet af_xdp xdp; do
    case $KERNEL/$path in
        # Ubuntu's 6.8 answers as those before 5.19 do.
        5.10/io_uring | 5.14/io_uring | 5.15/io_uring | 6.8/io_uring)
            want="*refuses provided buffer rings (Linux 5.19 has them): Invalid argument (os error 22): use udp"
            ;;
        5.10/xdp | 5.14/xdp | 5.15/xdp)
            want="*helpers for frames in several buffers (Linux 5.18): use af_xdp or af_packet"
            ;;
        *) want=works ;;
    esac
    judge $path "$want"
done
# Every filter that the program of af_xdp has is one that this kernel's verifier takes.
for words in "forward af_xdp:eth1 --mode 5tswap" "reflect af_xdp:eth1 --ip fd00::2" \
    "reflect af_xdp:eth1 --ip 10.9.0.9" "drop af_xdp:eth1" "capture af_xdp:eth1 -o /run/out/x.pcapng"; do
    # shellcheck disable=SC2086 # words
    timeout 30 ip netns exec b $MPPS $words --duration 500ms >/run/out/filter 2>&1
    code=$?
    [ $code != 1 ] && [ $code != 2 ] && [ $code != 124 ] || {
        echo "$words ended with $code: $(head -n 3 /run/out/filter)"
        wrong="$wrong filter"
    }
done
[ -z "$wrong" ] || failed "not as it should be:$wrong"
echo ok
