#include "p2p/tuples/tuple_contexts.h"

namespace tern {

namespace {
/// Contexts that are remembered though nothing of them is open; beyond, those without hints are forgotten.
constexpr size_t kMaxContexts = 1024;
}  // namespace

TupleContext& TupleContexts::make(uint64_t id) {
  if (contexts_.size() > kMaxContexts + max_queues_) {
    std::erase_if(contexts_, [&](const auto& item) {
      const auto& [other, context] = item;
      const bool plain = context.freed || context.hints == MessageHints();
      return other != id && context.idle() && plain && !lines_.contains(other);
    });
  }
  return contexts_[id];
}

void TupleContexts::set_hints(uint64_t id, const MessageHints& hints) {
  TupleContext& its = make(id);
  its.hints = hints;
  its.freed = false;
  for (TupleQueue* queue : its.queues) queue->exact = hints.exact_length;
}

void TupleContexts::list(TupleQueue& queue) {
  TupleContext& context = make(queue.key.context);
  queue.exact = context.hints.exact_length;
  context.queues.push_back(&queue);
}

void TupleContexts::unlist(TupleQueue& queue) {
  TupleContext& context = *find(queue.key.context);
  TERN_DEBUG_ASSERT(std::find(context.queues.begin(), context.queues.end(), &queue) != context.queues.end());
  std::erase(context.queues, &queue);
  TERN_DEBUG_ASSERT(!queue.holds || context.holding != 0);
  if (queue.holds) --context.holding;
}

bool TupleContexts::withdraw(ReceiveRequest& receive) {
  TupleContext* context = find(receive.context);
  if (!context) return false;
  const auto place = std::find(context->held.begin(), context->held.end(), &receive);
  if (place == context->held.end()) return false;
  TERN_DEBUG_ASSERT(!receive.posted());
  context->held.erase(place);
  return true;
}

}  // namespace tern
