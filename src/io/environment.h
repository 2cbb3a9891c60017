// Objects that all open files of a rank share: the file system, the background work, memory, the data representations.
// Made by the first call about files. Thread rule: under the rank's lock.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/peer_table.h"
#include "comm/communicator.h"
#include "datatype/op.h"
#include "datatype/predefined.h"
#include "io/background.h"
#include "io/buffers.h"
#include "io/open_file.h"
#include "io/representation.h"
#include "progress/engine.h"

namespace tern::io {

class Environment {
 public:
  /// Nothing is owned. `node`: the same at all ranks of this node, and nowhere else. `new_context` as in
  /// coll/create/channel.h.
  Environment(PointToPoint& p2p, const Tunables& tunables, const PeerTable& peers, const RankName& node,
              std::function<uint64_t()> new_context);
  ~Environment();
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  /// Puts another file system in the place of the kernel's, with its own way of working in the background (null: the
  /// kernel's threads). While no file is open.
  void use(std::unique_ptr<FileSystem> files, std::unique_ptr<Background> background);

  FileSystem& files() { return *files_; }
  PointToPoint& p2p() { return p2p_; }
  ProgressEngine& progress() { return p2p_.progress(); }
  Counters& counters() { return p2p_.progress().counters(); }
  const Tunables& tunables() const { return tunables_; }
  const Datatype& byte() const { return *byte_; }
  Op& op(OpId id) { return ops_.get(id); }
  PredefinedTypes& types() { return types_; }
  const PeerTable& peers() const { return peers_; }
  /// A number that all ranks of this node have, and no others.
  uint64_t node() const { return node_; }
  uint64_t new_context() { return new_context_(); }
  Representations& representations() { return representations_; }
  Buffer buffer(size_t bytes) { return buffers_.try_block(bytes); }

  /// Moves bytes between the pieces (which are changed) and the file. `blocking`: it is complete on return. Else the
  /// pieces stay where they are until it is complete; flush() begins what was begun. Who asked releases the request.
  Request* transfer(OpenFile& file, bool write, iovec* pieces, int count, int64_t offset, bool blocking);
  void flush();
  /// Calls `work` on another thread, or here. `what` and `path` are for the error and outlive the request.
  Request* call_elsewhere(const std::string& path, const char* what, std::function<int64_t()> work, bool blocking);
  /// Calls `work` here and at once. `what` and `path` are for the error.
  Error call_here(const std::string& path, const char* what, const std::function<int64_t()>& work);

 private:
  class BackgroundPolls;
  void begin(Job& job);
  void carry_out(Job& job, bool blocking);
  void wait(Request& request) { p2p_.wait(request); }

  PointToPoint& p2p_;
  const Tunables& tunables_;
  std::function<uint64_t()> new_context_;
  const PeerTable& peers_;
  const uint64_t node_;
  PredefinedTypes types_;
  PredefinedOps ops_;
  Ref<Datatype> byte_;
  Representations representations_;
  Buffers buffers_;
  std::unique_ptr<FileSystem> files_;
  std::unique_ptr<Background> background_;
  std::unique_ptr<BackgroundPolls> polls_;
};

}  // namespace tern::io
