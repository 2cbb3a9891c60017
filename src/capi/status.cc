// MPI_Status: what is public and what sits in MPI_internal. Source: MPI 5.0 sections 3.2.5 and 20.3.1.
#include <cstring>

#include "capi/call.h"

namespace tern::capi {

namespace {
constexpr int kBytes = 0;      // words 0 and 1; int-aligned, so copied
constexpr int kCancelled = 2;  // word
}  // namespace

Count status_bytes(const MPI_Status& status) {
  Count bytes;
  std::memcpy(&bytes, &status.MPI_internal[kBytes], sizeof bytes);
  return bytes;
}

void set_status_bytes(MPI_Status& status, Count bytes) {
  std::memcpy(&status.MPI_internal[kBytes], &bytes, sizeof bytes);
}

void put_status(MPI_Status* to, const Status& from) {
  if (!to) return;
  to->MPI_SOURCE = from.source;
  to->MPI_TAG = from.tag;
  set_status_bytes(*to, from.bytes);
  to->MPI_internal[kCancelled] = from.cancelled;
}

Status get_status(const MPI_Status& from) {
  return {from.MPI_SOURCE, from.MPI_TAG, status_bytes(from), from.MPI_internal[kCancelled] != 0};
}

}  // namespace tern::capi
