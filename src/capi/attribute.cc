// Attribute caching: keyvals and attributes of communicators and datatypes, keyvals of windows, and the
// predefined attributes of the environment (MPI 5.0 sections 7.7 and 9.1.2; 16.1 uses the same bodies).
// Thread rule: under the rank's lock, which callbacks may take again.
#include "capi/attribute.h"

#include <utility>

#include "impl.gen.h"
#include "rma/window.h"

namespace tern::capi {

namespace {

Error callback_failed(int code, const char* which) {
  return Error(code, std::string("the ") + which + " callback of the attribute returned " + std::to_string(code));
}

// Functions 0 and 1 are the predefined MPI_*_NULL_COPY_FN (also MPI_*_NULL_DELETE_FN) and MPI_*_DUP_FN, by
// value.
constexpr uintptr_t kNullFunction = 0, kDupFunction = 1;

/// A key whose number stays good until the last attribute under it is gone: MPI_Comm_free_keyval only says
/// that the user is done with it (7.7.2), and may be called again while there are attributes.
class NumberedHooks : public AttributeHooks {
 public:
  ~NumberedHooks() override {
    if (number_ != 0) world_.handles.keyvals.retire(uintptr_t(number_));
  }
  explicit NumberedHooks(World& world) : world_(world) {}
  void set_number(int number) { number_ = number; }
  /// Whether the user has not freed the key before.
  bool free_once() { return !std::exchange(freed_, true); }

 private:
  World& world_;
  int number_ = 0;
  bool freed_ = false;
};

/// The callbacks of C programs. Handle is what they get for the Owner.
template <typename Owner, typename Handle, typename CopyFunction, typename DeleteFunction>
class CHooks final : public NumberedHooks {
 public:
  CHooks(World& world, CopyFunction* on_copy, DeleteFunction* on_delete, void* extra_state)
      : NumberedHooks(world), copy_(on_copy), delete_(on_delete), extra_state_(extra_state) {}

  Error copy(Object& owner, Keyval& keyval, void* value, void*& copied, bool& keep) override {
    auto function = reinterpret_cast<uintptr_t>(copy_);
    keep = function == kDupFunction;
    copied = value;
    if (function == kNullFunction || function == kDupFunction) return {};
    int flag = 0;
    int code = copy_(handle(owner), keyval.handle, extra_state_, value, &copied, &flag);
    keep = flag != 0;
    return code == MPI_SUCCESS ? Error() : callback_failed(code, "copy");
  }
  Error remove(Object& owner, Keyval& keyval, void* value) override {
    if (reinterpret_cast<uintptr_t>(delete_) == kNullFunction) return {};
    int code = delete_(handle(owner), keyval.handle, value, extra_state_);
    return code == MPI_SUCCESS ? Error() : callback_failed(code, "delete");
  }

 private:
  static Handle handle(Object& owner) { return reinterpret_cast<Handle>(intptr_t{owner.handle}); }
  CopyFunction* copy_;
  DeleteFunction* delete_;
  void* extra_state_;
};

using CommHooks = CHooks<Communicator, MPI_Comm, MPI_Comm_copy_attr_function, MPI_Comm_delete_attr_function>;
using TypeHooks = CHooks<Datatype, MPI_Datatype, MPI_Type_copy_attr_function, MPI_Type_delete_attr_function>;
using WinHooks = CHooks<Window, MPI_Win, MPI_Win_copy_attr_function, MPI_Win_delete_attr_function>;

Error create_keyval(Call& call, Keyval::Kind kind, std::unique_ptr<NumberedHooks> hooks, int& result) {
  NumberedHooks& numbered = *hooks;
  result = int(call.world().handles.keyvals.give(new Keyval(kind, std::move(hooks))));
  numbered.set_number(result);
  return {};
}

bool is_predefined(int keyval) { return keyval >= MPI_TAG_UB && keyval <= MPI_WIN_MODEL; }

/// The user's keyval of that kind, for anything but reading.
Error find_keyval(Call& call, int number, Keyval::Kind kind, Keyval*& keyval) {
  keyval = call.find_keyval(number);
  if (keyval && keyval->kind() == kind) return {};
  std::string text = "keyval " + std::to_string(number);
  if (keyval) {
    const char* owners[] = {"communicators", "datatypes", "windows"};
    return Error(ErrorClass::keyval, text + " was made for attributes of " + owners[int(keyval->kind())]);
  }
  if (number == MPI_KEYVAL_INVALID) return Error(ErrorClass::keyval, "the keyval is MPI_KEYVAL_INVALID");
  if (is_predefined(number))
    return Error(ErrorClass::keyval, text + " is predefined and cannot be changed, deleted or freed");
  return Error(ErrorClass::keyval, text + " is none, or was freed");
}

Error free_keyval(Call& call, Keyval::Kind kind, int& number) {
  Keyval* keyval = nullptr;
  if (Error error = find_keyval(call, number, kind, keyval)) return error;
  number = MPI_KEYVAL_INVALID;
  if (static_cast<NumberedHooks*>(keyval->hooks())->free_once()) Ref<Keyval>::adopt(keyval).reset();
  return {};
}

void put_pointer(void* attribute_val, void* value) { *static_cast<void**>(attribute_val) = value; }

/// The value of a predefined attribute of communicators; false: not set.
bool predefined_value(Call& call, int keyval, int& value) {
  Process& process = call.process();
  switch (keyval) {
    case MPI_TAG_UB: value = PointToPoint::kTagUpperBound; return true;
    case MPI_HOST: value = MPI_PROC_NULL; return true;
    case MPI_IO: value = MPI_ANY_SOURCE; return true;
    // One node has one clock; between nodes clocks are not synchronised.
    case MPI_WTIME_IS_GLOBAL: value = int(process.node().all().size()) == process.world_size(); return true;
    case MPI_APPNUM: value = process.launcher().app_number(); return value >= 0;
    case MPI_UNIVERSE_SIZE: value = process.launcher().universe_size(); return value >= 0;
    case MPI_LASTUSEDCODE: value = call.world().errors.last_used(); return true;
    default: return false;
  }
}

}  // namespace

AttributeCache& attributes_of(Datatype& type) {
  if (!type.attributes) {
    type.attributes = {new AttributeCache, [](void* cache) { delete static_cast<AttributeCache*>(cache); }};
  }
  return *static_cast<AttributeCache*>(type.attributes.get());
}

Error copy_attributes(Datatype& from, Datatype& to) {
  return from.attributes ? attributes_of(from).copy_to(from, attributes_of(to)) : Error();
}

Error delete_attributes(Datatype& type) { return type.attributes ? attributes_of(type).clear(type) : Error(); }

namespace body {

Error Comm_create_keyval(Call& call, MPI_Comm_copy_attr_function* comm_copy_attr_fn,
                         MPI_Comm_delete_attr_function* comm_delete_attr_fn, int& comm_keyval, void* extra_state) {
  return create_keyval(call, Keyval::Kind::communicator,
                       std::make_unique<CommHooks>(call.world(), comm_copy_attr_fn, comm_delete_attr_fn, extra_state),
                       comm_keyval);
}

Error Comm_free_keyval(Call& call, int& comm_keyval) {
  return free_keyval(call, Keyval::Kind::communicator, comm_keyval);
}

Error Comm_set_attr(Call& call, Communicator& comm, int comm_keyval, void* attribute_val) {
  Keyval* keyval = nullptr;
  if (Error error = find_keyval(call, comm_keyval, Keyval::Kind::communicator, keyval)) return error;
  return comm.attributes.set(comm, *keyval, attribute_val);
}

Error Comm_get_attr(Call& call, Communicator& comm, int comm_keyval, void* attribute_val, bool& flag) {
  if (comm_keyval >= MPI_TAG_UB && comm_keyval <= MPI_UNIVERSE_SIZE) {
    // The Sessions Model knows the tags' bound only.
    if (comm.from_session && comm_keyval != MPI_TAG_UB) return {};
    int& place = call.world().predefined.attributes[comm_keyval - 500];
    flag = predefined_value(call, comm_keyval, place);
    if (flag) put_pointer(attribute_val, &place);
    return {};
  }
  Keyval* keyval = nullptr;
  if (Error error = find_keyval(call, comm_keyval, Keyval::Kind::communicator, keyval)) return error;
  void* value = nullptr;
  flag = comm.attributes.get(*keyval, value);
  if (flag) put_pointer(attribute_val, value);
  return {};
}

Error Comm_delete_attr(Call& call, Communicator& comm, int comm_keyval) {
  Keyval* keyval = nullptr;
  if (Error error = find_keyval(call, comm_keyval, Keyval::Kind::communicator, keyval)) return error;
  return comm.attributes.remove(comm, *keyval);
}

Error Type_create_keyval(Call& call, MPI_Type_copy_attr_function* type_copy_attr_fn,
                         MPI_Type_delete_attr_function* type_delete_attr_fn, int& type_keyval, void* extra_state) {
  return create_keyval(call, Keyval::Kind::datatype,
                       std::make_unique<TypeHooks>(call.world(), type_copy_attr_fn, type_delete_attr_fn, extra_state),
                       type_keyval);
}

Error Type_free_keyval(Call& call, int& type_keyval) { return free_keyval(call, Keyval::Kind::datatype, type_keyval); }

Error Type_set_attr(Call& call, Datatype& datatype, int type_keyval, void* attribute_val) {
  Keyval* keyval = nullptr;
  if (Error error = find_keyval(call, type_keyval, Keyval::Kind::datatype, keyval)) return error;
  return attributes_of(datatype).set(datatype, *keyval, attribute_val);
}

Error Type_get_attr(Call& call, Datatype& datatype, int type_keyval, void* attribute_val, bool& flag) {
  Keyval* keyval = nullptr;
  if (Error error = find_keyval(call, type_keyval, Keyval::Kind::datatype, keyval)) return error;
  void* value = nullptr;
  flag = datatype.attributes && attributes_of(datatype).get(*keyval, value);
  if (flag) put_pointer(attribute_val, value);
  return {};
}

Error Type_delete_attr(Call& call, Datatype& datatype, int type_keyval) {
  Keyval* keyval = nullptr;
  if (Error error = find_keyval(call, type_keyval, Keyval::Kind::datatype, keyval)) return error;
  return attributes_of(datatype).remove(datatype, *keyval);
}

Error Win_create_keyval(Call& call, MPI_Win_copy_attr_function* win_copy_attr_fn,
                        MPI_Win_delete_attr_function* win_delete_attr_fn, int& win_keyval, void* extra_state) {
  return create_keyval(call, Keyval::Kind::window,
                       std::make_unique<WinHooks>(call.world(), win_copy_attr_fn, win_delete_attr_fn, extra_state),
                       win_keyval);
}

Error Win_free_keyval(Call& call, int& win_keyval) { return free_keyval(call, Keyval::Kind::window, win_keyval); }

Error Win_set_attr(Call& call, Window& win, int win_keyval, void* attribute_val) {
  Keyval* keyval = nullptr;
  if (Error error = find_keyval(call, win_keyval, Keyval::Kind::window, keyval)) return error;
  return win.attributes.set(win, *keyval, attribute_val);
}

// Predefined ones: MPI 5.0, 12.2.6.
Error Win_get_attr(Call& call, Window& win, int win_keyval, void* attribute_val, bool& flag) {
  flag = true;
  switch (win_keyval) {
    case MPI_WIN_BASE: put_pointer(attribute_val, win.window->memory().told_base()); return {};
    case MPI_WIN_SIZE: put_pointer(attribute_val, &win.size); return {};
    case MPI_WIN_DISP_UNIT: put_pointer(attribute_val, &win.disp_unit); return {};
    case MPI_WIN_CREATE_FLAVOR: put_pointer(attribute_val, &win.flavor); return {};
    case MPI_WIN_MODEL: put_pointer(attribute_val, &win.model); return {};
    default: break;
  }
  flag = false;
  Keyval* keyval = nullptr;
  if (Error error = find_keyval(call, win_keyval, Keyval::Kind::window, keyval)) return error;
  void* value = nullptr;
  flag = win.attributes.get(*keyval, value);
  if (flag) put_pointer(attribute_val, value);
  return {};
}

Error Win_delete_attr(Call& call, Window& win, int win_keyval) {
  Keyval* keyval = nullptr;
  if (Error error = find_keyval(call, win_keyval, Keyval::Kind::window, keyval)) return error;
  return win.attributes.remove(win, *keyval);
}

}  // namespace body
}  // namespace tern::capi
