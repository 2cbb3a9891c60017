// HYBRID of paper 000: a message of medium size whose receiver is not there yet is copied to a library buffer; the
// sender is free at once, the receiver fetches the copy when it comes.
//
//   sender                                   receiver
//     copy;  rts(hybrid, address) ------------>  matched: get (over shared memory: copy out)
//     complete                                   ...
//     buffer free  <--------------------------   its release rides on a message of the protocols'
//                                                own (Header::carried), or goes alone when too many are owed, or none
//                                                comes
//
// The copy travels as a send request of the library's own, so that a get that fails, a lost peer, the end of the
// program are no special cases. An announcement that is found after copying is still used: the data is put (or
// streamed) from the copy. Buffers are few (tunable hybrid_buffers); without one a sender waits for its receiver, and
// asks it for those that it owes.
#include <algorithm>

#include "datatype/kind.h"
#include "p2p/impl.h"

namespace tern {

namespace {
constexpr size_t kMostOwed = 4;  // releases kept for a message that takes them along
constexpr size_t kInOneMessage = 16;
constexpr uint64_t kCopyBytesPerNs = 12;
}  // namespace

bool PointToPoint::Impl::buffer_left(Endpoint& peer) {
  if (library.size() < size_t(tunables.hybrid_buffers)) return true;
  return std::any_of(library_free.begin(), library_free.end(),
                     [&](LibraryBuffer* b) { return b->memory_of == peer.memory; });
}

// Of the path's hybrid_bytes; the one that was given back last, which is still in the cache.
LibraryBuffer* PointToPoint::Impl::borrow(Endpoint& peer) {
  for (size_t i = library_free.size(); i-- > 0;) {
    LibraryBuffer* buffer = library_free[i];
    if (buffer->memory_of != peer.memory) continue;
    library_free.erase(library_free.begin() + ptrdiff_t(i));
    return buffer;
  }
  if (library.size() >= size_t(tunables.hybrid_buffers)) return nullptr;
  size_t bytes = peer.properties().hybrid_bytes;
  auto buffer = std::make_unique<LibraryBuffer>(LibraryBuffer{peer.memory, nullptr, {}, nullptr});
  if (peer.arbiter) buffer->memory = peer.arbiter->lend(bytes, buffer->key);
  if (!buffer->memory) {
    buffer->own = std::make_unique_for_overwrite<std::byte[]>(bytes);
    buffer->memory = buffer->own.get();
    buffer->key = peer.memory->expose(buffer->memory, bytes, {.read = true});
    if (buffer->key.empty()) return nullptr;
  }
  library.push_back(std::move(buffer));
  return library.back().get();
}

void PointToPoint::Impl::begin_hybrid(SendRequest& send, size_t bytes, bool blocking) {
  const SendArguments a = send.arguments;
  Endpoint& peer = send.endpoint;
  LibraryBuffer* buffer = borrow(peer);
  if (!buffer) {  // the path has no more memory for it, whatever the tunable says
    ++counters.no_buffer;
    bool can_get = a.type->is_contiguous() && peer.can_get() && !by_write;
    begin_rendezvous(send, bytes, can_get ? Protocol::sender_get : Protocol::sender_data, nullptr);
    return;
  }
  Cursor(const_cast<void*>(a.buffer), a.count, *a.type).pack(buffer->memory, bytes);
  progress.clock().charge_ns(bytes / kCopyBytesPerNs);
  look_around();
  if (peer.lost()) {
    library_free.push_back(buffer);
    fail(send, endpoints.loss_of(a.peer));
    return;
  }
  if (!types) types = std::make_unique<PredefinedTypes>();
  SendRequest* own = sends.create(*this, peer,
                                  SendArguments{buffer->memory, Count(bytes), &types->get(type_id::kByte), a.peer,
                                                a.source, a.tag, a.context, a.mode});
  own->library = buffer;
  own->exposed = buffer->key;
  ++sends_open;
  const Ready* ready = peer.messages.find(a.context, a.tag);
  Protocol protocol = Protocol::hybrid;
  if (ready) protocol = choose_protocol(situation(peer, own->arguments, bytes, ready, blocking));
  if (protocol == Protocol::receiver_put) {
    begin_put(*own, bytes, *ready);
  } else if (protocol == Protocol::receiver_stream) {
    begin_direct(*own);
  } else {
    begin_rendezvous(*own, bytes, Protocol::hybrid, nullptr);
  }
  send.copy = own->token;
  own->release();  // destroys itself when it completes, and gives the buffer back
  settle(send, 0);
}

// --- Giving buffers back

// The receive has read a library buffer of its sender's.
void PointToPoint::Impl::give_release(ReceiveRequest& receive) {
  uint32_t token = receive.sender_token;
  if (!Tokens<SendRequest>::has_name(token)) {
    control(*receive.sender, wire::make_control_header(wire::Kind::fin, token));
    return;
  }
  owe_release(*receive.sender, uint16_t((token & 0xffff) + 1));
}

void PointToPoint::Impl::owe_release(Endpoint& to, uint16_t name) {
  if (to.owed_releases.empty()) owing_releases.push_back(&to);
  to.owed_releases.push_back(name);
  chore_rounds = 0;
  if (to.owed_releases.size() >= kMostOwed) flush_releases(to);
  update_chores();
}

// One release for a message that goes to that peer anyway; 0: none is owed.
uint16_t PointToPoint::Impl::carry_release(Endpoint& peer) {
  if (peer.owed_releases.empty()) return 0;
  uint16_t name = peer.owed_releases.back();
  peer.owed_releases.pop_back();
  if (peer.owed_releases.empty()) std::erase(owing_releases, &peer);
  return name;
}

void PointToPoint::Impl::flush_releases(Endpoint& peer) {
  if (peer.owed_releases.empty()) return;
  std::vector<uint16_t> names;
  names.swap(peer.owed_releases);
  std::erase(owing_releases, &peer);
  for (size_t at = 0; at < names.size(); at += kInOneMessage) {
    size_t n = std::min(kInOneMessage, names.size() - at);
    control(peer, wire::make_control_header(wire::Kind::release, 0), &names[at], n * sizeof names[0]);
  }
}

bool PointToPoint::Impl::flush_all_releases() {
  bool any = !owing_releases.empty();
  while (!owing_releases.empty()) flush_releases(*owing_releases.back());
  return any;
}

void PointToPoint::Impl::released(Endpoint& peer, uint16_t name) {
  SendRequest* send = send_tokens.find_by_name(uint16_t(name - 1));
  if (!send || !send->library || &send->endpoint != &peer || !(send->waits & SendRequest::kData)) return;
  settle(*send, SendRequest::kData);
}

void PointToPoint::Impl::on_release(Endpoint& peer, const std::byte* payload, size_t bytes) {
  for (size_t at = 0; at + sizeof(uint16_t) <= bytes; at += sizeof(uint16_t)) {
    uint16_t name;
    std::memcpy(&name, payload + at, sizeof name);
    if (name != 0) released(peer, name);
  }
}

}  // namespace tern
