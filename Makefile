# The two commands: `make run` and `make test`. CMake does the work underneath (see CMakePresets.json).
PRESET ?= release
BUILD := build/$(PRESET)
PREFIX ?= /usr/local
INSTALLED = $(DESTDIR)$(PREFIX)/share/tern/installed.txt
JOBS ?= $(shell nproc)
# Tests wait for most of their time: three for every two cores.
TEST_JOBS ?= $(shell expr $(JOBS) \* 3 / 2)
CONFIGURE := cmake --preset $(PRESET) $(CMAKE_ARGS) >/dev/null

.PHONY: all packages configured build run test install uninstall deb wheel dist bench papers sanitize coverage clean

all: build

packages:
	@scripts/install-packages build

# Without the tests, and without what they need, until somebody wants them.
configured: packages
	@[ -f $(BUILD)/build.ninja ] || $(CONFIGURE) -DTERN_TESTS=OFF

build: configured
	@cmake --build $(BUILD) -j $(JOBS)

# What the example needs: the library, the tools, the example.
run: configured
	@cmake --build $(BUILD) -j $(JOBS) --target example
	@$(BUILD)/bin/mpiexec -n 4 $(BUILD)/bin/heat --picture $(BUILD)/heat.png

test: run
	@scripts/install-packages test
	@$(CONFIGURE) -DTERN_TESTS=ON
	@cmake --build $(BUILD) -j $(JOBS)
	@ctest --test-dir $(BUILD) --output-on-failure -j $(TEST_JOBS) --output-junit tests.xml --test-output-size-passed 65536; \
	result=$$?; scripts/skipped $(BUILD)/tests.xml; exit $$result

install: build
	@cmake --install $(BUILD) --prefix "$(PREFIX)"
	@cp $(BUILD)/install_manifest.txt "$(INSTALLED)" && echo >>"$(INSTALLED)"

# Every file that the last `make install` to this PREFIX has installed, and folders that are empty then.
uninstall:
	@[ -f "$(INSTALLED)" ] || { echo "nothing of Tern is installed in $(DESTDIR)$(PREFIX): $(INSTALLED) is missing" >&2; exit 1; }
	@(cat "$(INSTALLED)"; echo "$(PREFIX)/bin/mpirun"; echo "$(PREFIX)/share/tern/installed.txt") | while read -r file; do \
	  [ -z "$$file" ] && continue; rm -f -- "$(DESTDIR)$$file"; \
	  rmdir -p --ignore-fail-on-non-empty -- "$$(dirname -- "$(DESTDIR)$$file")" 2>/dev/null || true; done

# Debian packages in dist/: libtern1, libtern-fortran1, libtern-dev, tern-bin, tern-doc.
deb: build
	@packaging/make-deb --build $(BUILD) --into dist

# The Python wheel tern-mpi in dist/, which needs nothing but glibc 2.28. As root and with debootstrap it is tested in clean root
# folders of the releases that WHEEL_RELEASES names.
WHEEL_RELEASES ?= bookworm trixie
wheel: packages
	@cmake --preset release -B build/wheel -DTERN_TESTS=OFF -DTERN_BUNDLED=ON -DTERN_GLIBC=2.28 >/dev/null
	@cmake --build build/wheel -j $(JOBS)
	@packaging/make-wheel --build build/wheel --into dist
	@if [ $$(id -u) = 0 ] && command -v debootstrap >/dev/null; then packaging/test-wheel dist/tern_mpi-*.whl $(WHEEL_RELEASES); \
	else echo "not tested: that needs root and the package debootstrap"; fi

# The source of a release, as it is committed: dist/tern-VERSION.tar.xz, which needs no git to be built.
dist:
	@mkdir -p dist
	@version=$$(sed -n 's/^project(Tern VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt) && name=tern-$$version && \
	git archive --format=tar --prefix=$$name/ HEAD | xz >dist/$$name.tar.xz && sha256sum dist/$$name.tar.xz

bench: build
	@scripts/install-packages bench
	@bench/run --build $(BUILD)

# The experiments of the five papers on one page, papers.html, from recordings; `make papers FULL=--full` measures anew.
papers: configured
	@[ -z "$(FULL)" ] || cmake --build $(BUILD) -j $(JOBS) --target simulated bare_availability channels_memory
	@bench/papers --build $(BUILD) $(FULL)

# Every test under each sanitizer; the later ones also where an earlier one has found something.
sanitize: packages
	@scripts/install-packages test
	@failed=; for preset in asan ubsan tsan; do \
	  cmake --preset $$preset >/dev/null && cmake --build build/$$preset -j $(JOBS) && \
	  ctest --preset $$preset -j $(JOBS) || failed="$$failed $$preset"; done; \
	[ -z "$$failed" ] || { echo "failed under:$$failed"; exit 1; }

# Which lines and branches the tests reach: build/coverage/report/index.html, and a line for each folder of src/.
coverage: packages
	@scripts/install-packages test coverage
	@cmake --preset coverage >/dev/null && cmake --build build/coverage -j $(JOBS)
	@find build/coverage -name '*.gcda' -delete
	@ctest --preset coverage -j $(JOBS) || echo "coverage: some tests have failed; what they reached counts" >&2
	@scripts/coverage build/coverage

clean:
	@rm -rf build
