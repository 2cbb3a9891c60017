// Performance variables: the counters. The rank counts all the time; a handle shows the count while it was
// started. Levels and high watermarks are continuous and read-only. Source: MPI 5.0 section 15.3.7.
#include <algorithm>
#include <cstring>

#include "capi/tool.h"
#include "fmt/format.h"
#include "impl.gen.h"

namespace tern::capi {

namespace {

int class_of(const CounterRow& row) {
  switch (row.counter_class) {
    case CounterClass::counter: return MPI_T_PVAR_CLASS_COUNTER;
    case CounterClass::aggregate: return MPI_T_PVAR_CLASS_AGGREGATE;
    case CounterClass::level: return MPI_T_PVAR_CLASS_LEVEL;
    case CounterClass::peak: return MPI_T_PVAR_CLASS_HIGHWATERMARK;
    case CounterClass::timer: return MPI_T_PVAR_CLASS_TIMER;
  }
  return MPI_T_PVAR_CLASS_GENERIC;
}

Error check_counter(int index) {
  if (index >= 0 && size_t(index) < counter_rows().size()) return {};
  return Error(MPI_T_ERR_INVALID_INDEX,
               fmt::format("argument 'pvar_index' is {}, but there are the performance variables 0..{}", index,
                           counter_rows().size() - 1));
}

Error find_session(Call& call, MPI_T_pvar_session handle, ToolSession*& session) {
  for (auto& each : call.world().tools.sessions) {
    if (reinterpret_cast<MPI_T_pvar_session>(each.get()) == handle) {
      session = each.get();
      return {};
    }
  }
  return Error(MPI_T_ERR_INVALID_SESSION, "argument 'pe_session' is no performance experiment session");
}

/// One counter of a session; MPI_T_PVAR_ALL_HANDLES is none.
Error find(Call& call, MPI_T_pvar_session session_handle, MPI_T_pvar_handle handle, ToolCounter*& counter) {
  ToolSession* session = nullptr;
  if (Error error = find_session(call, session_handle, session)) return error;
  for (auto& each : session->counters) {
    if (reinterpret_cast<MPI_T_pvar_handle>(each.get()) == handle) {
      counter = each.get();
      return {};
    }
  }
  return Error(MPI_T_ERR_INVALID_HANDLE, "argument 'handle' is no handle of a performance variable in this session");
}

void keep_time(World& world, const ToolCounter& counter, bool begin) {
  if (counter.row->counter_class == CounterClass::timer) world.counts.rank->timing += begin ? 1u : ~0u;
}

void start(World& world, ToolCounter& counter) {
  if (counter.running) return;
  counter.running = true;
  keep_time(world, counter, true);
  const uint64_t* now = counter.row->in(world.counted());
  counter.stood.assign(now, now + counter.row->elements);
}

void stop(World& world, ToolCounter& counter) {
  if (!counter.running) return;
  counter.running = false;
  keep_time(world, counter, false);
  const uint64_t* now = counter.row->in(world.counted());
  for (size_t i = 0; i < counter.sum.size(); ++i) counter.sum[i] += now[i] - counter.stood[i];
}

void read(World& world, const ToolCounter& counter, void* to) {
  const uint64_t* now = counter.row->in(world.counted());
  std::vector<unsigned long long> values(counter.row->elements);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = counter.continuous() ? now[i] : counter.sum[i] + (counter.running ? now[i] - counter.stood[i] : 0);
  }
  std::memcpy(to, values.data(), values.size() * sizeof values[0]);
}

/// Continues from `values`; null: from 0.
void write(World& world, ToolCounter& counter, const void* values) {
  for (size_t i = 0; i < counter.sum.size(); ++i) {
    unsigned long long value = 0;
    if (values) std::memcpy(&value, static_cast<const std::byte*>(values) + i * sizeof value, sizeof value);
    counter.sum[i] = value;
  }
  const uint64_t* now = counter.row->in(world.counted());
  if (counter.running) counter.stood.assign(now, now + counter.row->elements);
}

Error is_read_only(const ToolCounter& counter) {
  return Error(MPI_T_ERR_PVAR_NO_WRITE, fmt::format("{} is a {}, which is read-only", counter.row->name,
                                                    counter_class_name(counter.row->counter_class)));
}

Error start_or_stop(Call& call, MPI_T_pvar_session session_handle, MPI_T_pvar_handle handle,
                    void (*action)(World&, ToolCounter&)) {
  if (handle == MPI_T_PVAR_ALL_HANDLES) {
    ToolSession* session = nullptr;
    if (Error error = find_session(call, session_handle, session)) return error;
    for (auto& each : session->counters) {
      if (!each->continuous()) action(call.world(), *each);
    }
    return {};
  }
  ToolCounter* counter = nullptr;
  if (Error error = find(call, session_handle, handle, counter)) return error;
  if (counter->continuous()) {
    return Error(MPI_T_ERR_PVAR_NO_STARTSTOP, fmt::format("{} is a {}, which always runs", counter->row->name,
                                                          counter_class_name(counter->row->counter_class)));
  }
  action(call.world(), *counter);
  return {};
}

Error no_buffer() { return Error(MPI_T_ERR_INVALID, "argument 'buf' is a null pointer"); }

}  // namespace

namespace body {

Error T_pvar_get_num(Call& call, int& num_pvar) {
  num_pvar = int(counter_rows().size());
  return {};
}

Error T_pvar_get_info(Call& call, int pvar_index, char* name, int* name_len, int* verbosity, int* var_class,
                      MPI_Datatype* datatype, MPI_T_enum* enumtype, char* desc, int* desc_len, int* bind, int* readonly,
                      int* continuous, int* atomic) {
  if (Error error = check_counter(pvar_index)) return error;
  const CounterRow& row = counter_rows()[size_t(pvar_index)];
  give_string(row.name, name, name_len);
  give(verbosity,
       std::string_view(row.group) == "messages" ? MPI_T_VERBOSITY_USER_BASIC : MPI_T_VERBOSITY_TUNER_DETAIL);
  give(var_class, class_of(row));
  if (datatype) *datatype = MPI_UNSIGNED_LONG_LONG;
  if (enumtype) *enumtype = MPI_T_ENUM_NULL;
  std::string text = fmt::format("{} ({})", row.meaning, row.unit);
  if (row.elements > 1) {
    text += "; an element for each size class: ";
    for (size_t i = 0; i + 1 < kSizeClasses; ++i) text += fmt::format("up to {} bytes, ", size_class_limit(i));
    text += "longer";
  }
  give_string(text, desc, desc_len);
  give(bind, MPI_T_BIND_NO_OBJECT);
  give(readonly, is_continuous(row));
  give(continuous, is_continuous(row));
  give(atomic, !is_continuous(row));
  return {};
}

Error T_pvar_get_index(Call& call, const char* name, int var_class, int& pvar_index) {
  for (size_t i = 0; i < counter_rows().size(); ++i) {
    const CounterRow& row = counter_rows()[i];
    if (std::string_view(row.name) == name && class_of(row) == var_class) {
      pvar_index = int(i);
      return {};
    }
  }
  return Error(MPI_T_ERR_INVALID_NAME,
               fmt::format("there is no performance variable '{}' of class {}", name, var_class));
}

Error T_pvar_session_create(Call& call, MPI_T_pvar_session* pe_session) {
  if (!pe_session) return Error(MPI_T_ERR_INVALID, "argument 'pe_session' is a null pointer");
  auto& sessions = call.world().tools.sessions;
  sessions.push_back(std::make_unique<ToolSession>());
  *pe_session = reinterpret_cast<MPI_T_pvar_session>(sessions.back().get());
  return {};
}

Error T_pvar_session_free(Call& call, MPI_T_pvar_session* pe_session) {
  if (!pe_session) return Error(MPI_T_ERR_INVALID, "argument 'pe_session' is a null pointer");
  ToolSession* session = nullptr;
  if (Error error = find_session(call, *pe_session, session)) return error;
  for (auto& counter : session->counters) stop(call.world(), *counter);
  std::erase_if(call.world().tools.sessions, [&](auto& each) { return each.get() == session; });
  *pe_session = MPI_T_PVAR_SESSION_NULL;
  return {};
}

Error T_pvar_handle_alloc(Call& call, MPI_T_pvar_session pe_session, int pvar_index, void* obj_handle,
                          MPI_T_pvar_handle* handle, int& count) {
  ToolSession* session = nullptr;
  if (Error error = find_session(call, pe_session, session)) return error;
  if (Error error = check_counter(pvar_index)) return error;
  if (!handle) return Error(MPI_T_ERR_INVALID, "argument 'handle' is a null pointer");
  auto counter = std::make_unique<ToolCounter>();
  counter->row = &counter_rows()[size_t(pvar_index)];
  counter->sum.resize(counter->row->elements);
  *handle = reinterpret_cast<MPI_T_pvar_handle>(counter.get());
  count = int(counter->row->elements);
  session->counters.push_back(std::move(counter));
  return {};
}

Error T_pvar_handle_free(Call& call, MPI_T_pvar_session pe_session, MPI_T_pvar_handle* handle) {
  ToolCounter* counter = nullptr;
  if (!handle) return Error(MPI_T_ERR_INVALID, "argument 'handle' is a null pointer");
  if (Error error = find(call, pe_session, *handle, counter)) return error;
  stop(call.world(), *counter);
  auto& counters = reinterpret_cast<ToolSession*>(pe_session)->counters;
  std::erase_if(counters, [&](auto& each) { return each.get() == counter; });
  *handle = MPI_T_PVAR_HANDLE_NULL;
  return {};
}

Error T_pvar_start(Call& call, MPI_T_pvar_session pe_session, MPI_T_pvar_handle handle) {
  return start_or_stop(call, pe_session, handle, start);
}

Error T_pvar_stop(Call& call, MPI_T_pvar_session pe_session, MPI_T_pvar_handle handle) {
  return start_or_stop(call, pe_session, handle, stop);
}

Error T_pvar_read(Call& call, MPI_T_pvar_session pe_session, MPI_T_pvar_handle handle, void* buf) {
  ToolCounter* counter = nullptr;
  if (Error error = find(call, pe_session, handle, counter)) return error;
  if (!buf) return no_buffer();
  read(call.world(), *counter, buf);
  return {};
}

Error T_pvar_write(Call& call, MPI_T_pvar_session pe_session, MPI_T_pvar_handle handle, const void* buf) {
  ToolCounter* counter = nullptr;
  if (Error error = find(call, pe_session, handle, counter)) return error;
  if (counter->continuous()) return is_read_only(*counter);
  if (!buf) return no_buffer();
  write(call.world(), *counter, buf);
  return {};
}

Error T_pvar_reset(Call& call, MPI_T_pvar_session pe_session, MPI_T_pvar_handle handle) {
  if (handle == MPI_T_PVAR_ALL_HANDLES) {
    ToolSession* session = nullptr;
    if (Error error = find_session(call, pe_session, session)) return error;
    for (auto& each : session->counters) {
      if (!each->continuous()) write(call.world(), *each, nullptr);
    }
    return {};
  }
  ToolCounter* counter = nullptr;
  if (Error error = find(call, pe_session, handle, counter)) return error;
  if (counter->continuous()) return is_read_only(*counter);
  write(call.world(), *counter, nullptr);
  return {};
}

Error T_pvar_readreset(Call& call, MPI_T_pvar_session pe_session, MPI_T_pvar_handle handle, void* buf) {
  ToolCounter* counter = nullptr;
  if (Error error = find(call, pe_session, handle, counter)) return error;
  if (counter->continuous()) {
    return Error(MPI_T_ERR_PVAR_NO_ATOMIC, fmt::format("{} cannot be reset", counter->row->name));
  }
  if (!buf) return no_buffer();
  read(call.world(), *counter, buf);
  write(call.world(), *counter, nullptr);
  return {};
}

}  // namespace body
}  // namespace tern::capi
