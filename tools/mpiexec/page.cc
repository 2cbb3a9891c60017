#include "page.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "base/owned_file.h"
#include "p2p/protocols/protocol.h"
#include "page_assets.h"
#include "page_data.h"
#include "page_parts.h"

namespace tern::mpiexec {
namespace {

using record::Event;

/// JSON, piece by piece: commas are put where they belong.
class Json {
 public:
  Json& key(std::string_view name) {
    separate();
    fmt::format_to(std::back_inserter(text_), "\"{}\":", name);
    fresh_ = true;
    return *this;
  }
  template <typename Number>
  Json& number(Number value) {
    separate();
    fmt::format_to(std::back_inserter(text_), "{}", value);
    return *this;
  }
  Json& text(std::string_view value) {
    separate();
    fmt::format_to(std::back_inserter(text_), "\"{}\"", json_text(value));
    return *this;
  }
  Json& open(char bracket) {
    separate();
    text_ += bracket;
    fresh_ = true;
    return *this;
  }
  Json& close(char bracket) {
    text_ += bracket;
    fresh_ = false;
    return *this;
  }
  const std::string& whole() const { return text_; }

 private:
  void separate() {
    if (!fresh_) text_ += ',';
    fresh_ = false;
  }
  std::string text_;
  bool fresh_ = true;
};

uint64_t counted_in(const CounterRow& row, const Counters& counters) {
  uint64_t total = 0;
  for (uint32_t i = 0; i < row.elements; ++i) total += row.in(counters)[i];
  return total;
}

void add_ranks(Json& json, const Timeline& timeline, const Explanation& explanation) {
  json.key("ranks").open('[');
  auto cost = explanation.ranks.begin();
  for (const auto& record : timeline.records()) {
    const record::Header& header = record->header();
    json.open('{').key("rank").number(record->rank()).key("host").text(record->host());
    json.key("process").number(header.process).key("lost").number(header.events_lost);
    json.key("memory").number(header.resident_peak_bytes);
    json.key("unexpected").number(header.counters.unexpected_bytes_peak);
    json.key("ns").number(cost->total_ns).key("causes").open('[');
    for (const uint64_t ns : cost->by_cause) json.number(ns);
    ++cost;
    json.close(']').close('}');
  }
  json.close(']').key("lanes").open('[');
  for (const TimedLane& lane : timeline.lanes()) {
    const bool helper = lane.thread + 1u == timeline.records()[lane.record]->header().event_thread;
    json.open('[')
        .number(lane.record)
        .text(helper             ? "event thread"
              : lane.thread == 0 ? ""
                                 : fmt::format("thread {}", lane.thread));
    json.close(']');
  }
  json.close(']');
}

void add_names(Json& json, const Timeline& timeline, const PageContexts& contexts) {
  json.key("sites").open('[');
  for (const Site& site : timeline.sites()) {
    json.open('[').text(site.function).text(site.place.function).text(site.place.file).number(site.place.line);
    json.text(site.place.fallback).close(']');
  }
  json.close(']').key("functions").open('[');
  if (!timeline.records().empty()) {
    const Record& first = *timeline.records().front();
    for (uint32_t i = 0; i < first.header().functions; ++i) json.text(first.function_name(i));
  }
  json.close(']').key("causes").open('[');
  for (const char* name : kCauseNames) json.text(name);
  json.close(']').key("protocols").open('[');
  for (const char* protocol : kProtocolNames) json.text(protocol);
  json.close(']').key("algorithms").open('[');
  if (!timeline.records().empty()) {
    for (uint16_t i = 1; i <= record::kMaxAlgorithms; ++i) {
      const std::string name = timeline.records().front()->algorithm_name(i);
      if (name.empty()) break;
      json.text(name);
    }
  }
  json.close(']').key("contexts").open('[');
  for (const uint64_t id : contexts.known)
    json.text(id == 1 ? "MPI_COMM_WORLD" : id == 2 ? "MPI_COMM_SELF" : fmt::format("context {}", id));
  json.close(']');
}

// Who sent how much to whom, by path; and by protocol and size.
void add_traffic(Json& json, const Timeline& timeline) {
  struct Sum {
    uint64_t messages = 0, bytes = 0;
  };
  constexpr size_t kSteps = 240;  // of the job's time, for what each path carried when
  std::map<std::string, uint32_t> paths;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, Sum> cells;
  std::map<std::tuple<uint16_t, uint32_t>, Sum> protocols;
  std::map<uint32_t, std::vector<uint64_t>> over_time;
  for (uint32_t r = 0; r < timeline.records().size(); ++r) {
    const Record& record = *timeline.records()[r];
    for (size_t i = 0; i < record.event_count(); ++i) {
      const Event& e = record.events()[i];
      if (e.kind != record::EventKind::send) continue;
      const uint32_t path = paths.try_emplace(record.path_name(e.request), uint32_t(paths.size())).first->second;
      const int to = timeline.record_of(e.peer);
      for (Sum* sum :
           {&cells[{r, to < 0 ? r : uint32_t(to), path}], &protocols[{e.what, uint32_t(size_class(e.bytes))}]}) {
        ++sum->messages;
        sum->bytes += e.bytes;
      }
      auto& steps = over_time[path];
      steps.resize(kSteps);
      const uint64_t at = timeline.begin(r, e);
      steps[size_t(std::min(kSteps - 1.0, double(at) * kSteps / double(timeline.length_ns() + 1)))] += e.bytes;
    }
  }
  std::vector<std::string> names(paths.size());
  for (const auto& [name, number] : paths) names[number] = name.empty() ? "unknown" : name;
  json.key("paths").open('[');
  for (const std::string& name : names) json.text(name);
  json.close(']').key("matrix").open('[');  // from, to, path, messages, bytes, ...
  for (const auto& [cell, sum] : cells) {
    json.number(std::get<0>(cell)).number(std::get<1>(cell)).number(std::get<2>(cell));
    json.number(sum.messages).number(sum.bytes);
  }
  json.close(']').key("mix").open('[');  // protocol, size class, messages, bytes, ...
  for (const auto& [cell, sum] : protocols) {
    json.number(std::get<0>(cell)).number(std::get<1>(cell)).number(sum.messages).number(sum.bytes);
  }
  json.close(']').key("sizes").open('[');
  for (size_t i = 0; i + 1 < kSizeClasses; ++i) json.number(size_class_limit(i));
  json.close(']').key("flow").open('[');
  for (const auto& [path, steps] : over_time) {
    json.open('[');
    for (const uint64_t bytes : steps) json.number(bytes);
    json.close(']');
  }
  json.close(']');
}

void add_counters(Json& json, const Timeline& timeline) {
  json.key("counters").open('[');
  for (const CounterRow& row : counter_rows()) {
    uint64_t total = 0, most = 0;
    for (const auto& record : timeline.records()) {
      const uint64_t mine = counted_in(row, record->header().counters);
      total += mine;
      most = std::max(most, mine);
    }
    if (total == 0) continue;
    json.open('[')
        .text(row.name)
        .text(row.group)
        .text(row.unit)
        .text(row.meaning)
        .number(total)
        .number(most)
        .close(']');
  }
  json.close(']');
}

void add_explanation(Json& json, const Explanation& all) {
  constexpr size_t kMostPlaces = 200;  // the others take no time
  json.key("all_ns").number(all.all_ns).key("places").open('[');
  for (size_t i = 0; i < std::min(kMostPlaces, all.places.size()); ++i) {
    const PlaceCost& place = all.places[i];
    json.open('{').key("site").number(place.site).key("calls").number(place.calls).key("ns").number(place.total_ns);
    json.key("causes").open('[');
    for (const uint64_t ns : place.by_cause) json.number(ns);
    json.close(']').key("advice").open('[');
    for (const uint32_t number : place.advice) json.number(number);
    json.close(']').close('}');
  }
  json.close(']').key("advice").open('[');
  for (const Advice& advice : all.advice) {
    json.open('{').key("site").number(advice.site).key("ns").number(advice.cost_ns).key("rule").text(advice.rule);
    json.key("text").text(advice.text).close('}');
  }
  json.close(']');
}

class PageFile {
 public:
  explicit PageFile(const std::string& path) {
    std::string why;  // said before the job, unless the file has changed since (could_be_own_file)
    Descriptor own = open_own_file(path, O_TRUNC, why);
    file_ = own ? fdopen(own.get(), "w") : nullptr;
    if (file_) static_cast<void>(own.release());  // fclose closes it
  }
  bool open() const { return file_ != nullptr; }
  void write(std::string_view text) {
    if (text.empty()) return;  // its memory may be null, which fwrite does not allow
    if (good_ && std::fwrite(text.data(), 1, text.size(), file_) != text.size()) good_ = false;
  }
  /// A piece of data; `name`: of its element. The page takes what stands behind the element as its end.
  void data(std::string_view name, std::string_view base64) {
    write(fmt::format("<script type=\"text/plain\" id=\"{}\">", name));
    write(base64);
    write("</script>\n");
  }
  bool close() {
    const bool closed = std::fclose(file_) == 0;
    return good_ && closed;
  }

 private:
  std::FILE* file_ = nullptr;
  bool good_ = true;
};

/// Pieces of data; on the page "part0", "part1", ...
struct PageParts {
  std::vector<std::string> all;
  uint32_t add(std::string base64) {
    all.push_back(std::move(base64));
    return uint32_t(all.size() - 1);
  }
};

void add_levels(Json& json, const Timeline& timeline, PageParts& parts) {
  json.key("levels").open('[');
  for (PageLevel& level : make_levels(timeline)) {
    json.open('{').key("bins").number(level.bins).key("parts").open('[');
    for (std::string& part : level.parts) json.number(parts.add(std::move(part)));
    json.close(']').close('}');
  }
  json.close(']');
}

void add_chunks(Json& json, const Timeline& timeline, PageContexts& contexts, PageParts& parts) {
  json.key("chunks").open('[');
  make_chunks(timeline, contexts, [&](PageChunk chunk) {
    json.open('[').number(chunk.begin_ns).number(chunk.end_ns).number(chunk.spans).number(chunk.messages);
    json.number(parts.add(std::move(chunk.data))).close(']');
  });
  json.close(']');
}

/// `@name@` in the page's frame are pieces. Writes up to the one called `until`; returns what is behind it.
std::string_view write_frame(PageFile& file, std::string_view frame,
                             const std::map<std::string_view, std::string_view>& pieces, std::string_view until) {
  while (!frame.empty()) {
    const size_t at = frame.find('@');
    const size_t end = at == frame.npos ? at : frame.find('@', at + 1);
    if (end == frame.npos) break;
    file.write(frame.substr(0, at));
    const std::string_view name = frame.substr(at + 1, end - at - 1);
    frame.remove_prefix(end + 1);
    if (name == until) return frame;
    if (const auto piece = pieces.find(name); piece != pieces.end()) file.write(piece->second);
  }
  file.write(frame);
  return {};
}

}  // namespace

bool has_page_library() { return !page_assets().library.empty(); }
bool is_page(const std::string& path) { return path.ends_with(".html") || path.ends_with(".htm"); }

TraceResult write_page(const Timeline& timeline, const Explanation& explanation, const std::string& path,
                       const std::string& title) {
  TraceResult result;
  PageFile file(path);
  if (!file.open()) return result;
  const PageAssets& assets = page_assets();
  std::string plain;
  for (const char c : title) plain += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
  const std::map<std::string_view, std::string_view> pieces = {{"title", plain},
                                                               {"style", assets.style},
                                                               {"library", assets.library},
                                                               {"licence", assets.library_licence},
                                                               {"data script", assets.data_script},
                                                               {"view script", assets.view_script},
                                                               {"panel script", assets.panel_script}};
  Json json;
  PageContexts contexts;
  PageParts parts;
  json.open('{').key("title").text(title).key("length_ns").number(timeline.length_ns());
  json.key("events").number(timeline.events()).key("messages").number(timeline.messages().size());
  add_levels(json, timeline, parts);
  add_chunks(json, timeline, contexts, parts);
  add_ranks(json, timeline, explanation);
  add_names(json, timeline, contexts);
  add_traffic(json, timeline);
  add_counters(json, timeline);
  add_explanation(json, explanation);
  json.close('}');
  // What the page needs to show all of the time stands before its scripts, what it needs to show a part of it behind
  // them: it is there for the user while the browser still reads the rest.
  std::string_view rest = write_frame(file, assets.html, pieces, "overview");
  file.data("index", packed(json.whole()));
  for (size_t i = 0; i < parts.all.size(); ++i) {
    if (i == 1) rest = write_frame(file, rest, pieces, "events");
    file.data(fmt::format("part{}", i), parts.all[i]);
  }
  write_frame(file, rest, pieces, "");

  result.events = timeline.events();
  result.flows = timeline.messages().size();
  for (const auto& record : timeline.records()) {
    result.lost += record->header().events_lost;
    if (record->lost_because() != 0) result.lost_because = record->lost_because();
  }
  result.written = file.close();
  return result;
}

}  // namespace tern::mpiexec
