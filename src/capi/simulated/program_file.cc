#include "capi/simulated/program_file.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>

namespace tern::sim {

ProgramFile::~ProgramFile() {
  for (int copy : copies_) ::close(copy);
}

Error ProgramFile::read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  path_ = path;
  content_.assign(std::istreambuf_iterator<char>(file), {});
  if (!file || content_.empty()) return Error(ErrorClass::no_such_file, "the program " + path + " cannot be read");
  return {};
}

// The dynamic linker knows an object by its file: a copy in a file of its own is another object.
int ProgramFile::run(int argc, char** argv) {
  const int copy = memfd_create("program", MFD_CLOEXEC);
  if (copy < 0 || ::write(copy, content_.data(), content_.size()) != ssize_t(content_.size())) {
    std::fprintf(stderr, "%s: no memory for a rank's copy: %s\n", path_.c_str(), std::strerror(errno));
    if (copy >= 0) ::close(copy);
    return 127;
  }
  copies_.push_back(copy);
  void* object = dlopen(("/proc/self/fd/" + std::to_string(copy)).c_str(), RTLD_NOW | RTLD_LOCAL);
  void* main = object ? dlsym(object, "main") : nullptr;
  if (!main) {
    std::fprintf(stderr, "%s: %s\n", path_.c_str(), dlerror());
    return 127;
  }
  return reinterpret_cast<int (*)(int, char**)>(main)(argc, argv);
}

}  // namespace tern::sim
