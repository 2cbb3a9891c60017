#include "process/launch/pmi_text.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace tern {

PmiLine::PmiLine(std::string_view line) {
  size_t at = 0;
  while (at < line.size()) {
    size_t end = line.find(' ', at);
    if (end == std::string_view::npos) end = line.size();
    std::string_view field = line.substr(at, end - at);
    size_t equals = field.find('=');
    if (equals != std::string_view::npos) fields_.emplace_back(field.substr(0, equals), field.substr(equals + 1));
    at = end + 1;
  }
}

std::string_view PmiLine::operator[](std::string_view name) const {
  for (auto& [key, value] : fields_) {
    if (key == name) return value;
  }
  return {};
}

bool PmiLine::has(std::string_view name) const {
  for (auto& field : fields_) {
    if (field.first == name) return true;
  }
  return false;
}

long PmiLine::number(std::string_view name, long otherwise) const {
  std::string_view text = (*this)[name];
  long value = 0;
  auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failure == std::errc() && end == text.data() + text.size() ? value : otherwise;
}

bool PmiLines::next(std::string_view& line) {
  size_t end = bytes_.find('\n', start_);
  if (end == std::string::npos) {
    bytes_.erase(0, start_);
    start_ = 0;
    return false;
  }
  line = std::string_view(bytes_).substr(start_, end - start_);
  start_ = end + 1;
  return true;
}

namespace {

struct Block {
  long first_node = 0, nodes = 0, ranks_per_node = 0;
};

// "(vector,(0,1,4),(1,2,1))" to blocks; false when malformed.
bool parse_blocks(std::string_view text, std::vector<Block>& blocks) {
  constexpr std::string_view kHead = "(vector";
  if (!text.starts_with(kHead) || !text.ends_with(')')) return false;
  text.remove_prefix(kHead.size());
  text.remove_suffix(1);
  while (!text.empty()) {
    if (!text.starts_with(",(")) return false;
    text.remove_prefix(2);
    long numbers[3];
    for (int i = 0; i < 3; ++i) {
      auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), numbers[i]);
      size_t used = size_t(end - text.data());
      if (failure != std::errc() || numbers[i] < 0 || used >= text.size() || text[used] != (i < 2 ? ',' : ')'))
        return false;
      text.remove_prefix(used + 1);
    }
    blocks.push_back({numbers[0], numbers[1], numbers[2]});
  }
  return true;
}

// The node of each rank; empty: it is no mapping.
std::vector<long> place_ranks(std::string_view text, int size) {
  std::vector<Block> blocks;
  if (!parse_blocks(text, blocks)) return {};
  long placed_per_round = 0;
  for (auto& block : blocks) {
    // More than `size` in one block only repeats itself; the cap keeps garbage from overflowing.
    block.nodes = std::min<long>(block.nodes, size);
    block.ranks_per_node = std::min<long>(block.ranks_per_node, size);
    placed_per_round += block.nodes * block.ranks_per_node;
  }
  if (placed_per_round == 0) return {};
  std::vector<long> node_of;
  node_of.reserve(size_t(size));
  while (node_of.size() < size_t(size)) {
    for (auto& block : blocks) {
      for (long node = 0; node < block.nodes; ++node) {
        for (long i = 0; i < block.ranks_per_node && node_of.size() < size_t(size); ++i) {
          node_of.push_back(block.first_node + node);
        }
      }
    }
  }
  return node_of;
}

}  // namespace

std::vector<int> parse_process_mapping(std::string_view text, int rank, int size) {
  const std::vector<long> node_of = place_ranks(text, size);
  std::vector<int> local;
  for (int other = 0; other < int(node_of.size()); ++other) {
    if (node_of[size_t(other)] == node_of[size_t(rank)]) local.push_back(other);
  }
  return local;
}

int nodes_of_mapping(std::string_view text, int size) {
  std::vector<long> nodes = place_ranks(text, size);
  std::sort(nodes.begin(), nodes.end());
  return int(std::unique(nodes.begin(), nodes.end()) - nodes.begin());
}

std::vector<int> parse_rank_list(std::string_view text, int rank, int size) {
  std::vector<int> ranks{rank};
  while (!text.empty()) {
    int next = -1;
    auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), next);
    if (failure != std::errc()) break;
    if (next >= 0 && next < size) ranks.push_back(next);
    text.remove_prefix(std::min(text.size(), size_t(end - text.data()) + 1));
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

std::string escape_line_breaks(std::string_view text) {
  std::string line;
  for (const char c : text) {
    if (c == '\n') line += "\\n";
    else if (c == '\\') line += "\\\\";
    else line += c;
  }
  return line;
}

std::string unescape_line_breaks(std::string_view line) {
  std::string text;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\\' || i + 1 == line.size()) text += line[i];
    else text += line[++i] == 'n' ? '\n' : line[i];
  }
  return text;
}

std::string url_safe_base64(std::string_view bytes) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string text;
  uint32_t bits = 0;
  int held = 0;
  for (const char c : bytes) {
    bits = bits << 8 | uint8_t(c);
    for (held += 8; held >= 6; held -= 6) text += kDigits[bits >> (held - 6) & 63];
  }
  if (held > 0) text += kDigits[bits << (6 - held) & 63];
  return text;
}

}  // namespace tern
