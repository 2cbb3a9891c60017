// Standard input for a rank on another host: read as the rank takes it, and of a terminal only while we are in its
// foreground.
// Thread rule: the event loop.
#pragma once

#include <cstddef>
#include <string>

namespace tern::mpiexec {

class RemoteInput {
 public:
  RemoteInput();
  /// Input may be read now.
  bool wanted() const;
  /// It can be waited for; else, as a file, it is always there.
  bool can_be_watched() const { return watchable_; }
  /// Reads some; empty: the end. False: there is nothing now.
  bool read(std::string& bytes);
  /// The rank has taken so much.
  void taken(size_t bytes);

 private:
  bool terminal_, watchable_, ended_ = false;
  size_t on_the_way_ = 0;
};

}  // namespace tern::mpiexec
