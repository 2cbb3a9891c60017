// The table of mpiexec --top, as text.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "top.h"

namespace tern::top {
namespace {

std::string mebibytes(uint64_t bytes) { return fmt::format("{:.1f}", double(bytes) / double(1 << 20)); }

/// "eager 80 % receiver_put 20 %": by bytes.
std::string mix(const TopRank& rank) {
  std::vector<std::pair<double, std::string>> parts;
  double sum = 0;
  for (const auto& [name, bytes] : rank.by_protocol) {
    if (bytes > 0) parts.emplace_back(bytes, name);
    sum += std::max(0.0, bytes);
  }
  std::sort(parts.rbegin(), parts.rend());
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(2, parts.size()); ++i)
    text += fmt::format("{}{} {:.0f}%", i == 0 ? "" : " ", parts[i].second, 100 * parts[i].first / sum);
  return text;
}

}  // namespace

std::string scaled(double value) {
  static constexpr const char* kUnits[] = {"", "k", "M", "G", "T"};
  size_t unit = 0;
  for (; value >= 9999.5 && unit + 1 < std::size(kUnits); ++unit) value /= 1000;
  return fmt::format("{:.{}f}{}", value, unit != 0 && value < 99.95 ? 1 : 0, kUnits[unit]);
}

std::vector<std::string> top_lines(std::vector<TopRank> ranks, TopOrder order) {
  std::stable_sort(ranks.begin(), ranks.end(), [order](const TopRank& a, const TopRank& b) {
    switch (order) {
      case TopOrder::rank: return a.rank < b.rank;
      case TopOrder::in_mpi: return a.in_mpi > b.in_mpi;
      case TopOrder::messages: return a.messages_s > b.messages_s;
      case TopOrder::bytes: return a.bytes_s > b.bytes_s;
      case TopOrder::memory: return a.resident_bytes > b.resident_bytes;
    }
    return false;
  });
  std::vector<std::string> lines{fmt::format("{:>6} {:<16} {:>4} {:>8} {:>6} {:>7} {:>8} {:>9} {:>8}  {:<44} {}",
                                             "rank", "host", "core", "process", "MPI %", "sent/s", "bytes/s", "MiB",
                                             "unread", "in", "protocols")};
  for (const TopRank& r : ranks) {
    lines.push_back(
        fmt::format("{:>6} {:<16} {:>4} {:>8} {:>6} {:>7} {:>8} {:>9} {:>8}  {:<44} {}", r.rank, r.host.substr(0, 16),
                    r.core, r.process, r.in_mpi < 0 ? "?" : fmt::format("{:.0f}", 100 * r.in_mpi), scaled(r.messages_s),
                    scaled(r.bytes_s), mebibytes(r.resident_bytes), mebibytes(r.unexpected_bytes), r.waits, mix(r)));
  }
  return lines;
}

}  // namespace tern::top
