// Tunables from files: TOML, one `name = value` for each ("64K" or 65536, text for text rows). The files are read in
// this order, later values win, and the environment wins over all:
//
//   PREFIX/etc/tern.toml                                the installation's
//   $XDG_CONFIG_HOME/tern/tern.toml, else ~/.config/…   the user's
//   $TERN_CONFIG                                        in place of both; empty: no file
//
// Thread rule: called once, before threads.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/tunables.h"

namespace tern {

struct Configuration {
  std::vector<std::string> files;     ///< files that were read
  std::vector<std::string> warnings;  ///< unknown names; those from files with file and line
};

/// Reads one file. A missing file, and one that another user could change (owned_file.h; `also`: one more who may), is
/// an error only if `required`; the latter is warned of. Error, with file and line: not TOML, or a value that its
/// tunable does not take.
Error read_config_file(const std::string& path, bool required, Tunables& tunables, Configuration& found,
                       uid_t also = 0);

/// Reads files, then the environment. `prefix`: where Tern is installed; empty: not known. The environment is read even
/// when a file is wrong. Returns the first mistake.
Error read_tunables(const char* const* environment, const std::string& prefix, Tunables& tunables,
                    Configuration& found);

}  // namespace tern
