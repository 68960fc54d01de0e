# entrain: the commands of README.md and docs/install.md. Each installs what it needs, builds what it needs, and no more.
#
# A folder is configured once; ninja does it again when a CMake file changes or scripts/setup installs something.
# demo, build, test, bench and package share $(BUILD), with the same flags, so that none compiles again what another has.
# A warning never ends these builds: a newer compiler may know more of them. It does in `make check`, whose folder is
# its own for that reason, and in the presets for developers (CMakePresets.json).
BUILD ?= build
CONFIGURE ?=

.PHONY: demo build test check lint bench package shapes sanitize fuzz format tidy clean

configure = cmake -S . -B $(BUILD) -G Ninja $(CONFIGURE) > $(BUILD)-configure.log 2>&1 || { cat $(BUILD)-configure.log; exit 1; }
configured = test -e $(BUILD)/build.ninja || { $(configure); }

demo:
	@scripts/setup
	@$(configured)
	@scripts/build $(BUILD) entrain
	@$(BUILD)/entrain demo

build:
	@scripts/setup
	@$(configured)
	@scripts/build $(BUILD) entrain examples/all

# Without GTest, as after `make demo`, CMake leaves the tests out and CTestTestfile.cmake with them.
test:
	@scripts/setup --test
	@test -e $(BUILD)/CTestTestfile.cmake || { $(configure); }
	@test -e $(BUILD)/CTestTestfile.cmake || { grep tests: $(BUILD)-configure.log; exit 1; }
	@scripts/build $(BUILD) all
	@cd $(BUILD) && ctest --output-on-failure -j "$$(nproc)"

check:
	@scripts/setup --ssh
	@$(MAKE) --no-print-directory test BUILD=build-check CONFIGURE=-DENTRAIN_WERROR=ON
	@$(MAKE) --no-print-directory lint

lint:
	@scripts/setup --lint
	@scripts/check_ladder
	@scripts/check_names
	@scripts/check_format
	@scripts/tidy

bench:
	@scripts/setup --bench
	@$(configured)
	@scripts/build $(BUILD) entrain bench/all
	@bench/run $(BUILD)/entrain

package:
	@scripts/setup --package
	@$(configured)
	@scripts/build $(BUILD) entrain
	@cpack --config $(BUILD)/CPackConfig.cmake -B $(BUILD)/package > $(BUILD)-package.log 2>&1 || { cat $(BUILD)-package.log; exit 1; }
	@ls $(BUILD)/package/*.deb

# 200 random shapes of a job and 30 jobs whose shape changes, each against one process: `make test` has 20 and 4.
shapes:
	@scripts/setup --test
	@$(configured)
	@scripts/build $(BUILD) shaped_test
	@ENTRAIN_RANDOM_SHAPES=200 ENTRAIN_RANDOM_RESHAPES=30 $(BUILD)/src/entrain/parallel/shaped_test --gtest_brief=1

# The in-process tests (ranks are threads) under ASan+UBSan, then under TSan.
sanitize:
	@scripts/setup --test
	@scripts/sanitize address,undefined
	@scripts/sanitize thread

# Any bytes as input of every format from outside, so many seconds each, under ASan+UBSan: fuzz/README.md. Needs clang.
SECONDS ?= 10
fuzz:
	@scripts/setup --fuzz
	@scripts/fuzz $(SECONDS)

format:
	@git ls-files '*.h' '*.cc' | xargs clang-format -i

tidy:
	@scripts/setup --lint
	@scripts/tidy

clean:
	rm -rf $(BUILD) $(BUILD)-*
