#include "records.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace tern::mpiexec {
namespace {

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> names;
  DIR* directory = opendir(folder.c_str());
  if (!directory) return names;
  while (const dirent* entry = readdir(directory)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(folder + "/" + name);
  }
  closedir(directory);
  std::sort(names.begin(), names.end());
  return names;
}

/// The printable part of a text that may lack its end; quotes and backslashes are omitted.
template <size_t N>
std::string plain(const char (&text)[N]) {
  std::string out;
  for (char c : std::string_view(text, strnlen(text, N))) {
    if (c >= ' ' && c < 127 && c != '"' && c != '\\') out += c;
  }
  return out;
}

bool sound(const record::Header& header) {
  return std::memcmp(header.magic, record::kMagic, sizeof header.magic) == 0 && header.header_bytes == sizeof header &&
         header.event_bytes == sizeof(record::Event) && header.functions <= record::kMaxFunctions && header.rank >= 0 &&
         header.rank < header.size && header.current <= header.functions;
}

}  // namespace

bool RecordFolder::make(const std::string& prefix, const std::function<void(const std::string&)>& before) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789";
  unsigned char random[8];
  if (getrandom(random, sizeof random, 0) != ssize_t(sizeof random)) return false;
  std::string name = prefix;
  for (unsigned char byte : random) name += kLetters[byte % kLetters.size()];
  before(name);
  if (mkdir(name.c_str(), 0700) != 0) return false;
  path_ = name;
  return true;
}

RecordFolder::~RecordFolder() {
  if (!path_.empty()) remove_records(path_);
}

void remove_records(const std::string& folder) {
  for (const std::string& name : files_in(folder)) unlink(name.c_str());
  rmdir(folder.c_str());
}

std::unique_ptr<Record> Record::open(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return nullptr;
  struct stat status {};
  void* mapped = MAP_FAILED;
  if (fstat(file, &status) == 0 && size_t(status.st_size) >= record::kEventsAt) {
    mapped = mmap(nullptr, size_t(status.st_size), PROT_READ, MAP_PRIVATE, file, 0);
  }
  close(file);
  if (mapped == MAP_FAILED) return nullptr;
  std::unique_ptr<Record> made(new Record);
  made->mapped_ = mapped;
  made->bytes_ = size_t(status.st_size);
  made->header_ = static_cast<const record::Header*>(mapped);
  if (!sound(*made->header_)) return nullptr;
  made->events_ = reinterpret_cast<const record::Event*>(static_cast<const std::byte*>(mapped) + record::kEventsAt);
  made->event_count_ =
      std::min<size_t>(made->header_->events, (made->bytes_ - record::kEventsAt) / sizeof(record::Event));
  for (uint32_t i = 0; i < made->header_->functions; ++i) made->names_.push_back(plain(made->header_->totals[i].name));
  made->names_.push_back("unknown");
  made->host_ = plain(made->header_->host);
  return made;
}

Record::~Record() {
  if (mapped_) munmap(mapped_, bytes_);
}

const std::string& Record::function_name(size_t function) const {
  return names_[std::min(function, names_.size() - 1)];
}

std::string Record::algorithm_name(uint16_t algorithm) const {
  return algorithm == 0 || algorithm > record::kMaxAlgorithms ? "unknown" : plain(header_->algorithms[algorithm - 1]);
}

std::string Record::file_name(uint32_t file) const {
  return file < record::kMaxFiles ? plain(header_->files[file]) : "";
}

int Record::lost_because() const {
  constexpr uint64_t kLastErrno = 4095;  // of the kernel's
  return header_->lost_because <= kLastErrno ? int(header_->lost_because) : 0;
}

std::string Record::path_name(uint32_t path) const {
  return path == 0 || path > record::kMaxPaths ? "" : plain(header_->paths[path - 1]);
}

std::string Record::clock_domain() const {
  return std::string(header_->clock_domain, strnlen(header_->clock_domain, sizeof header_->clock_domain));
}

uint32_t Record::threads() const { return std::min(header_->threads, uint32_t(record::kMaxThreads)); }

const std::string* Record::unfinished_call() const {
  return header_->current == 0 ? nullptr : &function_name(header_->current - 1);
}

// Clocks of two machines drift apart evenly: between the comparisons at start and end, linear interpolation.
int64_t Record::offset_at(uint64_t time_ns) const {
  const record::ClockSample &start = header_->samples[0], &end = header_->samples[1];
  if (end.at_ns <= start.at_ns) return start.offset_ns;
  const double part = (double(time_ns) - double(start.at_ns)) / double(end.at_ns - start.at_ns);
  constexpr double kMax_ns = 4e18;  // an int64_t takes 9e18
  const double drift_ns = part * (double(end.offset_ns) - double(start.offset_ns));
  return int64_t(uint64_t(start.offset_ns) + uint64_t(int64_t(std::clamp(drift_ns, -kMax_ns, kMax_ns))));
}

Records read_records(const std::string& folder) {
  Records records;
  for (const std::string& name : files_in(folder)) {
    if (auto record = Record::open(name)) records.push_back(std::move(record));
  }
  auto by_rank = [](auto& a, auto& b) { return a->rank() < b->rank(); };
  std::stable_sort(records.begin(), records.end(), by_rank);
  auto same_rank = [](auto& a, auto& b) { return a->rank() == b->rank(); };
  records.erase(std::unique(records.begin(), records.end(), same_rank), records.end());
  return records;
}

}  // namespace tern::mpiexec
