#include "capi/simulated/library_search.h"

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

namespace tern::sim {
namespace {

std::string find_in(const std::string& folders, const std::string& name) {
  for (size_t at = 0; at < folders.size();) {
    const size_t colon = std::min(folders.find(':', at), folders.size());
    const std::string file = folders.substr(at, colon - at) + "/" + name;
    if (colon > at && access(file.c_str(), R_OK) == 0) return file;
    at = colon + 1;
  }
  return {};
}

// /etc/ld.so.cache of the GNU C library: a header, entries of 24 bytes, then the texts that they point to.
std::string find_in_cache(const std::string& name) {
  constexpr char kMagic[] = "glibc-ld.so.cache1.1";
  struct Entry {
    int32_t flags;
    uint32_t name, file, unused;
    uint64_t hardware;
  };
  constexpr size_t kEntriesAt = 48;    // the magic, the counts, reserved words
  constexpr int32_t kX86_64 = 0x0303;  // an ELF library of the x86-64 ABI
  std::ifstream stream("/etc/ld.so.cache", std::ios::binary);
  std::vector<char> cache{std::istreambuf_iterator<char>(stream), {}};
  if (cache.size() < kEntriesAt || std::memcmp(cache.data(), kMagic, sizeof kMagic - 1) != 0) return {};
  uint32_t count;
  std::memcpy(&count, cache.data() + sizeof kMagic - 1, sizeof count);
  cache.push_back('\0');
  for (size_t i = 0; i < count && kEntriesAt + (i + 1) * sizeof(Entry) < cache.size(); ++i) {
    Entry entry;
    std::memcpy(&entry, cache.data() + kEntriesAt + i * sizeof entry, sizeof entry);
    if (entry.flags != kX86_64 || entry.hardware != 0 || entry.name >= cache.size() || entry.file >= cache.size())
      continue;
    if (name == cache.data() + entry.name) return cache.data() + entry.file;
  }
  return {};
}

}  // namespace

std::string find_library(const std::string& name, const std::string& run_path) {
  if (name.find('/') != std::string::npos) return access(name.c_str(), R_OK) == 0 ? name : std::string();
  const char* environment = std::getenv("LD_LIBRARY_PATH");
  for (const std::string& folders : {run_path, std::string(environment ? environment : "")}) {
    if (std::string found = find_in(folders, name); !found.empty()) return found;
  }
  if (std::string found = find_in_cache(name); !found.empty()) return found;
  return find_in("/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu:/lib64:/usr/lib64:/lib:/usr/lib", name);
}

}  // namespace tern::sim
