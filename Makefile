# The two commands: `make run` and `make test`. CMake does the work underneath (see CMakePresets.json).
PRESET ?= release
BUILD := build/$(PRESET)
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)

.PHONY: all build packages run test install bench sanitize clean

all: build

packages:
	@scripts/install-packages

build: packages
	@[ -f $(BUILD)/build.ninja ] || cmake --preset $(PRESET) $(CMAKE_ARGS)
	@cmake --build $(BUILD) -j $(JOBS)

run: build
	@$(BUILD)/bin/mpiexec -n 4 $(BUILD)/bin/heat --picture $(BUILD)/heat.pgm

test: run
	@ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS)

install: build
	@cmake --install $(BUILD) --prefix $(PREFIX)

bench: build
	@bench/run --build $(BUILD)

# Every test under each sanitizer; the later ones also where an earlier one has found something.
sanitize: packages
	@failed=; for preset in asan ubsan tsan; do \
	  cmake --preset $$preset >/dev/null && cmake --build build/$$preset -j $(JOBS) && \
	  ctest --preset $$preset -j $(JOBS) || failed="$$failed $$preset"; done; \
	[ -z "$$failed" ] || { echo "failed under:$$failed"; exit 1; }

clean:
	@rm -rf build
