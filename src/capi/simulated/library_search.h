// Where the dynamic linker would find a shared library: the folders that the program names, LD_LIBRARY_PATH, the
// linker's cache, the folders of the system. Source: ld.so(8). Thread rule: none.
#pragma once

#include <string>

namespace tern::sim {

/// `run_path`: folders separated by colons, of the object that needs the library. Empty: it is nowhere.
std::string find_library(const std::string& name, const std::string& run_path);

}  // namespace tern::sim
