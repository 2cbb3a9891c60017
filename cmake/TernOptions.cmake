# Compiler options that every target of the project shares, and the sanitizer switch of the presets.
option(TERN_TESTS "Build the tests" ON)
set(TERN_SANITIZE "" CACHE STRING "Sanitizer: empty, address, undefined or thread")
option(TERN_COVERAGE "Count which lines run (make coverage)" OFF)

find_program(TERN_CCACHE ccache)
if(TERN_CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${TERN_CCACHE})
  # What it asks for, to keep files with precompiled headers, too (its manual, "Precompiled headers").
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${TERN_CCACHE})
endif()

add_library(tern_options INTERFACE)
target_compile_options(tern_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wno-unused-parameter
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual -fno-semantic-interposition>
  # Arguments travel through small structs; joining their copies into larger moves makes loads that wait for the stores
  # before them (see src/wire/header.h). Loops are still vectorised.
  # Without both flags of GCC a message of 8 bytes to the rank itself takes 6 % longer, others as long.
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-tree-slp-vectorize -fno-store-merging>
  # Flows that keep their error are awaited without looking at it; macros of ibverbs are statements in expressions.
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-unused-result -Wno-gnu-statement-expression>
  # A target's property TERN_OPTIMIZE may ask for another level.
  $<$<CONFIG:Release>:$<IF:$<BOOL:$<TARGET_PROPERTY:TERN_OPTIMIZE>>,$<TARGET_PROPERTY:TERN_OPTIMIZE>,-O2>>)
target_include_directories(tern_options INTERFACE ${CMAKE_SOURCE_DIR}/src)
if(TERN_SANITIZE)
  target_compile_options(tern_options INTERFACE -fsanitize=${TERN_SANITIZE} -fno-omit-frame-pointer -g)
  target_link_options(tern_options INTERFACE -fsanitize=${TERN_SANITIZE})
  target_compile_definitions(tern_options INTERFACE TERN_CHECKED)
  if(TERN_SANITIZE MATCHES "undefined")
    target_compile_options(tern_options INTERFACE -fno-sanitize-recover=undefined)
  endif()
  set(TERN_SANITIZED ON)
endif()
if(TERN_COVERAGE)
  # Ranks have threads, and a node's ranks are processes that write to the same files: gcov merges those itself.
  target_compile_options(tern_options INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:--coverage$<SEMICOLON>-fprofile-update=atomic>)
  target_link_options(tern_options INTERFACE --coverage)
  set(TERN_SANITIZED ON)  # as slow
endif()
