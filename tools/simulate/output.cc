#include "output.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "mpiexec/output_files.h"

namespace tern::simulate {
namespace {

uint64_t key(uint32_t rank, int stream) { return uint64_t{rank} * 2 + uint64_t(stream - 1); }

}  // namespace

Output::~Output() {
  for (const auto& [which, descriptor] : open_) {
    if (descriptor >= 0) close(descriptor);
  }
}

void Output::write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(descriptor, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      if (lost_ == 0) lost_ = errno;
      return;
    }
    text.remove_prefix(size_t(n));
  }
}

int Output::file(uint32_t rank, int stream) {
  if (!mpiexec::has_output_file(files_, stream)) return -1;
  auto [found, fresh] = open_.emplace(key(rank, stream), -1);
  if (fresh) {
    std::string path, why;
    found->second = mpiexec::open_output_file(files_, int(rank), int(ranks_), stream, "", path, why);
    if (found->second < 0 && lost_ == 0) lost_ = errno;
  }
  return found->second;
}

void Output::write(uint32_t rank, int stream, std::string_view text) {
  const bool in_file = mpiexec::has_output_file(files_, stream);
  if (in_file) write_all(file(rank, stream), text);
  // Files of a folder are copies; those of a pattern are instead.
  const bool pattern = !(stream == 1 ? files_.out_pattern : files_.err_pattern).empty();
  if (in_file && (pattern || !files_.copy)) return;
  if (label_) add_lines(rank, stream, text);
  else write_all(stream, text);
}

void Output::add_lines(uint32_t rank, int stream, std::string_view text) {
  std::string& line = lines_[key(rank, stream)];
  line += text;
  std::string whole;
  size_t begin = 0;
  for (size_t end; (end = line.find('\n', begin)) != std::string::npos; begin = end + 1) {
    whole += "[" + std::to_string(rank) + "] " + line.substr(begin, end + 1 - begin);
  }
  line.erase(0, begin);
  write_all(stream, whole);
}

void Output::finish() {
  for (uint32_t rank = 0; label_ && rank < ranks_; ++rank) {
    for (int stream : {1, 2}) {
      auto found = lines_.find(key(rank, stream));
      if (found != lines_.end() && !found->second.empty()) add_lines(rank, stream, "\n");
    }
  }
}

}  // namespace tern::simulate
