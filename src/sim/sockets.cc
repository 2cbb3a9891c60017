#include "sim/sockets.h"

#include <string>

#include "base/assert.h"

namespace tern::sim {

SimSockets::SimSockets(StreamHosts& hosts, Strand& strand) : hosts_(hosts), strand_(strand) {
  hosts_.attach(strand_.rank(), *this);
}

SimSockets::~SimSockets() {
  if (!sockets_.empty())
    strand_.scheduler().fail("rank " + std::to_string(strand_.rank()) + " leaves " + std::to_string(sockets_.size()) +
                             " streams open");
  hosts_.detach(strand_.rank(), *this);
}

int SimSockets::add(const Socket& socket) {
  const int number = next_number_++;
  sockets_[number] = socket;
  if (socket.end) socket.end->owner = this;
  return number;
}

SimSockets::Socket& SimSockets::at(int number) {
  const auto found = sockets_.find(number);
  TERN_ASSERT(found != sockets_.end());
  return found->second;
}

void SimSockets::close(uint64_t now_ns, const Socket& socket) {
  if (socket.end) socket.end->close(now_ns);
  if (socket.listener) hosts_.close(now_ns, *socket.listener);
}

void SimSockets::close(int number) {
  const Socket socket = at(number);
  sockets_.erase(number);
  close(strand_.now_ns(), socket);
}

uint32_t SimSockets::state(const Socket& socket) const {
  if (socket.listener) return socket.listener->queue.empty() ? 0 : kReadable;
  if (!socket.end) return down_.empty() ? 0 : kReadable;
  const StreamEnd& end = *socket.end;
  uint32_t out = (end.readable(socket.wake_bytes) ? kReadable : 0) | (end.writable() ? kWritable : 0);
  if (end.failed() || end.hung_up()) out |= kFailed;
  return out;
}

void SimSockets::take_down(std::vector<uint32_t>& down) {
  down.insert(down.end(), down_.begin(), down_.end());
  down_.clear();
}

bool SimSockets::arm() {
  armed_ = true;
  each_ready([this](const Socket&, uint32_t) { return armed_ = false; });
  return armed_;
}

// (A strand that does not wait wakes up without a reason; every wait tolerates that.)
void SimSockets::wake() {
  if (armed_) strand_.notify();
  else strand_.wake(0);
}

void SimSockets::on_interface_down(uint32_t network) {
  down_.push_back(kLoopbackIndex + network);
  wake();
}

void SimSockets::on_death(uint64_t now_ns) {
  for (const auto& [number, socket] : sockets_) close(now_ns, socket);
  sockets_.clear();
}

}  // namespace tern::sim
