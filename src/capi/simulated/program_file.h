// An MPI program for the simulated world that is a shared object: cc -shared -fPIC program.c -o program.so, with Tern's
// mpi.h and without its library. Every call of `run` loads a copy of its own, so globals and statics are each rank's,
// as they are when ranks are processes. The executable around it must export the MPI functions (ENABLE_EXPORTS). What
// the C library keeps (errno's place, stdio, the environment) is shared, and exit() ends the world. Thread rule: one
// world at a time.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace tern::sim {

class ProgramFile {
 public:
  ProgramFile() = default;
  ~ProgramFile();
  ProgramFile(const ProgramFile&) = delete;
  ProgramFile& operator=(const ProgramFile&) = delete;

  /// Reads the file. An error names it and the reason.
  Error read(const std::string& path);
  /// Runs the main of one more copy. 127: it cannot be loaded, which was said on stderr.
  int run(int argc, char** argv);

 private:
  std::string path_;
  std::vector<char> content_;
  std::vector<int> copies_;  ///< descriptors: open until the end, so that each copy keeps a name of its own
};

}  // namespace tern::sim
