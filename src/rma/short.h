// What counts as one integer for the short ways of operations (short.cc, serve_short.cc). Thread rule: values.
#pragma once

#include "datatype/kind.h"

namespace tern::rma {

inline bool is_integer(const Kind& kind) {
  return (kind.type_class == TypeClass::c_integer || kind.type_class == TypeClass::fortran_integer) &&
         (kind.size == 4 || kind.size == 8);
}

}  // namespace tern::rma
