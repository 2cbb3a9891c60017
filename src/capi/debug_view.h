// What the debuggers' message-queue library (tools/debugger, libtern_dbg.so) reads of a stopped rank: where its
// communicators, receives, sends and unexpected messages are, and where the fields are in them. The program need not
// have debug information.
//
// A debugger loads the library that `MPIR_dll_name` of the rank names, and asks for `tern_debug_view` by its name. The
// view is filled once, when the rank starts; nothing of a message costs more for it. Addresses are the rank's; offsets
// are bytes from the beginning of the object. Source: MPI Forum, MPI message queue dumping interface, version 1.0
// (2013). Thread rule: written at MPI_Init, MPI_Finalize and where engines are made, under the rank's lock; read while
// the process is stopped.
#pragma once

#include <cstdint>

namespace tern {

struct DebugView {
  static constexpr char kMagic[8] = {'T', 'E', 'R', 'N', 'D', 'B', 'G', '1'};
  char magic[8];   ///< set while there is something to read
  uint32_t bytes;  ///< of this struct: rank and library are of one release
  int32_t world_rank, world_size;

  // --- Where things are.
  static constexpr uint32_t kMostQueues = 9;
  /// The rank's own messages, then those of each message engine (p2p/engines.h).
  struct Queues {
    // Pointers to arrays of list heads (base/intrusive_list.h); each array has *mask + 1.
    uint64_t posted_exact, posted_wild, waiting, mask;
    uint64_t send_chunks, send_free;  ///< of the pool of sends: its vector of chunks, its first free slot
    uint64_t requests;                ///< pointer to slots (capi/handles.h)
  } queues[kMostQueues];
  uint32_t queues_count;
  uint64_t communicators;  ///< pointer to slots
  uint64_t predefined_communicators;
  uint32_t predefined_count;

  // --- How they look.
  struct {
    uint32_t bytes, next;
  } list;
  struct {
    uint32_t bytes, slots, count, slot_bytes;
  } chunk;  ///< the first word of a free slot: the next one
  struct {
    uint32_t bytes, object, mask;  ///< mask: of slot 0, indices
  } handle;
  struct {
    uint32_t kind, complete, active;
    uint8_t send, receive;  ///< of `kind`
  } request;
  struct {
    uint32_t hook, context, source, tag, capacity, buffer, place, matched_source, matched_tag, matched_bytes, sender;
    uint8_t outside;  ///< of `place`
  } receive;
  struct {
    uint32_t buffer, count, type, peer, tag, context, waits;
    uint32_t type_bytes;  ///< in the datatype
    uint8_t for_receiver, moving, answer;
  } send;  ///< offsets from its request
  struct {
    uint32_t hook, context, source, tag, bytes, from, kind, block, inline_data;
    uint8_t kept[3];  ///< kinds whose data is here
  } message;
  struct {
    uint32_t peer;
  } endpoint;
  struct {
    uint32_t context, local, remote, rank, name, made_by, handle;
    uint8_t name_is_pointer_and_length;
  } communicator;
  struct {
    uint32_t size, first, stride, table;  ///< table: a vector of 32-bit peers; empty: first + stride * rank
  } group;
};

/// Where `DebugView` may look: a friend of what it describes.
struct DebugLayout;

}  // namespace tern

extern "C" {
extern tern::DebugView tern_debug_view;
}

namespace tern::capi {

struct World;
/// Fills the view, and names the library. The process's own world only.
void show_to_debuggers(World& world);
/// The messages of its engines, too, which have just been made.
void show_engines_to_debuggers(World& world);
/// MPI ends in this process.
void hide_from_debuggers();

}  // namespace tern::capi
