// The records that ranks have left (base/record.h): where they are, and how they are read when all ranks have
// ended.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/record.h"

namespace tern::mpiexec {

/// Removes the folder with the files in it, when it is there.
void remove_records(const std::string& folder);

/// A folder for the records of one job, removed with all that is in it at the end.
class RecordFolder {
 public:
  RecordFolder() = default;
  ~RecordFolder();
  RecordFolder(const RecordFolder&) = delete;
  RecordFolder& operator=(const RecordFolder&) = delete;
  /// Makes a new folder named `prefix` and some letters. `before` gets its name before it exists. False: errno says
  /// why.
  bool make(const std::string& prefix, const std::function<void(const std::string&)>& before);
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// One rank's record, mapped.
class Record {
 public:
  /// Null when the file is not a complete record of this version, or of a process that never was a rank.
  static std::unique_ptr<Record> open(const std::string& path);
  ~Record();
  Record(const Record&) = delete;
  Record& operator=(const Record&) = delete;

  const record::Header& header() const { return *header_; }
  int rank() const { return header_->rank; }
  // Texts and numbers of a record are checked: a rank with a wild pointer may have overwritten its record.
  /// Name of the function at `function` in Header::totals; printable, and valid in JSON.
  const std::string& function_name(size_t function) const;
  /// Of a collective; printable. `algorithm`: of an event.
  std::string algorithm_name(uint16_t algorithm) const;
  const std::string& host() const { return host_; }
  /// Of the code at a place: its path; empty: unknown.
  std::string file_name(uint32_t file) const;
  /// The errno with which it got no more room; 0: --trace-size was reached, or nothing was lost.
  int lost_because() const;
  /// By which a message left: `path` of an event (Event::request of a send); empty: unknown.
  std::string path_name(uint32_t path) const;
  std::string clock_domain() const;
  uint32_t threads() const;
  const record::Event* events() const { return events_; }
  size_t event_count() const { return event_count_; }
  /// The function it was in when it ended without MPI_Finalize; null: none.
  const std::string* unfinished_call() const;
  /// This rank's clock in rank 0's.
  int64_t offset_at(uint64_t time_ns) const;
  uint64_t aligned(uint64_t time_ns) const { return time_ns + uint64_t(offset_at(time_ns)); }

 private:
  Record() = default;
  void* mapped_ = nullptr;
  size_t bytes_ = 0;
  const record::Header* header_ = nullptr;
  const record::Event* events_ = nullptr;
  size_t event_count_ = 0;
  std::vector<std::string> names_;  ///< of the functions, then one for what is none
  std::string host_;
};

using Records = std::vector<std::unique_ptr<Record>>;

/// All records in the folder, by rank; each rank once.
Records read_records(const std::string& folder);

}  // namespace tern::mpiexec
