// The text files that users give to mpiexec: hosts (-hostfile), and a command line (-configfile). For any content the
// result is words, or the number of the wrong line.
// Thread rule: pure functions.
#pragma once

#include <istream>
#include <string>
#include <vector>

namespace tern::mpiexec {

/// "node1:4" (host and ranks) to "node1"; an IPv6 address keeps its colons.
std::string without_slots(const std::string& host);

/// Lines "host", "host:4", "host slots=4", "# comment".
std::vector<std::string> read_hosts(std::istream& file);

/// A file of segments, one per line, separated by ":" in `words`. A line that ends in a backslash continues on the next
/// one; a line that begins with # is a comment. Words as a shell separates them: blanks, quotes of both kinds,
/// backslashes. Returns 0, or the number of the line in which a quote is open.
int read_command_words(std::istream& file, std::vector<std::string>& words);

}  // namespace tern::mpiexec
