#include "io/exchange.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "io/agreement.h"

namespace tern::io {

Flow Exchange::gather(std::span<const uint64_t> mine, create::Words& all) const {
  if (blocking) {
    all.resize(mine.size() * size_t(comm.size()));
    co_return allgather(environment, comm, mine.data(), mine.size_bytes(), all.data());
  }
  const create::Maker maker{comm.environment(), environment.byte(), environment.peers(), {}};
  create::Channel channel(maker, comm.group(), comm.context(Communicator::Plane::internal), sequence);
  co_return co_await channel.allgather(mine, all);
}

Flow Exchange::broadcast(std::span<uint64_t> words, int root) const {
  if (blocking) co_return io::broadcast(environment, comm, words.data(), words.size_bytes(), root);
  const create::Maker maker{comm.environment(), environment.byte(), environment.peers(), {}};
  create::Channel channel(maker, comm.group(), comm.context(Communicator::Plane::internal), sequence);
  co_return co_await channel.broadcast(root, words);
}

Flow Exchange::share_error(Error mine) const {
  create::Words all;
  const auto error_class = uint64_t(mine.error_class());
  Error error = co_await gather(std::span<const uint64_t>(&error_class, 1), all);
  if (error) co_return mine ? std::move(mine) : std::move(error);
  const auto first = std::find_if(all.begin(), all.end(), [](uint64_t word) { return word != 0; });
  if (first == all.end()) co_return Error();
  const auto root = int(first - all.begin());
  constexpr size_t kTextWords = 30;  // of an error's text: 240 bytes, as in Statement
  uint64_t text[kTextWords] = {};
  if (root == comm.rank()) {
    const std::string_view said = mine.text();
    std::memcpy(text, said.data(), std::min(said.size(), sizeof text - 1));
  }
  error = co_await broadcast(std::span<uint64_t>(text), root);
  if (mine) co_return std::move(mine);
  if (error) co_return std::move(error);
  co_return Error(int(*first), "rank " + std::to_string(root) + " of the file: " + reinterpret_cast<const char*>(text));
}

}  // namespace tern::io
