// A program for simulated ranks, with the libraries of which each rank has a copy of its own, laid out once and
// relocated as far as all ranks are alike:
//
//   | program | libgfortran | libquadmath | host variables | thread data |      offsets, from 0
//
// Every rank gets such a block. Its words that hold addresses in the block (`address_words`) are offsets here; a rank
// adds the address of its block. What all ranks share (the C library, libm, the unwinder, the simulator's MPI
// functions) is bound to the simulator's own process; functions of the C library that would concern the whole process
// are replaced (rank_libc.h).
//
// Thread-local variables are plain memory of the block, since all ranks run on one thread: an offset from the thread
// pointer reaches any address. Only code in a program itself (local-exec model) has its offset fixed by the linker,
// just below the thread pointer: there the simulator keeps room, whose content is exchanged when another rank runs.
//
// Source: ELF Handling For Thread-Local Storage (Drepper), sections 3.4.6 and 4.4; System V ABI for x86-64, 4.4.
// Thread rule: not changed once loaded.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "capi/simulated/elf_image.h"

namespace tern::sim {

/// Variables of the C library of which each rank has its own, in its block.
enum HostVariable : size_t { kStdout, kStderr, kStdin, kOptarg, kOptind, kOpterr, kOptopt, kHostVariables };

class ProgramTemplate {
 public:
  struct Part {
    std::unique_ptr<ElfImage> image;
    uint64_t at = 0;              ///< in the block
    uint64_t thread_data_at = 0;  ///< in the block; of a program with such data: where its content is kept
  };
  /// Word `at` of the block becomes what the function at `function` returns (STT_GNU_IFUNC).
  struct Resolved {
    uint64_t at, function;
  };
  /// Reads the program and what it needs, and relocates them. An error says for the user why it cannot be simulated.
  Error load(const std::string& path);

  const std::string& path() const { return parts_.front().image->path(); }
  const std::vector<Part>& parts() const { return parts_; }
  uint64_t block_bytes() const { return block_bytes_; }
  /// Content of the block up to where all is zero.
  const std::vector<std::byte>& content() const { return content_; }
  const std::vector<uint64_t>& address_words() const { return address_words_; }
  const std::vector<Resolved>& resolved() const { return resolved_; }
  /// Where that variable is in the block: eight bytes each.
  uint64_t host_variable_at(HostVariable variable) const { return host_variables_at_[variable]; }
  /// Bytes of thread data that are exchanged below the thread pointer; 0: the program has none.
  uint64_t exchanged_bytes() const { return exchanged_bytes_; }
  uint64_t exchanged_at() const { return parts_.front().thread_data_at; }
  /// Where main is in the block, when the program has no entry of its own (a shared object).
  uint64_t main_at() const { return main_at_; }
  bool has_entry() const { return parts_.front().image->is_program(); }
  /// It may start threads by itself (OpenMP): told to use one.
  bool uses_openmp() const { return uses_openmp_; }

  /// Room below the simulator's thread pointer.
  static constexpr uint64_t kExchangeRoom = 4096;
  /// Its end is the thread pointer; null: the linker has put something else there.
  static std::byte* thread_pointer_if_free();

 private:
  struct Target {
    enum class Kind { host, block, thread, undefined } kind = Kind::undefined;
    uint64_t value = 0;  ///< address, offset in the block, offset in the thread data of `part`
    size_t part = 0;
    uint64_t bytes = 0;
    bool resolver = false;  ///< value is a function that returns the value
  };
  Error add_libraries();
  Error refuse(const std::string& why) const;
  Error check_mpi() const;
  void lay_out();
  Error relocate(size_t part);
  Error relocate_one(size_t part, const ElfRelocation& relocation);
  Error copy_variable(size_t part, const ElfRelocation& relocation);
  Target look_up(size_t part, uint32_t symbol, bool skip_program) const;
  Target look_up_host(std::string_view name, std::string_view version) const;
  void put(uint64_t at, uint64_t value, bool is_address);
  Error put_target(uint64_t at, const Target& target, int64_t addend, const ElfRelocation& relocation, size_t part);
  Error undefined(size_t part, const ElfRelocation& relocation) const;
  /// Of thread data of that part, relative to the block; `fixed`: an address of the process.
  uint64_t thread_base(size_t part, bool& fixed) const;

  std::vector<Part> parts_;
  uint64_t block_bytes_ = 0, main_at_ = 0, exchanged_bytes_ = 0;
  uint64_t host_variables_at_[kHostVariables] = {};
  bool uses_openmp_ = false;
  std::vector<std::byte> content_;
  std::vector<uint64_t> address_words_;
  std::vector<Resolved> resolved_;
};

}  // namespace tern::sim
