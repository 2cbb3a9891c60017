// Data representations by the user's callbacks. Source: MPI 5.0, 14.5.3.
#include <algorithm>
#include <cstring>
#include <limits>

#include "capi/file_common.h"
#include "impl.gen.h"
#include "io/representation.h"

namespace tern::capi {

namespace {

/// `Function`: MPI_Datarep_conversion_function, or the one with large counts.
template <typename Function, typename Length>
class UserRepresentation final : public io::Representation {
 public:
  UserRepresentation(World& world, std::string name, Function* read, Function* write,
                     MPI_Datarep_extent_function* extent, void* state)
      : Representation(std::move(name)), world_(world), read_(read), write_(write), extent_(extent), state_(state) {}

  bool converts(bool write) const override { return (write ? write_ : read_) != nullptr; }
  bool calls_user() const override { return true; }

  Error length_of(const Kind& kind, Count& bytes) const override {
    Datatype* type = kind.id != 0 ? world_.find_type(uintptr_t(kind.id))
                                  : world_.predefined.types.value_index(*world_.find_type(uintptr_t(kind.value_id)),
                                                                        *world_.find_type(uintptr_t(kind.index_id)));
    LentType lent(world_, *type);
    MPI_Aint extent = 0;
    const int code = extent_(lent.handle, &extent, state_);
    if (code != MPI_SUCCESS) return failed("dtype_file_extent_fn", code);
    if (extent == MPI_UNDEFINED)
      return Error(ErrorClass::value_too_large, "dtype_file_extent_fn of the data representation '" + name() +
                                                    "' cannot represent the extent of " + type->name());
    if (extent <= 0)
      return Error(ErrorClass::conversion, "dtype_file_extent_fn of the data representation '" + name() +
                                               "' gave the extent " + std::to_string(extent) + " for " + type->name());
    bytes = extent;
    return {};
  }

  Error to_file(const void* memory, Count count, Datatype& type, Count items, std::byte* file) const override {
    return convert(write_, "write_conversion_fn", const_cast<void*>(memory), count, type, items, file);
  }
  Error from_file(const std::byte* file, Count items, void* memory, Count count, Datatype& type) const override {
    return convert(read_, "read_conversion_fn", memory, count, type, items, const_cast<std::byte*>(file));
  }

 private:
  Error failed(const char* function, int code) const {
    return Error(ErrorClass::conversion, std::string(function) + " of the data representation '" + name() +
                                             "' returned the error code " + std::to_string(code));
  }
  /// One call for all items, unless there are more than the function can count.
  Error convert(Function* function, const char* what, void* memory, Count count, Datatype& type, Count items,
                std::byte* file) const {
    LentType lent(world_, type);
    for (Count position = 0; position < items;) {
      const Count n = std::min<Count>(items - position, std::numeric_limits<Length>::max());
      io::Prefix before;
      if (position > 0) {
        if (Error error = io::prefix_of_items(*this, count, type, position, before)) return error;
      }
      const int code = function(memory, lent.handle, Length(n), file + before.file_bytes, position, state_);
      if (code != MPI_SUCCESS) return failed(what, code);
      position += n;
    }
    return {};
  }

  World& world_;
  Function* const read_;
  Function* const write_;
  MPI_Datarep_extent_function* const extent_;
  void* const state_;
};

template <typename Length, typename Function>
Error add(Call& call, const char* name, Function* read, Function* write, MPI_Datarep_extent_function* extent,
          void* state) {
  if (*name == '\0' || std::strlen(name) >= MPI_MAX_DATAREP_STRING)
    return Error(ErrorClass::arg, "argument 'datarep' has " + std::to_string(std::strlen(name)) +
                                      " characters. Pass 1 to " + std::to_string(MPI_MAX_DATAREP_STRING - 1) +
                                      " (MPI_MAX_DATAREP_STRING - 1).");
  if (!extent) return Error(ErrorClass::arg, "argument 'dtype_file_extent_fn' is a null pointer");
  io::Representations& all = call.process().files().representations();
  if (all.find(name))
    return Error(ErrorClass::dup_datarep, "the data representation '" + std::string(name) + "' is defined already");
  all.add(std::make_unique<UserRepresentation<Function, Length>>(call.world(), name, read, write, extent, state));
  return {};
}

}  // namespace

namespace body {

Error Register_datarep(Call& call, const char* datarep, MPI_Datarep_conversion_function* read_conversion_fn,
                       MPI_Datarep_conversion_function* write_conversion_fn,
                       MPI_Datarep_extent_function* dtype_file_extent_fn, void* extra_state) {
  return add<int>(call, datarep, read_conversion_fn, write_conversion_fn, dtype_file_extent_fn, extra_state);
}

Error Register_datarep_c(Call& call, const char* datarep, MPI_Datarep_conversion_function_c* read_conversion_fn,
                         MPI_Datarep_conversion_function_c* write_conversion_fn,
                         MPI_Datarep_extent_function* dtype_file_extent_fn, void* extra_state) {
  return add<MPI_Count>(call, datarep, read_conversion_fn, write_conversion_fn, dtype_file_extent_fn, extra_state);
}

}  // namespace body
}  // namespace tern::capi
