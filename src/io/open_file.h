// OpenFile: a file as this rank has it open: its descriptors and what is known of it. Thread rule: under the rank's
// lock.
#pragma once

#include <string>

#include "base/error.h"
#include "io/file_system.h"

namespace tern::io {

class Environment;

/// Access modes, by the ABI's numbers.
namespace mode {
inline constexpr int kAppend = 1, kCreate = 2, kDeleteOnClose = 4, kExclusive = 8, kReadOnly = 16, kReadWrite = 32,
                     kSequential = 64, kUniqueOpen = 128, kWriteOnly = 256;
}

struct OpenFile {
  std::string path;
  int descriptor = -1;
  int direct = -1;  ///< the same file past the page cache, for transfers whose ends are aligned; -1: not wanted
  bool readable = false, writable = false;
  FileFacts facts;

  /// `create`: if the mode says so; only one rank may. For a pipe it waits until its other end is there.
  Error open(Environment& environment, int amode, bool create, unsigned permissions);
  /// Opens it past the page cache, too. False: the file system cannot do that.
  bool open_direct(FileSystem& files);
  /// No effect if it is not open.
  Error close(FileSystem& files);
};

}  // namespace tern::io
