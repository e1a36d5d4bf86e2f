# storage_reaper: `make` lists what there is to make. Everything that is missing is installed first, see .ci/setup.

MAJORS := 15 18
TESTS := -p storage-reaper-tests
IN := . .ci/env &&
FUZZ_SECONDS = 60
# The fuzz target is a test of its own: it takes its time, and prints what it has seen.
fuzz = FUZZ_SECONDS=$(FUZZ_SECONDS) cargo test -q --package storage_reaper --lib -- s3::fuzz --nocapture
# Puts the extension into the private server tree of one major: $(call install,15,--release)
install = cargo pgrx install $(2) --package storage_reaper --no-default-features \
	--features pg$(1) --pg-config "$$PG$(1)_CONFIG"
# Random changes with faults: $(call soak,15), for SOAK seconds or as long as is usual on that major.
SOAK_15 := 180
SOAK_18 := 20
soak = PG_MAJOR=$(1) STORE=embedded SOAK=$(or $(SOAK),$(SOAK_$(1))) cargo test -q $(TESTS) --test soak -- --nocapture
# What is relied on in a store, asked of one: $(call conformance,15,moto). Stores cannot tell majors apart: 15 is enough. The embedded
# one is asked with all other scenarios.
conformance = $(if $(filter 15,$(1)),PG_MAJOR=$(1) STORE=$(2) .ci/check conformance-$(2) \
	cargo test $(TESTS) --no-fail-fast --test conformance,:)

.PHONY: help setup build demo test fuzz soak bench-capture bench-latency bench-guard bench-fence bench-drain clean
.PHONY: check-fmt check-clippy check-pure check-fuzz check-server check-major-16
.NOTPARALLEL:

help: ## list what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

setup: ## install what building and testing needs and is missing
	@.ci/setup

build: setup ## build the extension for PostgreSQL 15 and the programs of the test crate
	$(IN) $(call install,15)
	$(IN) cargo build $(TESTS) --bins

demo: build ## a story of some thousand objects: what goes, what stays and why (KEEP=1 leaves it running)
	@$(IN) PG_MAJOR=15 cargo run -q $(TESTS) --bin demo

test: setup check-fmt check-clippy check-pure check-fuzz check-server $(MAJORS:%=check-major-%) check-major-16 ## all checks and tests

check-fmt: setup
	@$(IN) .ci/check fmt cargo fmt --all --check

check-clippy: setup
	@$(IN) .ci/check clippy cargo clippy -q --workspace --all-targets -- -D warnings

check-pure: setup
	@$(IN) .ci/check pure-modules cargo test -q --package storage_reaper --lib -- domain:: s3:: --skip s3::fuzz

check-fuzz: setup
	@$(IN) .ci/check fuzz env $(fuzz)

check-server: setup
	@.ci/check in-server-tests .ci/pgrx-test 15

check-major-16: setup
	@$(IN) .ci/check compile-16 cargo build -q --package storage_reaper --no-default-features --features pg16

# The scenarios on one major: all of them with the embedded S3 server, those that need a real store with SeaweedFS too.
check-major-%: setup
	@$(IN) .ci/check install-$* $(call install,$*)
	@$(IN) PG_MAJOR=$* STORE=embedded .ci/check scenarios-$*-embedded cargo test $(TESTS) --no-fail-fast -- --skip the_soak
	@$(IN) .ci/check soak-$* env $(call soak,$*)
	@$(IN) PG_MAJOR=$* STORE=seaweedfs .ci/check scenarios-$*-seaweedfs cargo test $(TESTS) --no-fail-fast --test drain
	@$(IN) $(call conformance,$*,seaweedfs)
	@$(IN) $(call conformance,$*,moto)
	@$(IN) $(call conformance,$*,rclone)

fuzz: setup ## hostile locators all the way to finished requests, for a minute or FUZZ_SECONDS (FUZZ_SEED repeats a run)
	@$(IN) $(fuzz)

soak: setup ## random changes, kills and a faulty store for three minutes or SOAK seconds (SOAK_SEED repeats a run)
	@$(IN) $(call install,15)
	@$(IN) $(call soak,15)

bench-capture: setup ## what capture costs the application's DELETE; writes BENCHMARKS.md (ROUNDS, ROWS)
	$(IN) $(call install,15,--release)
	@$(IN) PG_MAJOR=15 cargo run -q $(TESTS) --bin bench_capture

bench-latency: setup ## from COMMIT to the request's arrival; writes BENCHMARKS.md (SAMPLES)
	$(IN) $(call install,15,--release)
	@$(IN) PG_MAJOR=15 cargo run -q $(TESTS) --bin bench_latency

bench-guard: setup ## keys a second that the reference check answers for; writes BENCHMARKS.md (ROUNDS, ROWS, KEYS)
	$(IN) $(call install,15,--release)
	@$(IN) PG_MAJOR=15 cargo run -q $(TESTS) --bin bench_guard

bench-fence: setup ## what the fence costs the application's INSERT; writes BENCHMARKS.md (ROUNDS, ROWS)
	$(IN) $(call install,15,--release)
	@$(IN) PG_MAJOR=15 cargo run -q $(TESTS) --bin bench_fence

bench-drain: setup ## how fast captured objects go, beside s5cmd, rclone and a script; writes BENCHMARKS.md (ROUNDS, OBJECTS, BACKLOG)
	@.ci/bench-tools
	$(IN) $(call install,15,--release)
	@$(IN) PG_MAJOR=15 cargo run -q $(TESTS) --bin bench_drain

clean: ## remove what was built and the private server trees; packages and wheels stay
	@$(IN) cargo clean && rm -rf "$${REAPER_TOOLS:?}" .pgrx
