// Control variables: the tunables. They are read when MPI is initialised, so they can be written before;
// `check_arguments` at any time. Source: MPI 5.0 section 15.3.6.
#include <algorithm>
#include <cstring>

#include "capi/tool.h"
#include "fmt/format.h"
#include "impl.gen.h"

namespace tern::capi {

namespace {

constexpr size_t kTextRoom = 1024;  // of a text, its end included

std::span<const TunableRow> rows() { return tunable_rows(); }

Error check_control(int index) {
  if (index >= 0 && size_t(index) < rows().size()) return {};
  return Error(
      MPI_T_ERR_INVALID_INDEX,
      fmt::format("argument 'cvar_index' is {}, but there are the control variables 0..{}", index, rows().size() - 1));
}

ToolControl* find(Call& call, MPI_T_cvar_handle handle) {
  for (auto& control : call.world().tools.controls) {
    if (reinterpret_cast<MPI_T_cvar_handle>(control.get()) == handle) return control.get();
  }
  return nullptr;
}

Error no_handle() { return Error(MPI_T_ERR_INVALID_HANDLE, "argument 'handle' is no handle of a control variable"); }

MPI_Datatype datatype_of(const TunableRow& row) {
  return !row.is_integer ? MPI_CHAR : enum_of(row) ? MPI_INT : MPI_COUNT;
}

/// What the program has set, else the running Process's value, else what one started now would have.
std::string current_value(World& world, const TunableRow& row) {
  if (auto set = world.tools.settings.find(row.name); set != world.tools.settings.end()) return set->second;
  if (world.process) return world.process->tunables().get(row.name);
  Tunables tunables;
  Configuration configuration;
  static_cast<void>(read_tunables({}, tunables, configuration));  // MPI_Init tells of mistakes
  return tunables.get(row.name);
}

}  // namespace

std::string control_name(const TunableRow& row) {
  std::string name = "TERN_";
  for (const char* c = row.name; *c; ++c) name += *c >= 'a' && *c <= 'z' ? char(*c - 'a' + 'A') : *c;
  return name;
}

namespace body {

Error T_cvar_get_num(Call& call, int& num_cvar) {
  num_cvar = int(rows().size());
  return {};
}

Error T_cvar_get_info(Call& call, int cvar_index, char* name, int* name_len, int* verbosity, MPI_Datatype* datatype,
                      MPI_T_enum* enumtype, char* desc, int* desc_len, int* bind, int* scope) {
  if (Error error = check_control(cvar_index)) return error;
  const TunableRow& row = rows()[size_t(cvar_index)];
  give_string(control_name(row), name, name_len);
  give(verbosity, MPI_T_VERBOSITY_TUNER_BASIC);
  if (datatype) *datatype = datatype_of(row);
  if (enumtype) *enumtype = reinterpret_cast<MPI_T_enum>(const_cast<ToolEnum*>(enum_of(row)));
  std::string text(row.meaning);
  if (*row.unit) text += fmt::format(" ({})", row.unit);
  text += row.ranks_must_agree ? "; to be set before MPI is initialised, to the same value in all processes"
          : std::string_view(row.name) == "check_arguments" ? "; may be set at any time"
                                                            : "; to be set before MPI is initialised";
  give_string(text, desc, desc_len);
  give(bind, MPI_T_BIND_NO_OBJECT);
  give(scope, row.ranks_must_agree ? MPI_T_SCOPE_ALL_EQ : MPI_T_SCOPE_LOCAL);
  return {};
}

Error T_cvar_get_index(Call& call, const char* name, int& cvar_index) {
  for (size_t i = 0; i < rows().size(); ++i) {
    if (control_name(rows()[i]) == name) {
      cvar_index = int(i);
      return {};
    }
  }
  return Error(MPI_T_ERR_INVALID_NAME, fmt::format("there is no control variable '{}'", name));
}

Error T_cvar_handle_alloc(Call& call, int cvar_index, void* obj_handle, MPI_T_cvar_handle* handle, int& count) {
  if (Error error = check_control(cvar_index)) return error;
  if (!handle) return Error(MPI_T_ERR_INVALID, "argument 'handle' is a null pointer");
  auto& controls = call.world().tools.controls;
  controls.push_back(std::make_unique<ToolControl>(ToolControl{&rows()[size_t(cvar_index)]}));
  *handle = reinterpret_cast<MPI_T_cvar_handle>(controls.back().get());
  count = controls.back()->row->is_integer ? 1 : int(kTextRoom);
  return {};
}

Error T_cvar_handle_free(Call& call, MPI_T_cvar_handle* handle) {
  ToolControl* control = handle ? find(call, *handle) : nullptr;
  if (!control) return no_handle();
  std::erase_if(call.world().tools.controls, [&](auto& each) { return each.get() == control; });
  *handle = MPI_T_CVAR_HANDLE_NULL;
  return {};
}

Error T_cvar_read(Call& call, MPI_T_cvar_handle handle, void* buf) {
  ToolControl* control = find(call, handle);
  if (!control) return no_handle();
  if (!buf) return Error(MPI_T_ERR_INVALID, "argument 'buf' is a null pointer");
  const std::string value = current_value(call.world(), *control->row);
  if (!control->row->is_integer) {
    const size_t length = std::min(value.size(), kTextRoom - 1);
    std::memcpy(buf, value.data(), length);
    static_cast<char*>(buf)[length] = '\0';
  } else if (enum_of(*control->row)) {
    *static_cast<int*>(buf) = std::stoi(value);
  } else {
    *static_cast<MPI_Count*>(buf) = std::stoll(value);
  }
  return {};
}

Error T_cvar_write(Call& call, MPI_T_cvar_handle handle, const void* buf) {
  ToolControl* control = find(call, handle);
  if (!control) return no_handle();
  if (!buf) return Error(MPI_T_ERR_INVALID, "argument 'buf' is a null pointer");
  const TunableRow& row = *control->row;
  World& world = call.world();
  const bool at_once = std::string_view(row.name) == "check_arguments";
  if (world.process && !at_once) {
    // A Process that ends with MPI_Finalize may be followed by another one, for a session.
    return Error(world.models.sessions_used ? MPI_T_ERR_CVAR_SET_NEVER : MPI_T_ERR_CVAR_SET_NOT_NOW,
                 fmt::format("{} is read when MPI is initialised, and MPI runs", control_name(row)));
  }
  std::string value;
  if (!row.is_integer) {
    const char* text = static_cast<const char*>(buf);
    value.assign(text, strnlen(text, kTextRoom - 1));
  } else {
    value = std::to_string(enum_of(row) ? *static_cast<const int*>(buf) : *static_cast<const MPI_Count*>(buf));
  }
  Tunables probe;
  if (Error error = probe.set(row.name, value)) return Error(MPI_T_ERR_INVALID, std::string(error.text()));
  world.tools.settings[row.name] = value;
  if (at_once) world.checking = probe.check_arguments != 0;
  return {};
}

}  // namespace body
}  // namespace tern::capi
