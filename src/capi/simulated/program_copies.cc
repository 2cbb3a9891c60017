#include "capi/simulated/program_copies.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/limits.h"
#include "sim/fiber.h"

namespace tern::sim {
namespace {

constexpr uint64_t kPage = 4096;  // of x86-64
// Larger zero-filled data is no part of the file, where each page would be kept once for all and then again.
constexpr uint64_t kLargeZeros = 64 << 10;

Error no_memory(const char* what) {
  const int why = errno;
  return Error(ErrorClass::no_mem, std::string("a simulated rank's copy of the program: ") + what + ": " +
                                       errno_text(why) + (why == ENOMEM ? " (see vm.max_map_count, ulimit -v)" : ""));
}

}  // namespace

ProgramCopies::~ProgramCopies() {
  if (base_) munmap(base_, group_bytes() * ((ranks_ + ranks_per_group_ - 1) / ranks_per_group_));
  if (file_ >= 0) close(file_);
}

Error ProgramCopies::reserve(const ProgramTemplate& program, uint32_t ranks) {
  program_ = &program;
  ranks_ = ranks;
  uint64_t segments = 1;
  for (const auto& part : program.parts()) segments += part.image->segments().size() + 1;
  // Half of what the stacks leave: the rest is for the program's own.
  const uint64_t mappings = StackArena::mappings_left(ranks) / 2;
  protected_ = segments * ranks <= mappings;
  ranks_per_group_ = protected_ ? 1 : uint32_t((ranks + mappings - 1) / mappings);
  mapped_.assign((ranks + ranks_per_group_ - 1) / ranks_per_group_, false);
  const uint64_t all = group_bytes() * mapped_.size();
  void* base = mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return no_memory("no addresses");
  base_ = static_cast<std::byte*>(base);
  file_ = memfd_create("program", MFD_CLOEXEC);
  if (file_ < 0 || ftruncate(file_, off_t(group_bytes())) != 0) return no_memory("no file in memory");
  const auto& content = program.content();
  for (uint32_t i = 0; i < ranks_per_group_; ++i) {
    for (size_t done = 0; done < content.size();) {
      const ssize_t n =
          pwrite(file_, content.data() + done, content.size() - done, off_t(program.block_bytes() * i + done));
      if (n <= 0) return no_memory("no memory for the file");
      done += size_t(n);
    }
  }
  return {};
}

Error ProgramCopies::map_group(uint32_t group) {
  const int access = PROT_READ | PROT_WRITE | PROT_EXEC;
  std::byte* const at = base_ + group * group_bytes();
  if (mmap(at, group_bytes(), access, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, file_, 0) == MAP_FAILED)
    return no_memory("not mapped");
  mapped_[group] = true;
  if (ranks_per_group_ != 1) return {};
  for (const auto& part : program_->parts()) {
    for (const ElfSegment& segment : part.image->segments()) {
      const uint64_t zeros = (std::min(part.image->content().size(), segment.end) + kPage - 1) / kPage * kPage;
      if (!segment.write || segment.end < zeros + kLargeZeros) continue;
      const uint64_t bytes = (segment.end - zeros + kPage - 1) / kPage * kPage;
      if (mmap(at + part.at + zeros, bytes, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == MAP_FAILED)
        return no_memory("no room for its variables");
    }
  }
  return {};
}

// As the dynamic linker does; addresses have been written where segments may only be read.
void ProgramCopies::protect(std::byte* block) {
  for (const auto& part : program_->parts()) {
    for (const ElfSegment& segment : part.image->segments()) {
      const uint64_t begin = segment.begin / kPage * kPage, end = (segment.end + kPage - 1) / kPage * kPage;
      mprotect(block + part.at + begin, end - begin,
               PROT_READ | (segment.write ? PROT_WRITE : 0) | (segment.execute ? PROT_EXEC : 0));
    }
  }
}

Error ProgramCopies::make(uint32_t rank, std::byte*& block) {
  const uint32_t group = rank / ranks_per_group_;
  if (!mapped_[group]) {
    if (Error error = map_group(group)) return error;
  }
  block = base_ + rank * program_->block_bytes();
  const uint64_t base = reinterpret_cast<uint64_t>(block);
  for (uint64_t at : program_->address_words()) {
    uint64_t value;
    std::memcpy(&value, block + at, sizeof value);
    value += base;
    std::memcpy(block + at, &value, sizeof value);
  }
  if (protected_) protect(block);
  return {};
}

const ProgramTemplate::Part* ProgramCopies::find(const void* address, const std::byte*& block) const {
  const auto* at = static_cast<const std::byte*>(address);
  if (at < base_ || at >= base_ + uint64_t{ranks_} * program_->block_bytes()) return nullptr;
  const uint64_t offset = uint64_t(at - base_) % program_->block_bytes();
  block = at - offset;
  for (const auto& part : program_->parts()) {
    if (offset >= part.at && offset < part.at + part.image->span()) return &part;
  }
  return nullptr;
}

}  // namespace tern::sim
