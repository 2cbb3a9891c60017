#include "page_data.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>

#include "page_parts.h"

namespace tern::mpiexec {
namespace {

using record::Event;
using record::EventKind;

// --- Levels.

/// Cells of the finest level, over all lanes: with kCauses bytes each, mostly zero.
constexpr uint64_t kMostCells = 8 << 20;
/// So many events are read at once by a page that shows one part of the finest level.
constexpr uint64_t kEventsOnScreen = 200'000;
constexpr uint32_t kFiner = 8;

uint32_t finest_bins(const Timeline& timeline) {
  const uint64_t lanes = std::max<uint64_t>(timeline.lanes().size(), 1);
  uint64_t bins = kPartBins;
  while (bins * kFiner * lanes <= kMostCells && timeline.events() / (bins / kPartBins) > kEventsOnScreen)
    bins *= kFiner;
  return uint32_t(bins);
}

/// One lane, in bins: nanoseconds of each cause.
class Bins {
 public:
  Bins(uint32_t count, uint64_t length_ns)
      : width_ns_(std::max(1.0, double(length_ns) / count)), sums_(size_t{count} * kCauses), count_(count) {}
  void clear() { std::fill(sums_.begin(), sums_.end(), 0.0f); }
  void add(Cause cause, uint64_t begin_ns, uint64_t end_ns) {
    const double begin = double(begin_ns) / width_ns_, end = double(end_ns) / width_ns_;
    if (end_ns <= begin_ns || begin >= count_) return;
    for (auto bin = uint32_t(begin); bin < count_ && double(bin) < end; ++bin) {
      sums_[size_t{bin} * kCauses + size_t(cause)] += float(std::min(end, bin + 1.0) - std::max(begin, double(bin)));
    }
  }
  /// Of `wide` bins from that one on, as 0..255.
  uint8_t share(Cause cause, uint32_t bin, uint32_t wide) const {
    float sum = 0;
    for (uint32_t i = bin; i < bin + wide; ++i) sum += sums_[size_t{i} * kCauses + size_t(cause)];
    const float whole = sum / float(wide) * 255.0f;
    return whole > 0 ? uint8_t(std::clamp(whole, 1.0f, 255.0f)) : 0;  // what is there at all is seen
  }

 private:
  double width_ns_;
  std::vector<float> sums_;  ///< by bin, then cause; in widths of a bin
  uint32_t count_;
};

void add_calls(const Timeline& timeline, const TimedLane& lane, Bins& bins) {
  for (const TimedCall& call : lane.calls) {
    const uint64_t begin = timeline.begin(lane, call), end = timeline.end(lane, call);
    const uint64_t uneven = begin + call.uneven_ns, waited = uneven + call.waited_ns;
    bins.add(Cause::imbalance, begin, uneven);
    bins.add(call.cause, uneven, waited);
    bins.add(Cause::none, waited, end);
  }
}

// --- Chunks.

/// Calls, sleeps and so on are bars of a lane.
struct Span {
  uint64_t begin_ns, end_ns;
  const TimedCall* call;  ///< null: not an outermost call
  const Event* event;     ///< null: the call is unfinished
};

std::vector<Span> spans_of(const Timeline& timeline, const TimedLane& lane) {
  std::vector<Span> spans;
  spans.reserve(lane.calls.size() + lane.inner.size());
  for (const TimedCall& call : lane.calls)
    spans.push_back({timeline.begin(lane, call), timeline.end(lane, call), &call, timeline.event(lane, call)});
  for (const uint32_t inner : lane.inner) {
    const Event& event = timeline.event(lane.record, inner);
    spans.push_back({timeline.begin(lane.record, event), timeline.at(lane.record, event.time_ns + event.duration_ns),
                     nullptr, &event});
  }
  std::stable_sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.begin_ns < b.begin_ns; });
  return spans;
}

enum class SpanKind : uint8_t { call, asleep, progress, inner_call, unfinished };

/// All that calls of one place have in common, mostly.
struct Shape {
  SpanKind kind;
  uint32_t site;
  uint16_t given, algorithm;
  uint32_t context;
  int32_t peer, source, tag;
  uint64_t count, bytes;
  auto operator<=>(const Shape&) const = default;
};

class Chunk {
 public:
  Chunk(const Timeline& timeline, PageContexts& contexts, uint64_t begin_ns)
      : timeline_(timeline), contexts_(contexts), begin_ns_(begin_ns) {}

  void begin_lane() { lane_begin_ns_ = begin_ns_, in_lane_ = 0; }
  void end_lane() { columns_[kLanes].add(in_lane_); }
  void add(const TimedLane& lane, const Span& span) {
    ++in_lane_;
    ++spans_;
    columns_[kBegins].add_signed(int64_t(span.begin_ns - lane_begin_ns_));
    lane_begin_ns_ = span.begin_ns;
    columns_[kDurations].add(span.end_ns - span.begin_ns);
    columns_[kShapes].add(shape_of(lane, span));
    static constexpr TimedCall kNothing{.event = 0};
    const TimedCall& call = span.call ? *span.call : kNothing;
    columns_[kUneven].add(call.uneven_ns);
    columns_[kWaited].add(call.waited_ns);
    columns_[kCausesOf].add(uint64_t(call.cause));
    columns_[kCulprits].add(uint64_t(call.culprit + 1));
    columns_[kRequests].add(span.event && span.event->given & record::kRequest ? span.event->request : 0);
  }
  void add(const Message& m) {
    ++messages_;
    const Event &sent = timeline_.event(m.from, m.send), &received = timeline_.event(m.to, m.receive);
    const uint64_t at = timeline_.sent_at(m), matched = timeline_.matched_at(m);
    columns_[kMessages + 0].add(m.from);
    columns_[kMessages + 1].add(m.to);
    columns_[kMessages + 2].add_signed(int64_t(at - message_ns_));
    message_ns_ = at;
    columns_[kMessages + 3].add_signed(int64_t(matched - at));
    columns_[kMessages + 4].add(received.duration_ns);
    columns_[kMessages + 5].add(sent.bytes);
    columns_[kMessages + 6].add_signed(sent.tag);
    columns_[kMessages + 7].add(uint64_t{sent.request} << 5 | uint64_t{sent.what} << 1 | (received.what != 0));
    columns_[kMessages + 8].add(contexts_.number(sent.context));
  }

  PageChunk finish(uint64_t end_ns) {
    std::vector<Column> all(columns_.begin(), columns_.end());
    Column shapes;
    for (const Shape& s : order_) {
      for (const uint64_t value :
           {uint64_t(s.kind), uint64_t{s.site}, uint64_t{s.given}, uint64_t{s.algorithm}, uint64_t{s.context}})
        shapes.add(value);
      for (const int32_t value : {s.peer, s.source, s.tag}) shapes.add_signed(value);
      shapes.add(s.count);
      shapes.add(s.bytes);
    }
    all.push_back(std::move(shapes));
    return {begin_ns_, end_ns, spans_, messages_, packed(join(all))};
  }
  uint64_t messages() const { return messages_; }
  void begin_messages() { message_ns_ = begin_ns_; }

 private:
  enum { kLanes, kBegins, kDurations, kShapes, kUneven, kWaited, kCausesOf, kCulprits, kRequests, kMessages };
  static constexpr size_t kColumns = size_t(kMessages) + 9;  ///< nine of messages

  uint32_t shape_of(const TimedLane& lane, const Span& span) {
    Shape shape{};
    if (!span.event) {
      shape.kind = SpanKind::unfinished;
      shape.site = timeline_.site(lane, *span.call);
    } else if (span.event->kind == EventKind::call) {
      const Event& e = *span.event;
      const bool outer = span.call != nullptr;
      shape = {.kind = outer ? SpanKind::call : SpanKind::inner_call,
               .site = outer ? timeline_.site(lane, *span.call) : e.what,
               .given = e.given,
               .algorithm = e.algorithm,
               .context = e.given & record::kComm ? contexts_.number(e.context) : 0,
               .peer = e.given & (record::kDest | record::kTarget) ? int32_t(e.peer) : 0,
               .source = e.given & (record::kSource | record::kRoot) ? e.source : 0,
               .tag = e.given & record::kTag ? e.tag : 0,
               .count = e.given & record::kCount ? e.count : 0,
               .bytes = e.given & record::kBytes ? e.bytes : 0};
    } else {
      shape.kind = span.event->kind == EventKind::sleep ? SpanKind::asleep : SpanKind::progress;
    }
    const auto [it, added] = shapes_.try_emplace(shape, uint32_t(order_.size()));
    if (added) order_.push_back(shape);
    return it->second;
  }

  const Timeline& timeline_;
  PageContexts& contexts_;
  uint64_t begin_ns_, lane_begin_ns_ = 0, message_ns_ = 0;
  uint64_t in_lane_ = 0, spans_ = 0, messages_ = 0;
  std::array<Column, kColumns> columns_;
  std::map<Shape, uint32_t> shapes_;
  std::vector<Shape> order_;
};

/// Ends of the chunks: about kChunkEvents in each, at the same times for all lanes.
std::vector<uint64_t> chunk_ends(const Timeline& timeline, const std::vector<std::vector<Span>>& spans) {
  // Read in some 10 ms, of some 300 KB; a screen shows a few. Their ends lie on one of so many steps of the time: many
  // for each chunk also of 10^8 events.
  constexpr uint64_t kChunkEvents = 64 << 10;
  constexpr size_t kSteps = 1 << 16;
  const double step_ns = std::max(1.0, double(timeline.length_ns()) / kSteps);
  std::vector<uint64_t> counts(kSteps + 1);
  const auto count_at = [&](uint64_t time_ns) {
    ++counts[size_t(std::min(double(kSteps), double(time_ns) / step_ns))];
  };
  for (const auto& lane : spans) {
    for (const Span& span : lane) count_at(span.begin_ns);
  }
  for (const Message& m : timeline.messages()) count_at(timeline.sent_at(m));
  std::vector<uint64_t> ends;
  uint64_t sum = 0;
  for (size_t i = 0; i < kSteps; ++i) {
    sum += counts[i];
    if (sum < kChunkEvents) continue;
    ends.push_back(uint64_t(std::ceil(double(i + 1) * step_ns)));
    sum = 0;
  }
  const uint64_t last = timeline.length_ns() + 1;
  if (ends.empty() || ends.back() < last) ends.push_back(last);
  return ends;
}

}  // namespace

std::vector<PageLevel> make_levels(const Timeline& timeline) {
  const uint32_t finest = finest_bins(timeline);
  const size_t lanes = timeline.lanes().size();
  std::vector<PageLevel> levels;
  for (uint32_t bins = kPartBins; bins <= finest; bins *= kFiner) {
    levels.push_back({bins, {}});
    // By part, cause, lane, bin.
    levels.back().parts.resize(bins / kPartBins, std::string(kCauses * lanes * kPartBins, '\0'));
  }
  Bins bins(finest, timeline.length_ns());
  for (size_t l = 0; l < lanes; ++l) {
    bins.clear();
    add_calls(timeline, timeline.lanes()[l], bins);
    for (PageLevel& level : levels) {
      const uint32_t wide = finest / level.bins;
      for (uint32_t bin = 0; bin < level.bins; ++bin) {
        std::string& part = level.parts[bin / kPartBins];
        for (size_t cause = 0; cause < kCauses; ++cause) {
          part[(cause * lanes + l) * kPartBins + bin % kPartBins] = char(bins.share(Cause(cause), bin * wide, wide));
        }
      }
    }
  }
  for (PageLevel& level : levels) {
    for (std::string& part : level.parts) part = packed(part);
  }
  return levels;
}

uint32_t PageContexts::number(uint64_t context) {
  const auto [it, added] = numbers.try_emplace(context >> 2, uint32_t(known.size()));
  if (added) known.push_back(context >> 2);
  return it->second;
}

void make_chunks(const Timeline& timeline, PageContexts& contexts, const std::function<void(PageChunk)>& take) {
  const auto& lanes = timeline.lanes();
  std::vector<std::vector<Span>> spans;
  for (const TimedLane& lane : lanes) spans.push_back(spans_of(timeline, lane));
  std::vector<uint32_t> by_time(timeline.messages().size());
  for (uint32_t i = 0; i < by_time.size(); ++i) by_time[i] = i;
  const auto& messages = timeline.messages();
  std::sort(by_time.begin(), by_time.end(),
            [&](uint32_t a, uint32_t b) { return timeline.sent_at(messages[a]) < timeline.sent_at(messages[b]); });
  std::vector<size_t> next(lanes.size());
  std::vector<std::vector<Span>> open(lanes.size());  // reach over the begin of the chunk
  std::multimap<uint64_t, uint32_t> on_the_way;       // messages by the time they are there
  size_t next_message = 0;
  uint64_t begin = 0;
  for (const uint64_t end : chunk_ends(timeline, spans)) {
    Chunk chunk(timeline, contexts, begin);
    for (size_t l = 0; l < lanes.size(); ++l) {
      chunk.begin_lane();
      std::vector<Span> reach;
      const auto add = [&](const Span& span) {
        chunk.add(lanes[l], span);
        if (span.end_ns > end) reach.push_back(span);
      };
      for (const Span& span : open[l]) add(span);
      for (; next[l] < spans[l].size() && spans[l][next[l]].begin_ns < end; ++next[l]) add(spans[l][next[l]]);
      open[l] = std::move(reach);
      chunk.end_lane();
    }
    chunk.begin_messages();
    // In the chunk in which they leave, and in that in which they arrive.
    for (; !on_the_way.empty() && on_the_way.begin()->first < end; on_the_way.erase(on_the_way.begin()))
      chunk.add(messages[on_the_way.begin()->second]);
    for (; next_message < by_time.size() && timeline.sent_at(messages[by_time[next_message]]) < end; ++next_message) {
      const Message& m = messages[by_time[next_message]];
      chunk.add(m);
      if (const uint64_t done = timeline.done_at(m); done >= end) on_the_way.emplace(done, by_time[next_message]);
    }
    take(chunk.finish(end));
    begin = end;
  }
}

}  // namespace tern::mpiexec
