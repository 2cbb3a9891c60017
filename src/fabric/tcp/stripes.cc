#include "fabric/tcp/stripes.h"
#include "base/assert.h"

#include <algorithm>

namespace tern::tcp {
namespace {

// A stream that gets no part is tried again with every 64th message, since it may have become faster: a slow part of
// 128 KiB then delays 1.6 % of the messages.
constexpr uint32_t kProbeEvery = 64;

}  // namespace

// A message that is being sent in parts. Lives until all of them, and the table, have left.
struct Stripes::Stripe : ListHook<Stripe> {
  struct Part : SendOperation {
    Stripe* stripe = nullptr;
    Stream* stream = nullptr;
    ServiceRate::Mark begin;
  };
  Clock* clock;
  SendOperation* message;
  wire::StripeTable table{};
  Part announcement, parts[wire::kMaxStreams];
  int left = 0;
  Error error;

  static void done(SendOperation& operation, Error error) {
    auto& part = static_cast<Part&>(operation);
    Stripe& stripe = *part.stripe;
    if (error) {
      stripe.error = std::move(error);
    } else if (part.stream) {
      part.stream->rate.on_done(part.begin, {part.stream->outbound.acknowledged(), stripe.clock->now_ns()});
    }
    TERN_DEBUG_ASSERT(stripe.left > 0);
    if (--stripe.left != 0) return;
    SendOperation& message = *stripe.message;
    Error result = std::move(stripe.error);
    stripe.unlink();
    delete &stripe;
    message.done(message, std::move(result));
  }

  void send(Part& part, Stream& stream, wire::FrameType type, const Cursor& payload) {
    part.stripe = this;
    part.lane = &stream.peer;
    part.header = wire::make_header(wire::Kind(0), 0, 0, 0, table.number, uint8_t(type));
    part.payload = payload;
    part.done = done;
    TERN_DEBUG_ASSERT(!part.linked());
    ++left;
    stream.outbound.enqueue(part);
  }
};

Stripes::~Stripes() {
  while (Stripe* stripe = striped_.pop_front()) delete stripe;
}

void Stripes::send(Peer& peer, SendOperation& operation, std::span<Stream* const> open, size_t* shares,
                   Counters& counters) {
  const size_t total = operation.payload.remaining(), begin = operation.payload.position();
  StreamLoad loads[wire::kMaxStreams];
  for (size_t i = 0; i < open.size(); ++i) loads[i] = {open[i]->rate.now(), open[i]->outbound.backlog()};
  share_out({loads, open.size()}, total, ++peer.stripes % kProbeEvery == 0, shares);
  if (*std::max_element(shares, shares + open.size()) != total) ++counters.tcp_striped;

  auto* stripe = new Stripe;
  striped_.push_back(stripe);
  stripe->clock = &clock_;
  stripe->message = &operation;
  const uint64_t now = clock_.now_ns();
  TERN_DEBUG_ASSERT(!open.empty());
  stripe->table.header = operation.header;
  stripe->table.number = peer.stripes;
  operation.total_bytes = total;
  operation.header_sent = true;
  for (size_t i = 0; i < open.size(); ++i) stripe->table.bytes[open[i]->index] = shares[i];
  stripe->send(stripe->announcement, peer.first(), wire::FrameType::stripe,
               Cursor::bytes(&stripe->table, sizeof stripe->table));
  size_t at = begin;
  for (size_t i = 0; i < open.size(); ++i) {
    if (shares[i] == 0) continue;
    Cursor payload = operation.payload;
    payload.seek(at);
    payload.truncate(shares[i]);
    at += shares[i];
    stripe->parts[i].stream = open[i];
    TERN_DEBUG_ASSERT(at <= begin + total);
    stripe->parts[i].begin = {open[i]->outbound.acknowledged(), now};
    stripe->send(stripe->parts[i], *open[i], wire::FrameType::part, payload);
  }
}

}  // namespace tern::tcp
