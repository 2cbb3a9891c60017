# A toolchain file for another processor with Debian's cross compilers (packages g++-aarch64-linux-gnu and so on, and the
# libraries of that architecture: libsodium-dev:arm64 …). Programs run under qemu-user:
#
#   cmake --preset release -B build/arm64 -DCMAKE_TOOLCHAIN_FILE=cmake/cross.cmake -DTERN_CROSS=aarch64-linux-gnu
set(TERN_CROSS "aarch64-linux-gnu" CACHE STRING "The target as Debian's cross compilers name it")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES TERN_CROSS)
string(REGEX REPLACE "-.*" "" processor "${TERN_CROSS}")

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${processor})
set(CMAKE_LIBRARY_ARCHITECTURE ${TERN_CROSS})
set(CMAKE_C_COMPILER ${TERN_CROSS}-gcc)
set(CMAKE_CXX_COMPILER ${TERN_CROSS}-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-${processor}-static)
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/${TERN_CROSS}/pkgconfig:/usr/share/pkgconfig)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
