# The commands of a day. Everything they fetch lands in target/ and .cache/.

# cargo may live in a place that a bare environment does not know, and Debian's tools need the sbin directories.
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH):/usr/sbin:/sbin
TARGET := $(or $(CARGO_TARGET_DIR),target)
CARGO := cargo

.PHONY: help run build shipped check test test-full test-regress fuzz programs worlds bench ab lint toolchain image
.DEFAULT_GOAL := help

help:
	@echo 'every day'
	@echo '  make run       build pgweir, start it with a PostgreSQL of its own, and serve until Ctrl-C'
	@echo '                 (then $(TARGET)/release/pgweir top in another terminal; make run ARGS="--listen 7000 --data DIR" keeps the data)'
	@echo '  make check     format, clippy, house rules, all tests that need no PostgreSQL, 300 simulated worlds: four minutes'
	@echo '  make build     only the programs, $(TARGET)/release/pgweir and pgweir-bench'
	@echo
	@echo 'before a merge'
	@echo '  make test      all rings, a real PostgreSQL included; fetches what the tests need: twenty-five minutes at the first time'
	@echo '  make lint      format, clippy and house rules alone'
	@echo
	@echo 'now and then'
	@echo '  make test-full everything: all drivers and suites, fresh worlds, fuzzing, measurements, the packaged program: two hours'
	@echo '  make worlds    simulate worlds that nobody has tried (make worlds TIME=600 ARGS="--promises --fidelity strict")'
	@echo '  make fuzz      search for input that breaks a parser or a decision (make fuzz TIME=600 ARGS=wire)'
	@echo '  make programs  random programs of COPY, errors, pipelines and illegal messages: is each answered as by PostgreSQL? (make programs TIME=600)'
	@echo '  make test-regress  PostgreSQL'\''s own regression suites through pgweir (make test-regress ARGS=--help)'
	@echo '  make bench     measure against PgBouncer and a direct connection, half an hour (make bench ARGS=--help)'
	@echo '  make failover  a PostgreSQL cluster under Patroni that fails in seven ways, and what clients of pgweir, of PgBouncer and of no pooler see:'
	@echo '                 twenty-five minutes (make failover ARGS="--cases switchover", make failover ARGS=--help)'
	@echo '  make ab BEFORE=PROGRAM'
	@echo '                 an earlier build of pgweir beside this tree and PgBouncer: is the change worth it? (see crates/bench/README.md)'
	@echo '  make manual    the manual as a site, target/manual/index.html'
	@echo '  make check-docs  spelling and links of the documentation, and of the site'
	@echo
	@echo 'for a release'
	@echo '  make shipped   the programs as packages have them, optimised as a whole: $(TARGET)/dist; ten minutes'
	@echo '  make deb, make rpm, make tarball'
	@echo '                 packages with PAM and GSSAPI, and a static program with its files, in $(TARGET)/release-artefacts'
	@echo '  make image     the container image, as archives in $(TARGET)/image (make image PROGRAM=FILE packs a static program that is there)'
	@echo '  make release KEY=NAME'
	@echo '                 all that a tag publishes: these, the chart, component lists, checksums, signed by this key of gpg; half an hour'
	@echo '                 (without KEY a rehearsal; the steps are in docs/developers/releasing.md)'
	@echo '  make check-install  as root: packages in fresh Debian roots, image, chart, alert rules, manual (ARGS=--quick: in a few minutes)'
	@echo '  make check-packages, make check-image, make check-chart'
	@echo '                 one of these'
	@echo '  make check-monitoring  alert rules and dashboard, by promtool and by a Prometheus that scrapes pgweir under load (ARGS=--quick: promtool only)'

# The first build shows how far it is, also where the output is no terminal.
run: export CARGO_TERM_PROGRESS_WHEN := always
run: export CARGO_TERM_PROGRESS_WIDTH := 100
run: build
	@exec $(TARGET)/release/pgweir dev $(ARGS)

build: toolchain
	@test -x $(TARGET)/release/pgweir || echo 'building pgweir and pgweir-bench: the first time three minutes on two free cores, eight beside other work. Only the way of a query is optimised, so cargo says unoptimized; make shipped builds what packages have' >&2
	$(CARGO) build --release -p pgweir -p pgweir-bench

# What is measured is what ships.
shipped: toolchain
	$(CARGO) build --profile dist -p pgweir -p pgweir-bench

check: toolchain
	@tools/check

test: toolchain
	@tools/test

test-full: toolchain
	@tools/test-full

# Each target for TIME seconds; needs a C++ compiler.
fuzz: toolchain
	@TIME=$(or $(TIME),60) tools/fuzz $(ARGS)

# For TIME seconds, with PostgreSQL as the judge.
programs: toolchain
	@TIME=$(or $(TIME),60) tools/programs

# Every world that fails prints a line; `--seed N --verbose` shows one of them.
worlds: toolchain
	$(CARGO) run --profile sim -p sim -- --time $(or $(TIME),60) --keep-going $(ARGS)

# Direct, in session mode and in transaction mode, with counts that must be reached: crates/regress/expected.txt.
test-regress: build
	$(CARGO) run --quiet -p regress -- --pgweir $(TARGET)/release/pgweir $(ARGS)

# Every check runs, whatever the one before it said.
lint: toolchain
	@status=0; \
	$(CARGO) fmt --all --check || status=1; \
	$(CARGO) clippy --workspace --all-targets -- -D warnings || status=1; \
	$(CARGO) run --quiet -p xtask -- tidy || status=1; \
	exit $$status

bench: shipped
	$(CARGO) run --release -p bench -- --built $(ARGS)

# `cut` needs root: make failover ARGS="--cases cut".
.PHONY: failover
failover: shipped
	@tools/patroni > /dev/null
	@crates/bench/fetch-pgbouncer > /dev/null
	$(if $(findstring --clients-of,$(ARGS)),@tools/pools > /dev/null)
	$(CARGO) run --release -p failover -- --pgweir $(TARGET)/dist/pgweir $(ARGS)

.PHONY: named
named:
	@test -n '$(BEFORE)' || { echo 'which build is the earlier one? make ab BEFORE=PROGRAM' >&2; exit 1; }

AFTER ?= $(TARGET)/dist/pgweir
ab: named shipped
	$(CARGO) run --release -p bench -- ab $(BEFORE) $(AFTER) $(ARGS)

image: toolchain
	@tools/image $(PROGRAM)

toolchain:
	@command -v cargo >/dev/null || { \
	  echo 'cargo is missing. Get Rust with rustup (https://rustup.rs), which needs no root, then run make again.' >&2; \
	  exit 1; }
	@command -v cc >/dev/null || { \
	  echo 'cc is missing: cargo links with a C compiler. On Debian: apt-get install build-essential' >&2; exit 1; }

.PHONY: deb rpm tarball release check-install
deb rpm tarball: toolchain
	@tools/package $(ARGS) $@

release: toolchain
	@KEY='$(KEY)' tools/release $(ARGS)

check-install: toolchain
	@tools/check-install $(ARGS)

.PHONY: check-packages check-image check-chart
check-packages check-image check-chart: toolchain
	@tools/$@ $(ARGS)

.PHONY: manual check-docs
manual:
	@tools/manual

check-docs: toolchain
	@tools/check-docs --full

.PHONY: check-monitoring
# A quick check needs no program.
check-monitoring: $(if $(findstring --quick,$(ARGS)),,build)
	@tools/check-monitoring $(ARGS)
