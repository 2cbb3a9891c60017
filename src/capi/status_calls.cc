// Reading and writing MPI_Status. Source: MPI 5.0 sections 3.2.5, 3.8.4, 13.3.
#include "datatype/signature.h"
#include "impl.gen.h"

namespace tern::capi::body {

Error Get_count(Call& call, const MPI_Status* status, Datatype& datatype, Count& count) {
  Count bytes = status_bytes(*status), size = datatype.size();
  if (size == 0) {
    count = bytes == 0 ? 0 : kUndefined;
  } else {
    count = bytes % size == 0 ? bytes / size : kUndefined;
  }
  return {};
}

Error Test_cancelled(Call& call, const MPI_Status* status, bool& flag) {
  flag = get_status(*status).cancelled;
  return {};
}

Error Status_get_source(Call& call, const MPI_Status* status, int& source) {
  source = status->MPI_SOURCE;
  return {};
}
Error Status_get_tag(Call& call, const MPI_Status* status, int& tag) {
  tag = status->MPI_TAG;
  return {};
}
Error Status_get_error(Call& call, const MPI_Status* status, int& err) {
  err = status->MPI_ERROR;
  return {};
}
Error Status_set_source(Call& call, MPI_Status* status, int source) {
  status->MPI_SOURCE = source;
  return {};
}
Error Status_set_tag(Call& call, MPI_Status* status, int tag) {
  status->MPI_TAG = tag;
  return {};
}
Error Status_set_error(Call& call, MPI_Status* status, int err) {
  status->MPI_ERROR = err;
  return {};
}
Error Status_set_cancelled(Call& call, MPI_Status* status, int flag) {
  Status changed = get_status(*status);
  changed.cancelled = flag != 0;
  put_status(status, changed);
  return {};
}
Error Status_set_elements(Call& call, MPI_Status* status, Datatype& datatype, Count count) {
  set_status_bytes(*status, datatype.signature() ? signature::bytes_of(datatype.signature(), count) : 0);
  return {};
}

}  // namespace tern::capi::body
