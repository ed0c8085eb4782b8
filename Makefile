# Every task has one command here. `make help` lists them.

# The program lies at target/release/mpps whatever the environment says.
unexport CARGO_TARGET_DIR
unexport CARGO_BUILD_TARGET
# A fresh rustup is not in anybody's PATH yet.
export PATH := $(HOME)/.cargo/bin:$(PATH)

CARGO := cargo
PROGRAM := target/release/mpps
# Further arguments: `make demo ARGS="--duration 5s"`, `make test ARGS=lab`.
ARGS :=

# ARCH=arm64: build, deb, rpm, static and image for another processor than this machine's (docs/use/building.md). ACROSS
# is what a command is run by that builds, or asks about the libraries there.
ARCH :=
ACROSS :=
ifneq ($(ARCH),)
ifneq ($(ARCH),arm64)
$(error ARCH=$(ARCH): must be arm64)
endif
ifneq ($(shell uname -m),aarch64)
ACROSS := scripts/arm64.sh
ACROSS_PACKAGES := arm64-packages
PROGRAM := target/aarch64-unknown-linux-gnu/release/mpps
endif
endif

.DEFAULT_GOAL := help
# Where `make install` puts the program, its manual pages and completions: below $(DESTDIR)$(PREFIX).
PREFIX ?= /usr/local
DESTDIR ?=
.PHONY: help build pgo wheel deb rpm static image licences deny demo test test-guests test-guests-all test-all bench setup install lint fuzz clean program

help: ## list the tasks
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 17

build: ## the release program, target/release/mpps; ARCH=arm64: target/aarch64-unknown-linux-gnu/release/mpps
	@scripts/setup.sh $(if $(ACROSS),arm64,build)
	@$(MAKE) --no-print-directory program

pgo: ## the program by profile-guided optimisation, target/pgo/mpps (docs/use/building.md)
	@scripts/setup.sh build
	scripts/pgo.sh

wheel: ## a Python wheel that carries the program, into target/wheels (docs/use/python.md)
	@scripts/setup.sh wheel
	@$(MAKE) --no-print-directory program
	@MPPS_BIN="$(CURDIR)/$(PROGRAM)" scripts/python.sh --wheel

deb: ## Debian packages into target/packages: mpps without DPDK, and mpps-dpdk where DPDK is (docs/use/packages.md)
	@scripts/setup.sh deb $(ACROSS_PACKAGES)
	@$(MAKE) --no-print-directory without-dpdk
	$(ACROSS) packaging/deb.sh $(WITHOUT_DPDK)
	@if ! $(ACROSS) sh -c '[ "$${MPPS_NO_DPDK:-0}" = 0 ] && pkg-config --exists libdpdk'; then \
		echo "no mpps-dpdk: libdpdk is not installed, or MPPS_NO_DPDK is set"; \
	else \
		$(MAKE) --no-print-directory program && $(ACROSS) packaging/deb.sh $(PROGRAM) --dpdk; \
	fi

rpm: ## an RPM, without DPDK, into target/packages (docs/use/packages.md)
	@scripts/setup.sh rpm $(ACROSS_PACKAGES)
	@$(MAKE) --no-print-directory without-dpdk
	$(ACROSS) packaging/rpm.sh $(WITHOUT_DPDK)

static: ## a static program without DPDK, with man pages and completions, into target/packages (docs/use/packages.md)
	@scripts/setup.sh static $(ACROSS_PACKAGES)
	MPPS_NO_DPDK=1 CARGO="$(CARGO)" $(ACROSS) packaging/static.sh

image: static ## a container image of the static program, mpps:VERSION, by docker, podman or buildah (docs/use/packages.md)
	MPPS_NO_DPDK=1 $(ACROSS) packaging/image.sh

licences: ## the licences of all that is linked in, into target/packages/THIRD-PARTY.txt
	@mkdir -p target/packages
	packaging/licences.py > target/packages/THIRD-PARTY.txt

deny: ## advisories, licences and sources of all crates against deny.toml (cargo install cargo-deny --locked)
	$(CARGO) deny --all-features check

demo: ## two hosts on a veth pair, a live view, CSV, JSON, a plot, and the highest rate without loss
	@scripts/setup.sh demo
	@$(MAKE) --no-print-directory program
	$(PROGRAM) demo $(ARGS)

test: ## every test; those that need root or a tool that is missing say SKIPPED and why; failed ones are listed last
	@scripts/setup.sh test
	@$(MAKE) --no-print-directory program
	@# RETRY=1, for the continuous integration: a failed test is tried once more, by itself.
	@MPPS_BIN="$(CURDIR)/$(PROGRAM)" CARGO="$(CARGO)" scripts/test.py $(if $(TEST_ALL),--all) $(if $(RETRY),--retry) $(ARGS)

# A set of guests; what it said is kept for scripts/skips.sh.
GUESTS := mkdir -p target/test/logs && MPPS_BIN="$(CURDIR)/$(PROGRAM)" \
    bash -c 'set -o pipefail; tests/guest/guest run $$0 | tee target/test/logs/guests-$$0.log'

test-guests: ## every path on other kernels, and PCI NICs, in guests of QEMU without KVM (docs/use/building.md)
	@scripts/setup.sh guests
	@$(MAKE) --no-print-directory program
	@$(GUESTS) amd64
	@scripts/skips.sh target/test/logs/guests-amd64.log

test-guests-all: ## test-guests, more NICs, User-Mode Linux, arm64, and other distributions (docs/use/building.md)
	@# Each set, whatever became of the one before. Not by $$(MAKE), for which `make -n` would run all of it.
	@failed=; \
	make --no-print-directory test-guests || failed="$$failed amd64"; \
	$(GUESTS) more || failed="$$failed more"; \
	$(GUESTS) uml || failed="$$failed uml"; \
	if scripts/setup.sh arm64; then \
		make --no-print-directory program ARCH=arm64 && $(GUESTS) arm64 || failed="$$failed arm64"; \
	else \
		echo "SKIPPED: guests: no compiler for arm64" | tee target/test/logs/guests-arm64.log; \
	fi; \
	bash -c 'set -o pipefail; tests/guest/chroot run | tee target/test/logs/guests-chroot.log' || \
		failed="$$failed chroots"; \
	scripts/skips.sh target/test/logs/guests-*.log || failed="$$failed skips"; \
	[ -z "$$failed" ] || { echo "FAILED:$$failed"; exit 1; }

test-all: ## `make test`, Miri, without DPDK, the oldest Rust, packages, two kernels and a NIC; fails on a skip not in tests/skips
	@scripts/setup.sh all
	@# What packages are tried in, and the static program: each once. What can't be had is skipped with its reason.
	@[ -d target/packages/debian ] || [ "$$(id -u)" != 0 ] || scripts/packages.sh --base || true
	@[ ! -d "$$(rustc --print sysroot)/lib/rustlib/$$(uname -m)-unknown-linux-musl" ] || \
	    $(MAKE) --no-print-directory static
	@$(MAKE) --no-print-directory test TEST_ALL=1
	@$(GUESTS) quick
	@scripts/skips.sh target/test/skips target/test/logs/guests-quick.log

bench: ## side by side with other programs; writes bench/RESULTS.md
	@scripts/setup.sh bench
	@$(MAKE) --no-print-directory program
	MPPS_BIN="$(CURDIR)/$(PROGRAM)" bench/run.sh $(ARGS)

setup: ## check for, and as root install, all that test and bench need
	@scripts/setup.sh bench

install: ## program, manual pages, completions into PREFIX (/usr/local) below DESTDIR; no capabilities are given
	@# As root after `make build` as a user: nothing is built, so that target/ stays the user's.
	@test -x $(PROGRAM) || $(MAKE) --no-print-directory build
	install -d "$(DESTDIR)$(PREFIX)/bin"
	install -m 755 $(PROGRAM) "$(DESTDIR)$(PREFIX)/bin/mpps"
	install -d "$(DESTDIR)$(PREFIX)/share/man/man1" "$(DESTDIR)$(PREFIX)/share/bash-completion/completions" \
	    "$(DESTDIR)$(PREFIX)/share/zsh/site-functions" "$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d"
	@# The program writes them, beside the sources of nobody: target/ stays the user's.
	set -e; made=$$(mktemp -d); trap 'rm -r "$$made"' EXIT; share="$(DESTDIR)$(PREFIX)/share"; \
	    $(PROGRAM) man --out "$$made/man"; \
	    for shell in bash zsh fish; do $(PROGRAM) completions $$shell >"$$made/$$shell"; done; \
	    install -m 644 "$$made"/man/*.1 "$$share/man/man1"; \
	    install -m 644 "$$made/bash" "$$share/bash-completion/completions/mpps"; \
	    install -m 644 "$$made/zsh" "$$share/zsh/site-functions/_mpps"; \
	    install -m 644 "$$made/fish" "$$share/fish/vendor_completions.d/mpps.fish"

uninstall: ## removes what `make install` put there, with the same PREFIX and DESTDIR
	set -e; share="$(DESTDIR)$(PREFIX)/share"; rm -f "$(DESTDIR)$(PREFIX)/bin/mpps" "$$share"/man/man1/mpps.1 \
	    "$$share"/man/man1/mpps-*.1 "$$share/bash-completion/completions/mpps" "$$share/zsh/site-functions/_mpps" \
	    "$$share/fish/vendor_completions.d/mpps.fish"

lint: ## formatting, width of lines, links between pages, and clippy, as strict as it gets
	$(CARGO) fmt --all -- --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) test --quiet -p mpps-tests --lib text::

fuzz: ## each fuzz target for FUZZ_SECONDS (60)
	@scripts/setup.sh fuzz
	scripts/fuzz.sh

clean: ## remove what was built
	$(CARGO) clean

# `make build PROFILED=1`: --profile then knows callers and inlined functions. The program is four times as large, and
# some percent slower where a packet takes 10 ns.
ifdef PROFILED
program: export RUSTFLAGS := $(RUSTFLAGS) -C force-frame-pointers=yes
program: export CARGO_PROFILE_RELEASE_DEBUG := line-tables-only
endif
program:
	$(ACROSS) $(CARGO) build --release -p mpps

# A program for packages that have no DPDK, in a folder of its own: neither build throws the other's objects away.
WITHOUT_DPDK := $(PROGRAM:target/%=target/no-dpdk/%)
.PHONY: without-dpdk
without-dpdk:
	MPPS_NO_DPDK=1 $(ACROSS) $(CARGO) build --release -p mpps --target-dir target/no-dpdk
