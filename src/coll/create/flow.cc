#include "coll/create/flow.h"

namespace tern::create {

FlowRequest* FlowRequest::begin(ProgressEngine& engine, Flow flow) {
  auto* request = new FlowRequest(engine, std::move(flow));
  request->flow_.handle_.resume();
  if (request->flow_.handle_.done()) {
    request->error = std::move(request->flow_.handle_.promise().result);
    request->set_complete();
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
    error = std::move(flow_.handle_.promise().result);
    set_complete();  // may delete this
  }
  return 1;
}

Error run(PointToPoint& p2p, Flow flow) {
  FlowRequest* request = FlowRequest::begin(p2p.progress(), std::move(flow));
  p2p.wait(*request);
  Error error = std::move(request->error);
  request->release();
  return error;
}

}  // namespace tern::create
