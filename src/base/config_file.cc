#include "base/config_file.h"

#include <sys/auxv.h>
#include <sys/stat.h>

#include <cerrno>

#include "base/owned_file.h"

#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

namespace tern {
namespace {

std::string at(const std::string& path, const toml::source_region& place) {
  return path + ":" + std::to_string(place.begin.line) + ": ";
}

// Null: not set.
const char* variable(const char* const* environment, std::string_view name) {
  for (; environment && *environment; ++environment) {
    std::string_view entry(*environment);
    if (entry.starts_with(name) && entry.substr(name.size()).starts_with('=')) return *environment + name.size() + 1;
  }
  return nullptr;
}

// The text that a tunable takes from this value; Tunables::set checks it.
bool text_of(const toml::node& value, std::string& text) {
  if (auto number = value.as_integer()) text = std::to_string(number->get());
  else if (auto words = value.as_string()) text = words->get();
  else if (auto truth = value.as_boolean()) text = truth->get() ? "1" : "0";
  else return false;
  return true;
}

bool is_tunable(std::string_view name) {
  for (const TunableRow& row : tunable_rows()) {
    if (row.name == name) return true;
  }
  return false;
}

}  // namespace

Error read_config_file(const std::string& path, bool required, Tunables& tunables, Configuration& found, uid_t also) {
  std::string text, why;
  if (!read_trusted_file(path, also, text, why)) {
    const bool missing = errno != EPERM;
    if (required) return Error(ErrorClass::arg, "the configuration file " + path + " cannot be read: " + why);
    if (!missing) found.warnings.push_back("the configuration file " + path + " is not read: " + why);
    return {};
  }
  found.files.push_back(path);
  toml::parse_result parsed = toml::parse(text, path);
  if (!parsed) {
    return Error(ErrorClass::arg, at(path, parsed.error().source()) + std::string(parsed.error().description()));
  }
  for (auto&& [key, node] : parsed.table()) {
    std::string name(key.str()), value;
    if (const std::string_view now = present_name(name); now != name) {
      found.warnings.push_back(at(path, key.source()) + renamed(name));
      name = now;
    }
    if (!is_tunable(name)) {
      // Setting an unknown name returns the error that proposes the nearest name.
      found.warnings.push_back(at(path, key.source()) + std::string(tunables.set(name, "").text()));
      continue;
    }
    if (!text_of(node, value)) {
      return Error(ErrorClass::arg, at(path, node.source()) + name + " takes a number or a string");
    }
    if (Error error = tunables.set(name, value)) {
      return Error(error.error_class(), at(path, node.source()) + std::string(error.text()));
    }
  }
  return {};
}

Error read_tunables(const char* const* environment, const std::string& prefix, Tunables& tunables,
                    Configuration& found) {
  Error first;
  auto read = [&](const std::string& path, bool required, uid_t also = 0) {
    Error error = read_config_file(path, required, tunables, found, also);
    if (error && !first) first = std::move(error);
  };
  // A program that has more rights than its user (set-user-ID, file capabilities) does not do what its user's variables
  // and files say.
  static const char* const kNothing[] = {nullptr};
  if (getauxval(AT_SECURE) != 0) environment = kNothing;
  if (const char* named = variable(environment, "TERN_CONFIG")) {
    if (*named) read(named, true);
  } else {
    if (!prefix.empty()) {
      // The installer of the library that runs here may configure it, too.
      struct stat folder {};
      const uid_t installer = stat(prefix.c_str(), &folder) == 0 ? folder.st_uid : 0;
      read((prefix == "/usr" ? "" : prefix) + "/etc/tern.toml", false, installer);
    }
    const char* folder = variable(environment, "XDG_CONFIG_HOME");
    const char* home = variable(environment, "HOME");
    if (folder && *folder == '/') {
      read(std::string(folder) + "/tern/tern.toml", false);
    } else if (home && *home == '/') {
      read(std::string(home) + "/.config/tern/tern.toml", false);
    }
  }
  Error error = tunables.read_environment(environment, &found.warnings);
  return first ? std::move(first) : std::move(error);
}

}  // namespace tern
