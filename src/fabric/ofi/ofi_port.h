// Port: an endpoint of a libfabric provider, as the ofi path uses it: a reliable datagram endpoint (FI_EP_RDM) with one
// completion queue. Nothing is assumed that a provider does not state in its capabilities. There are three: libfabric
// itself (fi_port.h), a filter before it that offers less and reorders (filter_port.h), and fakes in tests.
//
// Ownership: a Context, and the memory of an operation, belong to the port from the call that takes them (result 0)
// until poll returns the Context, or until the port is destroyed.
//
// Units: bytes. Thread rule: the rank's lock. Results: 0, kAgain (nothing has happened; poll and try again), or another
// negative error of libfabric, for `explain`.
//
// Source: the libfabric programmer's manual (fi_getinfo(3), fi_endpoint(3), fi_cq(3), fi_mr(3)), API 1.11 and later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "fabric/registration/registered_memory.h"
#include "fabric/remote_memory.h"

namespace tern::ofi {

inline constexpr int kAgain = -11;      // FI_EAGAIN
inline constexpr int kNoMemory = -12;   // FI_ENOMEM
inline constexpr int kTruncated = 265;  // FI_ETRUNC
inline constexpr int kCancelled = 125;  // FI_ECANCELED

/// As much of a message goes in one piece where Capabilities::streams says so. (Accumulates of 1 MiB, `tcp;ofi_rxm`,
/// time of both CPUs: 1.6 ms in pieces of 16 KiB, 0.95 in these. Longer ones gain nothing.)
inline constexpr size_t kStreamedPartBytes = 64 * 1024;

/// A peer, after `insert` (fi_addr_t).
using Address = uint64_t;
inline constexpr Address kNoAddress = ~uint64_t{0};  // FI_ADDR_UNSPEC: anybody

/// What a provider states about itself.
struct Capabilities {
  std::string provider, domain, format;       ///< format: of addresses
  bool rma = false;                           ///< read and write of peers' memory
  bool atomics = false, atomic_swap = false;  ///< of 64 bits: fetch-and-add and compare-and-swap; swap
  size_t atomic_words = 1;                    ///< of one fetch-and-add or swap, at most
  bool tagged = false;                        ///< matches tags, from one peer only (FI_TAGGED, FI_DIRECTED_RECV)
  bool multi_receive = false;                 ///< one buffer takes many messages
  size_t least_room = 0;                      ///< such a buffer comes back when it has less room than this
  bool delivery_complete = false;             ///< writes may complete when the data is at its place
  bool match_complete = false;                ///< tagged sends complete only when a receive has taken them
  bool free_complete = false;                 ///< sends may complete as soon as their memory is free
  bool marks = false;                         ///< tagged sends may be marked (FI_REMOTE_CQ_DATA)
  bool send_after_send = false;               ///< messages of one peer meet receives in the order of sending
  bool send_after_write = false;              ///< a message is not seen before an earlier write
  bool automatic_progress = false;            ///< data moves without calls of either rank
  bool needs_local = false;                   ///< own buffers must be registered, too (FI_MR_LOCAL)
  bool virtual_addresses = false;  ///< peers name memory by its address there; else by the offset in its region
  bool pins = false;               ///< registering pins pages, so it takes long (FI_MR_LOCAL, FI_MR_ALLOCATED)
  bool waits = false;              ///< there is a descriptor to wait for
  /// While a read, write or atomic is out, a thread polls for the answer, on a core that the ranks of this node need.
  bool takes_core = false;
  bool copied_by_target = false;   ///< reads and writes are carried out by the CPU of their target, when it polls
  bool streams = false;            ///< over TCP, in one piece: the longer a message, the less a byte of it costs
  size_t inject_bytes = 0;         ///< longest message whose memory is free at once
  size_t max_bytes = 0;            ///< longest message, read or write
  size_t sends = 0, receives = 0;  ///< operations that may be outstanding
  size_t receive_pieces = 1;       ///< pieces of memory of one receive
  uint64_t tag_bits = 0;           ///< bits of a tag that may be used
};

struct Context {
  alignas(16) std::byte provider[64];  ///< struct fi_context2: the provider's while the operation is outstanding
};

/// Registered memory. After its destruction peers cannot reach it.
class Region : public RegisteredMemory {
 public:
  void* descriptor() const { return descriptor_; }
  uint64_t key() const { return key_; }

 protected:
  void* descriptor_ = nullptr;
  uint64_t key_ = 0;
};

struct Piece {
  void* data = nullptr;
  size_t bytes = 0;
  const Region* region = nullptr;  ///< required where capabilities().needs_local
};

struct Completion {
  Context* context = nullptr;
  int error = 0;         ///< positive; 0: none
  bool message = true;   ///< of a receive: a message is here (false: a buffer comes back without one)
  bool released = true;  ///< of a receive for many messages: the buffer is the caller's again
  bool marked = false;   ///< of a tagged receive: its send was; where marks are not there, or it has failed, too
  const std::byte* data = nullptr;  ///< of a receive for many messages: where this one is
  size_t bytes = 0;                 ///< of a receive: of the message; after kTruncated, of the whole message
};

class Port {
 public:
  virtual ~Port() = default;
  const Capabilities& capabilities() const { return capabilities_; }
  /// Of this endpoint, for peers' `insert`.
  const std::string& address() const { return address_; }

  virtual int insert(std::string_view address, Address& result) = 0;
  virtual void remove(Address address) = 0;

  // --- Messages.
  /// `inject`: the memory is free at once; bytes <= capabilities().inject_bytes. One completion in any case.
  virtual int send(Address to, const Piece& piece, bool inject, Context& context) = 0;
  /// `many`: takes messages until there is less room than capabilities().least_room (capabilities().multi_receive).
  virtual int receive(const Piece& piece, bool many, Context& context) = 0;

  // --- Messages matched by tag. A send completes when a receive has taken it where capabilities().match_complete,
  // otherwise when its memory is free.
  /// `marked`: the receive's completion says so (capabilities().marks, else nothing comes of it).
  virtual int send_tagged(Address to, uint64_t tag, const Piece& piece, bool marked, Context& context) = 0;
  virtual int receive_tagged(Address from, uint64_t tag, const Piece* pieces, size_t count, Context& context) = 0;

  // --- Peers' memory. A write completes when the data is at its place (capabilities().delivery_complete).
  virtual int write(Address to, const Piece& piece, uint64_t remote, uint64_t key, Context& context) = 0;
  virtual int read(Address from, const Piece& piece, uint64_t remote, uint64_t key, Context& context) = 0;
  /// `operands`: 8 bytes for each word, valid until the completion; for compare_swap, of one word, the compared value
  /// follows. `result`: 8 for each word, at most capabilities().atomic_words.
  virtual int atomic(Address to, AtomicOperation::Kind kind, const Piece& operands, const Piece& result,
                     uint64_t remote, uint64_t key, Context& context) = 0;

  /// Null: `error` says why.
  virtual std::unique_ptr<Region> register_memory(const void* address, size_t bytes, const MemoryRights& rights,
                                                  int& error) = 0;

  /// A receive that has not begun comes back with kCancelled; other operations perhaps.
  virtual void cancel(Context& context) = 0;
  /// Moves what can be moved. Returns how many completions are in `out`, or an error.
  virtual int poll(Completion* out, int most) = 0;

  // --- Waiting.
  /// Where capabilities().waits is false it becomes readable a moment after `arm`.
  virtual int descriptor() const { return -1; }
  /// False: something is here already. Afterwards the descriptor becomes readable when poll would find something.
  virtual bool arm() { return true; }

  /// "provider NAME: CALL: what the error means; remedy".
  virtual std::string explain(const char* call, int error) const = 0;

 protected:
  Capabilities capabilities_;
  std::string address_;
};

}  // namespace tern::ofi
