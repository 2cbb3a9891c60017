// Tuple queues: their state in numbers, for tests that explore all of them. See tuples.h.
#include <algorithm>

#include "p2p/tuples/tuples.h"

namespace tern {

namespace {

constexpr uint64_t kNext = ~uint64_t{0};

uint64_t name_of(const ReceiveRequest* receive) { return receive ? reinterpret_cast<uint64_t>(receive->buffer) : 0; }

void write_line(const TupleLine& line, IntrusiveList<TupleMessage>& out, std::vector<uint64_t>& state) {
  state.insert(state.end(), {uint64_t(line.state), line.token, line.remote, line.sent, uint64_t(line.key.tag)});
  for (TupleMessage* m = out.front(); m; m = out.next(m)) {
    state.insert(state.end(), {m->index, m->position, m->order, m->request ? m->request->waits : 0u});
  }
}

void write_queue(TupleQueue& queue, std::vector<uint64_t>& state) {
  state.insert(state.end(), {uint64_t(queue.state), queue.stopping, queue.holds, queue.token, queue.remote,
                             uint64_t(queue.key.tag), queue.posted, queue.landed, queue.sent, queue.backlog});
  for (TuplePosting* p = queue.postings.front(); p; p = queue.postings.next(p)) {
    state.insert(state.end(), {name_of(p->receive), p->owed ? p->owed->body.index + 1u : 0u});
  }
  for (const wire::TupleOwedBody& body : queue.envelopes) {
    state.insert(state.end(), {body.index, body.position, body.order, body.bytes});
  }
  for (const auto& owed : queue.owed) {
    state.insert(state.end(), {uint64_t(owed->state), owed->posted, owed->known, owed->body.index, owed->body.position,
                               owed->body.order, name_of(owed->receive), owed->message ? 1u : 0u});
  }
}

}  // namespace

void TupleSender::write_state(std::vector<uint64_t>& state) {
  std::vector<std::pair<TupleKey, const TupleEntry*>> entries;
  for (const auto& [key, entry] : entries_) entries.emplace_back(key, &entry);
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.first.tag < b.first.tag; });
  for (const auto& [key, entry] : entries) {
    const uint64_t line = entry->line ? entry->line->token : 0;
    state.insert(state.end(), {uint64_t(key.tag), entry->seen, entry->ask_at, entry->ends, line});
  }
  state.push_back(kNext);
  lines_.for_each([&](TupleLine& line) { write_line(line, line.out, state); });
}

void TupleReceiver::write_state(std::vector<uint64_t>& state) {
  queues_.for_each([&](TupleQueue& queue) { write_queue(queue, state); });
}

void Tuples::write_state(std::vector<uint64_t>& state) {
  sender.write_state(state);
  state.push_back(kNext);
  receiver.write_state(state);
  state.push_back(kNext);
  contexts.each([&](const TupleContext& context) {
    state.insert(state.end(), {context.holding, context.queues.size(), name_of(context.releasing)});
    for (const ReceiveRequest* held : context.held) state.push_back(name_of(held));
  });
}

}  // namespace tern
