// The datatype constructors of the C API: arrays at either width become spans, the variant decides the
// envelope. Source: MPI 5.0 chapter 5. Thread rule: bodies, under the rank's lock.
#include "datatype/construct.h"

#include <cstring>

#include "impl.gen.h"

namespace tern::capi::body {
namespace {

using construct::Width;

// Which variant of the constructor was called. The entry points of the two share one body, and only the name
// tells.
Width width_of(const Call& call) {
  size_t length = std::strlen(call.name());
  return length > 2 && std::strcmp(call.name() + length - 2, "_c") == 0 ? Width::large : Width::small;
}

// Runs a constructor and hands over what it made.
template <typename Constructor>
Error construct_with(Datatype*& newtype, Constructor&& constructor) {
  Ref<Datatype> made;
  if (Error error = constructor(made)) return error;
  newtype = made.release();
  return {};
}

Error missing(const char* argument) {
  return Error(ErrorClass::arg, std::string("argument '") + argument + "' is a null pointer");
}

}  // namespace

Error Type_contiguous(Call& call, Count count, Datatype& oldtype, Datatype*& newtype) {
  return construct_with(newtype,
                        [&](auto& made) { return construct::contiguous(count, oldtype, made, width_of(call)); });
}

Error Type_vector(Call& call, Count count, Count blocklength, Count stride, Datatype& oldtype, Datatype*& newtype) {
  return construct_with(newtype, [&](auto& made) {
    return construct::vector(count, blocklength, stride, oldtype, made, width_of(call));
  });
}

Error Type_create_hvector(Call& call, Count count, Count blocklength, Count stride, Datatype& oldtype,
                          Datatype*& newtype) {
  return construct_with(newtype, [&](auto& made) {
    return construct::hvector(count, blocklength, stride, oldtype, made, width_of(call));
  });
}

Error Type_indexed(Call& call, Count count, IntArray array_of_blocklengths, IntArray array_of_displacements,
                   Datatype& oldtype, Datatype*& newtype) {
  if (count > 0 && array_of_displacements.null()) return missing("array_of_displacements");
  std::vector<Count> blocks = array_of_blocklengths.copy(size_t(count)),
                     places = array_of_displacements.copy(size_t(count));
  return construct_with(newtype,
                        [&](auto& made) { return construct::indexed(blocks, places, oldtype, made, width_of(call)); });
}

Error Type_create_hindexed(Call& call, Count count, IntArray array_of_blocklengths, IntArray array_of_displacements,
                           Datatype& oldtype, Datatype*& newtype) {
  if (count > 0 && array_of_displacements.null()) return missing("array_of_displacements");
  std::vector<Count> blocks = array_of_blocklengths.copy(size_t(count)),
                     places = array_of_displacements.copy(size_t(count));
  return construct_with(newtype,
                        [&](auto& made) { return construct::hindexed(blocks, places, oldtype, made, width_of(call)); });
}

Error Type_create_indexed_block(Call& call, Count count, Count blocklength, IntArray array_of_displacements,
                                Datatype& oldtype, Datatype*& newtype) {
  if (count > 0 && array_of_displacements.null()) return missing("array_of_displacements");
  std::vector<Count> places = array_of_displacements.copy(size_t(count));
  return construct_with(newtype, [&](auto& made) {
    return construct::indexed_block(blocklength, places, oldtype, made, width_of(call));
  });
}

Error Type_create_hindexed_block(Call& call, Count count, Count blocklength, IntArray array_of_displacements,
                                 Datatype& oldtype, Datatype*& newtype) {
  if (count > 0 && array_of_displacements.null()) return missing("array_of_displacements");
  std::vector<Count> places = array_of_displacements.copy(size_t(count));
  return construct_with(newtype, [&](auto& made) {
    return construct::hindexed_block(blocklength, places, oldtype, made, width_of(call));
  });
}

Error Type_create_struct(Call& call, Count count, IntArray array_of_blocklengths, IntArray array_of_displacements,
                         TypeArray array_of_types, Datatype*& newtype) {
  if (count > 0 && array_of_displacements.null()) return missing("array_of_displacements");
  if (count > 0 && array_of_types.null()) return missing("array_of_types");
  std::vector<Count> blocks = array_of_blocklengths.copy(size_t(count)),
                     places = array_of_displacements.copy(size_t(count));
  std::vector<Datatype*> olds;
  for (Count i = 0; i < count; ++i) olds.push_back(&array_of_types[size_t(i)]);
  return construct_with(newtype,
                        [&](auto& made) { return construct::structure(blocks, places, olds, made, width_of(call)); });
}

Error Type_create_resized(Call& call, Datatype& oldtype, Count lb, Count extent, Datatype*& newtype) {
  return construct_with(newtype,
                        [&](auto& made) { return construct::resized(lb, extent, oldtype, made, width_of(call)); });
}

Error Type_create_subarray(Call& call, int ndims, IntArray array_of_sizes, IntArray array_of_subsizes,
                           IntArray array_of_starts, int order, Datatype& oldtype, Datatype*& newtype) {
  if (ndims < 1) return Error(ErrorClass::arg, "argument 'ndims' is " + std::to_string(ndims) + ", must be positive");
  if (array_of_sizes.null()) return missing("array_of_sizes");
  if (array_of_subsizes.null()) return missing("array_of_subsizes");
  if (array_of_starts.null()) return missing("array_of_starts");
  size_t n = size_t(ndims);
  std::vector<Count> sizes = array_of_sizes.copy(n), subsizes = array_of_subsizes.copy(n),
                     starts = array_of_starts.copy(n);
  return construct_with(newtype, [&](auto& made) {
    return construct::subarray(sizes, subsizes, starts, order, oldtype, made, width_of(call));
  });
}

Error Type_create_darray(Call& call, int size, int rank, int ndims, IntArray array_of_gsizes,
                         const int* array_of_distribs, const int* array_of_dargs, const int* array_of_psizes, int order,
                         Datatype& oldtype, Datatype*& newtype) {
  if (ndims < 1) return Error(ErrorClass::arg, "argument 'ndims' is " + std::to_string(ndims) + ", must be positive");
  if (array_of_gsizes.null()) return missing("array_of_gsizes");
  if (!array_of_distribs) return missing("array_of_distribs");
  if (!array_of_dargs) return missing("array_of_dargs");
  if (!array_of_psizes) return missing("array_of_psizes");
  size_t n = size_t(ndims);
  std::vector<Count> gsizes = array_of_gsizes.copy(n);
  return construct_with(newtype, [&](auto& made) {
    return construct::darray(size, rank, gsizes, {array_of_distribs, n}, {array_of_dargs, n}, {array_of_psizes, n},
                             order, oldtype, made, width_of(call));
  });
}

}  // namespace tern::capi::body
