// The state of the tools interface of one rank (MPI_T; MPI 5.0, 15.3): there before MPI is initialised and after it is
// finalised. Control variables are the tunables (base/tunables.h), performance variables the counters
// (base/counters.h), events those of base/events.h, categories their groups. Thread rule: under the rank's lock, which
// every MPI_T function takes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/counters.h"
#include "base/error.h"
#include "base/tunables.h"
#include "capi/tool_events.h"
#include "mpi.h"

namespace tern::capi {

/// A named set of values (MPI_T_enum).
struct ToolEnum {
  struct Item {
    int value;
    const char* name;
  };
  const char* name;
  std::span<const Item> items;
};
/// The values of a tunable that has just a few; null: any number of its range.
const ToolEnum* enum_of(const TunableRow& row);
/// Of the first element of an event; null: it is a number.
const ToolEnum* enum_of(Event event);

/// What a MPI_T_cvar_handle points to.
struct ToolControl {
  const TunableRow* row;
};

/// Levels and high watermarks are the same for all holders: none can start, stop or reset them.
inline bool is_continuous(const CounterRow& row) {
  return row.counter_class == CounterClass::level || row.counter_class == CounterClass::peak;
}

/// Target of an MPI_T_pvar_handle: a counter as its holder sees it; each holder starts, stops and resets its own.
struct ToolCounter {
  const CounterRow* row;
  bool running = false;
  std::vector<uint64_t> stood;  ///< the rank's values when it was started
  std::vector<uint64_t> sum;    ///< the count until the last stop

  bool continuous() const { return is_continuous(*row); }
};

/// Target of an MPI_T_pvar_session.
struct ToolSession {
  std::vector<std::unique_ptr<ToolCounter>> counters;
};

struct ToolState {
  int users = 0;  ///< MPI_T_init_thread less MPI_T_finalize
  std::vector<std::unique_ptr<ToolControl>> controls;
  std::vector<std::unique_ptr<ToolSession>> sessions;
  std::unique_ptr<ToolEvents> events;  ///< null: nobody has asked for any
  /// Tunables that the program has set (MPI_T control variables), by name.
  std::map<std::string, std::string> settings;
};

/// Gives a string back (15.3.3): `length` is the room on the way in, what the whole string needs on the way out (the
/// standard asks for that when there was too little room; tools expect it always). Null `length`: nothing is wanted.
void give_string(std::string_view text, char* to, int* length);
/// The name of a control variable: the tunable's environment variable.
std::string control_name(const TunableRow& row);
/// `*to = value` unless `to` is null: results that the caller does not want (15.3.6, 15.3.7).
template <typename T, typename U>
void give(T* to, U value) {
  if (to) *to = static_cast<T>(value);
}

}  // namespace tern::capi
