// File: what MPI_File stands for (MPI 5.0, chapter 14), one rank's part of it. Everything here is collective unless it
// says that it is local. How data move: accesses.h. Units: bytes; offsets and
// pointers in etypes. Thread rule: under the rank's lock, which waiting gives up.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/accesses.h"
#include "io/agreement.h"

namespace tern::io {

/// Where MPI_File_seek counts from.
enum class Whence : uint8_t { set, current, end };
/// MPI_DISPLACEMENT_CURRENT.
inline constexpr int64_t kCurrentDisplacement = -1;

class File {
 public:
  /// Errors are the same at all ranks, with the reason of the first rank that failed.
  static Error open(Environment& environment, Communicator& comm, const char* path, int amode, const Info* info,
                    std::unique_ptr<File>& made);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  /// Afterwards only destruction, whatever it returns.
  Error close();
  /// Local. MPI_File_delete.
  static Error remove(Environment& environment, const char* path);

  Error resize(int64_t bytes);
  Error preallocate(int64_t bytes);
  Error sync();
  Error set_atomicity(bool atomic);
  Error set_view(int64_t displacement, Datatype& etype, Datatype& filetype, const char* representation,
                 const Info* info);
  Error set_hints(const Info& info);
  Error seek_shared(int64_t offset, Whence whence);

  // --- Local.
  Error size(int64_t& bytes);
  Error seek(int64_t offset, Whence whence);
  Error position(int64_t& etypes) const;
  Error position_shared(int64_t& etypes);
  Error byte_offset(int64_t offset, int64_t& bytes) const;
  Error type_extent(Datatype& type, Count& extent) const;
  void tell_hints(Info& info) const;
  Communicator& comm() const { return *comm_; }
  int amode() const { return amode_; }
  bool atomic() const { return accesses_->atomic(); }
  const View& view() const { return *view_; }
  const std::string& path() const { return file_.path; }

  // --- Data access.
  Error run(const Operation& operation, Status& status);
  Error begin(const Operation& operation, Request*& request);
  /// Split collectives: `kind` names the pair of routines.
  Error begin_split(const Operation& operation, int kind);
  Error end_split(int kind, Status& status);

 private:
  File(Environment& environment, std::string path, int amode);
  Place place() { return {environment_, file_, hints_, locks_}; }

  // file_open.cc
  Error open_here(bool create);
  void set_up_shared(std::byte* memory);
  // file.cc
  Error not_sequential() const;
  Error not_busy() const;
  Error target(int64_t offset, Whence whence, int64_t current, int64_t& etypes);
  void follow_hints();
  Error share_hints();
  // file_access.cc
  Error check(const Operation& operation) const;
  Error set_out(const Operation& operation, Access& access, int64_t& pointer_moved_to);

  Environment& environment_;
  OpenFile file_;
  const int amode_;
  Ref<Communicator> comm_;  ///< the file's own
  Hints hints_;
  Team team_;
  std::byte* shared_memory_ = nullptr;  ///< of all ranks, when one node has them all; null: none
  uint64_t shared_offset_ = 0;          ///< of that memory, for the rank that allocated it
  RangeLocks locks_;
  std::unique_ptr<SharedPointer> shared_pointer_;
  std::unique_ptr<Accesses> accesses_;  ///< from the time when it is open at all ranks
  std::shared_ptr<const View> view_;
  int64_t pointer_ = 0;  ///< the individual one
  int sequence_ = 0;     ///< of collective data accesses
  int pending_ = 0;      ///< nonblocking accesses that are not complete
  Request* split_ = nullptr;
  int split_kind_ = 0;
};

}  // namespace tern::io
