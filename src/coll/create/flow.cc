#include "coll/create/flow.h"

#include <new>

namespace tern::create {

FlowRequest* FlowRequest::begin(ProgressEngine& engine, Flow flow) {
  auto* request = new FlowRequest(engine, std::move(flow));
  request->flow_.handle_.resume();
  if (request->flow_.handle_.done()) {
    request->finish();
  } else {
    engine.activate(*request);
  }
  return request;
}

int FlowRequest::advance() {
  if (!awaited_->complete()) return 0;
  awaited_ = nullptr;
  suspended_.resume();
  if (flow_.handle_.done()) {
    engine_.deactivate(*this);
    finish();
  }
  return 1;
}

// May delete this.
void FlowRequest::finish() {
  try {
    error = flow_.handle_.promise().outcome();
  } catch (const std::bad_alloc&) {
    error = Error(ErrorClass::no_mem, "memory has run out");
  }
  set_complete();
}

Error run(PointToPoint& p2p, Flow flow) {
  FlowRequest* request = FlowRequest::begin(p2p.progress(), std::move(flow));
  p2p.wait(*request);
  Error error = std::move(request->error);
  request->release();
  return error;
}

}  // namespace tern::create
