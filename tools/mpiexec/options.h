// The options of mpiexec: one table, from which they are read, explained (--help), and suggested.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "plan.h"

namespace tern::mpiexec {

struct Option {
  const char* names;  ///< without dashes, separated by commas; the first is the usual one
  const char* value;  ///< what follows: "" nothing, "N" one word, "NAME VALUE" two words or NAME=VALUE
  const char* help;
  /// Applies the option; `name` as the user wrote it. Returns what is wrong with the value, else nothing.
  std::string (*apply)(Plan& plan, App& app, const std::string& name, const std::string& value);
};

std::span<const Option> all_options();
/// Null: there is none of that name (without dashes).
const Option* find_option(std::string_view name);
/// One line about a word that is no option: the replacement of another launcher's option, or the nearest name.
std::string about_unknown(const std::string& word, std::string_view name);
/// The text of --help.
std::string help_text();
/// The first line of it.
std::string usage_line();

}  // namespace tern::mpiexec
