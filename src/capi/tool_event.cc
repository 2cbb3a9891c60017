// Events of the tools interface: one event type and one source for each row of the table (base/events.h). Source: MPI
// 5.0 section 15.3.8.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>

#include "base/recorder.h"
#include "capi/tool.h"
#include "fmt/format.h"
#include "impl.gen.h"

namespace tern::capi {
namespace {

constexpr size_t kEvents = std::size(kEventRows);

Error check_event(int index, const char* argument) {
  if (index >= 0 && size_t(index) < kEvents) return {};
  return Error(MPI_T_ERR_INVALID_INDEX, fmt::format("argument '{}' is {}, but there are the {} 0..{}", argument, index,
                                                    argument[0] == 'e' ? "event types" : "event sources", kEvents - 1));
}

/// An element of an event as the tool sees it: those that are used, without the others.
struct Element {
  size_t from;  ///< in EventData
  size_t bytes;
  size_t to;  ///< displacement for the tool
};
struct Elements {
  Element each[4];
  int count = 0;
  size_t extent = 0;
};

Elements elements_of(Event event) {
  static constexpr size_t kFrom[] = {offsetof(EventData, a), offsetof(EventData, b), offsetof(EventData, x),
                                     offsetof(EventData, y)};
  static constexpr size_t kSizes[] = {sizeof EventData::a, sizeof EventData::b, sizeof EventData::x,
                                      sizeof EventData::y};
  Elements elements;
  for (size_t i = 0; i < std::size(kFrom); ++i) {
    if (kEventRows[size_t(event)].elements[i][0] == '\0') continue;
    const size_t to = (elements.extent + kSizes[i] - 1) / kSizes[i] * kSizes[i];
    elements.each[elements.count++] = {kFrom[i], kSizes[i], to};
    elements.extent = to + kSizes[i];
  }
  return elements;
}

// "a message has met its receive; elements: source, tag, context, bytes".
std::string describe(const EventRow& row) {
  std::string text = row.meaning, separator = "; elements: ";
  for (const char* element : row.elements) {
    if (element[0] == '\0') continue;
    text += separator + element;
    separator = ", ";
  }
  return text;
}

Error find(Call& call, MPI_T_event_registration handle, ToolRegistration*& registration) {
  ToolEvents* events = call.world().tools.events.get();
  registration = events ? events->find(handle) : nullptr;
  if (registration) return {};
  return Error(MPI_T_ERR_INVALID_HANDLE,
               "argument 'event_registration' is no handle of MPI_T_event_handle_alloc, or "
               "was freed");
}

Error find(Call& call, MPI_T_event_instance handle, const ToolInstance*& instance) {
  const ToolEvents* events = call.world().tools.events.get();
  instance = events ? events->find(handle) : nullptr;
  if (instance) return {};
  return Error(MPI_T_ERR_INVALID_HANDLE,
               "argument 'event_instance' is not what this callback was given. It is valid "
               "until the callback returns");
}

Error find_level(MPI_T_cb_safety safety, size_t& level) {
  for (level = 0; level < std::size(ToolRegistration::kLevels); ++level) {
    if (ToolRegistration::kLevels[level] == safety) return {};
  }
  return Error(MPI_T_ERR_INVALID, fmt::format("argument 'cb_safety' is {}, which is no callback safety level "
                                              "(MPI_T_CB_REQUIRE_NONE, ...)",
                                              int(safety)));
}

/// Tern has no hints for events: all are ignored.
MPI_Info no_hints(Call& call) {
  MPI_Info handle = MPI_INFO_NULL;
  call.give(&handle, new Info);
  return handle;
}

/// While it lives, the event thread raises no event. A tool's call holds the mutex only, which the event thread of a
/// rank with one thread does not take; and that may wait for the mutex in a callback, so it is given up first.
class EventThreadAside {
 public:
  explicit EventThreadAside(World& world) : lock_(*world.lock), needed_(world.locking && !on_event_thread(world)) {
    if (!needed_) return;
    lock_.release();
    lock_.enter();
    lock_.acquire();
  }
  ~EventThreadAside() {
    if (!needed_) return;
    lock_.release();
    lock_.leave();
    lock_.acquire();
  }
  EventThreadAside(const EventThreadAside&) = delete;
  EventThreadAside& operator=(const EventThreadAside&) = delete;

 private:
  Driving& lock_;
  const bool needed_;
};

}  // namespace

namespace body {

Error T_event_get_num(Call& call, int& num_events) {
  num_events = int(kEvents);
  return {};
}

Error T_event_get_info(Call& call, int event_index, char* name, int* name_len, int* verbosity,
                       MPI_Datatype* array_of_datatypes, Aint* array_of_displacements, int* num_elements,
                       MPI_T_enum* enumtype, MPI_Info* info, char* desc, int* desc_len, int* bind) {
  if (Error error = check_event(event_index, "event_index")) return error;
  const EventRow& row = kEventRows[size_t(event_index)];
  give_string(row.name, name, name_len);
  give(verbosity, MPI_T_VERBOSITY_USER_DETAIL);
  const Elements elements = elements_of(Event(event_index));
  const int room = num_elements ? *num_elements : 0;
  for (int i = 0; i < std::min(room, elements.count); ++i) {
    const bool wide = elements.each[i].bytes == sizeof(int64_t);
    if (array_of_datatypes) array_of_datatypes[i] = wide ? MPI_INT64_T : MPI_INT32_T;
    if (array_of_displacements) array_of_displacements[i] = Aint(elements.each[i].to);
  }
  give(num_elements, elements.count);
  if (enumtype) {
    const ToolEnum* found = enum_of(Event(event_index));
    *enumtype = found ? reinterpret_cast<MPI_T_enum>(const_cast<ToolEnum*>(found)) : MPI_T_ENUM_NULL;
  }
  if (info) *info = no_hints(call);
  give_string(describe(row), desc, desc_len);
  give(bind, MPI_T_BIND_NO_OBJECT);
  return {};
}

Error T_event_get_index(Call& call, const char* name, int& event_index) {
  for (size_t i = 0; i < kEvents; ++i) {
    if (std::string_view(kEventRows[i].name) == name) {
      event_index = int(i);
      return {};
    }
  }
  return Error(MPI_T_ERR_INVALID_NAME, fmt::format("there is no event type '{}'", name));
}

Error T_event_handle_alloc(Call& call, int event_index, void* obj_handle, Info* info,
                           MPI_T_event_registration* event_registration) {
  const EventThreadAside aside(call.world());
  if (Error error = check_event(event_index, "event_index")) return error;
  if (!event_registration) return Error(MPI_T_ERR_INVALID, "argument 'event_registration' is a null pointer");
  ToolState& tools = call.world().tools;
  if (!tools.events) tools.events = std::make_unique<ToolEvents>(call.world());
  *event_registration = reinterpret_cast<MPI_T_event_registration>(&tools.events->add(Event(event_index)));
  return {};
}

Error T_event_handle_set_info(Call& call, MPI_T_event_registration event_registration, Info* info) {
  ToolRegistration* registration = nullptr;
  return find(call, event_registration, registration);
}

Error T_event_handle_get_info(Call& call, MPI_T_event_registration event_registration, Info*& info_used) {
  ToolRegistration* registration = nullptr;
  if (Error error = find(call, event_registration, registration)) return error;
  info_used = new Info;
  return {};
}

Error T_event_register_callback(Call& call, MPI_T_event_registration event_registration, MPI_T_cb_safety cb_safety,
                                Info* info, void* user_data, MPI_T_event_cb_function* event_cb_function) {
  const EventThreadAside aside(call.world());
  ToolRegistration* registration = nullptr;
  size_t level = 0;
  if (Error error = find(call, event_registration, registration)) return error;
  if (Error error = find_level(cb_safety, level)) return error;
  registration->callbacks[level] = {event_cb_function, user_data};
  call.world().tools.events->update();
  return {};
}

Error T_event_callback_set_info(Call& call, MPI_T_event_registration event_registration, MPI_T_cb_safety cb_safety,
                                Info* info) {
  ToolRegistration* registration = nullptr;
  size_t level = 0;
  if (Error error = find(call, event_registration, registration)) return error;
  return find_level(cb_safety, level);
}

Error T_event_callback_get_info(Call& call, MPI_T_event_registration event_registration, MPI_T_cb_safety cb_safety,
                                Info*& info_used) {
  ToolRegistration* registration = nullptr;
  size_t level = 0;
  if (Error error = find(call, event_registration, registration)) return error;
  if (Error error = find_level(cb_safety, level)) return error;
  info_used = new Info;
  return {};
}

Error T_event_handle_free(Call& call, MPI_T_event_registration event_registration, void* user_data,
                          MPI_T_event_free_cb_function* free_cb_function) {
  const EventThreadAside aside(call.world());
  ToolRegistration* registration = nullptr;
  if (Error error = find(call, event_registration, registration)) return error;
  registration->free_function = free_cb_function;
  registration->free_data = user_data;
  call.world().tools.events->free(*registration);
  return {};
}

Error T_event_set_dropped_handler(Call& call, MPI_T_event_registration event_registration,
                                  MPI_T_event_dropped_cb_function* dropped_cb_function) {
  const EventThreadAside aside(call.world());
  ToolRegistration* registration = nullptr;
  if (Error error = find(call, event_registration, registration)) return error;
  registration->dropped_function = dropped_cb_function;
  registration->dropped = 0;
  return {};
}

Error T_event_read(Call& call, MPI_T_event_instance event_instance, int element_index, void* buffer) {
  const ToolInstance* instance = nullptr;
  if (Error error = find(call, event_instance, instance)) return error;
  const Elements elements = elements_of(instance->event);
  if (element_index < 0 || element_index >= elements.count) {
    return Error(MPI_T_ERR_INVALID_INDEX,
                 fmt::format("argument 'element_index' is {}, but {} has the elements 0..{}", element_index,
                             kEventRows[size_t(instance->event)].name, elements.count - 1));
  }
  if (!buffer) return Error(MPI_T_ERR_INVALID, "argument 'buffer' is a null pointer");
  const Element& element = elements.each[element_index];
  std::memcpy(buffer, reinterpret_cast<const std::byte*>(&instance->data) + element.from, element.bytes);
  return {};
}

Error T_event_copy(Call& call, MPI_T_event_instance event_instance, void* buffer) {
  const ToolInstance* instance = nullptr;
  if (Error error = find(call, event_instance, instance)) return error;
  if (!buffer) return Error(MPI_T_ERR_INVALID, "argument 'buffer' is a null pointer");
  const Elements elements = elements_of(instance->event);
  for (int i = 0; i < elements.count; ++i) {
    const Element& element = elements.each[i];
    std::memcpy(static_cast<std::byte*>(buffer) + element.to,
                reinterpret_cast<const std::byte*>(&instance->data) + element.from, element.bytes);
  }
  return {};
}

Error T_event_get_timestamp(Call& call, MPI_T_event_instance event_instance, Count& event_timestamp) {
  const ToolInstance* instance = nullptr;
  if (Error error = find(call, event_instance, instance)) return error;
  event_timestamp = Count(instance->time_ns);
  return {};
}

Error T_event_get_source(Call& call, MPI_T_event_instance event_instance, int& source_index) {
  const ToolInstance* instance = nullptr;
  if (Error error = find(call, event_instance, instance)) return error;
  source_index = int(instance->event);
  return {};
}

Error T_source_get_num(Call& call, int& num_sources) {
  num_sources = int(kEvents);
  return {};
}

Error T_source_get_info(Call& call, int source_index, char* name, int* name_len, char* desc, int* desc_len,
                        MPI_T_source_order* ordering, MPI_Count* ticks_per_second, MPI_Count* max_ticks,
                        MPI_Info* info) {
  if (Error error = check_event(source_index, "source_index")) return error;
  const EventRow& row = kEventRows[size_t(source_index)];
  give_string(row.name, name, name_len);
  give_string(fmt::format("where {} is raised", row.name), desc, desc_len);
  give(ordering, MPI_T_SOURCE_ORDERED);
  give(ticks_per_second, MPI_Count{1'000'000'000});
  give(max_ticks, std::numeric_limits<MPI_Count>::max());
  if (info) *info = no_hints(call);
  return {};
}

Error T_source_get_timestamp(Call& call, int source_index, Count& timestamp) {
  if (Error error = check_event(source_index, "source_index")) return error;
  timestamp = Count(Recorder::now_ns());
  return {};
}

}  // namespace body
}  // namespace tern::capi
