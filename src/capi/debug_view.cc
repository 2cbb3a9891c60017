#include "capi/debug_view.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string>

#include "capi/world.h"
#include "p2p/impl.h"

// Debuggers know both by their names. The array is large enough for any path.
extern "C" {
[[gnu::visibility("default"), gnu::used]] tern::DebugView tern_debug_view;
[[gnu::visibility("default"), gnu::used]] char MPIR_dll_name[4096] = "libtern_dbg.so";
}

namespace tern {

// These classes are no standard-layout types, and GCC and Clang give their offsets nevertheless: none has a virtual
// base.
#pragma GCC diagnostic ignored "-Winvalid-offsetof"

struct DebugLayout {
  /// Where the base is in an object of the derived class.
  template <typename Base, typename Derived>
  __attribute__((no_sanitize("undefined"))) static uint32_t base_in() {
    constexpr uintptr_t kSome = 1 << 16;  // null would stay null
    return uint32_t(reinterpret_cast<uintptr_t>(static_cast<Base*>(reinterpret_cast<Derived*>(kSome))) - kSome);
  }
  static uint64_t at(const void* address) { return uint64_t(reinterpret_cast<uintptr_t>(address)); }

  template <typename Requests>
  static void add_queues(DebugView& view, PointToPoint::Impl& p2p, Requests& requests) {
    const Matching& matching = p2p.receives.matching;
    static_assert(sizeof matching.exact_ == sizeof(void*));
    TERN_ASSERT(view.queues_count < DebugView::kMostQueues);
    view.queues[view.queues_count] = {at(&matching.exact_),
                                      at(&matching.wild_),
                                      at(&matching.arrival_),
                                      at(&matching.mask_),
                                      at(&p2p.sends.requests_.chunks_),
                                      at(&p2p.sends.requests_.free_),
                                      at(&requests.slots_)};
    static_assert(sizeof(typename Requests::Slot) == sizeof(decltype(capi::Handles::comms)::Slot));
    ++view.queues_count;
  }

  static void lists(DebugView& view) {
    using List = IntrusiveList<PostedReceive, ByKey>;
    view.list = {sizeof(List), offsetof(ListHook<ByKey>, next)};
    static_assert(sizeof(List) == sizeof(IntrusiveList<WaitingMessage, ByArrival>));
    using Sent = Pool<SendRequest>;
    view.chunk = {sizeof(Sent::Chunk), offsetof(Sent::Chunk, slots), offsetof(Sent::Chunk, count), sizeof(Sent::Slot)};
  }

  static void requests(DebugView& view) {
    view.request = {offsetof(Request, kind_), offsetof(Request, complete_), offsetof(Request, active_),
                    uint8_t(Request::Kind::send), uint8_t(Request::Kind::receive)};
    using R = ReceiveRequest;
    view.receive = {base_in<ListHook<ByKey>, R>(),
                    offsetof(R, context),
                    offsetof(R, source),
                    offsetof(R, tag),
                    offsetof(R, capacity),
                    offsetof(R, buffer),
                    offsetof(R, place),
                    uint32_t(offsetof(R, status) + offsetof(Status, source)),
                    uint32_t(offsetof(R, status) + offsetof(Status, tag)),
                    uint32_t(offsetof(R, status) + offsetof(Status, bytes)),
                    offsetof(R, sender),
                    uint8_t(R::Place::outside)};
    using A = SendArguments;
    constexpr size_t kArguments = offsetof(SendRequest, arguments);
    view.send = {uint32_t(kArguments + offsetof(A, buffer)),
                 uint32_t(kArguments + offsetof(A, count)),
                 uint32_t(kArguments + offsetof(A, type)),
                 uint32_t(kArguments + offsetof(A, peer)),
                 uint32_t(kArguments + offsetof(A, tag)),
                 uint32_t(kArguments + offsetof(A, context)),
                 offsetof(SendRequest, waits),
                 offsetof(Datatype, size_),
                 SendRequest::kMatch | SendRequest::kData,
                 SendRequest::kPut,
                 SendRequest::kAnswer};
    using M = UnexpectedMessage;
    view.message = {base_in<ListHook<ByArrival>, M>(),
                    offsetof(M, context),
                    offsetof(M, source),
                    offsetof(M, tag),
                    offsetof(M, bytes),
                    offsetof(M, from),
                    uint32_t(offsetof(M, header) + offsetof(wire::Header, kind)),
                    uint32_t(offsetof(M, block) + offsetof(ScratchBlock, data_)),
                    offsetof(M, inline_data),
                    {uint8_t(wire::Kind::eager), uint8_t(wire::Kind::eager_sync), uint8_t(wire::Kind::direct)}};
    view.endpoint.peer = offsetof(Endpoint, peer);
  }

  static void handles(DebugView& view, capi::World& world) {
    using Table = decltype(world.handles.comms);
    using Slot = Table::Slot;
    view.communicators = at(&world.handles.comms.slots_);
    view.predefined_communicators = at(&world.handles.comms.predefined_);
    view.predefined_count = uint32_t(Table::kLastPredefined - Table::kFirstPredefined + 1);
    view.handle = {sizeof(Slot), offsetof(Slot, object), offsetof(Slot, next_free)};
    using C = Communicator;
    view.communicator = {offsetof(C, context_), offsetof(C, local_),  offsetof(C, remote_), offsetof(C, rank_),
                         offsetof(C, name),     offsetof(C, made_by), offsetof(C, handle),  0};
#ifdef __GLIBCXX__
    view.communicator.name_is_pointer_and_length = 1;
#endif
    view.group = {offsetof(Group, size_), offsetof(Group, first_), offsetof(Group, stride_), offsetof(Group, table_)};
  }
};

namespace capi {
namespace {

/// It lies beside the library that has this code; in a program that has brought its MPI along, nobody knows where.
void name_library() {
  Dl_info here{};
  if (dladdr(&tern_debug_view, &here) == 0 || !here.dli_fname) return;
  const std::string file = here.dli_fname;
  const size_t folder = file.rfind('/');
  if (folder == file.npos) return;
  const std::string library = file.substr(0, folder + 1) + "libtern_dbg.so";
  if (library.size() < sizeof MPIR_dll_name && access(library.c_str(), R_OK) == 0)
    std::strcpy(MPIR_dll_name, library.c_str());
}

}  // namespace

void show_to_debuggers(World& world) {
  DebugView& view = tern_debug_view;
  view.bytes = sizeof view;
  view.world_rank = world.process->world_rank();
  view.world_size = world.process->world_size();
  view.queues_count = 0;
  DebugLayout::add_queues(view, world.process->p2p().inside(), world.handles.requests);
  DebugLayout::lists(view);
  DebugLayout::requests(view);
  DebugLayout::handles(view, world);
  name_library();
  std::memcpy(view.magic, DebugView::kMagic, sizeof view.magic);
}

void show_engines_to_debuggers(World& world) {
  static_assert(DebugView::kMostQueues == 1 + Engines::kMost);
  tern_debug_view.queues_count = 1;
  for (uint32_t i = 0; i < world.engines->count(); ++i) {
    Engine& engine = (*world.engines)[i];
    DebugLayout::add_queues(tern_debug_view, engine.p2p.inside(), world.requests_of(engine));
  }
}

void hide_from_debuggers() { std::memset(tern_debug_view.magic, 0, sizeof tern_debug_view.magic); }

}  // namespace capi
}  // namespace tern
