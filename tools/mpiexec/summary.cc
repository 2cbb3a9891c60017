#include "summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "base/recorder.h"

namespace tern::mpiexec {
namespace {

constexpr size_t kMaxRows = 32;       // in the table; beyond it the extremes
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

/// "<=4K".
std::string size_label(size_t bytes) {
  return bytes < 1024        ? fmt::format("<={}", bytes)
         : bytes < (1 << 20) ? fmt::format("<={}K", bytes >> 10)
                             : fmt::format("<={}M", bytes >> 20);
}

uint64_t sum(const SizedCounter& counter) {
  uint64_t total = 0;
  for (uint64_t value : counter) total += value;
  return total;
}

/// What one rank did, added up.
struct Line {
  const Record* record;
  uint64_t total_ns = 0, mpi_ns = 0, wait_ns = 0;
  uint64_t sent = 0, sent_bytes = 0, received = 0, unexpected = 0;
  uint64_t compute_ns() const { return total_ns - std::min(total_ns, mpi_ns); }
};

/// The rows that count sent messages by protocol: "sent_eager" and "sent_eager_bytes".
struct ProtocolRow {
  std::string name;
  const CounterRow *messages = nullptr, *bytes = nullptr;
};
std::vector<ProtocolRow> protocol_rows() {
  std::vector<ProtocolRow> rows;
  for (const CounterRow& row : counter_rows()) {
    std::string_view name(row.name);
    if (row.elements == 1 || !name.starts_with("sent_")) continue;
    if (name.ends_with("_bytes")) {
      rows.back().bytes = &row;
    } else {
      rows.push_back({std::string(name.substr(5)), &row, nullptr});
      std::replace(rows.back().name.begin(), rows.back().name.end(), '_', '-');
    }
  }
  return rows;
}

uint64_t row_sum(const CounterRow& row, const Counters& counters) {
  uint64_t total = 0;
  for (uint32_t i = 0; i < row.elements; ++i) total += row.in(counters)[i];
  return total;
}

/// How long the rank had been in the call in which it ended; 0: in none, or its clock is not ours.
uint64_t unfinished_ns(const Record& record, uint64_t ended_ns) {
  const record::Header& header = record.header();
  if (!record.unfinished_call() || Recorder::clock_domain() != record.clock_domain()) return 0;
  return ended_ns - std::min(ended_ns, header.current_since_ns);
}

Line line_of(const Record& record, uint64_t ended_ns) {
  const record::Header& header = record.header();
  const Counters& counters = header.counters;
  Line line{&record};
  uint64_t last = header.last_ns;
  for (uint32_t i = 0; i < header.functions; ++i) line.mpi_ns += header.totals[i].time_ns;
  if (const uint64_t lasted = unfinished_ns(record, ended_ns)) {
    line.mpi_ns += lasted;
    last = ended_ns;
  }
  line.total_ns = last - std::min(last, header.first_ns);
  line.wait_ns = counters.wait;
  for (const ProtocolRow& row : protocol_rows()) {
    line.sent += row_sum(*row.messages, counters);
    line.sent_bytes += row_sum(*row.bytes, counters);
  }
  line.unexpected = sum(counters.received_unexpected);
  line.received = sum(counters.received_expected) + line.unexpected;
  return line;
}

std::string rank_line(const std::string& name, const Line& line) {
  return fmt::format("{:>6} {:>10.3f} {:>10.3f} {:>5.1f} {:>10.3f} {:>5.1f} {:>11} {:>11} {:>11} {:>6.1f}\n", name,
                     seconds(line.total_ns), seconds(line.mpi_ns), percent(double(line.mpi_ns), double(line.total_ns)),
                     seconds(line.wait_ns), percent(double(line.wait_ns), double(line.total_ns)), line.sent,
                     amount(line.sent_bytes), line.received, percent(double(line.unexpected), double(line.received)));
}

std::string ranks_table(const std::vector<Line>& lines) {
  std::string out = fmt::format("{:>6} {:>10} {:>10} {:>5} {:>10} {:>5} {:>11} {:>11} {:>11} {:>6}\n", "rank", "time s",
                                "in MPI s", "%", "waiting s", "%", "sent", "bytes", "received", "unex.%");
  if (lines.size() <= kMaxRows) {
    for (const Line& line : lines) out += rank_line(fmt::format("{}", line.record->rank()), line);
  } else {
    auto less = [](const Line& a, const Line& b) { return a.mpi_ns < b.mpi_ns; };
    for (auto* line :
         {&*std::min_element(lines.begin(), lines.end(), less), &*std::max_element(lines.begin(), lines.end(), less)}) {
      out += rank_line(fmt::format("{}", line->record->rank()), *line);
    }
    out += fmt::format("       (least and most time in MPI, of {} ranks)\n", lines.size());
  }
  Line all{nullptr};
  for (const Line& line : lines) {
    all.total_ns += line.total_ns;
    all.mpi_ns += line.mpi_ns;
    all.wait_ns += line.wait_ns;
    all.sent += line.sent;
    all.sent_bytes += line.sent_bytes;
    all.received += line.received;
    all.unexpected += line.unexpected;
  }
  return out + rank_line("all", all);
}

// Time outside of MPI is the program's work; who has most of it is waited for.
std::string imbalance(const std::vector<Line>& lines) {
  double total = 0;
  const Line* most = &lines[0];
  for (const Line& line : lines) {
    total += seconds(line.compute_ns());
    if (line.compute_ns() > most->compute_ns()) most = &line;
  }
  const double mean = total / double(lines.size()), longest = seconds(most->compute_ns());
  return fmt::format(
      "imbalance: outside of MPI {:.3f} s on average, {:.3f} s at most (rank {}): {:.1f} % of the latter lost to "
      "waiting for it\n",
      mean, longest, most->record->rank(), percent(longest - mean, longest));
}

std::string functions_table(const std::vector<Line>& lines) {
  struct Row {
    uint64_t calls = 0, time_ns = 0, wait_ns = 0, longest_ns = 0;
    int longest_rank = 0;
  };
  std::map<std::string, Row> rows;
  double whole = 0;
  for (const Line& line : lines) {
    const record::Header& header = line.record->header();
    whole += double(line.total_ns);
    for (uint32_t i = 0; i < header.functions; ++i) {
      const record::Totals& totals = header.totals[i];
      if (totals.calls == 0) continue;
      Row& row = rows[line.record->function_name(i)];
      row.calls += totals.calls;
      row.time_ns += totals.time_ns;
      row.wait_ns += totals.wait_ns;
      if (totals.longest_ns > row.longest_ns)
        row.longest_ns = totals.longest_ns, row.longest_rank = line.record->rank();
    }
  }
  std::vector<std::pair<std::string, Row>> order(rows.begin(), rows.end());
  std::stable_sort(order.begin(), order.end(), [](auto& a, auto& b) { return a.second.time_ns > b.second.time_ns; });
  std::string out = fmt::format("\n{:<28} {:>11} {:>10} {:>9} {:>10} {:>11} {:>6}\n", "function (all ranks)", "calls",
                                "time s", "% of all", "waiting s", "longest ms", "rank");
  for (size_t i = 0; i < order.size() && i < kMaxFunctions; ++i) {
    const Row& row = order[i].second;
    out += fmt::format("{:<28} {:>11} {:>10.3f} {:>9.1f} {:>10.3f} {:>11.3f} {:>6}\n", order[i].first, row.calls,
                       seconds(row.time_ns), percent(double(row.time_ns), whole), seconds(row.wait_ns),
                       double(row.longest_ns) * 1e-6, row.longest_rank);
  }
  if (order.size() > kMaxFunctions) out += fmt::format("and {} other functions\n", order.size() - kMaxFunctions);
  return out;
}

std::string messages_table(const std::vector<Line>& lines) {
  std::string out = fmt::format("\n{:<18}", "messages (all)");
  for (size_t i = 0; i + 1 < kSizeClasses; ++i) out += fmt::format(" {:>9}", size_label(size_class_limit(i)));
  out += fmt::format(" {:>9} {:>11} {:>11}\n", "longer", "messages", "bytes");
  auto add = [&](const std::string& name, const CounterRow& messages, const CounterRow& bytes) {
    SizedCounter by_size{};
    uint64_t count = 0, size = 0;
    for (const Line& line : lines) {
      const Counters& counters = line.record->header().counters;
      for (size_t i = 0; i < kSizeClasses; ++i) by_size[i] += messages.in(counters)[i];
      count += row_sum(messages, counters);
      size += row_sum(bytes, counters);
    }
    if (count == 0) return;
    out += fmt::format("{:<18}", name);
    for (uint64_t value : by_size) out += fmt::format(" {:>9}", value);
    out += fmt::format(" {:>11} {:>11}\n", count, amount(size));
  };
  for (const ProtocolRow& row : protocol_rows()) add("sent " + row.name, *row.messages, *row.bytes);
  const CounterRow* before = nullptr;
  for (const CounterRow& row : counter_rows()) {
    std::string_view name(row.name);
    if (!name.starts_with("received_")) continue;
    if (name.ends_with("_bytes") && before) add("came " + std::string(before->name + 9), *before, row);
    before = &row;
  }
  return out;
}

// Channels, changes and memory of the path; nothing if no rank has used it. Bytes of memory as amounts.
std::string rdma_table(const std::vector<Line>& lines) {
  std::string out;
  for (const CounterRow& row : counter_rows()) {
    if (row.group != std::string_view("rdma")) continue;
    uint64_t total = 0;
    for (const Line& line : lines) total += row_sum(row, line.record->header().counters);
    if (total == 0) continue;
    const bool memory = row.unit == std::string_view("bytes");
    out += fmt::format("{:<28} {:>11} {}\n", row.name, memory ? amount(total) : std::to_string(total),
                       memory ? "" : row.unit);
  }
  return out.empty() ? out : "\nRDMA (all ranks)\n" + out;
}

}  // namespace

std::string summary_of(const Records& records, int ranks, uint64_t ended_ns) {
  std::vector<Line> lines;
  for (auto& record : records) lines.push_back(line_of(*record, ended_ns));
  if (lines.empty()) return "mpiexec: no summary: no rank has called MPI_Init of this Tern\n";
  std::string out = fmt::format("\nmpiexec: summary of {} ranks\n", ranks);
  if (int(lines.size()) < ranks) out += fmt::format("{} ranks have left no record\n", ranks - int(lines.size()));
  out += ranks_table(lines) + imbalance(lines) + functions_table(lines) + messages_table(lines) + rdma_table(lines);
  for (const Line& line : lines) {
    if (line.record->header().finished) continue;
    const std::string* call = line.record->unfinished_call();
    out += call ? fmt::format("rank {} did not finish: it was in {} for {:.3f} s\n", line.record->rank(), *call,
                              seconds(unfinished_ns(*line.record, ended_ns)))
                : fmt::format("rank {} did not finish: it was outside of MPI\n", line.record->rank());
  }
  return out;
}

}  // namespace tern::mpiexec
