// Peers of the UDP path: first contact, silence, loss.
#include <sodium.h>

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "fabric/udp/fragment_channel.h"
#include "fabric/udp/stream_channel.h"
#include "fabric/udp/udp_path.h"

namespace tern {
namespace {

// How often peers are checked, and how long one that owes an answer may be silent before its host is asked: a second is
// two of the longest timeouts (RoundTrip).
constexpr uint64_t kLook_ns = 20 * kMillisecond_ns, kSilence_ns = kSecond_ns;
// After its host has answered that it lives, it is asked again after so long, doubled each time.
constexpr uint64_t kFirstLifeInterval_ns = kSecond_ns, kMaxLifeInterval_ns = 8 * kSecond_ns;
// A host's answer that there is no such process is believed when it was given so often at such intervals: one refusal
// may come from a router, or from the moment between two listening processes.
constexpr int kRefusals = 3;
constexpr uint64_t kRefusalPause_ns = 30 * kMillisecond_ns;
// Timeouts in a row before another path takes over: one may be a loss, two a burst of losses.
constexpr uint32_t kTimeoutsToFail = 3;

}  // namespace

Error UdpPath::read_protocol(const Tunables& tunables, UdpProtocol& protocol) {
  if (tunables.udp == "modern") {
    protocol = UdpProtocol::modern;
  } else if (tunables.udp == "paper") {
    protocol = UdpProtocol::paper;
  } else {
    return Error(ErrorClass::arg, "TERN_UDP is '" + tunables.udp + "'; it can be modern or paper");
  }
  return {};
}

std::unique_ptr<UdpPath> UdpPath::create(const UdpOptions& options, const Tunables& tunables,
                                         std::unique_ptr<DatagramPort> port, Clock& clock, Sink& sink, Lookup lookup,
                                         Error& error) {
  UdpProtocol protocol;
  error = read_protocol(tunables, protocol);
  if (error) return nullptr;
  if (sodium_init() < 0) {
    error = Error(ErrorClass::other, "libsodium found no source of randomness");
    return nullptr;
  }
  return std::unique_ptr<UdpPath>(
      new UdpPath(options, tunables, std::move(port), protocol, clock, sink, std::move(lookup)));
}

UdpPath::UdpPath(const UdpOptions& options, const Tunables& tunables, std::unique_ptr<DatagramPort> port,
                 UdpProtocol protocol, Clock& clock, Sink& sink, Lookup lookup)
    : options_(options),
      table_(*options.peers),
      protocol_(protocol),
      lookup_(std::move(lookup)),
      clock_(clock),
      port_(std::move(port)),
      shared_{.self = table_.my_name(), .port = *port_, .sink = sink, .clock = clock, .counters = &counters()},
      keepalive_ns_(uint64_t(tunables.udp_keepalive_ms) * kMillisecond_ns),
      timeout_ns_(uint64_t(tunables.udp_timeout_s) * kSecond_ns),
      failover_ns_(uint64_t(tunables.udp_failover_ms) * kMillisecond_ns) {
  encrypts_ = tunables.encrypt != 0;
  shared_.message_ns = options.message_ns;
  // One sender may fill half of what the kernel keeps while this rank does not poll.
  shared_.window_bytes = std::min(size_t(tunables.udp_window_bytes), port_->buffer_bytes() / 2);
  shared_.paper_window = uint32_t(tunables.udp_paper_window);
  properties_.name = "udp";
  properties_.part_bytes = kSocketPartBytes;
  // LA-MPI's protocol asks itself whether a message may come.
  properties_.eager_bytes =
      size_t(protocol == UdpProtocol::paper ? tunables.unexpected_credit_bytes : tunables.udp_eager_bytes);
  // Random bytes from the system, not from the rank's seeded generator: keys must not repeat.
  randombytes_buf(salt_.data(), salt_.size());
  aes_ = DatagramSeal::can_aes();
  wire::DatagramCard card;
  card.protocol = uint8_t(protocol_);
  card.flags = aes_ ? wire::DatagramCard::kAes : 0;
  card.salt = salt_;
  if (encrypts_) card.exchange = exchange_.emplace().public_key();
  port_->describe(card);
  card_ = wire::build_datagram_card(card);
  if (options_.log) {
    options_.log->info(std::string("udp: ") + (protocol_ == UdpProtocol::paper ? "the paper's" : "the modern") +
                       " protocol, sealed by " + (aes_ ? "AES-256-GCM" : "ChaCha20-Poly1305") +
                       (encrypts_ ? ", encrypted" : ""));
  }
}

UdpPath::~UdpPath() {
  // Operations that are still here belong to requests that are being destroyed too; no call waits for them.
  SendList forgotten;
  for (auto& peer : peers_) {
    if (peer && peer->channel) peer->channel->surrender(forgotten);
    if (peer) peer->channel.reset();
  }
  for (SendList* list : {&forgotten, &shared_.finished, &unsendable_}) {
    while (list->pop_front()) {
    }
  }
  sodium_memzero(const_cast<uint8_t*>(options_.key.data()), options_.key.size());
}

Lane& UdpPath::lane(PeerId id) {
  TERN_ASSERT(reaches(id));
  if (id < peers_.size() && peers_[id]) [[likely]]
    return *peers_[id];
  Peer& peer = add_peer(id);
  if (!peer.doomed) introduce(peer);
  return peer;
}

// Afterwards the peer is met, or doomed.
UdpPath::Peer& UdpPath::add_peer(PeerId id) {
  if (peers_.size() <= id) peers_.resize(table_.size());
  peers_[id] = std::make_unique<Peer>(id);
  Peer& peer = *peers_[id];
  if (Error error = meet(peer)) doom(peer, std::string(error.text()));
  return peer;
}

// Introduces this rank to a peer that may not know it yet; the peer then gets this rank's card. A lost introduction is
// repeated with the datagram that it precedes.
void UdpPath::introduce(Peer& peer) {
  std::byte datagram[wire::kIntroductionBytes];
  const RankName& me = table_.my_name();
  const wire::DatagramHead head{
      wire::kDatagramMagic, wire::DatagramType::introduction, wire::kDatagramVersion, me.rank, me.job, 1};
  std::memcpy(datagram, &head, sizeof head);
  std::memcpy(datagram + sizeof head, peer.salt.data(), peer.salt.size());
  constexpr size_t covered = sizeof datagram - wire::kDatagramTagBytes;
  const auto tag = introduction_tag(options_.key, table_.name(peer.id), datagram, covered);
  std::memcpy(datagram + covered, tag.data(), tag.size());
  const iovec piece{datagram, sizeof datagram};
  (void)port_->send(peer.id, 0, &piece, 1);
}

// The peer that sent this datagram; null: the datagram is of no use. Unknown senders must introduce themselves.
UdpPath::Peer* UdpPath::find_sender(const wire::Datagram& datagram, const DatagramPort::Arrival& arrival) {
  const PeerId from = table_.find({datagram.head.job, datagram.head.from});
  const bool introduces = datagram.head.type == wire::DatagramType::introduction;
  if (from != kNoPeer && reaches(from)) {
    if (from < peers_.size() && peers_[from]) return introduces ? nullptr : peers_[from].get();
    if (!introduces) return nullptr;  // the introduction was lost, or comes later
    constexpr size_t covered = wire::kIntroductionBytes - wire::kDatagramTagBytes;
    if (arrival.bytes == wire::kIntroductionBytes &&
        std::memcmp(arrival.data + sizeof(wire::DatagramHead), salt_.data(), salt_.size()) == 0) {
      const auto tag = introduction_tag(options_.key, table_.my_name(), arrival.data, covered);
      if (sodium_memcmp(tag.data(), arrival.data + covered, tag.size()) == 0) {
        add_peer(from).knows_us = true;
        return nullptr;
      }
    }
  }
  ++shared_.counters->udp_forged;
  return nullptr;
}

namespace {
UdpSalt salt_of(UdpSalt salt, uint32_t incarnation) {
  for (size_t i = 0; i < sizeof incarnation; ++i) salt[i] ^= uint8_t(incarnation >> (8 * i));
  return salt;
}
}  // namespace

// First contact, begun by this rank or by the peer.
Error UdpPath::meet(Peer& peer) {
  std::string text;
  wire::DatagramCard card;
  Error error = lookup_(peer.id, text);
  if (!error) error = wire::parse_datagram_card(text, card);
  if (error) return std::move(error).context("its address is not known");
  if (card.protocol != uint8_t(protocol_)) {
    return Error(ErrorClass::arg, "it uses the other UDP protocol: set TERN_UDP for all ranks (mpiexec -genv)");
  }
  if (card.channels.size() != size_t(channels(protocol_)) + 1)
    return Error(ErrorClass::intern, "its UDP card is cut short");
  if (Error no_way = port_->meet(peer.id, card)) return no_way;
  const bool its_encrypts = card.exchange != ExchangeKey{};
  ExchangeKey shared;
  if (its_encrypts != encrypts_ || (encrypts_ && !exchange_->share(card.exchange, shared)))
    return Error(ErrorClass::arg, "it runs with another TERN_ENCRYPT: set it for all ranks (mpiexec -genv)");
  const ExchangeKey* secret = encrypts_ ? &shared : nullptr;
  peer.salt = card.salt;
  const bool aes = aes_ && (card.flags & wire::DatagramCard::kAes);
  // A restarted lane has keys of its own, so that old datagrams still in the network are not accepted.
  const UdpSalt ours = salt_of(salt_, peer.incarnation), its = salt_of(card.salt, peer.incarnation);
  peer.link.reset(
      new UdpLink{shared_,
                  peer,
                  peer.id,
                  DatagramSeal(options_.key, table_.my_name(), ours, table_.name(peer.id), its, secret, aes),
                  DatagramSeal(options_.key, table_.name(peer.id), its, table_.my_name(), ours, secret, aes),
                  1,
                  {}});
  sodium_memzero(shared.data(), shared.size());
  if (protocol_ == UdpProtocol::paper) {
    peer.channel = std::make_unique<FragmentChannel>(*peer.link);
  } else {
    peer.channel = std::make_unique<StreamChannel>(*peer.link, port_->datagram_bytes(peer.id));
  }
  peer.heard_ns = clock_.now_ns();
  next_look_ns_ = std::min(next_look_ns_, peer.heard_ns + kLook_ns);
  return {};
}

// --- Silence.

void UdpPath::look_after(uint64_t now_ns) {
  bool waiting = false;
  for (auto& peer : peers_) {
    if (!peer || !peer->channel || peer->lost || peer->doomed) continue;
    waiting = look_after(*peer, now_ns) || waiting;
  }
  const uint64_t rest = keepalive_ns_ == 0 ? ~uint64_t{0} - now_ns : std::max(keepalive_ns_ / 2, kLook_ns);
  next_look_ns_ = now_ns + (waiting ? kLook_ns : rest);
}

// Whether this rank waits for the peer.
bool UdpPath::look_after(Peer& peer, uint64_t now_ns) {
  UdpChannel& channel = *peer.channel;
  const uint64_t quiet = now_ns - std::min(now_ns, peer.heard_ns);
  // (Data to be repeated that finds no room in the port is not in flight, but its answer is still missing.)
  if (!channel.unacknowledged() && !channel.unsent()) {
    stop_asking(peer);
    if (keepalive_ns_ == 0 || quiet < keepalive_ns_) return false;
    channel.ask(now_ns);
    keep_busy(peer);
    return true;
  }
  if (replaceable_ && quiet >= failover_ns_ && channel.silence() >= kTimeoutsToFail) {
    doom(peer, "it has not answered for " + std::to_string(quiet / 1'000'000) + " ms (TERN_UDP_FAILOVER_MS)");
    return true;
  }
  if (!peer.asking && quiet >= kSilence_ns) {
    peer.asking = true;
    peer.life_interval_ns = kFirstLifeInterval_ns;
    peer.ask_at_ns = now_ns;
    peer.asked_ns = 0;
  }
  if (quiet < kSilence_ns) stop_asking(peer);
  if (peer.asking) ask_host(peer, now_ns);
  return true;
}

void UdpPath::stop_asking(Peer& peer) {
  if (!peer.asking) return;
  peer.asking = false;
  port_->stop_asking(peer.id);
}

void UdpPath::ask_host(Peer& peer, uint64_t now_ns) {
  if (peer.asked_ns == 0 && now_ns < peer.ask_at_ns) return;  // the last answer is still recent
  switch (port_->life(peer.id)) {
    case DatagramPort::Life::lives:
      peer.asked_ns = 0;
      peer.refusals = 0;
      peer.ask_at_ns = now_ns + peer.life_interval_ns;
      peer.life_interval_ns = std::min(2 * peer.life_interval_ns, kMaxLifeInterval_ns);
      return;
    case DatagramPort::Life::gone:
      peer.asked_ns = 0;
      peer.ask_at_ns = now_ns + kRefusalPause_ns;
      if (++peer.refusals >= kRefusals) doom(peer, "its host says that its process is not there any more");
      return;
    case DatagramPort::Life::asked:
    case DatagramPort::Life::unknown: break;
  }
  if (peer.asked_ns != 0 && now_ns - std::min(now_ns, std::max(peer.heard_ns, peer.asked_ns)) >= timeout_ns_) {
    doom(peer, "neither it nor its host has answered for " + std::to_string(timeout_ns_ / kSecond_ns) +
                   " s (TERN_UDP_TIMEOUT_S)");
    return;
  }
  if (now_ns < peer.ask_at_ns) return;
  port_->ask_life(peer.id);
  if (peer.asked_ns == 0) peer.asked_ns = now_ns;
  peer.ask_at_ns = now_ns + kSecond_ns;
}

// --- Loss.

Error UdpPath::Peer::reason() const {
  return Error(ErrorClass::proc_aborted, "rank " + std::to_string(id) + " cannot be reached by UDP: " + trouble);
}

// For places that must not call the sink: the peer is lost in the next poll.
void UdpPath::doom(Peer& peer, std::string trouble) {
  if (peer.doomed || peer.lost) return;
  peer.doomed = true;
  peer.trouble = std::move(trouble);
  doomed_.push_back(&peer);
}

void UdpPath::give_up(Lane& lane) { doom(static_cast<Peer&>(lane), "given up for another path"); }

bool UdpPath::reopen(Lane& lane, uint32_t incarnation) {
  auto& peer = static_cast<Peer&>(lane);
  if (!peer.lost) return false;
  if (peer.busy) {  // its timers belonged to the old channel
    std::erase(busy_, &peer);
    peer.busy = false;
  }
  peer.channel.reset();
  peer.link.reset();
  peer.incarnation = incarnation;
  peer.asking = false;
  peer.refusals = 0;
  peer.lost = peer.doomed = false;
  if (Error error = meet(peer)) doom(peer, std::string(error.text()));
  return true;
}

int UdpPath::lose_doomed() {
  // Done-functions may send to the same peer again; that fails in the next poll.
  std::vector<Peer*> now;
  now.swap(doomed_);
  SendList failed;
  for (Peer* peer : now) peer->lost = true;
  while (SendOperation* operation = unsendable_.pop_front()) failed.push_back(operation);
  int handled = 0;
  for (Peer* peer : now) {
    if (!peer->channel) continue;
    peer->channel->abandon(peer->reason());
    peer->channel->surrender(failed);
  }
  while (SendOperation* operation = failed.pop_front()) {
    ++handled;
    operation->done(*operation, static_cast<Peer&>(*operation->lane).reason());
  }
  for (Peer* peer : now) {
    ++handled;
    shared_.sink.on_peer_lost(*peer, peer->reason());
  }
  return handled;
}

}  // namespace tern
