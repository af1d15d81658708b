# A thin front for meson and ninja. `make help` lists what there is.
#
# Build folders: build (what you run), build-asan, build-tsan, build-clang. Warnings are errors
# unless WERROR=false.

WERROR ?= true
MESON  ?= meson
PREFIX ?= /usr/local

.PHONY: all help up check check-quick check-bell asan tsan clang bench fuzz sim proof planted docs \
        format install clean

all: build/build.ninja ## build/reeve, build/reeve-shim, libreeve, the example
	@ninja -C build reeve reeve-shim libreeve.a example-worker layers.stamp

build/build.ninja:
	@$(MESON) setup build -Dwerror=$(WERROR) --prefix=$(PREFIX) >/dev/null

build-asan/build.ninja:
	@$(MESON) setup build-asan -Dwerror=$(WERROR) -Db_sanitize=address,undefined -Db_lundef=false >/dev/null

build-tsan/build.ninja:
	@$(MESON) setup build-tsan -Dwerror=$(WERROR) -Db_sanitize=thread -Db_lundef=false >/dev/null

build-clang/build.ninja:
	@CC=clang $(MESON) setup build-clang -Dwerror=$(WERROR) -Doptimization=0 -Ddebug=false >/dev/null

up: all ## server, machine and three demo agents, in the foreground
	@build/reeve up

check: all ## every test: plain, ASan+UBSan, TSan for the threads, clang for its warnings
	@tests/run build asan tsan clang

check-quick: all ## the plain suite only
	@tests/run build

check-bell: all ## the scenario suite without a doorbell, and with one that rings ten times
	@TAP_SLOW=4 REEVE_TEST_BELL=never meson test -C build --suite scenario --timeout-multiplier 4
	@REEVE_TEST_BELL=ten meson test -C build --suite scenario

asan: build-asan/build.ninja ## the suite under AddressSanitizer and UBSan
	@tests/run asan

tsan: build-tsan/build.ninja ## the threaded parts under ThreadSanitizer
	@tests/run tsan

clang: build-clang/build.ninja ## builds with clang
	@ninja -C build-clang

bench: all ## appends, tasks, restarts and memory next to those of others; BENCH=--part=… for one
	@ninja -C build bench-load bench-beacon
	@python3 tests/bench/run.py $(BENCH)

sim: build/build.ninja ## SEEDS (10000) simulated histories, from seed FROM (1)
	@ninja -C build tests/reeve-sim
	@build/tests/reeve-sim --seeds $(or $(SEEDS),10000) --from $(or $(FROM),1) --jobs $$(nproc)

fuzz: ## each fuzzer for SECONDS_EACH (60)
	@tests/fuzz/run

proof: all ## every weapon for MINUTES (10) in all; counts go into tests/proof/ledger.md
	@ninja -C build meson-test-prereq >/dev/null
	@tests/proof/run $(or $(MINUTES),10)

planted: ## each bug of src/base/planted.h and who sees it; PLANTED='--weapon=sim BUG…' for some
	@python3 tests/proof/planted.py $(PLANTED)

docs: all ## docs/protocol.md, docs/cli.md, docs/configuration.md from the tables
	@ninja -C build docs-tool
	@build/docs-tool docs

format: ## clang-format over all C
	@clang-format -i $$(git ls-files --cached --others --exclude-standard '*.c' '*.h')

install: ## DESTDIR and PREFIX are honoured
	@$(MESON) setup $$(test -e build/build.ninja && echo --reconfigure) build --prefix="$(PREFIX)" >/dev/null
	@ninja -C build reeve reeve-shim
	@DESTDIR="$(DESTDIR)" $(MESON) install -C build --no-rebuild

clean:
	@rm -rf build build-asan build-tsan build-clang build-fuzz build-planted

help:
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 22
