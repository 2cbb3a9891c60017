// Which MPI library a program is linked with, by the ELF file's list of shared libraries (DT_NEEDED), and where
// it looks for them.
// Thread rule: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tern::mpiexec {

/// The shared libraries that the ELF file of 64 bits in `content` asks for; empty for all other files. Trusts nothing.
std::vector<std::string> needed_libraries(std::string_view content);

/// "libmpi.so.40: Open MPI"; empty: none of the MPI libraries that are known.
std::string mpi_library(const std::vector<std::string>& libraries);

/// The folders that the ELF file names for its libraries (DT_RUNPATH), separated by colons; often empty.
std::string run_path(std::string_view content);

struct Linkage {
  std::string mpi;       ///< as mpi_library says it
  std::string run_path;  ///< as run_path says it
};

/// Of a file; empty also when it cannot be read.
Linkage linkage_of(const std::string& file);

}  // namespace tern::mpiexec
