// The names of an entry point written by hand, as the generator makes them (api/emit_fortran_entries.py): pmpi_x_ is
// the function, mpi_x_ a weak alias; where there is no choice buffer, both again with _f08 for the module mpi_f08. A
// macro, because an alias is a declaration with the name in it.
#pragma once

#define TERN_FORTRAN_NAME(name, ...) void mpi_##name##_(__VA_ARGS__) __attribute__((weak, alias("pmpi_" #name "_")));
#define TERN_FORTRAN_NAMES(name, ...)                                                  \
  TERN_FORTRAN_NAME(name, __VA_ARGS__)                                                 \
  void mpi_##name##_f08_(__VA_ARGS__) __attribute__((weak, alias("pmpi_" #name "_"))); \
  void pmpi_##name##_f08_(__VA_ARGS__) __attribute__((weak, alias("pmpi_" #name "_")));
