// Attributes of datatypes for the bodies that copy and free them: the cache hangs on a Datatype as an untyped
// pointer, since datatypes are below comm/. Source: MPI 5.0 section 7.7.4. Thread rule: under the rank's
// lock.
#pragma once

#include "comm/attributes.h"
#include "datatype/datatype.h"

namespace tern::capi {

/// The datatype's attributes, made when there are none yet.
AttributeCache& attributes_of(Datatype& type);

/// For MPI_Type_dup: runs the copy callbacks.
Error copy_attributes(Datatype& from, Datatype& to);
/// For MPI_Type_free: runs the delete callbacks. On an error the datatype must not be freed.
Error delete_attributes(Datatype& type);

}  // namespace tern::capi
