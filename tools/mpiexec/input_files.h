// The text files that users give to mpiexec: hosts (-hostfile), and a command line (-configfile). For any content the
// result is words, or the number of the wrong line.
// Thread rule: pure functions.
#pragma once

#include <istream>
#include <string>
#include <vector>

#include "shares.h"

namespace tern::mpiexec {

/// Lines "host", "host:4", "host slots=4" (further words are passed over), "# comment".
std::vector<Host> read_hosts(std::istream& file);

/// A file of segments, one per line, separated by ":" in `words`. A line that ends in a backslash continues on the next
/// one; a line that begins with # is a comment. Words as a shell separates them: blanks, quotes of both kinds,
/// backslashes. Returns 0, or the number of the line in which a quote is open.
int read_command_words(std::istream& file, std::vector<std::string>& words);

}  // namespace tern::mpiexec
