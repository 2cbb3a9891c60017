# Trees that are carried to other systems (Python wheels): what is installed needs nothing but the C library, and no newer
# one than TERN_GLIBC.
option(TERN_BUNDLED "Link the C++ library, libsodium, liburing, zlib and ncurses into what is installed" OFF)
set(TERN_GLIBC "" CACHE STRING "The oldest C library (glibc) to run on, such as 2.28; empty: this machine's")

# Sets VARIABLE to the files of these archives.
function(tern_archive variable)
  set(files)
  foreach(name IN LISTS ARGN)
    string(MAKE_C_IDENTIFIER "TERN_ARCHIVE_${name}" cached)
    find_library(${cached} NAMES ${name} REQUIRED)
    mark_as_advanced(${cached})
    list(APPEND files ${${cached}})
  endforeach()
  set(${variable} ${files} PARENT_SCOPE)
endfunction()

if(TERN_BUNDLED)
  # These trees should be small.
  add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-ffunction-sections> $<$<COMPILE_LANGUAGE:C,CXX>:-fdata-sections>)
  add_link_options(-Wl,--gc-sections $<$<LINK_LANGUAGE:CXX>:-static-libstdc++> -static-libgcc -Wl,--exclude-libs,ALL)
endif()

if(TERN_GLIBC)
  set(older ${CMAKE_SOURCE_DIR}/packaging/older-glibc)
  set(stubs ${CMAKE_BINARY_DIR}/older-glibc)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${older}/stubs.py ${older}/replacements.c ${older}/start.c)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  execute_process(COMMAND ${Python3_EXECUTABLE} ${older}/stubs.py --limit ${TERN_GLIBC} --into ${stubs}
    --compiler ${CMAKE_C_COMPILER} COMMAND_ERROR_IS_FATAL ANY)
  foreach(name replacements start)
    execute_process(COMMAND ${CMAKE_C_COMPILER} -std=gnu17 -O2 -Wall -Wextra -fPIC -fvisibility=hidden
      -c ${older}/${name}.c -o ${stubs}/${name}.o COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
  add_compile_definitions(TERN_OLDER_GLIBC)
  # The C++ library and the unwinder come late on the linker's line; what they need comes behind them.
  set(libraries "${stubs}/replacements.o -Wl,--no-as-needed -lpthread -ldl -lrt -Wl,--as-needed")
  set(CMAKE_C_STANDARD_LIBRARIES "${libraries}")
  set(CMAKE_CXX_STANDARD_LIBRARIES "${libraries}")
  set(CMAKE_Fortran_STANDARD_LIBRARIES "${libraries}")
  add_link_options(-L${stubs}
    $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:${stubs}/start.o>
    $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-Wl,--wrap=__libc_start_main>)
endif()
