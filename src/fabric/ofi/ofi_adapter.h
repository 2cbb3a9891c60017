// OfiAdapter: what all parts of the ofi path share of the rank's endpoint: the port, buffers that it sends from,
// buffers that it receives into. It keeps no state of peers.
//
// Units: bytes. Thread rule: the rank's lock.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/peer_table.h"
#include "base/tunables.h"
#include "fabric/ofi/ofi_port.h"
#include "fabric/registration/registration_cache.h"

namespace tern {

struct OfiPeer;

struct OfiOptions {
  const PeerTable* peers = nullptr;  ///< not owned: frames of ranks that are not in it are ignored
  std::array<uint8_t, 32> key{};     ///< the job's secret
  const Log* log = nullptr;          ///< null: no log
  /// Ranks without this path are no error: they have published an empty card, and are not reached.
  bool optional = false;
};

/// What a completion is about.
struct OfiOperation : ofi::Context {
  enum class Kind : uint8_t { receive, send, transfer, tuple_send, tuple_receive };
  explicit OfiOperation(Kind its) : kind(its) {}
  const Kind kind;
};

/// Memory for one frame, or for a part of a transfer; and one operation on it.
struct OfiBuffer final : OfiOperation {
  OfiBuffer() : OfiOperation(Kind::send) {}
  OfiPeer* peer = nullptr;
  std::byte* memory = nullptr;
  size_t bytes = 0;          ///< in use
  uint32_t incarnation = 0;  ///< of the lane when it was taken
};

/// The largest part of a message in one frame, as far as the provider takes it.
size_t ofi_part_bytes(const Tunables& tunables, const ofi::Capabilities& able);
/// The longest frame with its head.
size_t ofi_frame_bytes(const Tunables& tunables, const ofi::Capabilities& able);

class OfiAdapter {
 public:
  /// The clock outlives this.
  OfiAdapter(const OfiOptions& options, const Tunables& tunables, std::unique_ptr<ofi::Port> port, Clock& clock);
  /// Posts the receives. Error: the provider refuses memory.
  Error start();

  const ofi::Capabilities& able() const { return port->capabilities(); }

  /// Null: all are in use.
  OfiBuffer* take_buffer() {
    if (free_.empty()) return nullptr;
    OfiBuffer* buffer = free_.back();
    free_.pop_back();
    return buffer;
  }
  void give_back(OfiBuffer& buffer) { free_.push_back(&buffer); }
  ofi::Piece piece_of(const OfiBuffer& buffer, size_t bytes, size_t offset = 0) const {
    return {buffer.memory + offset, bytes, send_region_.get()};
  }

  /// As Port::poll; those stashed come first.
  int poll(ofi::Completion* out, int most) {
    if (!stash_.empty()) [[unlikely]]
      return take_stash(out, most);
    return port->poll(out, most);
  }
  /// Found while waiting for another one; handled in the next poll.
  void stash(const ofi::Completion& completion) { stash_.push_back(completion); }
  bool any_stashed() const { return !stash_.empty(); }
  /// Those of them for which `handled` is true are handled already.
  template <typename Handled>
  void drop_stashed(Handled handled) {
    std::erase_if(stash_, handled);
  }
  /// Polls into the stash, since the port has said "again".
  void make_room();

  /// The message of a completed receive; null: it carries none.
  const std::byte* message_of(const ofi::Completion& completion) const;
  /// After the message was handled: its buffer may be posted again.
  void receive_handled(const ofi::Completion& completion);
  void repost() {
    if (!taken_.empty()) repost_slow();
  }

  /// Memory of the program that this rank's own operations use; null: the provider rejects it.
  HeldRegistration hold(const void* address, size_t bytes, bool written) {
    return {registrations->acquire(address, bytes, {.local_write = written}), {registrations.get()}};
  }
  static const ofi::Region& region_of(const Registration& registration) {
    return static_cast<const ofi::Region&>(*registration.memory);
  }

  const OfiOptions options;
  Clock& clock;
  const std::unique_ptr<ofi::Port> port;
  size_t frame_bytes = 0;    ///< longest frame, and size of a buffer
  uint32_t outstanding = 0;  ///< operations of the port other than receives
  uint64_t held = 0;         ///< frames that came before an earlier one

 private:
  struct Receive final : OfiOperation {
    Receive() : OfiOperation(Kind::receive) {}
    std::byte* memory = nullptr;
  };
  /// The port as the registration cache sees it.
  struct Registrar final : MemoryRegistrar {
    explicit Registrar(ofi::Port& its) : port(its) {}
    std::unique_ptr<RegisteredMemory> register_memory(void* address, size_t bytes,
                                                      const MemoryRights& rights) override {
      int error = 0;
      return port.register_memory(address, bytes, rights, error);
    }
    ofi::Port& port;
  };
  void repost_slow();
  int take_stash(ofi::Completion* out, int most);

  Registrar registrar_;

 public:
  const std::unique_ptr<RegistrationCache> registrations;  ///< of the program's memory

 private:
  std::unique_ptr<std::byte[]> send_memory_, receive_memory_;
  std::unique_ptr<ofi::Region> send_region_, receive_region_;  ///< null where the provider needs none
  std::vector<OfiBuffer> buffers_;
  std::vector<OfiBuffer*> free_;  ///< the last one used is the first: its memory is warm
  std::vector<Receive> receives_;
  std::vector<Receive*> taken_;  ///< to be posted
  size_t receive_bytes_ = 0;     ///< of one receive
  std::deque<ofi::Completion> stash_;
  size_t sends_;
};

}  // namespace tern
