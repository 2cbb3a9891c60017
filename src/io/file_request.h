// FileRequest: a nonblocking access to a file, and everything it needs until it is over.
// Thread rule: under the rank's lock.
#pragma once

#include "io/accesses.h"

namespace tern::io {

class FileRequest final : public Request {
 public:
  /// `pending`: the file's count of nonblocking accesses that are not complete.
  FileRequest(int& pending, Place place, bool write, std::shared_ptr<const View> view, bool collective)
      : Request(Kind::file), access(place, write, false, std::move(view)), collective_(collective), pending_(pending) {
    ++pending_;
  }

  /// Whether it must be completed by the user (MPI 5.0, 6.12), as those of collective operations.
  bool is_collective() const { return collective_; }
  /// Runs the flow, which moves `access`, to its first wait.
  void go(ProgressEngine& progress, Flow flow);
  /// Over from the start.
  void fail(Error why);
  /// Of a complete request, in a call of the user's: the user's own conversion of what was read, if it is still to be
  /// made.
  void settle();

  Access access;

 protected:
  void destroy() override { delete this; }

 private:
  void finish(Request& flow);

  const bool collective_;
  bool unsettled_ = false;
  int& pending_;
};

}  // namespace tern::io
