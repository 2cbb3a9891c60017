// Names and lines of the places in a program from which its ranks called MPI (record::Place). They are looked up here,
// after the job, so that ranks need not read debug information while they run. The files must be where the ranks had
// them; of others the name and the offset are said.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace tern::mpiexec {

struct SourcePlace {
  std::string function;  ///< empty: unknown
  std::string file;      ///< without folders; empty: unknown, then `text` has what is known
  int line = 0;
  /// "exchange (heat.c:88)", "main (heat+0x1234)".
  std::string text() const;
  /// "heat.c:88"; else the whole text.
  std::string where() const;
  std::string fallback;  ///< "heat+0x1234"

  auto operator<=>(const SourcePlace&) const = default;
};

class Places {
 public:
  Places();
  ~Places();
  Places(const Places&) = delete;
  Places& operator=(const Places&) = delete;

  /// `offset`: of a return address, from the first byte of the file in memory.
  SourcePlace find(const std::string& file, uint64_t offset);

 private:
  struct File;
  std::map<std::string, std::unique_ptr<File>> files_;
};

}  // namespace tern::mpiexec
