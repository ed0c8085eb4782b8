#!/usr/bin/env bash
# Checks that what the given task needs is installed, and installs what is missing where it may (root, apt-get).
#
#   scripts/setup.sh build|arm64|wheel|deb|rpm|static|demo|test|guests|all|bench|fuzz...      (nothing given: test)
#
# Fails only when the program can't be built. Whatever else can't be had is named, with the one line that installs
# it, and the task goes on: tests skip with a reason, the demo falls back to loopback sockets, the build leaves the
# dpdk path out.
# MPPS_NO_INSTALL=1 only checks and names; MPPS_NO_DPDK=1 builds without DPDK, so that it is not asked for.
set -euo pipefail
cd "$(dirname "$0")/.."

# An ordinary user's PATH lacks the administrator's directories, and a fresh rustup is not in anybody's.
PATH="${HOME:-/root}/.cargo/bin:$PATH:/usr/local/sbin:/usr/sbin:/sbin"

# task | tool, file, pkg:MODULE (of pkg-config) or py:MODULE (of Python) whose presence is checked | packages that bring
# it (Debian, Ubuntu)
# libdpdk-dev depends on DPDK's drivers, too, each a package of its own.
TOOLS='
build | cc           | gcc libc6-dev
dpdk  | pkg:libdpdk  | libdpdk-dev pkg-config
arm64 | aarch64-linux-gnu-gcc | gcc-aarch64-linux-gnu libc6-dev-arm64-cross
arm64 | pkg-config   | pkg-config
demo  | ip           | iproute2
wheel | python3      | python3
wheel | py:ensurepip | python3-venv
deb   | dpkg-shlibdeps | dpkg-dev
deb   | strip        | binutils
deb   | python3      | python3
rpm   | rpmbuild     | rpm
rpm   | strip        | binutils
rpm   | python3      | python3
static | strip       | binutils
static | python3     | python3
arm64-packages | qemu-aarch64-static | qemu-user-static
test  | python3      | python3
test  | py:ensurepip | python3-venv
test  | sysctl       | procps
test  | ping         | iputils-ping
test  | ethtool      | ethtool
test  | tcpdump      | tcpdump
test  | socat        | socat
test  | trafgen      | netsniff-ng
test  | nping        | nmap
test  | tshark       | tshark
test  | nft          | nftables
test  | jq           | jq
test  | git          | git
test  | setcap       | libcap2-bin
test  | clang        | clang llvm
test  | node         | nodejs
test  | babeltrace2  | babeltrace2
test  | mandoc       | mandoc
test  | tmux         | tmux
test  | xmllint      | libxml2-utils
testpmd | dpdk-testpmd | dpdk dpdk-dev librte-meta-bus librte-meta-mempool librte-meta-net
guests | ip          | iproute2
guests | ping        | iputils-ping
guests | python3     | python3
guests | wget        | wget
guests | xz          | xz-utils
guests | zstd        | zstd
all   | chromium     | chromium
all   | pdftotext    | poppler-utils
services | prometheus | prometheus
services | prometheus-node-exporter | prometheus-node-exporter
services | nginx     | nginx-light
all   | logrotate    | logrotate
all   | xdp-loader   | xdp-tools
all   | lintian      | lintian
all   | debootstrap  | debootstrap
all   | systemd-analyze | systemd
all   | zsh          | zsh
all   | fish         | fish
bench | sockperf     | sockperf
bench | tcpreplay    | tcpreplay
bench | iperf3       | iperf3
bench | valgrind     | valgrind
bench | perf         | linux-perf
bench | xdp-trafficgen | xdp-tools
bench | /usr/include/bpf/libbpf.h | libbpf-dev
bench | pkg:libxdp   | libxdp-dev pkg-config
'

say() { printf 'setup: %s\n' "$*" >&2; }

# The tasks that a task includes. `dpdk` is what a build is better with, and can do without.
includes() {
    local build=build
    case "${MPPS_NO_DPDK:-0}" in 0) build='build dpdk' ;; esac
    case "$1" in
        build) echo "$build" ;;
        arm64) echo build arm64 ;;
        # A package holds what its program writes, so the program must run.
        arm64-packages) echo build arm64 arm64-packages ;;
        wheel) echo "$build wheel" ;;
        deb) echo "$build deb" ;;
        rpm | static) echo "build $1" ;;
        demo) echo "$build demo" ;;
        test) echo "$build wheel demo testpmd test" ;;
        guests) echo "$build testpmd guests" ;;
        # What `make test-all` wants so that nothing is skipped that can be had. Packages whose services would start
        # here are left to the user.
        all)
            [ -d /run/systemd/system ] || build="$build services"
            echo "$build wheel deb rpm static demo testpmd test guests all"
            ;;
        bench) echo "$build wheel demo testpmd test bench" ;;
        fuzz) echo build fuzz ;;
        *)
            say "unknown task '$1': must be build, arm64, wheel, deb, rpm, static, demo, test, guests, all, bench or" \
                "fuzz"
            exit 2
            ;;
    esac
}

# version_at_least HAVE WANT
version_at_least() {
    [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]
}

# present TOOL|FILE|pkg:MODULE|py:MODULE
present() {
    case "$1" in
        py:*) python3 -c "import ${1#py:}" 2>/dev/null ;;
        pkg:*) command -v pkg-config >/dev/null 2>&1 && pkg-config --exists "${1#pkg:}" ;;
        *) command -v "$1" >/dev/null 2>&1 || [ -e "$1" ] ;;
    esac
}

# Packages of the missing tools of the wanted tasks, one tool a line: "task|tool|packages".
missing() {
    local task tool packages
    while IFS='|' read -r task tool packages; do
        task=${task// /} tool=${tool// /}
        [ -n "$task" ] || continue
        case " $wanted " in *" $task "*) ;; *) continue ;; esac
        # shellcheck disable=SC2086,SC2116 # words are packages; echo takes the spaces off
        present "$tool" || echo "$task|${tool#p*:}|$(echo $packages)"
    done <<<"$TOOLS"
}

apt_install() {
    DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=120 \
        install -y --no-install-recommends "$@" >/dev/null 2>&1
}

# Installs everything in one go; when one package is unknown here, each by itself, so that it costs only its own.
install_missing() {
    local all line
    all=$(missing | cut -d'|' -f3 | tr '\n' ' ')
    say "installing: $all"
    # shellcheck disable=SC2086 # words are packages
    apt_install $all && return
    apt-get -qq update >/dev/null 2>&1 || say "apt-get update failed: trying with the lists there are"
    # shellcheck disable=SC2086
    apt_install $all && return
    missing | cut -d'|' -f3 | while read -r line; do
        # shellcheck disable=SC2086
        apt_install $line || say "could not install: $line"
    done
}

wanted=' '
for task in "${@:-test}"; do
    wanted="$wanted$(includes "$task") "
done

if [ -n "$(missing)" ] && [ -z "${MPPS_NO_INSTALL:-}" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    install_missing
fi

fatal=
left=$(missing)
if [ -n "$left" ]; then
    sudo=
    [ "$(id -u)" = 0 ] || sudo='sudo '
    say "not installed: $(cut -d'|' -f2 <<<"$left" | tr '\n' ' ')"
    say "this installs it: ${sudo}apt-get install -y $(cut -d'|' -f3 <<<"$left" | tr '\n' ' ')"
    ! grep -q '^build|\|^arm64|' <<<"$left" || fatal=1
    ! grep -q '^dpdk|' <<<"$left" || say "until libdpdk is installed, mpps is built without the dpdk path"
fi
dpdk_wanted=$(sed -n 's/^const OLDEST: .*"\(.*\)";/\1/p' crates/dpdk-sys/build.rs)
case "$wanted" in
    *' dpdk '*)
        if present pkg:libdpdk && ! pkg-config --atleast-version="$dpdk_wanted" libdpdk; then
            say "libdpdk $(pkg-config --modversion libdpdk) is too old ($dpdk_wanted or later is needed):" \
                "mpps is built without the dpdk path"
        fi
        ;;
esac

rust_wanted=$(sed -n 's/^rust-version *= *"\(.*\)"/\1/p' Cargo.toml)
rust_line="curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --profile minimal"
if ! command -v cargo >/dev/null 2>&1 || ! rust_have=$(rustc --version 2>/dev/null); then
    say "Rust is not installed ($rust_wanted or later is needed). This installs it: $rust_line"
    fatal=1
else
    rust_have=$(cut -d' ' -f2 <<<"$rust_have")
    if ! version_at_least "$rust_have" "$rust_wanted"; then
        if command -v rustup >/dev/null 2>&1; then
            rust_line='rustup update stable && rustup default stable'
        fi
        say "Rust $rust_have is too old ($rust_wanted or later is needed). This installs a newer one: $rust_line"
        fatal=1
    fi
fi

case "$wanted" in
    *' arm64 '*)
        target=aarch64-unknown-linux-gnu
        has_target() { [ -d "$(rustc --print sysroot 2>/dev/null)/lib/rustlib/$target" ]; }
        if ! has_target && [ -z "${MPPS_NO_INSTALL:-}" ] && command -v rustup >/dev/null 2>&1; then
            say "installing: Rust's library for arm64"
            rustup -q target add "$target" >/dev/null 2>&1 || true
        fi
        if ! has_target; then
            say "Rust builds nothing for arm64 here. This installs what it wants: rustup target add $target"
            fatal=1
        fi
        ;;
esac

case "$wanted" in
    *' all '*)
        case "$wanted" in
            *' services '*) ;;
            *)
                left=$(wanted=' services ' && missing | cut -d'|' -f3 | tr '\n' ' ')
                [ -z "$left" ] || say "not installed, as their services would start: $left"
                ;;
        esac
        # What cannot be had is skipped by the tests that want it, each with its reason.
        if [ -z "${MPPS_NO_INSTALL:-}" ] && command -v rustup >/dev/null 2>&1; then
            rustup_has() { rustup -q "$@" >/dev/null 2>&1 || say "this failed: rustup $*"; }
            musl="$(uname -m)-unknown-linux-musl"
            [ -d "$(rustc --print sysroot)/lib/rustlib/$musl" ] || rustup_has target add "$musl"
            cargo "+$rust_wanted" --version >/dev/null 2>&1 ||
                rustup_has toolchain install "$rust_wanted" --profile minimal
            cargo +nightly miri --version >/dev/null 2>&1 ||
                rustup_has toolchain install nightly --profile minimal --component miri --component rust-src
        fi
        ;;
esac

case "$wanted" in
    # It says itself what is missing; without it some tests are skipped.
    *' test '*) [ -n "${MPPS_NO_INSTALL:-}" ] || ! command -v node >/dev/null 2>&1 || scripts/perfetto.sh || true ;;
esac

case "$wanted" in
    *' fuzz '*)
        if ! cargo fuzz --version >/dev/null 2>&1 || ! cargo +nightly --version >/dev/null 2>&1; then
            say "fuzzing needs a nightly toolchain and cargo-fuzz. This installs them:" \
                "rustup toolchain install nightly --profile minimal && cargo install cargo-fuzz --locked"
            fatal=1
        fi
        ;;
esac

[ -z "$fatal" ] || exit 1
