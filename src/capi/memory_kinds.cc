#include "capi/memory_kinds.h"

#include <algorithm>
#include <vector>

#include "capi/objects.h"

namespace tern::capi {

namespace {

constexpr const char* kKey = "mpi_memory_alloc_kinds";

std::vector<std::string_view> pieces_of(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    pieces.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return pieces;
}

bool supports(std::string_view kind) {
  const std::vector<std::string_view> parts = pieces_of(kind, ':');
  if (parts.empty()) return false;
  if (parts[0] == "system") return parts.size() == 1;
  return parts[0] == "mpi" && std::all_of(parts.begin() + 1, parts.end(), [](std::string_view restrictor) {
           return restrictor == "alloc_mem" || restrictor == "win_allocate" || restrictor == "win_allocate_shared";
         });
}

}  // namespace

std::string supported_memory_kinds(const std::string* wanted) {
  std::vector<std::string_view> kinds;
  if (wanted) kinds = pieces_of(*wanted, ',');
  std::erase_if(kinds, [](std::string_view kind) { return !supports(kind); });
  for (std::string_view always : {"mpi", "system"}) {
    if (std::find(kinds.begin(), kinds.end(), always) == kinds.end()) kinds.push_back(always);
  }
  std::string list;
  for (std::string_view kind : kinds) (list += list.empty() ? "" : ",") += kind;
  return list;
}

bool supports_memory_kinds(std::string_view list) {
  const std::vector<std::string_view> kinds = pieces_of(list, ',');
  return std::all_of(kinds.begin(), kinds.end(), supports);
}

std::string memory_kinds_of(World& world, int32_t session) {
  const Session* from = session != 0 ? world.handles.sessions.find(uintptr_t(session)) : nullptr;
  const Info& info = from ? from->info : world.predefined.environment;
  const std::string* kinds = info.find(kKey);
  return supported_memory_kinds(kinds);
}

}  // namespace tern::capi
