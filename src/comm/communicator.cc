#include "comm/communicator.h"

#include "p2p/engines.h"

namespace tern {

Communicator::Communicator(RankEnvironment& environment, uint64_t context, Ref<Group> local, Ref<Group> remote,
                           uint32_t network_engines)
    : environment_(environment),
      p2p_(&environment.p2p),
      context_(context),
      local_(std::move(local)),
      remote_(std::move(remote)),
      rank_(local_->rank()),
      network_engines_(network_engines) {
  TERN_ASSERT((context_ & 3) == 0);
  TERN_ASSERT(rank_ != kUndefined);
  find_engine();
}

Communicator::~Communicator() {
  if (message_hints_ != MessageHints()) for_each_p2p([&](PointToPoint& p2p) { p2p.forget_hints(context()); });
  if (error_handler && drop_error_handler) drop_error_handler(*error_handler);
  if (local_intra && local_intra->drop_ref()) delete local_intra;
}

void Communicator::set_context(uint64_t context, uint32_t network_engines) {
  context_ = context;
  network_engines_ = network_engines;
  find_engine();
  set_message_hints(message_hints_);
}

template <typename Visitor>
void Communicator::for_each_p2p(Visitor&& visit) const {
  if (!by_tag_) visit(*p2p_);
  else for_each_engine([&](Engine& engine) { visit(engine.p2p); });
}

void Communicator::find_engine() {
  if (!environment_.engines || context_ == 0) return;
  if (!remote_) {
    engine_ =
        environment_.engines->of(context_, network_engines_, local_->size(), [&](int i) { return local_->peer(i); });
  }
  p2p_ = engine_ ? &engine_->p2p : &environment_.p2p;
}

// A communicator without a context yet gets them with it.
void Communicator::set_message_hints(const MessageHints& hints) {
  message_hints_ = hints;
  if (context_ == 0 || hints == MessageHints()) return;
  for_each_p2p([&](PointToPoint& p2p) { p2p.set_hints(context(), hints); });
}

void Communicator::spread_by_tag() {
  TERN_ASSERT(engine_ && !is_spread_by_tag());
  const auto peer = [&](int i) { return local_->peer(i); };
  if (!environment_.engines->of_tags(network_engines_, local_->size(), peer)) return;
  by_tag_ = true;
  set_message_hints(message_hints_);
}

Engine* Communicator::engine_of_tag(int tag) const {
  return &environment_.engines->of_tag(context_, network_engines_, tag);
}

PointToPoint& Communicator::p2p_of_tag(int tag) const { return engine_of_tag(tag)->p2p; }

Engine* Communicator::engine_at(uint32_t index) const {
  Engines& all = *environment_.engines;
  return index < all.count() ? &all[index] : nullptr;
}

}  // namespace tern
