#include "comm/communicator.h"

namespace tern {

Communicator::Communicator(RankEnvironment& environment, uint64_t context, Ref<Group> local, Ref<Group> remote)
    : environment_(environment),
      p2p_(environment.p2p),
      context_(context),
      local_(std::move(local)),
      remote_(std::move(remote)),
      rank_(local_->rank()) {
  TERN_ASSERT((context_ & 3) == 0);
  TERN_ASSERT(rank_ != kUndefined);
}

Communicator::~Communicator() {
  if (error_handler && drop_error_handler) drop_error_handler(*error_handler);
  if (local_intra && local_intra->drop_ref()) delete local_intra;
}

}  // namespace tern
