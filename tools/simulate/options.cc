#include "options.h"

#include <charconv>
#include <functional>

namespace tern::simulate {
namespace {

Error wrong(const std::string& name, const std::string& wanted, const std::string& value) {
  return Error(ErrorClass::arg, "option " + name + " takes " + wanted + ", not '" + value + "'");
}

template <typename Number>
Error number(const std::string& name, const std::string& text, Number least, Number& value) {
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure == std::errc() && end == text.data() + text.size() && value >= least) return {};
  return wrong(name, "a number of at least " + std::to_string(least), text);
}

/// "50us": in nanoseconds.
Error duration(const std::string& name, const std::string& text, uint64_t& ns) {
  double value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, size_t(text.data() + text.size() - end));
  const double factor = unit == "ns" ? 1 : unit == "us" ? 1e3 : unit == "ms" ? 1e6 : unit == "s" ? 1e9 : 0;
  if (failure != std::errc() || factor == 0 || value < 0) return wrong(name, "a time as 200ns, 50us, 3ms or 1s", text);
  ns = uint64_t(value * factor);
  return {};
}

Error compute(const std::string& name, const std::string& text, Options& options) {
  using sim::ComputeKind;
  const size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon), rest = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (kind == "none" && rest.empty()) options.compute = ComputeKind::none;
  else if (kind == "measured") options.compute = ComputeKind::measured, options.record = rest;
  else if (kind == "recorded" && !rest.empty()) options.compute = ComputeKind::recorded, options.record = rest;
  else if (kind == "constant") {
    options.compute = ComputeKind::constant;
    return duration(name, rest, options.constant_ns);
  } else {
    return wrong(name, "measured, measured:FILE, recorded:FILE, constant:TIME or none", text);
  }
  return {};
}

Error setting(const std::string& name, const std::string& text, Options& options) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) return wrong(name, "TUNABLE=VALUE or TUNABLE=VALUE,VALUE,...", text);
  std::vector<std::string> values;
  for (size_t at = equals + 1; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    values.push_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  options.settings.emplace_back(text.substr(0, equals), std::move(values));
  return {};
}

struct Option {
  const char* name;
  bool has_value;
  Error (*apply)(const std::string& name, const std::string& value, Options& options);
};

#define TERN_OPTION(...) [](const std::string& name, const std::string& value, Options& o) -> Error { __VA_ARGS__; }
constexpr Option kOptions[] = {
    {"--machine", true, TERN_OPTION(o.machine = value; return {})},
    {"--ppn", true, TERN_OPTION(return number<uint32_t>(name, value, 1, o.ranks_per_node))},
    {"--cores", true, TERN_OPTION(return number<uint32_t>(name, value, 1, o.cores_per_node))},
    {"--compute", true, TERN_OPTION(return compute(name, value, o))},
    {"--compute-factor", true, TERN_OPTION(return number<double>(name, value, 0, o.compute_factor))},
    {"--set", true, TERN_OPTION(return setting(name, value, o))},
    {"--seed", true, TERN_OPTION(return number<uint64_t>(name, value, 0, o.seed))},
    {"--stack", true,
     TERN_OPTION(uint64_t kib = 0; Error error = number<uint64_t>(name, value, 64, kib); o.stack_bytes = kib << 10;
                 return error)},
    {"--max-time", true, TERN_OPTION(return number<double>(name, value, 0, o.most_virtual_s))},
    {"--max-events", true, TERN_OPTION(return number<uint64_t>(name, value, 1, o.most_events))},
    {"--timeout", true, TERN_OPTION(return number<int>(name, value, 1, o.timeout_s))},
    {"--label", false, TERN_OPTION(o.label = true; return {})},
    {"--quiet", false, TERN_OPTION(o.quiet = true; return {})},
    {"--print-hash", false, TERN_OPTION(o.print_hash = true; return {})},
    {"--out-pattern", true, TERN_OPTION(o.files.out_pattern = value; return {})},
    {"--err-pattern", true, TERN_OPTION(o.files.err_pattern = value; return {})},
    {"--output-folder", true, TERN_OPTION(o.files.folder = value; return {})},
    {"--output-only", false, TERN_OPTION(o.files.copy = false; return {})},
};
#undef TERN_OPTION

Error read_programs(const std::vector<std::string>& words, size_t at, Options& options) {
  while (at < words.size()) {
    sim::SimulatedProgram program;
    if (words[at] == "-n") {
      if (at + 1 == words.size()) return Error(ErrorClass::arg, "option -n needs a number");
      if (Error error = number<uint32_t>("-n", words[at + 1], 1, program.ranks)) return error;
      at += 2;
    }
    while (at < words.size() && words[at] != ":") program.command.push_back(words[at++]);
    if (program.command.empty()) return Error(ErrorClass::arg, "a program is missing");
    program.path = program.command[0];
    options.programs.push_back(std::move(program));
    ++at;
  }
  return options.programs.empty() ? Error(ErrorClass::arg, "a program is missing") : Error();
}

}  // namespace

Error read_options(const std::vector<std::string>& words, Options& options) {
  size_t at = 0;
  for (; at < words.size() && words[at].starts_with("--"); ++at) {
    const Option* found = nullptr;
    for (const Option& option : kOptions) {
      if (words[at] == option.name) found = &option;
    }
    if (!found) return Error(ErrorClass::arg, "unknown option " + words[at]);
    if (found->has_value && at + 1 == words.size())
      return Error(ErrorClass::arg, "option " + words[at] + " needs a value");
    const std::string& name = words[at];
    if (Error error = found->apply(name, found->has_value ? words[++at] : name, options)) return error;
  }
  if (options.machine.empty()) return Error(ErrorClass::arg, "option --machine is missing");
  return read_programs(words, at, options);
}

}  // namespace tern::simulate
