# entrain: the commands of README.md. Each installs what it needs and builds first.
BUILD ?= build
JOBS ?= $(shell nproc)

.PHONY: build test demo bench sanitize format tidy setup clean

build: setup
	@cmake -S . -B $(BUILD) -G Ninja > $(BUILD)-configure.log 2>&1 || { cat $(BUILD)-configure.log; exit 1; }
	@cmake --build $(BUILD) -j $(JOBS)

setup:
	@scripts/setup

test: build
	@cd $(BUILD) && ctest --output-on-failure -j $(JOBS)

demo: build
	@$(BUILD)/entrain demo

bench: build
	@scripts/setup --bench
	@bench/run $(BUILD)/entrain

# The in-process tests (ranks are threads) under ASan+UBSan, then under TSan.
sanitize: setup
	@scripts/sanitize address,undefined
	@scripts/sanitize thread

format:
	@git ls-files '*.h' '*.cc' | xargs clang-format -i

tidy: build
	@scripts/tidy $(BUILD)

clean:
	rm -rf $(BUILD) $(BUILD)-*
