#include "fabric/rdma/verbs/hca.h"

namespace tern::rdma {

const char* status_name(Status status) {
  switch (status) {
    case Status::success: return "success";
    case Status::local_length: return "local length error";
    case Status::local_queue_pair: return "local queue pair operation error";
    case Status::local_protection: return "local protection error";
    case Status::flushed: return "flushed";
    case Status::remote_invalid_request: return "remote invalid request";
    case Status::remote_access: return "remote access error";
    case Status::remote_operation: return "remote operation error";
    case Status::retry_exceeded: return "transport retries exceeded";
    case Status::rnr_retry_exceeded: return "receiver-not-ready retries exceeded";
    case Status::aborted: return "remote aborted";
    case Status::fatal: return "fatal adapter error";
    case Status::other: return "unknown error";
  }
  return "unknown status";
}

}  // namespace tern::rdma
