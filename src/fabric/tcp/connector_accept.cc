// Set-up of connections, continued: incoming calls, and the handshake on either side.
#include <algorithm>
#include <cerrno>

#include "base/assert.h"
#include "base/limits.h"
#include "fabric/poll_bounds.h"
#include "fabric/tcp/connector.h"

namespace tern::tcp {
namespace {

using wire::Verdict;

// A network that loses packets needs this for a few hundred bytes (repetitions after 0.2, 0.4, 0.8, 1.6 and 3.2 s).
constexpr uint64_t kRestOfMessage_ns = 7 * kSecond_ns;

}  // namespace

// --- Incoming calls.

void Connector::accept_some(Listener& listener) {
  for (int i = 0; i < kMaxAccepts; ++i) {
    if (admission_.full() && !make_room()) return pause_accepting();
    SocketAddress from;
    const int handle = port_.accept(listener.handle.get(), from);
    if (handle < 0) {
      if (handle == -ECONNABORTED || handle == -EINTR) continue;
      if (!is_shortage(-handle)) return;
      if (make_room()) continue;
      if (admission_.starved(clock_.now_ns(), options_.silence_limit_ns)) doom_unconnected(-handle);
      return pause_accepting();
    }
    admission_.fed();
    shape(handle);
    auto setup = std::make_unique<Setup>(options_.identity);
    setup->handle = StreamHandle(port_, handle);
    setup->where = from.text();
    Setup& entered = watched_.adopt(std::move(setup));
    admission_.add(entered, clock_.now_ns());
    TERN_DEBUG_ASSERT(!entered.stream);
    watched_.watch(entered, kReadable);
    advance(entered, kReadable);  // usually its first bytes are here already
  }
}

// Drops one unproven connection.
bool Connector::make_room() {
  Setup* victim = admission_.victim(clock_.now_ns());
  if (victim) drop(*victim);
  return victim != nullptr;
}

void Connector::pause_accepting() {
  admission_.pause(clock_.now_ns());
  watched_.each<Listener>([this](Listener& listener) { watched_.watch(listener, 0); });
}

// Connections of peers cannot be accepted, and nothing says that this will change. The peers do not know it and wait
// for our answer; a call of this rank that waits for a peer without a connection would never end.
void Connector::doom_unconnected(int error) {
  for (PeerId id = 0; id < peers_.table().size(); ++id) {
    if (!peers_.reaches(id)) continue;
    Peer& peer = peers_.at(id);
    if (peer.connected()) continue;
    peers_.doom(peer, int(ErrorClass::other), "connections that come cannot be accepted: " + errno_text(error));
  }
}

// --- The handshake, on either side.

void Connector::advance(Setup& setup, uint32_t events) {
  if (!setup.connected) {
    if (const int trouble = port_.error(setup.handle.get()); trouble != 0) {
      const auto why = trouble == ECONNREFUSED ? CallPolicy::Failure::refused : CallPolicy::Failure::unreachable;
      return attempt_failed(setup, errno_text(trouble), why);
    }
    if (!(events & kWritable)) return;
    setup.connected = true;
    TERN_DEBUG_ASSERT(setup.stream);
    // A peer that computes may answer late: the kernel asks its kernel whether it is alive (ask_if_alive).
    setup.deadline_ns = kNever_ns;
    watched_.watch(setup, kReadable);
    if (!send_output(setup)) return attempt_failed(setup, "closed before the greeting");
  }
  while (setup.handshake.state() == TcpHandshake::State::talking) {
    std::byte bytes[1024];
    const ssize_t n = port_.receive(setup.handle.get(), bytes, std::min(sizeof bytes, setup.handshake.need()));
    if (n == -EAGAIN) return await_rest(setup);
    if (n <= 0) {
      return fail(setup, n == 0 ? "the connection was closed during the handshake" : errno_text(int(-n)));
    }
    TERN_DEBUG_ASSERT(size_t(n) <= setup.handshake.need());
    setup.handshake.feed(bytes, size_t(n));
    if (setup.stream && setup.handshake.state() == TcpHandshake::State::asks) commit(setup);
    if (setup.handshake.state() == TcpHandshake::State::rubbish || !send_output(setup))
      return fail(setup, "what answers there is not of this job");
  }
  if (setup.handshake.state() == TcpHandshake::State::asks) return answer(setup);
  conclude(setup);
}

// A caller that fails is not answered.
void Connector::fail(Setup& setup, const std::string& trouble) {
  if (setup.stream) attempt_failed(setup, trouble);
  else drop(setup);
}

// A peer that has answered our call may compute before its next message, but a message is sent as a whole: the rest of
// one is under way, or its length field is wrong.
void Connector::await_rest(Setup& setup) {
  if (!setup.stream) return;  // has a deadline already
  if (!setup.handshake.partial()) {
    setup.deadline_ns = kNever_ns;
  } else if (setup.deadline_ns == kNever_ns) {
    setup.deadline_ns = clock_.now_ns() + kRestOfMessage_ns;
  }
}

bool Connector::send_output(Setup& setup) {
  std::string& output = setup.handshake.output();
  if (output.empty()) return true;
  // A new connection's buffer has room for these few hundred bytes; a connection that does not take them is dropped.
  const ssize_t n = port_.send(setup.handle.get(), output.data(), output.size(), false);
  bool whole = n == ssize_t(output.size());
  output.clear();
  return whole;
}

// The peer has proven itself to our call: from now on nothing is read from the earlier connection, and this rank states
// how much it has received.
void Connector::commit(Setup& setup) {
  Stream& stream = *setup.stream;
  TERN_DEBUG_ASSERT(stream.setup == &setup);
  if (stream.link) {
    traffic_.detach(stream);
    stream.state = StreamState::calling;
    stream.call.extend(clock_.now_ns());
  }
  setup.handshake.decide(Verdict::accept, stream.inbound.received());
}

// The caller has proven itself: decides whether its connection is the one to use.
void Connector::answer(Setup& setup) {
  const PeerId id = peers_.table().find(setup.handshake.peer());
  Verdict verdict = Verdict::accept;
  Peer* peer = id != kNoPeer ? &peers_.at(id) : nullptr;
  Stream* stream = nullptr;
  if (!peer || peer->state != PeerState::open || setup.handshake.stream() >= wire::kMaxStreams) {
    verdict = Verdict::refused;
  } else {
    stream = &peers_.stream(*peer, setup.handshake.stream());
    if (setup.handshake.generation() <= stream->generation || setup.handshake.stood() < stream->confirmed) {
      // An attempt that its caller has given up meanwhile: for a later one, or for our own call, which it has accepted
      // after sending this greeting. What it states about received bytes is no longer true.
      verdict = Verdict::keep_other;
    } else if (stream->setup && stream->setup->handshake.committed() && peers_.table().comes_before(id) &&
               setup.handshake.stood() < stream->setup->generation) {
      // Both have called, and the peer may already use our connection: the lower rank's is kept. An attempt
      // that is not committed can be given up safely, the peer has heard nothing of it that counts; and so can
      // one that the peer has used and lost, though this rank has not heard of either.
      verdict = Verdict::keep_other;
    } else if (stream->link) {
      traffic_.detach(*stream);  // the peer has lost it, or wants another
    }
  }
  TERN_DEBUG_ASSERT(verdict != Verdict::accept || (stream && !stream->link));
  setup.handshake.decide(verdict, stream ? stream->inbound.received() : 0);
  if (!send_output(setup) || verdict != Verdict::accept) {
    drop(setup);
    if (stream && !stream->link && stream->state == StreamState::established)
      call_again(*stream, "the peer called again and hung up", false);
    return;
  }
  establish(setup, *stream);
}

// The handshake is over.
void Connector::conclude(Setup& setup) {
  Verdict verdict = setup.handshake.verdict();
  if (!setup.stream) {
    // Incoming, and no connection. A mismatch concerns both sides: our own call would meet it again.
    const PeerId id = peers_.table().find(setup.handshake.peer());
    if ((verdict == Verdict::version || verdict == Verdict::agreement) && id != kNoPeer && id != peers_.table().me()) {
      Peer& peer = peers_.at(id);
      if (!peer.connected()) peers_.doom(peer, int(ErrorClass::other), setup.handshake.describe(verdict));
    }
    return drop(setup);
  }
  Stream& stream = *setup.stream;
  switch (verdict) {
    case Verdict::accept: return establish(setup, stream);
    case Verdict::keep_other:
      // The peer's own call is under way; if it fails, ours is repeated.
      drop(setup);
      stream.call.rewind();
      stream.retry_ns = clock_.now_ns() + kSecond_ns;
      return;
    case Verdict::wrong_rank: return attempt_failed(setup, "another rank answers there");
    case Verdict::version:
    case Verdict::agreement: peers_.doom(stream.peer, int(ErrorClass::other), setup.handshake.describe(verdict)); break;
    case Verdict::refused:
      peers_.doom(stream.peer, int(ErrorClass::proc_aborted), setup.where + ": it refuses the connection");
      break;
  }
  drop(setup);
}

void Connector::establish(Setup& setup, Stream& stream) {
  TERN_ASSERT(!stream.link);
  const bool ours = setup.stream != nullptr, again = stream.generation != 0;
  if (stream.setup && stream.setup != &setup) drop(*stream.setup);
  auto link = std::make_unique<Link>();
  watched_.watch(setup, 0);
  link->handle = std::move(setup.handle);
  link->where = setup.where;
  stream.generation = ours ? setup.generation : setup.handshake.generation();
  TERN_DEBUG_ASSERT(stream.generation != 0);
  if (ours) stream.confirmed = stream.generation;
  const uint64_t theirs = setup.handshake.received();
  const TcpKey out_key = setup.handshake.session_key(ours), in_key = setup.handshake.session_key(!ours);
  if (options_.log && options_.log->wants(LogLevel::debug)) {
    options_.log->debug("tcp: connected with rank " + std::to_string(stream.peer.id) + " at " + link->where +
                        (ours ? ", called" : ", was called") + (again ? ", again" : ""));
  }
  drop(setup);
  stream.state = StreamState::established;
  TERN_DEBUG_ASSERT(!stream.setup);
  stream.retry_ns = kNever_ns;
  stream.call.succeed();
  const int handle = traffic_.attach(stream, std::move(link), again).handle.get();
  if (ours) port_.ask_if_alive(handle, false);
  stream.network = host_.network(handle);
  // Only one side moves a stream back to its own network, or the two might disagree for ever on which one that is.
  const bool away = peers_.table().comes_before(stream.peer.id) && stream.call.wants_back_from(stream.network);
  if (away) stream.retry_ns = clock_.now_ns() + kSecond_ns;
  calls_.set(stream, away);
  stream.inbound.begin();
  if (!stream.outbound.resume(handle, theirs, ours)) {
    traffic_.detach(stream);
    stream.state = StreamState::calling;
    return peers_.doom(stream.peer, int(ErrorClass::other),
                       "its stream cannot be gone on with: it has " + std::to_string(theirs) +
                           " bytes of it, and we hold those from " + std::to_string(stream.outbound.acknowledged()) +
                           " to " + std::to_string(stream.outbound.sent()));
  }
  if (options_.identity.encrypts) {
    stream.outbound.encrypt(out_key);
    stream.inbound.decrypt(in_key);
  }
  if (ours) stream.outbound.say(wire::FrameType::settled);
  traffic_.flush(stream);
}

}  // namespace tern::tcp
