// Info objects. Source: MPI 5.0 chapter 10 and section 16.3 (the deprecated MPI_Info_get).
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "capi/checks.h"
#include "capi/environment.h"
#include "capi/memory_kinds.h"
#include "fmt/format.h"
#include "impl.gen.h"
#include "process/launch/start_info.h"
#include "process/launcher.h"

namespace tern::capi {

namespace {

constexpr size_t kMaxKey = MPI_MAX_INFO_KEY, kMaxValue = MPI_MAX_INFO_VAL;

Error check_key(const char* key) {
  size_t length = std::strlen(key);
  if (length != 0 && length < kMaxKey) return {};
  return Error(ErrorClass::info_key, length == 0 ? std::string("argument 'key' is empty")
                                                 : fmt::format("argument 'key' has {} characters. At most {} "
                                                               "are allowed (MPI_MAX_INFO_KEY - 1).",
                                                               length, kMaxKey - 1));
}

Error check_writable(Call& call, const Info& info) {
  if (&info != &call.world().predefined.environment) return {};
  return Error(ErrorClass::info, "MPI_INFO_ENV cannot be changed. Change a duplicate of it (MPI_Info_dup).");
}

/// The words of this process's command line, for programs that do not pass them to MPI_Init.
std::vector<std::string> own_command_line() {
  std::vector<std::string> words;
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  for (std::string word; std::getline(file, word, '\0');) words.push_back(std::move(word));
  return words;
}

}  // namespace

void fill_environment(Info& info, int argc, char** argv, const Process* process) {
  std::vector<std::string> words;
  for (int i = 0; argv && i < argc && argv[i]; ++i) words.emplace_back(argv[i]);
  if (words.empty()) words = own_command_line();
  info.set("command", words.empty() ? program_invocation_name : words[0]);
  std::string rest;
  for (size_t i = 1; i < words.size(); ++i) rest += (i == 1 ? "" : " ") + words[i];
  if (!rest.empty()) info.set("argv", rest.substr(0, kMaxValue - 1));
  // The same before, while and after MPI runs (10: calls with the same arguments give consistent objects).
  const int ranks = process ? process->world_size() : announced_size();
  if (ranks > 0) info.set("maxprocs", std::to_string(ranks));
  info.set("mpi_memory_alloc_kinds", supported_memory_kinds(nullptr));
  // What was asked for (11.5); what is supported of it stands in the info of objects (memory_kinds.h).
  for (const auto& [key, value] : start_info()) info.set(key, value.substr(0, kMaxValue - 1));
  char host[256] = "";
  if (gethostname(host, sizeof host - 1) == 0 && host[0]) info.set("host", host);
  utsname system{};
  if (uname(&system) == 0) info.set("arch", system.machine);
  char directory[4096];
  if (getcwd(directory, sizeof directory) && std::strlen(directory) < kMaxValue) info.set("wdir", directory);
}

namespace body {

Error Info_create(Call& call, Info*& info) {
  info = new Info;
  return {};
}

Error Info_create_env(Call& call, int argc, char* argv[], Info*& info) {
  info = new Info;
  fill_environment(*info, argc, argv, call.world().process.get());
  return {};
}

Error Info_dup(Call& call, Info& info, Info*& newinfo) {
  newinfo = info.dup().release();
  return {};
}

Error Info_free(Call& call, Info*& info) {
  if (Checks* checks = call.checks()) [[unlikely]]
    checks->uses_alone(static_cast<const void*>(info));
  if (Error error = check_writable(call, *info)) return error;
  Ref<Info>::adopt(info);
  info = nullptr;
  return {};
}

Error Info_set(Call& call, Info& info, const char* key, const char* value) {
  if (Checks* checks = call.checks()) [[unlikely]]
    checks->uses_alone(static_cast<const void*>(&info));
  if (Error error = check_writable(call, info)) return error;
  if (Error error = check_key(key)) return error;
  if (size_t length = std::strlen(value); length >= kMaxValue) {
    return Error(ErrorClass::info_value, fmt::format("argument 'value' has {} characters. At most {} are "
                                                     "allowed (MPI_MAX_INFO_VAL - 1).",
                                                     length, kMaxValue - 1));
  }
  info.set(key, value);
  return {};
}

Error Info_delete(Call& call, Info& info, const char* key) {
  if (Error error = check_writable(call, info)) return error;
  if (Error error = check_key(key)) return error;
  if (info.remove(key)) return {};
  return Error(ErrorClass::info_nokey, fmt::format("the info object has no key '{}'", key));
}

Error Info_get_string(Call& call, Info& info, const char* key, int& buflen, char* value, bool& flag) {
  if (Error error = check_key(key)) return error;
  const std::string* found = info.find(key);
  flag = found != nullptr;
  if (!found) return {};
  if (buflen < 0) return Error(ErrorClass::arg, fmt::format("argument 'buflen' is {}", buflen));
  if (buflen > 0) {
    if (!value)
      return Error(ErrorClass::arg, fmt::format("argument 'value' is a null pointer, but 'buflen' is {}", buflen));
    size_t n = std::min(found->size(), static_cast<size_t>(buflen) - 1);
    std::memcpy(value, found->data(), n);
    value[n] = '\0';
  }
  buflen = static_cast<int>(found->size()) + 1;
  return {};
}

Error Info_get(Call& call, Info& info, const char* key, int valuelen, char* value, bool& flag) {
  if (Error error = check_key(key)) return error;
  if (valuelen < 0) return Error(ErrorClass::arg, fmt::format("argument 'valuelen' is {}", valuelen));
  const std::string* found = info.find(key);
  flag = found != nullptr;
  if (!found) return {};
  size_t n = std::min(found->size(), static_cast<size_t>(valuelen));
  std::memcpy(value, found->data(), n);
  value[n] = '\0';
  return {};
}

Error Info_get_valuelen(Call& call, Info& info, const char* key, int& valuelen, bool& flag) {
  if (Error error = check_key(key)) return error;
  const std::string* found = info.find(key);
  flag = found != nullptr;
  if (found) valuelen = static_cast<int>(found->size());
  return {};
}

Error Info_get_nkeys(Call& call, Info& info, int& nkeys) {
  nkeys = static_cast<int>(info.entries().size());
  return {};
}

Error Info_get_nthkey(Call& call, Info& info, int n, char* key) {
  if (n < 0 || static_cast<size_t>(n) >= info.entries().size()) {
    return Error(ErrorClass::arg,
                 fmt::format("argument 'n' is {}, but the info object has {} keys", n, info.entries().size()));
  }
  const std::string& name = info.entries()[static_cast<size_t>(n)].key;
  std::memcpy(key, name.c_str(), name.size() + 1);
  return {};
}

}  // namespace body
}  // namespace tern::capi
