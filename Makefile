# Everything a newcomer needs. `make` alone lists it.

CARGO ?= cargo

.PHONY: help setup setup-build demo release wheel dist test nightly lint conformance validation bench lab fuzz doc site clean

help: ## List the targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | while IFS="	" read -r name what; do \
		printf '  make %-12s %s\n' "$$name" "$$what"; done

setup: ## Install the Debian packages that tests need (as root; otherwise say how)
	@scripts/setup-debian.sh

# What building takes, without what only tests need.
setup-build:
	@scripts/setup-debian.sh build

demo: setup-build ## One fio job under three settings and its report, published experiments, recorded reads explained, the best settings
	$(CARGO) build --quiet --profile demo --locked -p wakepath-cli
	@echo "One fio job, random reads of 4 KiB on a simulated RK3399 board, under three settings (docs/examples/one-job.toml):"
	@echo
	@target/demo/wakepath study run docs/examples/one-job.toml -o target/demo-results --force >/dev/null
	@target/demo/wakepath compare target/demo-results --brief
	@echo
	@target/demo/wakepath report target/demo-results -o target/demo-report.html --force
	@echo
	@echo "Published experiments beside their simulation (tables: target/demo/wakepath reproduce, docs/background/validation.md):"
	@echo
	@target/demo/wakepath reproduce --runs 3 --brief
	@echo
	@echo "Where the microseconds of reads went that were recorded in a guest (docs/guides/explain.md):"
	@echo
	@target/demo/wakepath explain docs/examples/recorded-guest/reads.parquet --page target/demo-explain.html --force 2>/dev/null | sed -n 1,3p
	@echo "A page of that is in target/demo-explain.html; of this machine: sudo target/demo/wakepath explain --duration 10s --page mine.html"
	@echo
	@echo "The settings with the lowest mean latency for the job on the board, 8 hours a day, for at most 10 % more power (docs/guides/tune.md):"
	@echo
	@target/demo/wakepath tune workloads/iowait-rk3399.fio=8h --machine rk3399 --seconds 100ms \
		--minimise mean_us --keep 'mean_mw <= +10%' --over idle,cpu-latency,frequency --budget 2500000

release: setup ## Build target/profiled/wakepath, optimised by a profile of its own runs
	scripts/setup-llvm-tools.sh
	scripts/profiled-build.sh crates/cli/Cargo.toml wakepath scripts/training.sh

wheel: setup-build ## Build the Python package with the program into target/wheels; PROFILE=demo is quicker
	scripts/wheel.sh $(PROFILE)

dist: setup ## Build all of a release into target/dist: crates, wheel, .deb, .rpm, checksums, components; publishes nothing
	scripts/dist.sh

test: setup ## What CI runs, in some 20 minutes: lint, tests, conformance, mutants, fuzzing for seconds
	@scripts/test.sh

nightly: setup ## Everything that there is to test; a test that cannot run is a failure
	@scripts/test.sh nightly

lint: ## Formatting and clippy
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path bench/Cargo.toml --check
	$(CARGO) clippy --workspace --exclude wakepath-fuzz --all-targets --locked -- -D warnings

conformance: setup ## Compare the policies with the kernel's own C, compiled on the spot
	$(CARGO) run --quiet --release --locked -p wakepath-conformance -- run
	$(CARGO) run --quiet --release --locked -p wakepath-conformance -- mutants

validation: ## Simulate all published experiments and write docs/background/validation.md with its cells
	@$(CARGO) build --quiet --release --locked -p wakepath-cli
	@target/release/wakepath reproduce --format markdown > target/validation.md
	@target/release/wakepath reproduce --format csv > target/validation.csv
	@mv target/validation.md docs/background/validation.md
	@mv target/validation.csv docs/background/data/validation.csv

bench: setup ## Time simulator, imports, governors and a large study, and write docs/background/performance.md
	@scripts/bench.sh

lab: setup ## Run real kernels in virtual time beside the simulator and write docs/background/fidelity.md
	$(CARGO) build --quiet --release --locked -p wakepath-cli
	rig/laboratory/run.sh target/release/wakepath

fuzz: setup ## Fuzz every parser, FUZZ_SECONDS (60) each
	@scripts/fuzz.sh

doc: ## Build the API documentation; open target/doc/wakepath_policies/index.html
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --exclude wakepath-fuzz --no-deps --locked

site: ## Build the pages of docs/ as a site with a search; open target/site/index.html
	@scripts/setup-python.sh
	@scripts/site.py

clean: ## Remove what was built; downloaded kernel sources stay in their cache
	$(CARGO) clean
