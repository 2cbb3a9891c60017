// Tells the C library about Fortran: the literals, sizes and kinds of the compiler that built this one (facts.f90).
// Tern's takes them when it is loaded. To others they are told when MPI is initialized, since MPI 5.0 (table 9) does
// not let a program call these functions before; and where a C program has done that, when Fortran first names a
// datatype. Source: MPI 5.0 section 20.4.1. Thread rule: any thread; told once.
#include <cstdio>
#include <mutex>
#include <string>

#include "fortran/numbers.h"

extern "C" void tern_fortran_facts_(int* yes, int* no, int sizes[4], int kinds[14]);

namespace {

void set(MPI_Info info, const char* key, int number) { PMPI_Info_set(info, key, std::to_string(number).c_str()); }
void set(MPI_Info info, const std::string& type, bool supported) {
  PMPI_Info_set(info, ("mpi_" + type + "_supported").c_str(), supported ? "true" : "false");
}

void tell() {
  int yes = 0, no = 0, sizes[4] = {}, kinds[14] = {}, known = 0, before_yes = 0, before_no = 0;
  tern_fortran_facts_(&yes, &no, sizes, kinds);
  // Another copy of this library, or a program of its own mind, may have been first.
  if (PMPI_Abi_get_fortran_booleans(sizes[0], &before_yes, &before_no, &known) == MPI_SUCCESS && known) return;
  // The entry points pass LOGICALs to C and back as they are.
  if (yes != 1 || no != 0 || sizes[0] != 4 || sizes[1] != 4) {
    std::fprintf(stderr,
                 "[tern] this Fortran compiler's INTEGER or LOGICAL is not the one that libmpifort_abi was made for\n");
    return;
  }
  PMPI_Abi_set_fortran_booleans(sizes[0], &yes, &no);
  MPI_Info info = MPI_INFO_NULL;
  PMPI_Info_create(&info);
  set(info, "mpi_logical_size", sizes[0]);
  set(info, "mpi_integer_size", sizes[1]);
  set(info, "mpi_real_size", sizes[2]);
  set(info, "mpi_double_precision_size", sizes[3]);
  const int widths[5] = {1, 2, 4, 8, 16}, real_widths[4] = {2, 4, 8, 16};
  for (int i = 0; i < 5; ++i) {
    set(info, "logical" + std::to_string(widths[i]), kinds[i] != 0);
    set(info, "integer" + std::to_string(widths[i]), kinds[5 + i] != 0);
  }
  for (int i = 0; i < 4; ++i) {
    set(info, "real" + std::to_string(real_widths[i]), kinds[10 + i] != 0);
    set(info, "complex" + std::to_string(2 * real_widths[i]), kinds[10 + i] != 0);
  }
  set(info, std::string("double_complex"), true);
  PMPI_Abi_set_fortran_info(info);
  PMPI_Info_free(&info);
}

__attribute__((constructor)) void tell_at_once() {
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  if (PMPI_Get_library_version(version, &length) != MPI_SUCCESS || std::string(version, 4) != "Tern") return;
  tell();
  tern::fortran::told_about_fortran = true;
}

}  // namespace

namespace tern::fortran {

constinit std::atomic<bool> told_about_fortran = false;

void tell_about_fortran() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (!told_about_fortran) tell();
    told_about_fortran = true;
  });
}

}  // namespace tern::fortran
