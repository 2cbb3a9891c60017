#include "trace.h"

#include <fcntl.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <iterator>
#include <string_view>

#include "base/owned_file.h"
#include "base/recorder.h"
#include "base/types.h"
#include "messages.h"
#include "p2p/protocols/protocol.h"
#include "wire/header.h"

namespace tern::mpiexec {
namespace {

using record::Event;
using record::EventKind;

/// A receive that took less was just copied.
constexpr uint64_t kWorthShowing_ns = 2000;

const char* protocol_name(uint16_t what) { return what < kProtocolCount ? kProtocolNames[what] : "message"; }

const char* control_name(uint16_t what) {
  switch (wire::Kind(what)) {
    case wire::Kind::rts: return "rts";
    case wire::Kind::cts: return "cts";
    case wire::Kind::data: return "data";
    case wire::Kind::fin: return "fin";
    case wire::Kind::credit: return "credit";
    case wire::Kind::sync_ack: return "sync-ack";
    case wire::Kind::cancel: return "cancel";
    case wire::Kind::cancel_answer: return "cancel-answer";
    case wire::Kind::ready: return "ready";
    case wire::Kind::filled: return "filled";
    case wire::Kind::withdraw: return "withdraw";
    case wire::Kind::withdrawn: return "withdrawn";
    case wire::Kind::recount: return "recount";
    case wire::Kind::release: return "release";
    case wire::Kind::tuple_ask: return "tuple-ask";
    case wire::Kind::tuple_answer: return "tuple-answer";
    case wire::Kind::tuple_begin: return "tuple-begin";
    case wire::Kind::tuple_stop: return "tuple-stop";
    case wire::Kind::tuple_owed: return "tuple-owed";
    case wire::Kind::tuple_stopped: return "tuple-stopped";
    case wire::Kind::tuple_repair: return "tuple-repair";
    case wire::Kind::tuple_resume: return "tuple-resume";
    case wire::Kind::tuple_lost: return "tuple-lost";
    case wire::Kind::tuple_landed: return "tuple-landed";
    case wire::Kind::tuple_want: return "tuple-want";
    case wire::Kind::tuple_data: return "tuple-data";
    case wire::Kind::moved: return "moved";
    default: break;
  }
  const auto between = [what](wire::Kind first, wire::Kind last) { return what >= int(first) && what <= int(last); };
  if (between(wire::kFirstWindowKind, wire::kLastWindowKind)) return "window message";
  if (between(wire::kFirstFileKind, wire::kLastFileKind)) return "file message";
  if (between(wire::kFirstCollectiveKind, wire::kLastCollectiveKind)) return "collective message";
  if (between(wire::kFirstPartitionedKind, wire::kLastPartitionedKind)) return "partitioned message";
  return "other message";
}

class Writer {
 public:
  Writer(std::FILE* file, uint64_t begin_ns) : file_(file), begin_ns_(begin_ns) {}

  template <typename... Arguments>
  void add(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    text_ += first_ ? "\n" : ",\n";
    first_ = false;
    fmt::format_to(std::back_inserter(text_), format, std::forward<Arguments>(arguments)...);
    ++events_;
    if (text_.size() > (1 << 20)) flush();
  }
  void raw(std::string_view text) { text_ += text; }
  void flush() {
    if (good_ && std::fwrite(text_.data(), 1, text_.size(), file_) != text_.size()) good_ = false;
    text_.clear();
  }
  /// Microseconds since the beginning of the trace, as the format wants them.
  std::string at(const Record& record, uint64_t time_ns) const { return micro(record.aligned(time_ns) - begin_ns_); }
  static std::string micro(uint64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }
  bool good() const { return good_; }
  uint64_t events() const { return events_; }

 private:
  std::FILE* file_;
  uint64_t begin_ns_;
  std::string text_;
  bool first_ = true, good_ = true;
  uint64_t events_ = 0;
};

void add_names(Writer& out, const Record& record) {
  const record::Header& header = record.header();
  const int rank = record.rank();
  out.add(R"_({{"ph":"M","pid":{0},"name":"process_name","args":{{"name":"rank {0} ({1}, process {2})"}}}})_", rank,
          record.host(), header.process);
  out.add(R"({{"ph":"M","pid":{0},"name":"process_sort_index","args":{{"sort_index":{0}}}}})", rank);
  for (uint32_t i = 0; i < record.threads(); ++i) {
    const std::string name = i + 1 == header.event_thread ? "event thread" : fmt::format("thread {}", i);
    out.add(R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":"{}"}}}})", rank, i, name);
  }
}

// What the call was given: ,"args":{"comm":"MPI_COMM_WORLD","tag":7}. Ranks are those of the communicator.
std::string arguments_of(const Record& record, const Event& event) {
  std::string text;
  const auto add = [&](const char* name, const std::string& value) {
    text += fmt::format(R"({}"{}":{})", text.empty() ? "" : ",", name, value);
  };
  const auto number = [&](unsigned bit, const char* name, int64_t value) {
    if (event.given & bit) add(name, std::to_string(value));
  };
  const auto rank_or_word = [&](unsigned bit, const char* name, int32_t value) {
    if (!(event.given & bit)) return;
    if (value == kAnySource) add(name, R"("any")");
    else if (value == kProcNull) add(name, R"("none")");
    else add(name, std::to_string(value));
  };
  if (event.given & record::kComm) {
    const uint64_t id = event.context >> 2;
    add("comm", id == 1 ? R"("MPI_COMM_WORLD")" : id == 2 ? R"("MPI_COMM_SELF")" : fmt::format(R"("context {}")", id));
  }
  rank_or_word(record::kDest, "dest", int32_t(event.peer));
  rank_or_word(record::kTarget, "target", int32_t(event.peer));
  rank_or_word(record::kSource, "source", event.source);
  rank_or_word(record::kRoot, "root", event.source);
  if ((event.given & record::kTag) && event.tag == kAnyTag) add("tag", R"("any")");
  else number(record::kTag, "tag", event.tag);
  number(record::kCount, "count", int64_t(event.count));
  number(record::kBytes, "bytes", int64_t(event.bytes));
  if (event.given & record::kRequest) add("request", fmt::format(R"("{:#x}")", event.request));
  if (event.algorithm != 0) add("algorithm", '"' + record.algorithm_name(event.algorithm) + '"');
  return text.empty() ? text : ",\"args\":{" + text + "}";
}

void add_event(Writer& out, const Record& record, const Event& event, uint64_t& receives) {
  const int rank = record.rank();
  const std::string at = out.at(record, event.time_ns);
  switch (event.kind) {
    case EventKind::call:
    case EventKind::sleep:
    case EventKind::progress: {
      std::string_view name = "asleep";
      if (event.kind == EventKind::progress) name = "progress";
      if (event.kind == EventKind::call) name = record.function_name(event.what);
      const char* category = event.kind == EventKind::call ? "call" : "progress";
      out.add(R"({{"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"name":"{}","cat":"{}"{}}})", rank, event.thread, at,
              Writer::micro(event.duration_ns), name, category,
              event.kind == EventKind::call ? arguments_of(record, event) : std::string());
      return;
    }
    case EventKind::send: return;  // the flow says it
    case EventKind::receive: {
      if (event.duration_ns < kWorthShowing_ns) return;
      const uint64_t id = ++receives;
      out.add(
          R"({{"ph":"b","pid":{},"tid":{},"ts":{},"id":"{}.{}","cat":"receive","name":"receive from {}","args":{{"bytes":{},"tag":{},"unexpected":{}}}}})",
          rank, event.thread, at, rank, id, event.peer, event.bytes, event.tag, event.what != 0);
      out.add(R"({{"ph":"e","pid":{},"tid":{},"ts":{},"id":"{}.{}","cat":"receive","name":"receive from {}"}})", rank,
              event.thread, out.at(record, event.time_ns + event.duration_ns), rank, id, event.peer);
      return;
    }
    case EventKind::control:
      out.add(R"({{"ph":"i","s":"t","pid":{},"tid":{},"ts":{},"cat":"protocol","name":"{} from {}"}})", rank,
              event.thread, at, control_name(event.what), event.peer);
      return;
  }
}

void add_unfinished(Writer& out, const Record& record, uint64_t ended_ns) {
  const record::Header& header = record.header();
  const std::string* call = record.unfinished_call();
  if (!call) return;
  const bool ours = Recorder::clock_domain() == record.clock_domain();
  const uint64_t end = std::max(ours ? ended_ns : header.last_ns, header.current_since_ns);
  out.add(R"({{"ph":"X","pid":{},"tid":0,"ts":{},"dur":{},"name":"{}","cat":"call","args":{{"unfinished":true}}}})",
          record.rank(), out.at(record, header.current_since_ns), Writer::micro(end - header.current_since_ns), *call);
}

uint64_t add_flows(Writer& out, const Records& records) {
  uint64_t flows = 0;
  for (const Message& m : paired_messages(records)) {
    const Record &from = *records[m.from], &to = *records[m.to];
    const Event &left = from.events()[m.send], &came = to.events()[m.receive];
    ++flows;
    out.add(
        R"({{"ph":"s","pid":{},"tid":{},"ts":{},"id":{},"cat":"message","name":"{}","args":{{"to":{},"bytes":{},"tag":{}}}}})",
        from.rank(), left.thread, out.at(from, left.time_ns), flows, protocol_name(left.what), to.rank(), left.bytes,
        left.tag);
    out.add(R"({{"ph":"f","bp":"e","pid":{},"tid":{},"ts":{},"id":{},"cat":"message","name":"{}"}})", to.rank(),
            came.thread, out.at(to, came.time_ns + came.duration_ns), flows, protocol_name(left.what));
  }
  return flows;
}

}  // namespace

TraceResult write_trace(const Records& records, const std::string& path, uint64_t ended_ns) {
  TraceResult result;
  std::string why;  // said before the job, unless the file has changed since (could_be_own_file)
  Descriptor own = open_own_file(path, O_TRUNC, why);
  std::FILE* file = own ? fdopen(own.get(), "w") : nullptr;
  if (!file) return result;
  static_cast<void>(own.release());  // fclose closes it
  uint64_t begin = ~uint64_t{0};
  for (auto& record : records) begin = std::min(begin, record->aligned(record->header().first_ns));
  for (auto& record : records) {
    // A call of an inner library may have begun before what is known as the first.
    for (size_t i = 0; i < record->event_count(); ++i)
      begin = std::min(begin, record->aligned(record->events()[i].time_ns));
  }
  Writer out(file, begin);
  out.raw("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
  for (auto& record : records) {
    add_names(out, *record);
    uint64_t receives = 0;
    for (size_t i = 0; i < record->event_count(); ++i) add_event(out, *record, record->events()[i], receives);
    add_unfinished(out, *record, ended_ns);
    result.lost += record->header().events_lost;
    if (const int number = record->lost_because(); number != 0) result.lost_because = number;
  }
  result.flows = add_flows(out, records);
  result.events = out.events();
  out.raw("\n]}\n");
  out.flush();
  const bool closed = std::fclose(file) == 0;
  result.written = out.good() && closed;
  return result;
}

}  // namespace tern::mpiexec
