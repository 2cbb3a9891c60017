#!/usr/bin/env bash
# What conda-build runs in the source tree; PREFIX and CMAKE_ARGS are its own.
set -euo pipefail
# shellcheck disable=SC2086
cmake -B build/conda -G Ninja -DCMAKE_BUILD_TYPE=Release -DTERN_TESTS=OFF ${CMAKE_ARGS:-}
cmake --build build/conda -j "${CPU_COUNT:-2}"
cmake --install build/conda --prefix "$PREFIX"
