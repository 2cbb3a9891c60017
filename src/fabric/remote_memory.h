// RemoteMemory: get, put and atomics on the memory of peers. A path that has it returns it from Path::remote_memory.
// What it can do is stated in its properties, and for one peer in `can_get` and `can_put`.
//
// Thread rule: as Path. Re-entrance: get, put and the atomics may call `done` before they return.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "base/intrusive_list.h"
#include "datatype/cursor.h"
#include "fabric/lane.h"

namespace tern {

/// Names memory of this rank to its peers; opaque to protocols, sent in their headers.
struct RemoteKey {
  uint64_t words[2] = {0, 0};
  bool empty() const { return (words[0] | words[1]) == 0; }
  friend bool operator==(const RemoteKey&, const RemoteKey&) = default;
};

/// What peers may do with exposed memory.
struct RemoteAccess {
  bool read = false, write = false, atomic = false;
};

/// A transfer: get (remote memory to `local`) or put (`local` to remote memory).
struct TransferOperation : ListHook<TransferOperation> {
  Lane* lane = nullptr;
  Cursor local;
  uint64_t remote_address = 0;
  RemoteKey key;
  size_t bytes = 0;
  size_t of_bytes = 0;  ///< length of the message that this is a piece of; 0: this is all
  /// Of a put: no message announces it, so wake the peer, if it sleeps, when the bytes are there.
  bool wakes = false;
  /// Called once, possibly before `get` returns. After an error the content of the local memory is undefined, and the
  /// caller falls back to messages.
  void (*done)(TransferOperation&, Error) = nullptr;
};

/// An operation on one aligned 8-byte word of a peer, in the host's byte order, or on several that follow each other.
struct AtomicOperation : ListHook<AtomicOperation> {
  enum class Kind : uint8_t { fetch_add, compare_swap, swap };
  Lane* lane = nullptr;
  Kind kind = Kind::fetch_add;
  uint64_t remote_address = 0;
  RemoteKey key;
  uint64_t operand = 0;  ///< what is added, or stored
  uint64_t compare = 0;  ///< compare_swap only
  uint64_t result = 0;   ///< the word as it was before; valid when `done` is called without an error
  /// More than 1, at most RemoteMemoryProperties::atomic_words: of fetch_add and swap. Each word is changed for itself.
  size_t words = 1;
  uint64_t* many = nullptr;  ///< of several words, instead of `operand`; then, as `result`, the words as they were
  void (*done)(AtomicOperation&, Error) = nullptr;
};

/// All gets, puts and atomics begun earlier on this lane are complete, the puts at the peer.
struct FlushOperation : ListHook<FlushOperation> {
  Lane* lane = nullptr;
  void (*done)(FlushOperation&, Error) = nullptr;
};

/// What a RemoteMemory is. Constant after the path is started.
struct RemoteMemoryProperties {
  bool get = false;         ///< for peers that `can_get` confirms
  bool put = false;         ///< for peers that `can_put` confirms
  bool autonomous = false;  ///< data moves without the CPU of either side; else by the CPU of the rank that asks
  size_t least_bytes = 0;   ///< shorter gets and puts take longer than messages that do the same
  /// The bytes of a put become visible before a message that is handed over after the put was issued (done or not). A
  /// put then fails only because the lane is lost, or immediately.
  bool puts_before_messages = false;
  bool ordered_writes = false;  ///< as above, and the bytes of one put become visible in address order
  bool atomics = false;         ///< fetch_add and compare_swap, for memory exposed with RemoteAccess::atomic
  bool atomic_swap = false;     ///< swap, too
  size_t atomic_words = 1;      ///< words of one operation, at most
  /// An atomic takes effect after the puts and atomics that were begun before it on the same lane, and after the memory
  /// of earlier gets was read: the atomic that releases a lock may be issued at once.
  bool ordered_atomics = false;
  bool atomics_with_cpu = false;  ///< the CPU's own atomic instructions on that memory exclude these
  /// The key of memory that needs no registration, the same at both sides: a header may leave it out, and it need not
  /// be concealed. Empty: there is none.
  RemoteKey usual_key;
};

class RemoteMemory {
 public:
  const RemoteMemoryProperties& remote_properties() const { return remote_properties_; }

  /// Makes memory of this rank accessible to peers until `conceal`; an empty key where that is impossible.
  virtual RemoteKey expose(const void* address, size_t bytes, RemoteAccess access) = 0;
  virtual void conceal(const RemoteKey& key) = 0;

  /// Whether get works with this peer (shared memory: whether the kernel allows cross-memory attach, tested by a copy).
  virtual bool can_get(Lane& lane) = 0;
  virtual void get(TransferOperation& operation) = 0;
  virtual bool can_put(Lane& lane) = 0;
  /// Writes `local` into the peer's exposed memory. Done without error: the bytes are there, and the peer sees them
  /// before any message sent to it from now on.
  virtual void put(TransferOperation& operation) = 0;
  /// For gets, puts and atomics on memory that this rank itself has exposed: where the CPU's atomics do not exclude the
  /// adapter's, words that peers change by atomics are changed this way by their owner, too. Carries no messages. Null:
  /// there is none. Constant.
  virtual Lane* own_lane() { return nullptr; }
  /// Only if the properties allow it; `kind` says which operation.
  virtual void atomic(AtomicOperation& operation) {
    operation.done(operation, Error(ErrorClass::unsupported_operation, "this path has no remote atomics"));
  }
  /// The default is for paths on which every transfer is complete when its call returns.
  virtual void flush(FlushOperation& operation) { operation.done(operation, Error()); }

 protected:
  ~RemoteMemory() = default;
  RemoteMemoryProperties remote_properties_;
};

}  // namespace tern
