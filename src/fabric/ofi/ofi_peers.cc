// Peers of the ofi path: first contact, loss. See ofi_path.h.
#include <sodium.h>

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "fabric/ofi/ofi_path.h"

namespace tern {
std::unique_ptr<OfiPath> OfiPath::create(const OfiOptions& options, const Tunables& tunables,
                                         std::unique_ptr<ofi::Port> port, Clock& clock, Sink& sink, Lookup lookup,
                                         Error& error) {
  if (sodium_init() < 0) {
    error = Error(ErrorClass::other, "libsodium found no source of randomness");
    return nullptr;
  }
  std::unique_ptr<OfiPath> path(new OfiPath(options, tunables, std::move(port), clock, sink, std::move(lookup)));
  error = path->start();
  if (error) path.reset();
  return path;
}

OfiPath::OfiPath(const OfiOptions& options, const Tunables& tunables, std::unique_ptr<ofi::Port> port, Clock& clock,
                 Sink& sink, Lookup lookup)
    : sink_(sink),
      lookup_(std::move(lookup)),
      adapter_(options, tunables, std::move(port), clock),
      streams_(adapter_, *this, sink, hints_, helped_),
      transfers_(adapter_, streams_, *this),
      silence_(adapter_, streams_, *this, tunables),
      tunables_(tunables) {
  properties_.name = "ofi";
  properties_.eager_bytes = std::min(ofi_part_bytes(tunables, capabilities()),
                                     adapter_.frame_bytes - wire::ofi_head_bytes(wire::OfiFrameType::whole));
  properties_.needs_cpu = !capabilities().automatic_progress;
  properties_.announce_from_bytes = properties_.eager_bytes + 1;
  properties_.hybrid_bytes = size_t(tunables.rdma_hybrid_bytes);
  if (capabilities().copied_by_target) properties_.part_bytes = kSocketPartBytes;  // no adapter does the work
}

Error OfiPath::start() {
  if (Error error = adapter_.start()) return error;
  randombytes_buf(salt_.data(), salt_.size());
  wire::OfiCard card;
  card.provider = capabilities().provider;
  card.format = capabilities().format;
  card.salt = salt_;
  card.address = adapter_.port->address();
  card_ = wire::build_ofi_card(card);
  if (adapter_.options.log) {
    const ofi::Capabilities& able = capabilities();
    adapter_.options.log->info("ofi: provider " + able.provider + " on " + able.domain +
                               (able.rma ? ", reads and writes" : "") + (able.atomics ? ", atomics" : "") +
                               (able.tagged ? ", tags" : "") + (able.automatic_progress ? ", automatic progress" : "") +
                               (able.waits ? "" : ", must be polled"));
  }
  return {};
}

OfiPath::~OfiPath() {
  for (auto& peer : peers_) {
    if (!peer) continue;
    streams_.forget(*peer);
    transfers_.forget(*peer);
  }
  while (unsendable_.pop_front()) {
  }
}

bool OfiPath::reaches(PeerId peer) const {
  const PeerTable& table = *adapter_.options.peers;
  if (peer == table.me() || !table.in_my_job(peer)) return false;
  if (!adapter_.options.optional) return true;
  enum : uint8_t { unknown, yes, no };
  if (reached_.empty()) reached_.resize(table.job_ranks());
  if (reached_[peer] == unknown) {
    wire::OfiCard card;
    reached_[peer] =
        !read_card(peer, card) && card.provider == capabilities().provider && card.format == capabilities().format ? yes
                                                                                                                   : no;
  }
  return reached_[peer] == yes;
}

OfiPeer& OfiPath::peer_at(PeerId id) {
  if (peers_.size() <= id) peers_.resize(adapter_.options.peers->job_ranks());
  if (!peers_[id]) {
    peers_[id] = std::make_unique<OfiPeer>(id);
    OfiPeer& peer = *peers_[id];
    const PeerTable& table = *adapter_.options.peers;
    peer.in_proof = wire::ofi_proof(adapter_.options.key.data(), table.name(id), table.my_name(), salt_, 0);
    silence_.begin();
  }
  return *peers_[id];
}

Error OfiPath::read_card(PeerId id, wire::OfiCard& card) const {
  std::string text = card_;
  if (id != adapter_.options.peers->me()) {
    if (Error error = lookup_(id, text)) return error;
  }
  if (text == wire::kNoOfiCard) return Error(ErrorClass::other, "it has no libfabric path");
  return wire::parse_ofi_card(text, card);
}

// Learns the peer's address and proof.
Error OfiPath::insert(OfiPeer& peer) {
  wire::OfiCard card;
  if (Error error = read_card(peer.id, card)) return std::move(error).context("its address is not known");
  const ofi::Capabilities& able = capabilities();
  if (card.provider != able.provider || card.format != able.format) {
    return Error(ErrorClass::arg, "it uses the provider " + card.provider + ", this rank " + able.provider +
                                      ": set TERN_OFI_PROVIDER for all ranks (mpiexec -genv)");
  }
  if (card.address.size() != adapter_.port->address().size())
    return Error(ErrorClass::other, "its libfabric address has another length than this rank's");
  if (int result = adapter_.port->insert(card.address, peer.address))
    return Error(ErrorClass::other, adapter_.port->explain("fi_av_insert", result));
  const PeerTable& table = *adapter_.options.peers;
  peer.out_proof = wire::ofi_proof(adapter_.options.key.data(), table.my_name(), table.name(peer.id), card.salt,
                                   uint16_t(peer.incarnation));
  return {};
}

bool OfiPath::meet(OfiPeer& peer) {
  if (peer.met) return true;
  if (Error error = insert(peer)) {
    doom(peer, std::string(error.text()));
    return false;
  }
  return peer.met = true;
}

Error OfiPath::reason(const OfiPeer& peer) const {
  return Error(ErrorClass::proc_aborted,
               "rank " + std::to_string(peer.id) + " cannot be reached by libfabric: " + peer.trouble);
}

// --- Loss.

void OfiPath::doom(OfiPeer& peer, std::string trouble) {
  if (peer.doomed || peer.lost) return;
  peer.doomed = true;
  peer.trouble = std::move(trouble);
  doomed_.push_back(&peer);
}

void OfiPath::give_up(Lane& lane) { doom(static_cast<OfiPeer&>(lane), "given up for another path"); }

int OfiPath::lose_doomed() {
  // Done-functions may send to the same peer again; that fails in the next poll.
  std::vector<OfiPeer*> now;
  now.swap(doomed_);
  IntrusiveList<SendOperation> failed;
  while (SendOperation* operation = unsendable_.pop_front()) failed.push_back(operation);
  for (OfiPeer* peer : now) peer->lost = true;
  int handled = 0;
  for (OfiPeer* peer : now) {
    streams_.fail_all(*peer);
    transfers_.fail_all(*peer);
    if (tuples_) tuples_->lose(*peer, reason(*peer));
  }
  while (SendOperation* operation = failed.pop_front()) {
    ++handled;
    operation->done(*operation, reason(static_cast<OfiPeer&>(*operation->lane)));
  }
  for (OfiPeer* peer : now) {
    ++handled;
    if (peer->id != adapter_.options.peers->me()) sink_.on_peer_lost(*peer, reason(*peer));
  }
  return handled;
}

bool OfiPath::reopen(Lane& lane, uint32_t incarnation) {
  auto& peer = static_cast<OfiPeer&>(lane);
  if (!peer.lost) return false;
  streams_.reset(peer);
  if (peer.met) adapter_.port->remove(peer.address);
  peer.met = peer.lost = peer.doomed = peer.spoken = peer.ping_due = false;
  peer.heard_ns = peer.pinged_ns = 0;
  peer.incarnation = incarnation;
  const PeerTable& table = *adapter_.options.peers;
  peer.in_proof =
      wire::ofi_proof(adapter_.options.key.data(), table.name(peer.id), table.my_name(), salt_, uint16_t(incarnation));
  return true;
}

}  // namespace tern
