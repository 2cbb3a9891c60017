// The text of PMI-1: one command per line, "cmd=put kvsname=k key=a value=b", fields in any order, separated
// by blanks, no escapes. Shared by the client (pmi1.cc) and by mpiexec, which serves it.
//
// Thread rule: values and single owners.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tern {

/// One parsed line. Borrows the text it was made from.
class PmiLine {
 public:
  explicit PmiLine(std::string_view line);
  /// The value of the first field of that name; empty when there is none.
  std::string_view operator[](std::string_view name) const;
  bool has(std::string_view name) const;
  /// The value as a whole number, `otherwise` when absent or not a number.
  long number(std::string_view name, long otherwise) const;
  std::string_view command() const { return (*this)["cmd"]; }

 private:
  std::vector<std::pair<std::string_view, std::string_view>> fields_;
};

/// Bytes in, lines out.
class PmiLines {
 public:
  void append(const char* data, size_t size) { bytes_.append(data, size); }
  /// The next whole line without its newline, valid until the next call of append() or next().
  bool next(std::string_view& line);
  size_t pending() const { return bytes_.size() - start_; }

 private:
  std::string bytes_;
  size_t start_ = 0;
};

/// Before the name of a field whose value has line breaks; between our mpiexec and its ranks.
inline constexpr std::string_view kEscapedField = "escaped_";
/// A line break is "\n" there, a backslash "\\".
std::string escape_line_breaks(std::string_view text);
std::string unescape_line_breaks(std::string_view line);

/// Any bytes as letters, digits, '-' and '_' (RFC 4648, section 5, without padding).
std::string url_safe_base64(std::string_view bytes);

/// Ranks on the node of `rank` by PMI_process_mapping, "(vector,(first node,nodes,ranks per node),...)"; the
/// blocks repeat until `size` ranks are placed. Empty when the text is not such a mapping.
std::vector<int> parse_process_mapping(std::string_view text, int rank, int size);
/// How many nodes it names for `size` ranks; 0: it is no mapping.
int nodes_of_mapping(std::string_view text, int size);

/// "0,2,3" (PMIX_LOCAL_PEERS): those of 0 to `size` - 1 up to the first that is no number, sorted, each once, with
/// `rank` among them in any case.
std::vector<int> parse_rank_list(std::string_view text, int rank, int size);

}  // namespace tern
