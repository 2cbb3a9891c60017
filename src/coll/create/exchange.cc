// Data that creation needs in addition to the communicator: every rank's words to all, and words from each to some.
#include "coll/create/create.h"

namespace tern::create {

namespace {

// Few of the pairs exchange anything (edges of a graph). A sum tells every member how many rows will come. Each row is
// announced by (sender, length), received from any source, and followed by its words, which are received from that
// sender.
Flow exchange_flow(Channel announcements, Channel rows, const std::vector<Words>& outgoing,
                   std::vector<Words>& incoming) {
  int n = announcements.size(), me = announcements.rank();
  Words expected(size_t(n), 0);
  for (int to = 0; to < n; ++to) expected[size_t(to)] = to != me && !outgoing[size_t(to)].empty();
  Error first = co_await announcements.sum(expected);
  if (first) co_return std::move(first);

  std::vector<Words> headers(static_cast<size_t>(n));
  std::vector<Request*> sends;
  for (int to = 0; to < n; ++to) {
    const Words& row = outgoing[size_t(to)];
    if (to == me || row.empty()) continue;
    headers[size_t(to)] = {uint64_t(me), row.size()};
    sends.push_back(announcements.start_send(to, headers[size_t(to)]));
    sends.push_back(rows.start_send(to, row));
  }
  incoming.assign(size_t(n), {});
  incoming[size_t(me)] = outgoing[size_t(me)];
  for (uint64_t left = expected[size_t(me)]; left > 0 && !first; --left) {
    Words header(2);
    first = co_await announcements.receive_any(header);
    if (first) break;
    Words& row = incoming.at(header[0]);
    row.resize(header[1]);
    first = co_await rows.receive(int(header[0]), row);
  }
  for (Request* send : sends) {
    Error error = co_await Completion(send);
    if (error && !first) first = std::move(error);
  }
  co_return std::move(first);
}

}  // namespace

Error allgather(const Maker& maker, Communicator& intra, std::span<const uint64_t> mine, Words& all) {
  Channel channel = Channel::of(maker, intra);
  return run(maker.environment.p2p, channel.allgather(mine, all));
}

Error exchange_all(const Maker& maker, Communicator& intra, const std::vector<Words>& outgoing,
                   std::vector<Words>& incoming) {
  TERN_ASSERT(int(outgoing.size()) == intra.size());
  // The sum and the announcements share a channel: an announcement cannot overtake the sum's messages of its
  // sender, but it may come before those of others. The sum receives from named senders; receiving from any source
  // comes after it.
  Channel announcements = Channel::of(maker, intra);
  Channel rows = Channel::of(maker, intra);
  return run(maker.environment.p2p, exchange_flow(announcements, rows, outgoing, incoming));
}

}  // namespace tern::create
