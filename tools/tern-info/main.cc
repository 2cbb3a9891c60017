// tern-info: what this Tern is, what it finds on this machine, and the table of tunables.
//
//   tern-info                version, configuration, launchers, paths
//   tern-info --tunables     the tunables: name, value here, default, range, meaning
//   tern-info --counters     the counters that every rank keeps: name, class, unit, meaning
//   tern-info --collectives SHAPE   which algorithm each collective uses, and why, in a communicator of that shape:
//                            4x24 (4 nodes of 24 ranks) or 24 (ranks on one node)
//   tern-info --json         everything, for programs
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "base/config_file.h"
#include "base/counters.h"
#include "base/tunables.h"
#include "coll/describe.h"
#include "probe.h"

extern char** environ;

namespace {

using tern::TunableRow;

std::string variable(std::string_view name) {
  std::string text = "TERN_";
  for (char c : name) text += c >= 'a' && c <= 'z' ? char(c - 'a' + 'A') : c;
  return text;
}

std::string quote(std::string_view text) {
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (uint8_t(c) < 0x20) {
      quoted += fmt::format("\\u{:04x}", uint8_t(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

void print_tunables(const tern::Tunables& tunables) {
  for (const TunableRow& row : tern::tunable_rows()) {
    const std::string value = tunables.get(row.name);
    const std::string initial = row.is_integer ? std::to_string(row.initial) : row.initial_text;
    fmt::print("{}={}\n", variable(row.name), value);
    std::string facts = fmt::format("default {}", initial.empty() ? "(empty)" : initial);
    if (row.is_integer) facts += fmt::format(", {} to {}", row.minimum, row.maximum);
    if (*row.unit) facts += fmt::format(", in {}", row.unit);
    if (row.ranks_must_agree) facts += ", the same for all ranks";
    fmt::print("    {}{}\n    {}\n", facts, value == initial ? "" : " (changed here)", row.meaning);
  }
}

// The reference page: what holds everywhere, nothing of this machine.
void print_markdown() {
  fmt::print(
      "# Tunables\n\nEach is read once, when a program starts, from the environment variable of its name. An "
      "unknown TERN_ variable is ignored, with a warning that has the nearest name.\n\n"
      "| variable | default | range | unit | meaning |\n|---|---|---|---|---|\n");
  for (const TunableRow& row : tern::tunable_rows()) {
    const std::string initial = row.is_integer ? std::to_string(row.initial) : row.initial_text;
    const std::string range = row.is_integer ? fmt::format("{} to {}", row.minimum, row.maximum) : "text";
    fmt::print("| `{}` | {} | {} | {} | {}{} |\n", variable(row.name), initial.empty() ? "(empty)" : initial, range,
               row.unit, row.meaning, row.ranks_must_agree ? "; the same for all ranks" : "");
  }
}

std::string unit_of(const tern::CounterRow& row) {
  return fmt::format("{}{}", row.unit, row.elements > 1 ? ", by size class" : "");
}

void print_counters() {
  for (const tern::CounterGroup& group : tern::counter_groups()) {
    fmt::print("{}: {}\n", group.name, group.meaning);
    for (const tern::CounterRow& row : tern::counter_rows()) {
      if (row.group != std::string_view(group.name)) continue;
      fmt::print("  {} ({}, {})\n      {}\n", row.name, tern::counter_class_name(row.counter_class), unit_of(row),
                 row.meaning);
    }
  }
}

void print_counters_markdown() {
  fmt::print(
      "# Counters\n\nEvery rank keeps them all the time. `mpiexec --summary` prints the most important ones at the end "
      "of a job; a "
      "program reads them as MPI_T performance variables of the same names. Rows by size class have {} elements: "
      "messages ",
      tern::kSizeClasses);
  for (size_t i = 0; i + 1 < tern::kSizeClasses; ++i) fmt::print("of up to {} bytes, ", tern::size_class_limit(i));
  fmt::print("and longer.\n");
  for (const tern::CounterGroup& group : tern::counter_groups()) {
    fmt::print("\n## {}\n\n{}.\n\n| counter | class | unit | meaning |\n|---|---|---|---|\n", group.name,
               group.meaning);
    for (const tern::CounterRow& row : tern::counter_rows()) {
      if (row.group != std::string_view(group.name)) continue;
      fmt::print("| `{}` | {} | {} | {} |\n", row.name, tern::counter_class_name(row.counter_class), unit_of(row),
                 row.meaning);
    }
  }
}

void print_text(const tern::Tunables& tunables, const tern::Configuration& configuration,
                const tern::info::Findings& found) {
  fmt::print("Tern {}: MPI 5.0, standard ABI\n", TERN_VERSION);
  fmt::print("  build         {}, {}{}\n", TERN_BUILD_TYPE, TERN_COMPILER,
             *TERN_SANITIZE ? std::string(", sanitizer ") + TERN_SANITIZE : "");
  fmt::print("  library       {}\n",
             found.library.empty() ? "libmpi_abi.so is not beside this program" : found.library);
  fmt::print("  processors    {}{}\n", found.cores,
             found.cores_quota > 0 ? fmt::format(" (a control group's quota of {})", found.cores_quota) : "");
  fmt::print("launchers\n");
  fmt::print("  mpiexec       {}\n", found.mpiexec.empty() ? "not beside this program" : found.mpiexec);
  fmt::print("  PMI-1         built in (mpiexec of Tern and of MPICH, srun --mpi=pmi2)\n");
  fmt::print("  PMIx          {}\n", found.pmix);
  fmt::print("paths\n");
  fmt::print("  self          yes\n");
  fmt::print("  shm           {}; one copy by cross-memory attach: {}\n", found.shared_memory,
             found.cross_memory_attach);
  fmt::print("  tcp           {}\n",
             found.interfaces.empty() ? "no interface is up" : fmt::format("{}", fmt::join(found.interfaces, ", ")));
  for (const std::string& adapter : found.adapters) fmt::print("  rdma          {}\n", adapter);
  for (const std::string& provider : found.providers) fmt::print("  ofi           {}\n", provider);
  fmt::print("configuration {}\n", configuration.files.empty()
                                       ? "no file (docs/paths.md: where one may be)"
                                       : fmt::format("{}", fmt::join(configuration.files, ", ")));
  size_t changed = 0;
  for (const TunableRow& row : tern::tunable_rows()) {
    const std::string initial = row.is_integer ? std::to_string(row.initial) : row.initial_text;
    const std::string value = tunables.get(row.name);
    if (value == initial) continue;
    if (changed++ == 0) fmt::print("tunables changed here\n");
    fmt::print("  {}={} (default {})\n", variable(row.name), value, initial);
  }
  fmt::print("{} tunables; tern-info --tunables explains them\n", tern::tunable_rows().size());
  fmt::print("{} counters; tern-info --counters explains them\n", tern::counter_rows().size());
}

void print_json(const tern::Tunables& tunables, const tern::info::Findings& found) {
  fmt::print(
      "{{\n  \"version\": {},\n  \"mpi\": \"5.0\",\n  \"build_type\": {},\n  \"compiler\": {},\n  "
      "\"sanitizer\": {},\n",
      quote(TERN_VERSION), quote(TERN_BUILD_TYPE), quote(TERN_COMPILER), quote(TERN_SANITIZE));
  fmt::print("  \"library\": {},\n  \"mpiexec\": {},\n  \"pmix\": {},\n  \"processors\": {},\n", quote(found.library),
             quote(found.mpiexec), quote(found.pmix), found.cores);
  fmt::print("  \"shared_memory\": {},\n  \"cross_memory_attach\": {},\n  \"interfaces\": [",
             quote(found.shared_memory), quote(found.cross_memory_attach));
  for (size_t i = 0; i < found.interfaces.size(); ++i) fmt::print("{}{}", i ? ", " : "", quote(found.interfaces[i]));
  fmt::print("],\n  \"adapters\": [");
  for (size_t i = 0; i < found.adapters.size(); ++i) fmt::print("{}{}", i ? ", " : "", quote(found.adapters[i]));
  fmt::print("],\n  \"libfabric\": [");
  for (size_t i = 0; i < found.providers.size(); ++i) fmt::print("{}{}", i ? ", " : "", quote(found.providers[i]));
  fmt::print("],\n  \"tunables\": [\n");
  auto rows = tern::tunable_rows();
  for (size_t i = 0; i < rows.size(); ++i) {
    const TunableRow& row = rows[i];
    const std::string value = tunables.get(row.name);
    fmt::print("    {{\"name\": {}, \"value\": {}, ", quote(variable(row.name)), row.is_integer ? value : quote(value));
    if (row.is_integer) {
      fmt::print("\"default\": {}, \"minimum\": {}, \"maximum\": {}, ", row.initial, row.minimum, row.maximum);
    } else {
      fmt::print("\"default\": {}, ", quote(row.initial_text));
    }
    fmt::print("\"unit\": {}, \"ranks_must_agree\": {}, \"meaning\": {}}}{}\n", quote(row.unit), row.ranks_must_agree,
               quote(row.meaning), i + 1 < rows.size() ? "," : "");
  }
  fmt::print("  ],\n  \"counters\": [\n");
  const auto counters = tern::counter_rows();
  for (size_t i = 0; i < counters.size(); ++i) {
    const tern::CounterRow& row = counters[i];
    fmt::print(
        "    {{\"name\": {}, \"class\": {}, \"unit\": {}, \"elements\": {}, \"group\": {}, \"meaning\": {}}}{}\n",
        quote(row.name), quote(tern::counter_class_name(row.counter_class)), quote(row.unit), row.elements,
        quote(row.group), quote(row.meaning), i + 1 < counters.size() ? "," : "");
  }
  fmt::print("  ]\n}}\n");
}

// 0, or the exit code.
int print_collectives(const tern::Tunables& tunables, std::string_view text) {
  tern::CommunicatorShape shape;
  if (!tern::parse_shape(text, shape)) {
    fmt::print(stderr,
               "tern-info: --collectives takes the shape of a communicator, NODESxRANKS (4x24) or RANKS (24), perhaps "
               "with the cores of a node (24/8), not '{}'\n",
               text);
    return 2;
  }
  tern::Selection selection;
  if (tern::Error error = selection.parse(tunables.coll)) {
    fmt::print(stderr, "tern-info: {}\n", error.text());
    return 1;
  }
  fmt::print(
      "{} node{} of {} rank{}{}; blocking calls, commutative operators. Bytes of the whole vector (bcast, "
      "reductions, scans) or of one process's block\n",
      shape.nodes, shape.nodes == 1 ? "" : "s", shape.ranks_per_node, shape.ranks_per_node == 1 ? "" : "s",
      shape.cores == 0 ? "" : fmt::format(" on {} cores", shape.cores));
  if (!tunables.coll.empty()) fmt::print("TERN_COLL={}\n", tunables.coll);
  fmt::print("{}", tern::describe_choice(selection, shape));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view wish = argc > 1 ? argv[1] : "";
  constexpr std::string_view kWishes[] = {"",       "--tunables", "--markdown", "--counters", "--counters-markdown",
                                          "--json", "--version"};
  const bool known = std::find(std::begin(kWishes), std::end(kWishes), wish) != std::end(kWishes);
  const bool collectives = argc == 3 && wish == "--collectives";
  if (!collectives && (argc > 2 || !known)) {
    const bool help = wish == "--help" || wish == "-h";
    fmt::print(help ? stdout : stderr,
               "usage: tern-info [--tunables | --counters | --collectives SHAPE | --markdown | --counters-markdown | "
               "--json | --version]\n");
    return help ? 0 : 2;
  }
  if (wish == "--markdown" || wish == "--counters" || wish == "--counters-markdown") {
    wish == "--markdown" ? print_markdown() : wish == "--counters" ? print_counters() : print_counters_markdown();
    return 0;
  }
  tern::Tunables tunables;
  // A mistake in the environment is worth knowing, and no reason to show nothing.
  tern::Configuration configuration;
  tern::Error mistake = tern::read_tunables(environ, tern::info::prefix(), tunables, configuration);
  int code = 0;
  if (collectives) {
    code = print_collectives(tunables, argv[2]);
  } else if (wish == "--version") {
    fmt::print("Tern {}\n", TERN_VERSION);
  } else if (wish == "--tunables") {
    print_tunables(tunables);
  } else if (wish == "--json") {
    print_json(tunables, tern::info::probe(tunables));
  } else {
    print_text(tunables, configuration, tern::info::probe(tunables));
  }
  fflush(stdout);
  for (const std::string& warning : configuration.warnings) fmt::print(stderr, "tern-info: {}\n", warning);
  if (!mistake) return code;
  fmt::print(stderr, "tern-info: {}\n", mistake.text());
  return 1;
}
