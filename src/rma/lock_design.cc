#include "rma/lock_design.h"

namespace tern::rma {

namespace {
constexpr const char* kNames[] = {"auto", "polling-thread", "event-thread", "test-and-set", "mcs"};
}

bool parse_lock_choice(std::string_view name, LockChoice& choice) {
  for (int i = 0; i < int(std::size(kNames)); ++i) {
    if (name != kNames[i]) continue;
    choice = LockChoice(i);
    return true;
  }
  return false;
}

const char* name_of(LockChoice choice) { return kNames[int(choice)]; }

std::string lock_choice_names() {
  std::string names;
  for (const char* name : kNames) names += (names.empty() ? "" : ", ") + std::string(name);
  return names;
}

}  // namespace tern::rma
