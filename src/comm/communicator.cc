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
  if (message_hints_ != MessageHints()) p2p_.forget_hints(context());
  if (error_handler && drop_error_handler) drop_error_handler(*error_handler);
  if (local_intra && local_intra->drop_ref()) delete local_intra;
}

void Communicator::set_context(uint64_t context) {
  context_ = context;
  set_message_hints(message_hints_);
}

// A communicator without a context yet gets them with it.
void Communicator::set_message_hints(const MessageHints& hints) {
  message_hints_ = hints;
  if (context_ != 0 && hints != MessageHints()) p2p_.set_hints(context(), hints);
}

}  // namespace tern
