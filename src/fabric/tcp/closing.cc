#include "fabric/tcp/closing.h"

#include <cerrno>

namespace tern::tcp {
namespace {

// The orderly end waits for peers that still read; this long at most, for one that does not: ten times the 0.5 s of
// silence after which LinkMonitor looks for another network.
constexpr uint64_t kCloseTimeout_ns = 5'000'000'000;
// Acknowledgements wake no thread, so they are polled this often: a look costs 1 us or less, 0.1 % of a core.
constexpr uint64_t kLook_ns = 1'000'000;

struct Closing {
  Stream* stream;
  bool said = false;  ///< goodbye
};

// Reads what the peer still sends, and drops it. False: the connection is over.
bool read_away(StreamPort& port, const Closing& closing, std::byte* scratch) {
  for (;;) {
    const ssize_t n = port.receive(closing.stream->link->handle.get(), scratch, TcpOutbound::kScratchBytes);
    if (n > 0) continue;
    return n < 0 ? n == -EAGAIN : !closing.said;
  }
}

// True: everything has arrived, or nothing more will.
bool finish(StreamPort& port, Closing& closing, std::byte* scratch) {
  const int handle = closing.stream->link->handle.get();
  TcpOutbound& outbound = closing.stream->outbound;
  if (!read_away(port, closing, scratch)) return true;
  TcpOutbound::Flush flushed = outbound.flush();
  if (outbound.empty() && !closing.said) {
    outbound.say(wire::FrameType::goodbye);
    closing.said = true;
    flushed = outbound.flush();
  }
  if (flushed == TcpOutbound::Flush::broken) return true;
  if (!outbound.empty()) return false;
  port.shutdown(handle, false);
  return port.unacknowledged(handle) == 0;
}

}  // namespace

// Closing a socket while the peer's data arrives resets the connection, and destroys what this rank has sent and the
// peer has not received. So: say goodbye, close this direction, and read the other one until the peer has closed too or
// has acknowledged everything (a reset cannot take from the peer what it has acknowledged).
void close_in_order(StreamPort& port, Clock& clock, std::byte* scratch, const std::vector<Stream*>& streams) {
  std::vector<Closing> open;
  for (Stream* stream : streams) open.push_back({stream});
  const uint64_t deadline_ns = clock.now_ns() + kCloseTimeout_ns;
  std::vector<StreamPort::Awaited> waits;
  while (!open.empty()) {
    waits.clear();
    std::erase_if(open, [&](Closing& closing) {
      if (finish(port, closing, scratch)) return true;
      waits.push_back(
          {closing.stream->link->handle.get(), closing.stream->outbound.empty() ? kReadable : kReadable | kWritable});
      return false;
    });
    if (open.empty() || clock.now_ns() >= deadline_ns) break;
    port.wait(waits, kLook_ns);
  }
}

}  // namespace tern::tcp
