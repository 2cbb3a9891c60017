#include "report.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "names.gen.h"

namespace tern::simulate {
namespace {

constexpr size_t kMaxFunctions = 12;  // the longest first; the rest as one line

double seconds(uint64_t ns) { return double(ns) * 1e-9; }
double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

std::string amount(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = double(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit < 4) value /= 1024, ++unit;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

uint64_t sum(const CounterRow& row, const Counters& counters) {
  uint64_t total = 0;
  for (uint32_t i = 0; i < row.elements; ++i) total += row.in(counters)[i];
  return total;
}

/// The rows that count sent messages by protocol, not those of their bytes.
bool counts_sent(const CounterRow& row) {
  const std::string_view name(row.name);
  return row.elements > 1 && name.starts_with("sent_") && !name.ends_with("_bytes");
}

std::string size_label(size_t index) {
  if (index + 1 == kSizeClasses) return "longer";
  const size_t bytes = size_class_limit(index);
  return bytes < 1024        ? fmt::format("<={}", bytes)
         : bytes < (1 << 20) ? fmt::format("<={}K", bytes >> 10)
                             : fmt::format("<={}M", bytes >> 20);
}

std::string calls_table(const sim::SimulatedJobReport& report, uint32_t ranks) {
  const auto names = capi::function_names();
  std::vector<size_t> order;
  for (size_t i = 0; i < report.calls.size(); ++i) {
    if (report.calls[i].calls != 0) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return report.calls[a].time_ns > report.calls[b].time_ns; });
  const double whole = seconds(report.time_ns) * ranks;
  std::string out = fmt::format("{:<28} {:>11} {:>12} {:>9} {:>11}\n", "function (all ranks)", "calls", "time s",
                                "% of all", "longest ms");
  for (size_t i = 0; i < order.size() && i < kMaxFunctions; ++i) {
    const sim::CallTotals& totals = report.calls[order[i]];
    out +=
        fmt::format("{:<28} {:>11} {:>12.6f} {:>9.1f} {:>11.3f}\n", names[order[i]], totals.calls,
                    seconds(totals.time_ns), percent(seconds(totals.time_ns), whole), double(totals.longest_ns) * 1e-6);
  }
  if (order.size() > kMaxFunctions) out += fmt::format("and {} other functions\n", order.size() - kMaxFunctions);
  return out;
}

std::string messages_table(const Counters& counters) {
  std::string out = fmt::format("\n{:<20}", "messages (all ranks)");
  for (size_t i = 0; i < kSizeClasses; ++i) out += fmt::format(" {:>9}", size_label(i));
  out += fmt::format(" {:>11} {:>11}\n", "messages", "bytes");
  const auto rows = counter_rows();
  for (size_t i = 0; i < rows.size(); ++i) {
    const CounterRow& row = rows[i];
    if (!counts_sent(row) || sum(row, counters) == 0) continue;
    std::string name(row.name + 5);
    std::replace(name.begin(), name.end(), '_', '-');
    out += fmt::format("{:<20}", "sent " + name);
    for (size_t size = 0; size < kSizeClasses; ++size) out += fmt::format(" {:>9}", row.in(counters)[size]);
    const bool bytes = i + 1 < rows.size() && std::string_view(rows[i + 1].name) == std::string(row.name) + "_bytes";
    out += fmt::format(" {:>11} {:>11}\n", sum(row, counters), bytes ? amount(sum(rows[i + 1], counters)) : "");
  }
  return out;
}

std::string rdma_table(const Counters& counters) {
  std::string out;
  for (const CounterRow& row : counter_rows()) {
    const uint64_t total = sum(row, counters);
    if (row.group != std::string_view("rdma") || total == 0) continue;
    const bool memory = row.unit == std::string_view("bytes");
    out += fmt::format("{:<28} {:>11} {}\n", row.name, memory ? amount(total) : std::to_string(total),
                       memory ? "" : row.unit);
  }
  return out.empty() ? out : "\nRDMA (all ranks)\n" + out;
}

const char* compute_text(sim::ComputeKind compute) {
  switch (compute) {
    case sim::ComputeKind::none: return "computation takes no time";
    case sim::ComputeKind::constant: return "computation takes a constant time";
    case sim::ComputeKind::measured: return "computation measured";
    case sim::ComputeKind::recorded: return "computation as recorded";
  }
  return "";
}

}  // namespace

std::string headline(const sim::SimulatedJobReport& report, const sim::WorldOptions& world, const std::string& machine,
                     sim::ComputeKind compute, double real_s) {
  const uint32_t nodes = (world.ranks + world.ranks_per_node - 1) / world.ranks_per_node;
  const double whole = seconds(report.time_ns) * world.ranks;
  std::string out = fmt::format(
      "\nmpiexec: simulated {} ranks on {} nodes of '{}': {:.6f} s (rank {} ends last), {:.1f} % of it in MPI; {}\n",
      world.ranks, nodes, machine, seconds(report.time_ns), report.last_rank, percent(seconds(report.mpi_ns), whole),
      compute_text(compute));
  out += fmt::format("{} events and {} packets in {:.1f} s, {:.2f} million events a second\n", report.run.events,
                     report.run.packets, real_s, real_s > 0 ? double(report.run.events) * 1e-6 / real_s : 0);
  for (const std::string& what : report.cannot) out += "a program " + what + "\n";
  return out;
}

std::string tables(const sim::SimulatedJobReport& report, uint32_t ranks) {
  std::string out = "\n" + calls_table(report, ranks) + messages_table(report.counters);
  if (!report.links.empty()) out += "\n" + report.links;
  return out + rdma_table(report.counters);
}

uint64_t messages_sent(const Counters& counters) {
  uint64_t total = 0;
  for (const CounterRow& row : counter_rows()) {
    if (counts_sent(row)) total += sum(row, counters);
  }
  return total;
}

std::string what_if_table(const std::vector<std::string>& names, const std::vector<WhatIf>& rows) {
  std::vector<size_t> widths;
  for (size_t i = 0; i < names.size(); ++i) {
    widths.push_back(names[i].size());
    for (const WhatIf& row : rows) widths[i] = std::max(widths[i], row.values[i].size());
  }
  std::string out = "\n";
  for (size_t i = 0; i < names.size(); ++i) out += fmt::format("{:<{}}  ", names[i], widths[i]);
  out += fmt::format("{:>12} {:>9} {:>9} {:>12}\n", "time s", "relative", "% in MPI", "messages");
  for (const WhatIf& row : rows) {
    for (size_t i = 0; i < names.size(); ++i) out += fmt::format("{:<{}}  ", row.values[i], widths[i]);
    if (row.exit_code != 0) {
      out += fmt::format("failed, exit code {}\n", row.exit_code);
      continue;
    }
    const double first = rows[0].exit_code == 0 ? rows[0].time_s : 0;
    out += fmt::format("{:>12.6f} {:>9} {:>9.1f} {:>12.0f}\n", row.time_s,
                       first > 0 ? fmt::format("{:.3f}", row.time_s / first) : "", row.mpi_percent, row.messages);
  }
  return out;
}

}  // namespace tern::simulate
