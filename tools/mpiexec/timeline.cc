#include "timeline.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "base/recorder.h"
#include "p2p/protocols/protocol.h"

namespace tern::mpiexec {
namespace {

using record::Event;
using record::EventKind;

struct Named {
  std::string_view name;
  CallKind kind;
};

// Without MPI_; sorted by use, not by name: each function is looked up once.
constexpr Named kKinds[] = {
    {"Send", CallKind::send},
    {"Ssend", CallKind::sync_send},
    {"Rsend", CallKind::send},
    {"Bsend", CallKind::send},
    {"Sendrecv", CallKind::receive},
    {"Sendrecv_replace", CallKind::receive},
    {"Recv", CallKind::receive},
    {"Mrecv", CallKind::receive},
    {"Probe", CallKind::receive},
    {"Mprobe", CallKind::receive},
    {"Wait", CallKind::wait},
    {"Waitall", CallKind::wait},
    {"Waitany", CallKind::wait},
    {"Waitsome", CallKind::wait},
    {"Test", CallKind::test},
    {"Testall", CallKind::test},
    {"Testany", CallKind::test},
    {"Testsome", CallKind::test},
    {"Iprobe", CallKind::test},
    {"Improbe", CallKind::test},
    {"Request_get_status", CallKind::test},
    {"Win_test", CallKind::test},
    {"Barrier", CallKind::together},
    {"Allreduce", CallKind::together},
    {"Allgather", CallKind::together},
    {"Allgatherv", CallKind::together},
    {"Alltoall", CallKind::together},
    {"Alltoallv", CallKind::together},
    {"Alltoallw", CallKind::together},
    {"Reduce_scatter", CallKind::together},
    {"Reduce_scatter_block", CallKind::together},
    {"Win_fence", CallKind::together},
    {"Bcast", CallKind::from_root},
    {"Scatter", CallKind::from_root},
    {"Scatterv", CallKind::from_root},
    {"Reduce", CallKind::to_root},
    {"Gather", CallKind::to_root},
    {"Gatherv", CallKind::to_root},
    {"Scan", CallKind::collective},
    {"Exscan", CallKind::collective},
    {"Neighbor_allgather", CallKind::collective},
    {"Neighbor_allgatherv", CallKind::collective},
    {"Neighbor_alltoall", CallKind::collective},
    {"Neighbor_alltoallv", CallKind::collective},
    {"Neighbor_alltoallw", CallKind::collective},
    {"Ibarrier", CallKind::collective},
    {"Ibcast", CallKind::collective},
    {"Iallreduce", CallKind::collective},
    {"Ireduce", CallKind::collective},
    {"Igather", CallKind::collective},
    {"Igatherv", CallKind::collective},
    {"Iscatter", CallKind::collective},
    {"Iscatterv", CallKind::collective},
    {"Iallgather", CallKind::collective},
    {"Iallgatherv", CallKind::collective},
    {"Ialltoall", CallKind::collective},
    {"Ialltoallv", CallKind::collective},
    {"Ialltoallw", CallKind::collective},
    {"Ireduce_scatter", CallKind::collective},
    {"Ireduce_scatter_block", CallKind::collective},
    {"Iscan", CallKind::collective},
    {"Iexscan", CallKind::collective},
    {"Ineighbor_allgather", CallKind::collective},
    {"Ineighbor_allgatherv", CallKind::collective},
    {"Ineighbor_alltoall", CallKind::collective},
    {"Ineighbor_alltoallv", CallKind::collective},
    {"Ineighbor_alltoallw", CallKind::collective},
    {"Win_lock", CallKind::window_sync},
    {"Win_lock_all", CallKind::window_sync},
    {"Win_unlock", CallKind::window_sync},
    {"Win_unlock_all", CallKind::window_sync},
    {"Win_flush", CallKind::window_sync},
    {"Win_flush_all", CallKind::window_sync},
    {"Win_flush_local", CallKind::window_sync},
    {"Win_flush_local_all", CallKind::window_sync},
    {"Win_start", CallKind::window_sync},
    {"Win_complete", CallKind::window_sync},
    {"Win_post", CallKind::window_sync},
    {"Win_wait", CallKind::window_sync},
    {"Comm_dup", CallKind::making},
    {"Comm_dup_with_info", CallKind::making},
    {"Comm_split", CallKind::making},
    {"Comm_split_type", CallKind::making},
    {"Comm_create", CallKind::making},
    {"Comm_create_group", CallKind::making},
    {"Cart_create", CallKind::making},
    {"Graph_create", CallKind::making},
    {"Dist_graph_create", CallKind::making},
    {"Dist_graph_create_adjacent", CallKind::making},
    {"Intercomm_create", CallKind::making},
    {"Intercomm_merge", CallKind::making},
    {"Win_create", CallKind::making},
    {"Win_allocate", CallKind::making},
    {"Win_allocate_shared", CallKind::making},
    {"Win_create_dynamic", CallKind::making},
    {"Win_free", CallKind::making},
    {"Comm_free", CallKind::making},
    {"File_open", CallKind::making},
    {"File_close", CallKind::making},
    {"Type_commit", CallKind::making},
    {"Init", CallKind::start_end},
    {"Init_thread", CallKind::start_end},
    {"Finalize", CallKind::start_end},
};

constexpr uint8_t kManyThreads = 0xff;  // no thread has that number
static_assert(kManyThreads >= record::kMaxThreads);
constexpr uint64_t kEndOfAll = ~uint64_t{0};  // context of MPI_Finalize, which is on no communicator

bool is_collective(CallKind kind) {
  switch (kind) {
    case CallKind::together:
    case CallKind::from_root:
    case CallKind::to_root:
    case CallKind::collective:
    case CallKind::file_together: return true;
    default: return false;
  }
}

uint64_t share(const Event& event) {
  return uint64_t(double(event.duration_ns) * double(event.wait_share) / double(record::kWholeShare));
}

}  // namespace

CallKind kind_of(const std::string& function) {
  std::string_view name = function;
  if (name.starts_with("PMPI_")) name.remove_prefix(1);
  if (!name.starts_with("MPI_")) return CallKind::other;
  name.remove_prefix(4);
  for (const Named& each : kKinds) {
    if (each.name == name) return each.kind;
  }
  if (name.starts_with("File_")) {
    const bool accesses = name.find("read") != name.npos || name.find("write") != name.npos;
    if (!accesses) return CallKind::other;
    return name.find("_all") != name.npos || name.find("_ordered") != name.npos ? CallKind::file_together
                                                                                : CallKind::file;
  }
  return CallKind::other;
}

Timeline::Timeline(const Records& records, uint64_t ended_ns) : records_(records), ended_ns_(ended_ns) {
  read_lanes();
  name_sites();
  list_messages();
  list_receivers();
  note_waits();
  pair_collectives();
}

uint64_t Timeline::at(uint32_t record, uint64_t time_ns) const {
  const uint64_t aligned = records_[record]->aligned(time_ns);
  return aligned > begin_ns_ ? aligned - begin_ns_ : 0;
}

const Event* Timeline::event(const TimedLane& lane, const TimedCall& call) const {
  return call.event == TimedCall::kUnfinished ? nullptr : &event(lane.record, call.event);
}

uint64_t Timeline::begin(const TimedLane& lane, const TimedCall& call) const {
  const Event* known = event(lane, call);
  return at(lane.record, known ? known->time_ns : records_[lane.record]->header().current_since_ns);
}

uint64_t Timeline::end(const TimedLane& lane, const TimedCall& call) const {
  if (const Event* known = event(lane, call)) return at(lane.record, known->time_ns + known->duration_ns);
  const Record& record = *records_[lane.record];
  const bool ours = Recorder::clock_domain() == record.clock_domain();
  return at(lane.record, std::max(ours ? ended_ns_ : record.header().last_ns, record.header().current_since_ns));
}

// Events stand in the order of their ends, so an outer call comes behind the calls in it.
void Timeline::read_lanes() {
  begin_ns_ = ~uint64_t{0};
  for (uint32_t r = 0; r < records_.size(); ++r) {
    const Record& record = *records_[r];
    const auto rank = size_t(record.rank());
    if (by_rank_.size() <= rank) by_rank_.resize(rank + 1, -1);
    by_rank_[rank] = int(r);
    std::vector<TimedLane> lanes(std::max(record.threads(), 1u), TimedLane{r, 0, {}, {}});
    for (size_t i = 0; i < lanes.size(); ++i) lanes[i].thread = uint8_t(i);
    std::vector<uint64_t> outer_since(lanes.size(), ~uint64_t{0});
    for (size_t i = record.event_count(); i > 0; --i) {
      const Event& event = record.events()[i - 1];
      begin_ns_ = std::min(begin_ns_, record.aligned(event.time_ns));
      const size_t thread = std::min<size_t>(event.thread, lanes.size() - 1);
      const bool call = event.kind == EventKind::call;
      if (!call && event.kind != EventKind::sleep && event.kind != EventKind::progress) continue;
      if (call && event.time_ns + event.duration_ns <= outer_since[thread]) {
        lanes[thread].calls.push_back({.event = uint32_t(i - 1)});
        outer_since[thread] = event.time_ns;
      } else {
        lanes[thread].inner.push_back(uint32_t(i - 1));
      }
    }
    if (record.unfinished_call()) lanes[0].calls.insert(lanes[0].calls.begin(), {.event = TimedCall::kUnfinished});
    if (record.header().first_ns != 0) begin_ns_ = std::min(begin_ns_, record.aligned(record.header().first_ns));
    first_lane_.push_back(uint32_t(lanes_.size()));
    for (TimedLane& lane : lanes) {
      std::reverse(lane.calls.begin(), lane.calls.end());
      std::reverse(lane.inner.begin(), lane.inner.end());
      if (lane.thread == 0 || !lane.calls.empty() || !lane.inner.empty()) lanes_.push_back(std::move(lane));
    }
    events_ += record.event_count();
  }
  for (const TimedLane& lane : lanes_) {
    if (!lane.calls.empty()) length_ns_ = std::max(length_ns_, end(lane, lane.calls.back()));
  }
}

void Timeline::name_sites() {
  Places places;
  std::map<SourcePlace, uint32_t> known_places;
  std::map<std::string, uint32_t> known_names;
  const auto number = [](auto& known, auto& list, const auto& value) {
    const auto [it, added] = known.try_emplace(value, uint32_t(list.size()));
    if (added) list.push_back(value);
    return it->second;
  };
  for (const auto& record : records_) {
    const record::Header& header = record->header();
    std::vector<uint32_t> texts{number(known_places, texts_, SourcePlace{})};
    for (uint32_t i = 0; i < std::min<size_t>(header.places_used, record::kMaxPlaces); ++i) {
      const record::Place& place = header.places[i];
      const std::string file = record->file_name(place.file);
      texts.push_back(number(known_places, texts_, file.empty() ? SourcePlace{} : places.find(file, place.offset)));
    }
    place_texts_.push_back(std::move(texts));
    std::vector<CallKind> kinds;
    std::vector<uint32_t> names;
    for (size_t i = 0; i <= header.functions; ++i) {
      names.push_back(number(known_names, names_, record->function_name(i)));
      kinds.push_back(kind_of(record->function_name(i)));
    }
    kinds_.push_back(std::move(kinds));
    function_names_.push_back(std::move(names));
  }
  for (const TimedLane& lane : lanes_) {
    for (const TimedCall& call : lane.calls) {
      const Event* known = event(lane, call);
      const auto& texts = place_texts_[lane.record];
      const auto& names = function_names_[lane.record];
      const uint32_t text = known && known->place < texts.size() ? texts[known->place] : texts[0];
      const size_t what = known ? known->what : records_[lane.record]->header().current - 1;
      const uint32_t name = names[std::min(what, names.size() - 1)];
      const auto [it, added] = site_numbers_.try_emplace(uint64_t{text} << 32 | name, uint32_t(sites_.size()));
      if (added) sites_.push_back({texts_[text], names_[name]});
    }
  }
}

uint32_t Timeline::site(const TimedLane& lane, const TimedCall& call) const {
  const Event* known = event(lane, call);
  const auto& texts = place_texts_[lane.record];
  const auto& names = function_names_[lane.record];
  const uint32_t text = known && known->place < texts.size() ? texts[known->place] : texts[0];
  const size_t what = known ? known->what : records_[lane.record]->header().current - 1;
  return site_numbers_.at(uint64_t{text} << 32 | names[std::min(what, names.size() - 1)]);
}

CallKind Timeline::kind(const TimedLane& lane, const TimedCall& call) const {
  const Event* known = event(lane, call);
  const auto& kinds = kinds_[lane.record];
  return known ? kinds[std::min<size_t>(known->what, kinds.size() - 1)] : CallKind::other;
}

void Timeline::list_messages() {
  messages_ = paired_messages(records_);
  received_.resize(records_.size());
  sent_.resize(records_.size());
  for (uint32_t i = 0; i < messages_.size(); ++i) {
    received_[messages_[i].to].push_back(i);
    sent_[messages_[i].from].push_back(i);
  }
  for (auto& list : received_) {
    std::sort(list.begin(), list.end(),
              [&](uint32_t a, uint32_t b) { return done_at(messages_[a]) < done_at(messages_[b]); });
  }
  for (auto& list : sent_) {
    std::sort(list.begin(), list.end(),
              [&](uint32_t a, uint32_t b) { return sent_at(messages_[a]) < sent_at(messages_[b]); });
  }
}

const TimedLane& Timeline::lane_of(uint32_t record, uint8_t thread) const {
  for (uint32_t l = first_lane_[record]; l < lanes_.size() && lanes_[l].record == record; ++l) {
    if (lanes_[l].thread == thread) return lanes_[l];
  }
  return main_lane(record);
}

const TimedCall* Timeline::call_at(uint32_t record, uint8_t thread, uint64_t time) const {
  const TimedLane& lane = lane_of(record, thread);
  if (lane.thread != thread) return nullptr;
  const auto after = std::upper_bound(lane.calls.begin(), lane.calls.end(), time,
                                      [&](uint64_t at, const TimedCall& call) { return at < begin(lane, call); });
  if (after == lane.calls.begin()) return nullptr;
  const TimedCall& found = *(after - 1);
  return end(lane, found) >= time ? &found : nullptr;
}

// A thread that waits receives for all threads of its rank. Whom a message is for is known where one thread alone
// receives in that communicator, or with that tag.
void Timeline::list_receivers() {
  receivers_.resize(records_.size());
  const auto note = [](auto& known, const auto& key, uint8_t thread) {
    const auto [it, added] = known.try_emplace(key, thread);
    if (!added && it->second != thread) it->second = kManyThreads;
  };
  for (const TimedLane& lane : lanes_) {
    if (records_[lane.record]->threads() < 2) continue;
    for (const TimedCall& call : lane.calls) {
      const Event* known = event(lane, call);
      constexpr uint16_t kReceives = record::kComm | record::kSource;
      if (!known || (known->given & kReceives) != kReceives) continue;
      Receivers& mine = receivers_[lane.record];
      note(mine.by_context, known->context >> 2, lane.thread);
      note(mine.by_tag, std::pair(known->context >> 2, known->tag), lane.thread);
    }
  }
}

uint8_t Timeline::receiver(const Message& m) const {
  const Event& received = event(m.to, m.receive);
  const Receivers& known = receivers_[m.to];
  if (const auto found = known.by_context.find(received.context >> 2); found != known.by_context.end()) {
    if (found->second != kManyThreads) return found->second;
    const auto tagged = known.by_tag.find({received.context >> 2, received.tag});
    if (tagged != known.by_tag.end() && tagged->second != kManyThreads) return tagged->second;
  }
  return received.thread;
}

void Timeline::note_message_waits(TimedLane& lane, TimedCall& call) {
  const uint64_t from = begin(lane, call), to = end(lane, call);
  const bool threaded = records_[lane.record]->threads() > 1;
  uint64_t until = from;
  const auto& received = received_[lane.record];
  auto first = std::lower_bound(received.begin(), received.end(), from,
                                [&](uint32_t m, uint64_t time) { return done_at(messages_[m]) < time; });
  for (; first != received.end() && done_at(messages_[*first]) <= to; ++first) {
    const Message& m = messages_[*first];
    const uint64_t left = sent_at(m);
    if (left <= until || (threaded && receiver(m) != lane.thread)) continue;
    until = left;
    call.cause = Cause::late_sender;
    call.culprit = records_[m.from]->rank();
    call.culprit_thread = event(m.from, m.send).thread;
  }
  // Announced, and not fetched before the receive was there. Sends of long ago have ended long ago.
  const auto& sent = sent_[lane.record];
  auto last = std::upper_bound(sent.begin(), sent.end(), to,
                               [&](uint64_t time, uint32_t m) { return time < sent_at(messages_[m]); });
  constexpr int kLooks = 256;  // requests that one call waits for, at most
  const CallKind what = kind(lane, call);
  const bool synchronous = what == CallKind::sync_send, sends = synchronous || what == CallKind::send;
  for (int looks = 0; last != sent.begin() && looks < kLooks; ++looks) {
    const Message& m = messages_[*--last];
    if (!synchronous && event(m.from, m.send).what == uint16_t(Protocol::eager)) continue;
    if (sends && event(m.from, m.send).thread != lane.thread) continue;
    // When the receiver came to the library, which has the match in it. What is between is the way of the message.
    const TimedCall* there = call_at(m.to, event(m.to, m.receive).thread, matched_at(m));
    if (!there) continue;
    const uint64_t came = begin(main_lane(m.to), *there);
    if (came <= until || came > to || came <= sent_at(m)) continue;
    until = came;
    call.cause = Cause::late_receiver;
    call.culprit = records_[m.to]->rank();
    call.culprit_thread = event(m.to, m.receive).thread;
  }
  call.waited_ns = std::min(until, to) - from;
}

void Timeline::note_waits() {
  constexpr uint64_t kWorthALook_ns = 500;  // shorter ones have not waited
  for (TimedLane& lane : lanes_) {
    for (TimedCall& call : lane.calls) {
      const Event* known = event(lane, call);
      if (!known || known->duration_ns < kWorthALook_ns) continue;
      switch (kind(lane, call)) {
        case CallKind::send:
        case CallKind::sync_send:
        case CallKind::receive:
        case CallKind::wait: note_message_waits(lane, call); break;
        case CallKind::window_sync:
          call.cause = Cause::window;
          call.waited_ns = share(*known);
          call.culprit = known->given & record::kTarget ? int32_t(known->peer) : -1;
          break;
        case CallKind::file:
          call.cause = Cause::file;
          call.waited_ns = known->duration_ns;
          break;
        default: break;
      }
    }
  }
}

void Timeline::pair_collectives() {
  std::map<uint64_t, std::vector<std::vector<Member>>> by_context;  // then by lane's record, in the order of time
  for (uint32_t l = 0; l < lanes_.size(); ++l) {
    for (uint32_t c = 0; c < lanes_[l].calls.size(); ++c) {
      const TimedCall& call = lanes_[l].calls[c];
      const Event* known = event(lanes_[l], call);
      if (!known) continue;
      const bool finalize = function(lanes_[l].record, known->what) == "MPI_Finalize";
      if (!finalize && (!is_collective(kind(lanes_[l], call)) || !(known->given & record::kComm))) continue;
      auto& lists = by_context[finalize ? kEndOfAll : known->context >> 2];
      if (lists.size() < records_.size()) lists.resize(records_.size());
      lists[lanes_[l].record].push_back({l, c});
    }
  }
  for (auto& [context, lists] : by_context) {
    for (auto& list : lists) {  // threads take turns
      std::sort(list.begin(), list.end(), [&](const Member& a, const Member& b) {
        return begin(lanes_[a.lane], lanes_[a.lane].calls[a.call]) <
               begin(lanes_[b.lane], lanes_[b.lane].calls[b.call]);
      });
    }
    for (size_t n = 0;; ++n) {
      Together members;
      std::string name;
      bool same = true;
      for (const auto& list : lists) {
        if (n >= list.size()) continue;
        const TimedLane& lane = lanes_[list[n].lane];
        const std::string& mine = function(lane.record, event(lane, lane.calls[list[n].call])->what);
        if (members.empty()) name = mine;
        same = same && name == mine;
        members.push_back(list[n]);
      }
      if (members.size() < 2 || !same) break;  // the end, or a record has lost events
      note_collective_waits(members);
      together_.push_back(std::move(members));
    }
  }
}

void Timeline::note_collective_waits(const Together& members) {
  struct Arrival {
    uint64_t at;
    Member who;
  };
  std::vector<Arrival> order;
  for (const Member& m : members) order.push_back({begin(lanes_[m.lane], lanes_[m.lane].calls[m.call]), m});
  std::stable_sort(order.begin(), order.end(), [](const Arrival& a, const Arrival& b) { return a.at < b.at; });
  // So few may be missing for that to be their being late, and not how work is spread over all.
  const size_t few = std::max<size_t>(1, members.size() / 16);
  const uint64_t last = order.back().at, few_missing = order[order.size() - 1 - std::min(few, order.size() - 1)].at;
  const auto rank_of = [&](const Member& m) { return records_[lanes_[m.lane].record]->rank(); };
  const TimedLane& first_lane = lanes_[members[0].lane];
  const TimedCall& first_call = first_lane.calls[members[0].call];
  const CallKind what = kind(first_lane, first_call);
  // Members stand in the order of their ranks in MPI_COMM_WORLD. Of most communicators that is the order of its own.
  const Event& described = *event(first_lane, first_call);
  const Member* root = described.given & record::kRoot && size_t(described.source) < members.size()
                           ? &members[size_t(described.source)]
                           : nullptr;
  const Arrival* root_arrival = nullptr;
  for (const Arrival& each : order) {
    if (root && each.who.lane == root->lane && each.who.call == root->call) root_arrival = &each;
  }
  for (const Arrival& each : order) {
    TimedCall& call = lanes_[each.who.lane].calls[each.who.call];
    const uint64_t leaves = end(lanes_[each.who.lane], call);
    const auto wait_until = [&](uint64_t uneven_until, uint64_t until, const Arrival& culprit) {
      uneven_until = std::min(uneven_until, leaves), until = std::min(until, leaves);
      call.uneven_ns = uneven_until > each.at ? uneven_until - each.at : 0;
      const uint64_t since = each.at + call.uneven_ns;
      call.waited_ns = until > since ? until - since : 0;
      call.cause = call.waited_ns != 0 ? Cause::late_rank : call.uneven_ns != 0 ? Cause::imbalance : Cause::none;
      call.culprit = call.waited_ns != 0 ? rank_of(culprit.who) : -1;
      call.culprit_thread = lanes_[culprit.who.lane].thread;
    };
    const bool rooted = what == CallKind::from_root || (what == CallKind::to_root && !(root_arrival == &each));
    if (what == CallKind::collective || what == CallKind::file_together) {
      if (what == CallKind::file_together) wait_until(few_missing, last, order.back());
    } else if (!rooted || !root_arrival) {
      if (what == CallKind::from_root) continue;
      wait_until(few_missing, last, order.back());
    } else {
      wait_until(each.at, root_arrival->at, *root_arrival);
    }
  }
}

}  // namespace tern::mpiexec
