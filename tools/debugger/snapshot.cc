#include "debugger/snapshot.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <unordered_set>

namespace tern::debugger {
namespace {

// Bounds for memory that makes no sense: more than a rank could have of them.
constexpr uint64_t kMostElements = 1 << 24;
constexpr uint64_t kPlaneMask = 3;  // of a context: what kind of traffic
constexpr int kAnyTagInside = -2;

const char* plane_name(uint64_t context) {
  switch (context & kPlaneMask) {
    case 0: return "";
    case 1: return " (collective)";
    default: return " (being created)";
  }
}

class Reader {
 public:
  Reader(const Target& target, const DebugView& view) : target_(target), view_(view) {}

  Snapshot read() {
    read_communicators();
    for (uint32_t i = 0; i < std::min(view_.queues_count, DebugView::kMostQueues); ++i) read_queues(view_.queues[i]);
    name_the_rest();
    for (Operation& operation : seen_.operations) name_ranks(operation);
    return std::move(seen_);
  }

 private:
  template <typename T>
  T value(uint64_t address) const {
    return target_.value<T>(address);
  }

  void read_queues(const DebugView::Queues& queues) {
    const uint64_t lists = uint64_t{value<uint32_t>(queues.mask)} + 1;
    if (lists <= kMostElements) {
      for (const uint64_t table : {queues.posted_exact, queues.posted_wild}) {
        each_in_table(table, lists, [this](uint64_t hook) { add_receive(hook - view_.receive.hook, false); });
      }
      each_in_table(queues.waiting, lists, [this](uint64_t hook) { add_message(hook - view_.message.hook); });
    }
    read_handles(queues.requests);
    read_sends(queues);
  }

  template <typename Visit>
  void each_in_table(uint64_t table, uint64_t lists, Visit&& visit) {
    const uint64_t heads = target_.pointer(table);
    for (uint64_t i = 0; heads != 0 && i < lists; ++i) {
      const uint64_t head = heads + i * view_.list.bytes;
      uint64_t hook = target_.pointer(head + view_.list.next);
      for (uint64_t n = 0; hook != 0 && hook != head && n < kMostElements; ++n) {
        visit(hook);
        hook = target_.pointer(hook + view_.list.next);
      }
    }
  }
  /// The objects of a table of handles.
  template <typename Visit>
  void each_handle(uint64_t table, Visit&& visit) {
    const uint64_t slots = target_.pointer(table);
    const uint64_t last = slots == 0 ? 0 : value<uint32_t>(slots + view_.handle.mask);
    for (uint64_t i = 1; i <= std::min(last, kMostElements); ++i) {
      if (const uint64_t object = target_.pointer(slots + i * view_.handle.bytes + view_.handle.object)) visit(object);
    }
  }

  // --- Communicators.
  void read_communicators() {
    for (uint32_t i = 0; i < std::min<uint32_t>(view_.predefined_count, 64); ++i) {
      const uint64_t object = target_.pointer(view_.predefined_communicators + i * sizeof(uint64_t));
      if (object != 0) add_communicator(object);
    }
    each_handle(view_.communicators, [this](uint64_t object) { add_communicator(object); });
  }
  void add_communicator(uint64_t object) {
    const auto& at = view_.communicator;
    Communicator made;
    made.context = value<uint64_t>(object + at.context) & ~kPlaneMask;
    made.rank = value<int32_t>(object + at.rank);
    const uint64_t local = target_.pointer(object + at.local), remote = target_.pointer(object + at.remote);
    made.group = group(local);
    made.size = int(made.group.size());
    made.peers = remote != 0 ? group(remote) : made.group;
    if (at.name_is_pointer_and_length != 0) {
      const size_t length = size_t(value<uint64_t>(object + at.name + sizeof(uint64_t)));
      made.name =
          target_.text(target_.pointer(object + at.name), std::min<size_t>(length, sizeof mqs_communicator::name));
    }
    if (made.name.empty()) {
      const std::string maker = target_.text(target_.pointer(object + at.made_by), 40);
      char words[80];
      std::snprintf(words, sizeof words, "0x%x%s%s", unsigned(value<int32_t>(object + at.handle)),
                    maker.empty() ? "" : " of ", maker.c_str());
      made.name = words;
    }
    seen_.communicators.push_back(std::move(made));
  }
  std::vector<int> group(uint64_t object) const {
    const auto& at = view_.group;
    std::vector<int> ranks;
    if (object == 0) return ranks;
    const uint64_t size = std::min<uint64_t>(value<uint32_t>(object + at.size), kMostElements);
    const uint64_t table = target_.pointer(object + at.table);
    const bool strided = table == target_.pointer(object + at.table + sizeof(uint64_t));  // an empty vector
    const int64_t first = value<uint32_t>(object + at.first), stride = value<int64_t>(object + at.stride);
    std::vector<uint32_t> peers(strided ? 0 : size);
    if (!strided && !target_.read(table, peers.data(), peers.size() * sizeof peers[0])) return ranks;
    ranks.reserve(size);
    for (uint64_t i = 0; i < size; ++i)
      ranks.push_back(world_rank(strided ? uint32_t(first + stride * int64_t(i)) : peers[i]));
    return ranks;
  }
  /// The ranks of the rank's own world come first among its peers.
  int world_rank(uint32_t peer) const { return peer < uint32_t(view_.world_size) ? int(peer) : kMqsAny; }

  // Other planes of a communicator, and communicators without a handle, where operations name them.
  void name_the_rest() {
    for (const Operation& operation : seen_.operations) {
      if (find(operation.context)) continue;
      Communicator made;
      if (const Communicator* same = find(operation.context & ~kPlaneMask)) made = *same;
      else made.name = "a communicator without a handle";
      made.name += plane_name(operation.context);
      made.context = operation.context;
      seen_.communicators.push_back(std::move(made));
    }
  }
  const Communicator* find(uint64_t context) const {
    for (const Communicator& each : seen_.communicators) {
      if (each.context == context) return &each;
    }
    return nullptr;
  }

  // --- Operations.
  Operation& add(int queue, uint64_t context) {
    Operation& made = seen_.operations.emplace_back();
    made.queue = queue;
    made.context = context;
    made.shown.desired_local_rank = made.shown.desired_global_rank = kMqsAny;
    made.shown.actual_local_rank = made.shown.actual_global_rank = kMqsAny;
    return made;
  }
  static void say(Operation& operation, const char* words) {
    std::snprintf(operation.shown.extra_text[0], sizeof operation.shown.extra_text[0], "%s", words);
  }

  void add_receive(uint64_t object, bool outside) {
    const auto& at = view_.receive;
    mqs_pending_operation& shown = add(mqs_pending_receives, value<uint64_t>(object + at.context)).shown;
    const int tag = value<int32_t>(object + at.tag);
    shown.desired_local_rank = value<int32_t>(object + at.source);
    shown.tag_wild = tag == kAnyTagInside;
    shown.desired_tag = shown.tag_wild ? 0 : tag;
    shown.desired_length = mqs_tword_t(value<uint64_t>(object + at.capacity));
    shown.buffer = target_.pointer(object + at.buffer);
    shown.status = mqs_st_pending;
    if (!outside) return;
    const int source = value<int32_t>(object + at.matched_source);
    if (source == kMqsAny) return say(seen_.operations.back(), "held back until a tuple queue has stopped");
    shown.status = mqs_st_matched;
    shown.actual_local_rank = source;
    shown.actual_tag = value<int32_t>(object + at.matched_tag);
    shown.actual_length = value<int64_t>(object + at.matched_bytes);
    say(seen_.operations.back(), "has its message, whose data is on its way");
  }

  // Receives of nonblocking calls that are neither posted nor complete.
  void read_handles(uint64_t requests) {
    each_handle(requests, [this](uint64_t object) {
      if (value<uint8_t>(object + view_.request.kind) != view_.request.receive) return;
      if (value<uint8_t>(object + view_.request.complete) != 0) return;
      if (value<uint8_t>(object + view_.receive.place) == view_.receive.outside) add_receive(object, true);
    });
  }

  void read_sends(const DebugView::Queues& queues) {
    std::unordered_set<uint64_t> free;
    for (uint64_t slot = target_.pointer(queues.send_free); slot != 0 && free.size() < kMostElements;
         slot = target_.pointer(slot)) {
      if (!free.insert(slot).second) break;
    }
    uint64_t chunk = target_.pointer(queues.send_chunks);
    const uint64_t end = target_.pointer(queues.send_chunks + sizeof(uint64_t));
    for (uint64_t n = 0; chunk != 0 && chunk < end && n < kMostElements; chunk += view_.chunk.bytes) {
      const uint64_t slots = target_.pointer(chunk + view_.chunk.slots),
                     count = value<uint64_t>(chunk + view_.chunk.count);
      for (uint64_t i = 0; i < count && n < kMostElements; ++i, ++n) {
        const uint64_t object = slots + i * view_.chunk.slot_bytes;
        if (!free.contains(object) && value<uint8_t>(object + view_.request.complete) == 0) add_send(object);
      }
    }
  }
  void add_send(uint64_t object) {
    const auto& at = view_.send;
    Operation& made = add(mqs_pending_sends, value<uint64_t>(object + at.context));
    mqs_pending_operation& shown = made.shown;
    shown.desired_global_rank = world_rank(value<uint32_t>(object + at.peer));
    shown.desired_tag = value<int32_t>(object + at.tag);
    const uint64_t type = target_.pointer(object + at.type);
    const int64_t each = type == 0 ? 0 : value<int64_t>(type + at.type_bytes);
    shown.desired_length = mqs_tword_t(value<int64_t>(object + at.count) * each);
    shown.buffer = target_.pointer(object + at.buffer);
    shown.actual_global_rank = shown.desired_global_rank;
    shown.actual_tag = shown.desired_tag;
    shown.actual_length = shown.desired_length;
    const uint8_t waits = value<uint8_t>(object + at.waits);
    shown.status = (waits & at.moving) != 0 ? mqs_st_matched : mqs_st_pending;
    if ((waits & at.answer) != 0) say(made, "MPI_Cancel has asked its receiver");
    else if ((waits & at.moving) != 0) say(made, "its data is on its way");
    else if ((waits & at.for_receiver) != 0) say(made, "its receiver has not taken it");
    else say(made, "waits for room on the way");
  }

  void add_message(uint64_t object) {
    const auto& at = view_.message;
    Operation& made = add(mqs_unexpected_messages, value<uint64_t>(object + at.context));
    mqs_pending_operation& shown = made.shown;
    shown.status = mqs_st_matched;  // debuggers show what is actual then
    shown.actual_local_rank = shown.desired_local_rank = value<int32_t>(object + at.source);
    shown.actual_tag = shown.desired_tag = value<int32_t>(object + at.tag);
    shown.actual_length = shown.desired_length = mqs_tword_t(value<uint64_t>(object + at.bytes));
    shown.system_buffer = 1;
    const uint8_t kind = value<uint8_t>(object + at.kind);
    if (std::find(std::begin(at.kept), std::end(at.kept), kind) == std::end(at.kept)) {
      return say(made, "announced: its data is with its sender");
    }
    const uint64_t block = target_.pointer(object + at.block);
    shown.buffer = block != 0 ? block : object + at.inline_data;
  }

  // One side is known: the rank in the communicator or the one in MPI_COMM_WORLD.
  void name_ranks(Operation& operation) const {
    const Communicator* found = find(operation.context);
    if (!found) return;
    const std::vector<int>& peers = found->peers;
    mqs_pending_operation& shown = operation.shown;
    const auto global_of = [&](mqs_tword_t local) {
      return local >= 0 && size_t(local) < peers.size() ? mqs_tword_t(peers[size_t(local)]) : mqs_tword_t(kMqsAny);
    };
    if (operation.queue == mqs_pending_sends) {
      const auto place = std::find(peers.begin(), peers.end(), int(shown.desired_global_rank));
      shown.desired_local_rank = place == peers.end() ? mqs_tword_t(kMqsAny) : place - peers.begin();
      shown.actual_local_rank = shown.desired_local_rank;
    } else {
      shown.desired_global_rank = global_of(shown.desired_local_rank);
      shown.actual_global_rank = global_of(shown.actual_local_rank);
    }
  }

  const Target& target_;
  const DebugView& view_;
  Snapshot seen_;
};

}  // namespace

bool Target::read(uint64_t address, void* to, size_t bytes) const {
  return bytes == 0 || calls_.mqs_fetch_data_fp(process_, mqs_taddr_t(address), int(bytes), to) == mqs_ok;
}

std::string Target::text(uint64_t address, size_t most) const {
  std::string read_so_far;
  while (address != 0 && read_so_far.size() < most) {
    const char next = value<char>(address + read_so_far.size());
    if (next == '\0') break;
    read_so_far += next;
  }
  return read_so_far;
}

const char* read_view(const Target& target, uint64_t address, DebugView& view) {
  if (!target.read(address, &view, sizeof view)) return "the memory of the rank cannot be read";
  if (std::memcmp(view.magic, DebugView::kMagic, sizeof view.magic) != 0)
    return "MPI is not initialised in this process, or is finalized";
  if (view.bytes != sizeof view) return "the rank's MPI library and libtern_dbg.so are of different releases";
  return nullptr;
}

Snapshot take_snapshot(const Target& target, const DebugView& view) { return Reader(target, view).read(); }

}  // namespace tern::debugger
