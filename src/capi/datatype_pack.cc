// MPI_Pack and MPI_Unpack, native and "external32". The packed form is the bare stream of the data, without a
// header. Source: MPI 5.0 sections 5.2, 5.3. Thread rule: bodies, under the rank's lock.
#include <cstring>

#include "datatype/cursor.h"
#include "datatype/external32.h"
#include "impl.gen.h"

namespace tern::capi::body {
namespace {

Error check_position(const void* packed, Count position, Count size) {
  if (position >= 0 && position <= size && (packed || size == position)) return {};
  if (position >= 0 && position <= size) return Error(ErrorClass::buffer, "the packed buffer is a null pointer");
  return Error(ErrorClass::arg, "the position " + std::to_string(position) + " is not in the packed buffer of " +
                                    std::to_string(size) + " bytes");
}

Error check_representation(const char* datarep) {
  if (datarep && std::strcmp(datarep, "external32") == 0) return {};
  return Error(ErrorClass::arg, std::string("argument 'datarep' is \"") + (datarep ? datarep : "") +
                                    "\"; the only representation is \"external32\"");
}

}  // namespace

Error Pack(Call& call, const void* inbuf, Count incount, Datatype& datatype, void* outbuf, Count outsize,
           Count& position, Communicator& comm) {
  if (Error error = check_position(outbuf, position, outsize)) return error;
  Cursor cursor(const_cast<void*>(inbuf), incount, datatype);
  size_t room = size_t(outsize - position), need = cursor.remaining();
  if (need > room)
    return Error(ErrorClass::truncate, "the data need " + std::to_string(need) +
                                           " bytes, but the packed buffer has room for " + std::to_string(room) +
                                           " after the position; see MPI_Pack_size");
  position += Count(cursor.pack(static_cast<std::byte*>(outbuf) + position, need));
  return {};
}

Error Unpack(Call& call, const void* inbuf, Count insize, Count& position, void* outbuf, Count outcount,
             Datatype& datatype, Communicator& comm) {
  if (Error error = check_position(inbuf, position, insize)) return error;
  Cursor cursor(outbuf, outcount, datatype);
  size_t there = size_t(insize - position), need = cursor.remaining();
  if (need > there)
    return Error(ErrorClass::truncate, "the datatype wants " + std::to_string(need) +
                                           " bytes, but the packed buffer holds " + std::to_string(there) +
                                           " after the position");
  position += Count(cursor.unpack(static_cast<const std::byte*>(inbuf) + position, need));
  return {};
}

Error Pack_size(Call& call, Count incount, Datatype& datatype, Communicator& comm, Count& size) {
  if (__builtin_mul_overflow(incount, datatype.size(), &size))
    return Error(ErrorClass::value_too_large, "the packed size does not fit into 64 bits");
  return {};
}

Error Pack_external(Call& call, const char* datarep, const void* inbuf, Count incount, Datatype& datatype, void* outbuf,
                    Count outsize, Count& position) {
  if (Error error = check_representation(datarep)) return error;
  if (Error error = check_position(outbuf, position, outsize)) return error;
  size_t used = 0;
  Error error = external32::pack(inbuf, incount, datatype, static_cast<std::byte*>(outbuf) + position,
                                 size_t(outsize - position), used);
  position += Count(used);
  return error;
}

Error Unpack_external(Call& call, const char* datarep, const void* inbuf, Count insize, Count& position, void* outbuf,
                      Count outcount, Datatype& datatype) {
  if (Error error = check_representation(datarep)) return error;
  if (Error error = check_position(inbuf, position, insize)) return error;
  size_t used = 0;
  Error error = external32::unpack(static_cast<const std::byte*>(inbuf) + position, size_t(insize - position), outbuf,
                                   outcount, datatype, used);
  position += Count(used);
  return error;
}

Error Pack_external_size(Call& call, const char* datarep, Count incount, Datatype& datatype, Count& size) {
  if (Error error = check_representation(datarep)) return error;
  Count each = external32::packed_size(1, datatype);
  if (__builtin_mul_overflow(incount, each, &size))
    return Error(ErrorClass::value_too_large, "the packed size does not fit into 64 bits");
  return {};
}

}  // namespace tern::capi::body
