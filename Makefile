# Weft's contract with its users. meson and ninja do the work; this file only names it.
#
#   make              build/weft, build/libweft.so, build/libweft.a
#   make deps         install the Debian packages the build needs (deps/debian.txt)
#   make quickstart   install, build, train a small GPT over 4 ranks, sample from it (QUICKSTART_STEPS=20: sooner)
#   make check        install, build, run every test, or some (TESTS="json_test serve_test"); SKIPS=fail: fail if a test is
#                     skipped that tests/skips.txt does not list
#   make fresh        run both commands of the README in a bare Debian 12, in a temporary root directory (as root)
#   make faults       ranks killed, stopped, cut off, wrong and late, 200 times each (FAULTS="--tries 20 --fault kill")
#   make chaos        training runs during which 200 things fail at random times (CHAOS="--failures 20 --seed 7")
#   make kills        the control plane killed at 200 random moments under load (KILLS="--kills 1000 --seed 2")
#   make data         data/bible.txt, a real text to train on; data/verses, its verses with labels; data/gpt2, GPT-2's
#                     vocabulary, where npm is there
#   make data-bert    data/bert-text, 44 MB of text to pre-train BERT on: the Bible and two dictionaries
#   make bench        side-by-side benchmarks: collectives against Open MPI, MPICH and Gloo; networks; training; then the
#                     scheduler against EASY backfilling; submissions against Slurm; the HTTP server and the control plane
#                     under load; the store of metrics
#   make tsan asan fuzz   the tests under the sanitizers; the fuzzers, briefly
#   make valgrind     a sample of the tests under valgrind
#   make install      into PREFIX (/usr/local), DESTDIR honoured
#   make format lint  clang-format over the sources; clang-tidy
#   make clean

BUILD ?= build
QUICKSTART_STEPS ?= 1600
TESTS ?=
PREFIX ?= /usr/local
SOURCES = $(shell git ls-files -co --exclude-standard '*.c' '*.h')

.PHONY: all tests deps deps-test data data-bert quickstart check fresh faults chaos kills bench tsan asan fuzz valgrind install format lint clean FORCE

all: $(BUILD)/build.ninja
	@ninja -C $(BUILD) --quiet

$(BUILD)/build.ninja:
	@tools/configure $(BUILD) -Dprefix=$(PREFIX)

# The same with the tests, which need more packages (deps/debian.txt: test).
tests: deps-test
	@tools/configure $(BUILD) -Dtests=true
	@ninja -C $(BUILD) --quiet

deps-test:
	@deps/install build test data
	@tools/make-vocabulary
	@tools/make-sshd

deps:
	@deps/install build

data:
	@deps/install data
	@tools/make-data
	@tools/make-verses
	@tools/make-vocabulary

data-bert:
	@deps/install data bert
	@tools/make-data
	@tools/make-bert-text

quickstart:
	@deps/install build data
	@$(MAKE) --no-print-directory all data
	@tools/quickstart $(BUILD) $(QUICKSTART_STEPS)

check: tests
	@tests/run $(BUILD) $(if $(SKIPS),--skips $(SKIPS)) $(TESTS)

# A newcomer's first two commands, on a Debian 12 with nothing but git and make.
fresh:
	@deps/install fresh
	@tests/fresh

# Faults that happen for real: who is told what, how soon, and who goes on.
FAULTS ?=
faults: tests
	@BUILD=$(abspath $(BUILD)) tests/faults/faults $(FAULTS)

# Training runs that must end with the same bits, whatever fails.
CHAOS ?=
chaos: tests
	@BUILD=$(abspath $(BUILD)) tests/chaos/chaos $(CHAOS)

KILLS ?= --kills 200
kills: tests
	@BUILD=$(abspath $(BUILD)) WEFT=$(abspath $(BUILD))/weft tests/integration/serve_kill_test $(KILLS)

# A build of its own for each sanitizer.
asan: deps-test
	@tools/configure build-asan -Db_sanitize=address,undefined -Db_lundef=false -Dtests=true
	@ninja -C build-asan --quiet
	@tests/run build-asan --timeout-multiplier 4

tsan: deps-test
	@tools/configure build-tsan -Db_sanitize=thread -Db_lundef=false -Dtests=true
	@ninja -C build-tsan --quiet
	@tests/run build-tsan --timeout-multiplier 4

# What the sanitizers do not see: memory that was never written. Not tests of how soon something is noticed, for it is slow.
VALGRIND_TESTS = board_seeds checkpoint_test collective_requests_test control_test control_seeds \
	dataset_format_test fabric_seeds fabric_test inspection_test json_test memory_growth_test shm_messages_test \
	options_test pmi_seeds reduction_test rendezvous_node_test rendezvous_strangers_test rendezvous_test safetensors_test \
	schedule_generators_test strangers_test stream_seeds timeline_seeds

valgrind: tests
	@tests/run $(BUILD) --setup valgrind $(VALGRIND_TESTS)

# Each fuzzer of tests/fuzz for FUZZ_SECONDS (20).
fuzz: deps-test
	@CC=clang tools/configure build-fuzz -Dfuzz=true -Db_sanitize=address,undefined -Db_lundef=false
	@ninja -C build-fuzz --quiet fuzzers
	@tests/fuzz/run build-fuzz

bench:
	@deps/install build test data bench
	@$(MAKE) --no-print-directory all data
	@bench/collectives --build $(BUILD)
	@bench/cluster --build $(BUILD) --quick
	@bench/rails --build $(BUILD) --repetitions 3 --min 4M --max 16M
	@bench/training --build $(BUILD)
	@bench/goodput --build $(BUILD)
	@bench/scheduling --build $(BUILD)
	@bench/http_load --build $(BUILD)
	@bench/submit --build $(BUILD)
	@bench/control_plane --build $(BUILD)
	@bench/metrics --build $(BUILD) --repetitions 3

bench-train:
	@deps/install build bench
	@$(MAKE) --no-print-directory all
	@bench/train_steps --build $(BUILD) --precisions f32,bf16

install: all
	@tools/configure $(BUILD) -Dprefix=$(PREFIX)
	@ninja -C $(BUILD) --quiet
	@meson install -C $(BUILD) --no-rebuild --quiet

format:
	@deps/install format
	@clang-format -i $(SOURCES)

# FILES=... looks at some; all of them take minutes. A build by clang shows its own warnings too.
FILES ?= $(filter %.c,$(SOURCES))
lint: tests
	@deps/install format
	@CC=clang tools/configure build-clang -Dtests=true
	@ninja -C build-clang --quiet
	@clang-tidy --quiet -p $(BUILD) $(FILES)

clean:
	rm -rf $(BUILD) build-tsan build-asan build-clang build-fuzz
