// A random program about files, and a model of the file: every rank draws the same plan, does its part, and knows from
// the model what it must find. Views are made by dealing the places of a tile out to the ranks, so that what the ranks
// write at the same time never overlaps. Thread rule: one object for each rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/rng.h"
#include "mpi.h"

namespace tern::sim {

/// The file as it must be.
struct FileModel {
  std::vector<unsigned char> bytes;
  void write(int64_t offset, const unsigned char* data, size_t n);
};

class FileProgram {
 public:
  /// `name`: of the file; the same seed at all ranks.
  FileProgram(uint64_t seed, std::string name) : rng_(seed), name_(std::move(name)) {}

  /// Opens the file, plays so many phases, closes it. Empty, or what was wrong.
  std::string play(int phases);
  const FileModel& model() const { return model_; }

 private:
  struct Basic {
    MPI_Datatype type;
    int bytes;       ///< in memory
    int file_bytes;  ///< in external32
  };
  struct Dealing {
    Basic basic;
    int basics = 1;  ///< in an etype
    bool external = false;
    int64_t displacement = 0;
    std::vector<int> owner;                ///< by place in the tile; -1: nobody
    std::vector<std::vector<int>> places;  ///< by rank
    int etype_bytes() const { return basics * basic.bytes; }
    int etype_file_bytes() const { return basics * (external ? basic.file_bytes : basic.bytes); }
  };
  struct Part {
    int64_t offset = 0, etypes = 0;
  };

  void say(const std::string& what);
  bool ok(int code, const char* what);
  void deal(bool to_all);
  MPI_Datatype make_filetype(MPI_Datatype etype, int rank);
  void set_view();
  int64_t file_offset(int rank, int64_t etype) const;
  std::vector<unsigned char> values(int rank, int64_t first, int64_t etypes, int64_t salt) const;
  std::vector<unsigned char> in_file(const std::vector<unsigned char>& memory) const;
  void put_in_model(int rank, Part part, const std::vector<unsigned char>& memory);
  std::vector<unsigned char> expected(int rank, Part part, int64_t& bytes) const;
  struct Memory;
  void phase_access(bool write);
  void access(bool write, const std::vector<Part>& parts, bool individual, bool together, int form, int64_t salt);
  void check_read(Part part, Memory& memory, const MPI_Status& status);
  void phase_shared();
  void phase_ordered(bool write);
  void phase_size();

  Rng rng_;
  std::string name_;
  std::string wrong_, history_;
  FileModel model_;
  int rank_ = 0, size_ = 1;
  MPI_File file_ = MPI_FILE_NULL;
  Dealing dealing_;
  std::vector<int64_t> pointers_;  ///< individual ones, by rank
  int64_t shared_ = 0;
  MPI_Datatype etype_ = MPI_BYTE, filetype_ = MPI_BYTE;
};

}  // namespace tern::sim
