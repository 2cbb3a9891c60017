// Asking about the ABI, and telling the library about Fortran. Source: MPI 5.0 sections 20.2, 20.4.1.
#include <cstring>

#include "datatype/kind.h"
#include "fmt/format.h"
#include "impl.gen.h"

namespace tern::capi::body {

Error Abi_get_version(Call& call, int& abi_major, int& abi_minor) {
  abi_major = MPI_ABI_VERSION;
  abi_minor = MPI_ABI_SUBVERSION;
  return {};
}

Error Abi_get_info(Call& call, Info*& info) {
  info = new Info;
  info->set("mpi_aint_size", std::to_string(sizeof(MPI_Aint)));
  info->set("mpi_count_size", std::to_string(sizeof(MPI_Count)));
  info->set("mpi_offset_size", std::to_string(sizeof(MPI_Offset)));
  return {};
}

Error Abi_get_fortran_info(Call& call, Info*& info) {
  info = call.world().fortran.info ? call.world().fortran.info->dup().release() : nullptr;
  return {};
}

Error Abi_set_fortran_info(Call& call, Info& info) {
  if (call.world().fortran.info) {
    return Error(ErrorClass::abi,
                 "the properties of Fortran are set already. MPI_Abi_get_fortran_info tells what they are.");
  }
  // The datatypes of this library have fixed sizes (those of gfortran); other sizes would be silently wrong.
  constexpr struct {
    const char* key;
    int id;
  } kSizes[] = {{"mpi_logical_size", type_id::kLogical},
                {"mpi_integer_size", type_id::kInteger},
                {"mpi_real_size", type_id::kReal},
                {"mpi_double_precision_size", type_id::kDoublePrecision}};
  for (auto& entry : kSizes) {
    const std::string* value = info.find(entry.key);
    std::string expected = std::to_string(kind_of(entry.id)->size);
    if (value && *value != expected) {
      return Error(ErrorClass::abi, fmt::format("the info key '{}' has the value '{}', but this library "
                                                "supports {} only",
                                                entry.key, *value, expected));
    }
  }
  call.world().fortran.info = info.dup();
  return {};
}

static Error check_logical_size(int size) {
  if (size == 1 || size == 2 || size == 4 || size == 8 || size == 16) return {};
  return Error(ErrorClass::arg,
               fmt::format("argument 'logical_size' is {}, which is no size of a Fortran LOGICAL", size));
}

Error Abi_set_fortran_booleans(Call& call, int logical_size, void* logical_true, void* logical_false) {
  auto& booleans = call.world().fortran.booleans;
  if (Error error = check_logical_size(logical_size)) return error;
  if (!logical_true || !logical_false) return Error(ErrorClass::arg, "a literal is a null pointer");
  if (booleans.set) return Error(ErrorClass::abi, "the Fortran literals .TRUE. and .FALSE. are set already");
  booleans.set = true;
  booleans.size = logical_size;
  std::memcpy(booleans.yes, logical_true, static_cast<size_t>(logical_size));
  std::memcpy(booleans.no, logical_false, static_cast<size_t>(logical_size));
  return {};
}

Error Abi_get_fortran_booleans(Call& call, int logical_size, void* logical_true, void* logical_false, bool& is_set) {
  auto& booleans = call.world().fortran.booleans;
  if (Error error = check_logical_size(logical_size)) return error;
  is_set = booleans.set;
  if (!booleans.set) return {};
  if (logical_size != booleans.size) {
    return Error(ErrorClass::arg, fmt::format("argument 'logical_size' is {}, but the literals were set with "
                                              "size {}",
                                              logical_size, booleans.size));
  }
  if (!logical_true || !logical_false) return Error(ErrorClass::arg, "a literal is a null pointer");
  std::memcpy(logical_true, booleans.yes, static_cast<size_t>(logical_size));
  std::memcpy(logical_false, booleans.no, static_cast<size_t>(logical_size));
  return {};
}

}  // namespace tern::capi::body
