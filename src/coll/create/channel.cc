#include "coll/create/channel.h"

#include <algorithm>

namespace tern::create {

Channel::Channel(const Maker& maker, Group& group, uint64_t context, int tag)
    : p2p_(&maker.environment.p2p),
      byte_(&maker.byte),
      group_(Ref<Group>::share(&group)),
      context_(context),
      tag_(tag),
      rank_(group.rank()),
      self_(group.rank()) {}

Channel::Channel(const Maker& maker, Group& group, uint64_t context, int tag, std::vector<int> members)
    : Channel(maker, group, context, tag) {
  members_ = std::move(members);
  auto me = std::find(members_.begin(), members_.end(), group.rank());
  TERN_ASSERT(me != members_.end());
  rank_ = int(me - members_.begin());
}

Channel Channel::of(const Maker& maker, Communicator& intra) {
  TERN_ASSERT(!intra.is_inter());
  return Channel(maker, intra.group(), intra.context(Communicator::Plane::internal), intra.next_collective_tag());
}

Channel Channel::across(const Maker& maker, Group& far, int self, uint64_t context, int tag) {
  Channel channel(maker, far, context, tag);
  channel.self_ = self;
  return channel;
}

Request* Channel::start_send(int to, std::span<const uint64_t> words) const {
  return p2p_->isend({words.data(), Count(words.size_bytes()), byte_, group_->peer(number(to)), self_, tag_, context_,
                      SendMode::standard});
}

Request* Channel::start_receive(int from, std::span<uint64_t> words) const {
  return p2p_->ireceive(
      {words.data(), Count(words.size_bytes()), byte_, group_->peer(number(from)), number(from), tag_, context_});
}

Flow Channel::send(int to, std::span<const uint64_t> words) const {
  co_return co_await Completion(start_send(to, words));
}

Flow Channel::receive(int from, std::span<uint64_t> words) const {
  co_return co_await Completion(start_receive(from, words));
}

Flow Channel::receive_any(std::span<uint64_t> words) const {
  co_return co_await Completion(
      p2p_->ireceive({words.data(), Count(words.size_bytes()), byte_, kNoPeer, kAnySource, tag_, context_}));
}

// Waits for both even if the first one fails: the buffers belong to the caller.
Flow Channel::exchange(int with, std::span<const uint64_t> mine, std::span<uint64_t> theirs) const {
  Request* incoming = start_receive(with, theirs);
  Error sent = co_await Completion(start_send(with, mine));
  Error received = co_await Completion(incoming);
  if (sent) co_return std::move(sent);
  co_return std::move(received);
}

Flow Channel::exchange(int with, const Words& mine, Words& theirs) const {
  uint64_t my_count = mine.size(), their_count = 0;
  Error error = co_await exchange(with, std::span<const uint64_t>(&my_count, 1), std::span<uint64_t>(&their_count, 1));
  if (error) co_return std::move(error);
  theirs.resize(their_count);
  error = co_await exchange(with, std::span<const uint64_t>(mine), std::span<uint64_t>(theirs));
  co_return std::move(error);
}

// Binomial tree, drawn for 6 with root 0 (numbers relative to the root): 0 -> 4, 2, 1; 2 -> 3; 4 -> 5.
// A node's parent clears its lowest set bit; its children set one lower bit each, the farthest first.
Flow Channel::broadcast(int root, std::span<uint64_t> words) const {
  int n = size();
  int relative = (rank_ - root + n) % n;
  int bit = 1;
  for (; bit < n && !(relative & bit); bit <<= 1) {
  }
  if (relative != 0) {
    Error error = co_await receive((relative - bit + root) % n, words);
    if (error) co_return std::move(error);
  }
  std::vector<Request*> sends;
  for (bit >>= 1; bit > 0; bit >>= 1)
    if (relative + bit < n) sends.push_back(start_send((relative + bit + root) % n, words));
  Error first;
  for (Request* request : sends) {
    Error error = co_await Completion(request);
    if (error && !first) first = std::move(error);
  }
  co_return std::move(first);
}

Flow Channel::broadcast(int root, Words& words) const {
  uint64_t count = words.size();
  Error error = co_await broadcast(root, std::span<uint64_t>(&count, 1));
  if (error) co_return std::move(error);
  words.resize(count);
  error = co_await broadcast(root, std::span<uint64_t>(words));
  co_return std::move(error);
}

// Up the binomial tree of `broadcast` with root 0, and down again.
Flow Channel::join_all(std::span<uint64_t> words, Join join) const {
  int n = size();
  Words child(words.size());
  int bit = 1;
  for (; bit < n && !(rank_ & bit); bit <<= 1) {
    if (rank_ + bit >= n) continue;
    Error error = co_await receive(rank_ + bit, child);
    if (error) co_return std::move(error);
    for (size_t i = 0; i < words.size(); ++i) words[i] = join(words[i], child[i]);
  }
  if (rank_ != 0) {
    Error error = co_await send(rank_ - bit, words);
    if (error) co_return std::move(error);
  }
  co_return co_await broadcast(0, words);
}

Flow Channel::sum(std::span<uint64_t> words) const {
  return join_all(words, [](uint64_t a, uint64_t b) { return a + b; });
}

Flow Channel::smallest(uint64_t& word) const {
  return join_all(std::span<uint64_t>(&word, 1), [](uint64_t a, uint64_t b) { return std::min(a, b); });
}

// Bruck: in the round of distance k a rank has the blocks of itself and the k - 1 after it. It sends them to the rank k
// before it and receives as many from the rank k after it, so that 4 ranks need two rounds:
//   0: 0        0 1      0 1 2 3
//   1: 1   ->   1 2  ->  1 2 3 0   -> turned so that block 0 comes first
//   2: 2   k=1  2 3  k=2 2 3 0 1
//   3: 3        3 0      3 0 1 2
Flow Channel::allgather(std::span<const uint64_t> mine, Words& all) const {
  int n = size();
  size_t block = mine.size();
  Words gathered(block * size_t(n));
  std::copy(mine.begin(), mine.end(), gathered.begin());
  for (int have = 1; have < n; have *= 2) {
    size_t count = block * size_t(std::min(have, n - have));
    std::span<uint64_t> blocks(gathered);
    Request* incoming = start_receive((rank_ + have) % n, blocks.subspan(block * size_t(have), count));
    Error sent = co_await Completion(start_send((rank_ - have + n) % n, blocks.first(count)));
    Error received = co_await Completion(incoming);
    if (sent) co_return std::move(sent);
    if (received) co_return std::move(received);
  }
  all.resize(gathered.size());
  std::rotate_copy(gathered.begin(), gathered.begin() + ptrdiff_t(block) * ((n - rank_) % n), gathered.end(),
                   all.begin());
  co_return Error();
}

}  // namespace tern::create
