// File: what MPI_File stands for (MPI 5.0, chapter 14), one rank's part of it. Everything here is collective unless it
// says that it is local. How data move is in access.h (alone) and two_phase.h (together). Units: bytes; offsets and
// pointers in etypes. Thread rule: under the rank's lock, which waiting gives up.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "coll/create/channel.h"
#include "io/access.h"
#include "io/access_order.h"
#include "io/agreement.h"
#include "io/shared_pointer.h"

namespace tern::io {

/// Access modes, by the ABI's numbers.
namespace mode {
inline constexpr int kAppend = 1, kCreate = 2, kDeleteOnClose = 4, kExclusive = 8, kReadOnly = 16, kReadWrite = 32,
                     kSequential = 64, kUniqueOpen = 128, kWriteOnly = 256;
}
struct Member;  // two_phase.h

/// Where MPI_File_seek counts from.
enum class Whence : uint8_t { set, current, end };
/// MPI_DISPLACEMENT_CURRENT.
inline constexpr int64_t kCurrentDisplacement = -1;

/// One call of a data access routine.
struct Operation {
  enum class Position : uint8_t { explicit_offset, individual, shared };
  bool write;
  Position position;
  bool together;   ///< collective
  int64_t offset;  ///< explicit_offset only
  void* buffer;
  Count count;
  Datatype* type;
};

/// The patterns of all ranks' views, if they are short enough to be sent to all (collective.cc).
struct KnownPatterns {
  int view_number = -1;                      ///< of File::view_number_, when they were told
  bool disjoint = false;                     ///< no byte is in two of them; false: perhaps
  bool first_disjoint = false;               ///< no byte is in the first filetypes of two of them; then `of` is whole
  std::vector<std::unique_ptr<Pattern>> of;  ///< by rank; null: too long
};

/// How a file's ranks act together; the same at all of them.
struct Team {
  std::vector<int> aggregators;  ///< ranks that read and write for the others, in the order of their windows
  int64_t window = 0;            ///< bytes of the file that one of them handles at a time
  int nodes = 1;                 ///< hosts
};

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
  bool atomic() const { return atomic_; }
  const View& view() const { return *view_; }
  const std::string& path() const { return file_.path; }

  // --- Data access.
  Error run(const Operation& operation, Status& status);
  Error begin(const Operation& operation, Request*& request);
  /// Split collectives: `kind` names the pair of routines.
  Error begin_split(const Operation& operation, int kind);
  Error end_split(int kind, Status& status);

 private:
  friend class FileRequest;
  friend class TwoPhase;

  File(Environment& environment, std::string path, int amode);
  Place place() { return {environment_, file_, hints_, locks_}; }
  PointToPoint& p2p() { return environment_.p2p(); }

  // file_open.cc
  Error open_here(bool create);
  void open_direct();
  Error close_here();
  void choose_team(std::span<const Statement> all);
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
  Flow perform(Access& access, Operation operation, int sequence, Error wrong);
  Flow move(Access& access);
  Flow move_guarded(Access& access, Lock kind);
  Flow move_stream(Access& access, bool together, int sequence);
  Flow take_shared(Access& access, bool together, int sequence);
  // collective.cc
  Flow gather_words(std::span<const uint64_t> mine, create::Words& all, bool blocking, int sequence);
  Flow broadcast_words(std::span<uint64_t> words, int root, bool blocking, int sequence);
  Flow share_error(Error mine, bool blocking, int sequence);
  Flow tell_patterns(const std::vector<Member>& members, const std::vector<uint64_t>& mine, KnownPatterns& patterns,
                     bool blocking, int sequence);
  Flow move_together(Access& access, int sequence, Error wrong);

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
  std::shared_ptr<const View> view_;
  int64_t pointer_ = 0;  ///< the individual one
  bool atomic_ = false;
  bool dirty_ = false;  ///< this rank has written since the last sync
  int sequence_ = 0;    ///< of collective data accesses
  int pending_ = 0;     ///< nonblocking accesses that are not complete
  AccessOrder order_;
  Request* split_ = nullptr;
  int split_kind_ = 0;
  int view_number_ = 0;     ///< how often the view was set
  KnownPatterns known_[2];  ///< for reading and for writing
};

}  // namespace tern::io
