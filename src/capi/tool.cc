// The tools interface: beginning and end, enumerations, categories. Source: MPI 5.0 sections 15.3.3-15.3.5, 15.3.9.
#include "capi/tool.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <vector>

#include "coll/select.h"
#include "fmt/format.h"
#include "impl.gen.h"

namespace tern::capi {

namespace {

constexpr ToolEnum::Item kSwitch[] = {{0, "off"}, {1, "on"}};
constexpr ToolEnum::Item kSwitchOrAutomatic[] = {{-1, "automatic"}, {0, "off"}, {1, "on"}};

// The last: algorithms of collectives, as events name them.
std::span<const ToolEnum> enums() {
  static const std::vector<ToolEnum::Item> names = [] {
    std::vector<ToolEnum::Item> all{{-1, "none"}};
    for (const Algorithm& each : algorithms()) all.push_back({int(all.size()) - 1, each.name});
    return all;
  }();
  static const ToolEnum all[] = {
      {"switch", kSwitch},
      {"switch or automatic", kSwitchOrAutomatic},
      {"algorithm", names},
  };
  return all;
}

const ToolEnum* find_enum(MPI_T_enum handle) {
  for (const ToolEnum& each : enums()) {
    if (handle == reinterpret_cast<MPI_T_enum>(const_cast<ToolEnum*>(&each))) return &each;
  }
  return nullptr;
}

/// Tunables that belong to no group of counters.
constexpr CounterGroup kGeneral{"general", "What concerns the library as a whole"};
/// Category 0 holds the others.
constexpr CounterGroup kAll{"tern", "All of Tern's variables"};

size_t category_count() { return counter_groups().size() + 2; }
const CounterGroup& category(size_t index) {
  return index == 0 ? kAll : index <= counter_groups().size() ? counter_groups()[index - 1] : kGeneral;
}

/// The category of a tunable, by the first word of its name.
std::string_view group_of(const TunableRow& row) {
  const std::string_view name(row.name), word = name.substr(0, name.find('_'));
  for (const CounterGroup& group : counter_groups()) {
    if (word == group.name) return group.name;
  }
  if (word == "coll") return "collectives";
  if (word == "unexpected") return "messages";
  if (word == "spin" || word == "yield" || word == "oversubscribed") return "progress";
  return kGeneral.name;
}

std::vector<int> members(size_t index, bool controls) {
  std::vector<int> found;
  const std::string_view name = category(index).name;
  if (controls) {
    for (size_t i = 0; i < tunable_rows().size(); ++i) {
      if (group_of(tunable_rows()[i]) == name) found.push_back(int(i));
    }
  } else {
    for (size_t i = 0; i < counter_rows().size(); ++i) {
      if (counter_rows()[i].group == name) found.push_back(int(i));
    }
  }
  return found;
}

std::vector<int> events_in(size_t index) {
  std::vector<int> found;
  for (size_t i = 0; i < std::size(kEventRows); ++i) {
    if (std::string_view(kEventRows[i].group) == category(index).name) found.push_back(int(i));
  }
  return found;
}

std::vector<int> categories_in(size_t index) {
  std::vector<int> found;
  for (size_t i = 1; index == 0 && i < category_count(); ++i) found.push_back(int(i));
  return found;
}

Error check_category(int index) {
  if (index >= 0 && size_t(index) < category_count()) return {};
  return Error(MPI_T_ERR_INVALID_INDEX, fmt::format("argument 'cat_index' is {}, but there are the categories 0..{}",
                                                    index, category_count() - 1));
}

Error put(const std::vector<int>& found, int length, int* indices) {
  if (length < 0 || (length > 0 && !indices)) return Error(MPI_T_ERR_INVALID, "argument 'indices' has no room");
  std::copy_n(found.begin(), std::min(found.size(), size_t(length)), indices);
  return {};
}

}  // namespace

const ToolEnum* enum_of(const TunableRow& row) {
  if (!row.is_integer || row.maximum != 1 || row.minimum < -1) return nullptr;
  return &enums()[row.minimum == 0 ? 0 : 1];
}

const ToolEnum* enum_of(Event event) {
  return event == Event::collective_begun || event == Event::collective_done ? &enums().back() : nullptr;
}

void give_string(std::string_view text, char* to, int* length) {
  if (!length) return;
  const int room = *length;
  *length = int(text.size()) + 1;
  if (!to || room <= 0) return;
  const size_t copied = std::min(text.size(), size_t(room - 1));
  std::memcpy(to, text.data(), copied);
  to[copied] = '\0';
}

namespace body {

Error T_init_thread(Call& call, int required, int& provided) {
  if (required < MPI_THREAD_SINGLE || required > MPI_THREAD_MULTIPLE) {
    return Error(MPI_T_ERR_INVALID, fmt::format("argument 'required' is {}, which is no thread level", required));
  }
  ++call.world().tools.users;
  provided = MPI_THREAD_MULTIPLE;  // every function takes the rank's lock
  return {};
}

Error T_finalize(Call& call) {
  ToolState& tools = call.world().tools;
  if (tools.users == 0) return Error(MPI_T_ERR_NOT_INITIALIZED, "called more often than MPI_T_init_thread");
  if (tools.events && tools.events->telling()) {
    return Error(MPI_T_ERR_NOT_ACCESSIBLE, "called by a callback of an event, which the last MPI_T_finalize ends");
  }
  if (--tools.users > 0) return {};
  for (auto& session : tools.sessions) {
    for (auto& counter : session->counters) {
      if (counter->running && counter->row->counter_class == CounterClass::timer) --call.world().counts.rank->timing;
    }
  }
  tools.events = nullptr;  // stops listening
  tools = {};
  return {};
}

Error T_enum_get_info(Call& call, MPI_T_enum enumtype, int* num, char* name, int* name_len) {
  const ToolEnum* found = find_enum(enumtype);
  if (!found) return Error(MPI_T_ERR_INVALID_HANDLE, "argument 'enumtype' is no enumeration");
  give(num, int(found->items.size()));
  give_string(found->name, name, name_len);
  return {};
}

Error T_enum_get_item(Call& call, MPI_T_enum enumtype, int index, int* value, char* name, int* name_len) {
  const ToolEnum* found = find_enum(enumtype);
  if (!found) return Error(MPI_T_ERR_INVALID_HANDLE, "argument 'enumtype' is no enumeration");
  if (index < 0 || size_t(index) >= found->items.size()) {
    return Error(MPI_T_ERR_INVALID_INDEX,
                 fmt::format("argument 'index' is {}, but the enumeration '{}' has the items 0..{}", index, found->name,
                             found->items.size() - 1));
  }
  give(value, found->items[size_t(index)].value);
  give_string(found->items[size_t(index)].name, name, name_len);
  return {};
}

// The tables are constant, so nothing ever changes.
Error T_category_changed(Call& call, int& update_number) {
  update_number = 0;
  return {};
}

Error T_category_get_num(Call& call, int& num_cat) {
  num_cat = int(category_count());
  return {};
}

Error T_category_get_info(Call& call, int cat_index, char* name, int* name_len, char* desc, int* desc_len,
                          int* num_cvars, int* num_pvars, int* num_categories) {
  if (Error error = check_category(cat_index)) return error;
  const size_t index = size_t(cat_index);
  give_string(category(index).name, name, name_len);
  give_string(category(index).meaning, desc, desc_len);
  give(num_cvars, members(index, true).size());
  give(num_pvars, members(index, false).size());
  give(num_categories, categories_in(index).size());
  return {};
}

Error T_category_get_index(Call& call, const char* name, int& cat_index) {
  for (size_t i = 0; i < category_count(); ++i) {
    if (std::string_view(category(i).name) == name) {
      cat_index = int(i);
      return {};
    }
  }
  return Error(MPI_T_ERR_INVALID_NAME, fmt::format("there is no category '{}'", name));
}

Error T_category_get_cvars(Call& call, int cat_index, int len, int* indices) {
  if (Error error = check_category(cat_index)) return error;
  return put(members(size_t(cat_index), true), len, indices);
}

Error T_category_get_pvars(Call& call, int cat_index, int len, int* indices) {
  if (Error error = check_category(cat_index)) return error;
  return put(members(size_t(cat_index), false), len, indices);
}

Error T_category_get_categories(Call& call, int cat_index, int len, int* indices) {
  if (Error error = check_category(cat_index)) return error;
  return put(categories_in(size_t(cat_index)), len, indices);
}

Error T_category_get_num_events(Call& call, int cat_index, int& num_events) {
  if (Error error = check_category(cat_index)) return error;
  num_events = int(events_in(size_t(cat_index)).size());
  return {};
}

Error T_category_get_events(Call& call, int cat_index, int len, int* indices) {
  if (Error error = check_category(cat_index)) return error;
  return put(events_in(size_t(cat_index)), len, indices);
}

}  // namespace body
}  // namespace tern::capi
