#include "process/launch/rank_report.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "process/launch/pmi_text.h"

namespace tern {
namespace {

constexpr size_t kMaxText = 300;  // characters of a name, a place, a note: a line on a terminal or three

// Newlines would end the line, other control characters disturb the terminal that shows the page.
std::string one_line(std::string_view text, size_t most = kMaxText) {
  std::string clean(text.substr(0, most));
  std::replace_if(
      clean.begin(), clean.end(), [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 127; }, ' ');
  return clean;
}

std::string text_of(std::string_view line, size_t most = kMaxText) {
  constexpr std::string_view kField = " text=";
  const size_t at = line.find(kField);
  return at == std::string_view::npos ? std::string() : one_line(line.substr(at + kField.size()), most);
}

// The fields before the text, so that the text cannot bring fields of its own.
PmiLine fields_of(std::string_view line) { return PmiLine(line.substr(0, line.find(" text="))); }

int whole(const PmiLine& fields, std::string_view name, int otherwise) {
  const long value = fields.number(name, otherwise);
  return value < INT32_MIN || value > INT32_MAX ? otherwise : int(value);
}

PendingMessage pending_of(std::string_view line) {
  const PmiLine fields = fields_of(line);
  PendingMessage pending;
  const int kind = whole(fields, "kind", 0);
  if (kind == 1) pending.kind = PendingMessage::Kind::message;
  if (kind == 2) pending.kind = PendingMessage::Kind::send;
  if (kind == 3) pending.kind = PendingMessage::Kind::moving;
  pending.of_user = whole(fields, "user", 0) != 0;
  pending.peer = std::max(whole(fields, "peer", PendingMessage::kAnyPeer), PendingMessage::kAnyPeer);
  pending.source = whole(fields, "source", 0);
  pending.tag = whole(fields, "tag", PendingMessage::kAnyTagAtAll);
  pending.bytes = uint64_t(std::max(0L, fields.number("bytes", 0)));
  pending.communicator = text_of(line);
  return pending;
}

constexpr uint64_t kMaxActivityBytes = 32768;  // of a range; those of all message engines have less

Activity activity_of(const PmiLine& fields) {
  Activity activity;
  for (size_t i = 0; i < activity.size(); ++i) {
    const long at = fields.number("at" + std::to_string(i), 0), bytes = fields.number("bytes" + std::to_string(i), 0);
    if (at > 0 && bytes > 0 && uint64_t(bytes) <= kMaxActivityBytes) activity[i] = {uint64_t(at), uint64_t(bytes)};
  }
  return activity;
}

}  // namespace

std::string hello_line(int signal, const Activity& activity) {
  std::string line = fmt::format("cmd=tern_hello signal={} pid={} pids={}", signal, getpid(), process_numbers());
  for (size_t i = 0; i < activity.size(); ++i) {
    line += fmt::format(" at{}={} bytes{}={}", i, activity[i].at, i, activity[i].bytes);
  }
  return line + "\n";
}

std::string to_lines(const WaitReport& report) {
  std::string lines = fmt::format("cmd=tern_wait told={} certain={} ms={} call={} text={}\n", int(report.told),
                                  int(report.certain), report.waited_ms, report.call, one_line(report.place));
  if (!report.collective.empty()) lines += fmt::format("cmd=tern_collective text={}\n", one_line(report.collective));
  if (report.moving) lines += "cmd=tern_moving\n";
  size_t of_kind[PendingMessage::kKinds] = {};
  for (const PendingMessage& p : report.pending) {
    if (++of_kind[int(p.kind)] > kMaxReported) continue;
    lines += fmt::format("cmd=tern_pending kind={} user={} peer={} source={} tag={} bytes={} text={}\n", int(p.kind),
                         int(p.of_user), p.peer, p.source, p.tag, p.bytes, one_line(p.communicator));
  }
  for (size_t i = 0; i < std::min(report.notes.size(), kMaxReported); ++i) {
    lines += fmt::format("cmd=tern_note text={}\n", one_line(report.notes[i]));
  }
  return lines + "cmd=tern_wait_end\n";
}

std::string rank_prefix(int rank) { return rank < 0 ? "[tern] " : fmt::format("[tern rank {}] ", rank); }

std::string error_lines(std::string_view text, std::string_view prefix) {
  std::string lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const bool head = line.starts_with(prefix);
    if (head) line.remove_prefix(prefix.size());
    lines += fmt::format("cmd=tern_error head={} text={}\n", int(head), one_line(line, kMaxErrorText));
  }
  return lines;
}

std::string file_name_of(int descriptor) {
  struct stat file;
  return fstat(descriptor, &file) == 0 ? fmt::format("{}:{}", file.st_dev, file.st_ino) : std::string();
}

bool mpiexec_writes_errors() {
  const char* text = getenv(kStandardErrorVariable);
  struct stat now;
  if (!text || fstat(STDERR_FILENO, &now) != 0) return false;
  const std::string_view given(text);
  const size_t colon = std::min(given.find(':'), given.size());
  const auto is = [](std::string_view digits, uint64_t number) {
    uint64_t read = 0;
    const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), read);
    return failure == std::errc() && end == digits.data() + digits.size() && read == number;
  };
  return colon < given.size() && is(given.substr(0, colon), now.st_dev) && is(given.substr(colon + 1), now.st_ino);
}

// Whose process numbers getpid gives: in a container of its own, mpiexec knows a process by another number.
uint64_t process_numbers() {
  struct stat space;
  return stat("/proc/self/ns/pid", &space) == 0 ? space.st_ino : 0;
}

bool RankReport::take(std::string_view line, uint64_t process_numbers) {
  const PmiLine fields = fields_of(line);
  const std::string_view command = fields.command();
  if (command == "tern_hello") {
    signal_ = std::max(0, whole(fields, "signal", 0));
    pid_ = std::max(0, whole(fields, "pid", 0));
    if (uint64_t(fields.number("pids", 0)) != process_numbers) signal_ = pid_ = 0;
    activity_ = activity_of(fields);
    told_ = false;
  } else if (command == "tern_place") {
    placed_ = true;
    inside_ = whole(fields, "inside", 0) != 0;
    call_ = one_line(fields["call"]);
    place_ = text_of(line);
  } else if (command == "tern_wait") {
    coming_ = WaitReport();
    coming_.told = whole(fields, "told", 0) != 0;
    coming_.certain = whole(fields, "certain", 0) != 0;
    coming_.waited_ms = uint64_t(std::max(0L, fields.number("ms", 0)));
    coming_.call = one_line(fields["call"]);
    coming_.place = text_of(line);
  } else if (command == "tern_pending") {
    if (coming_.pending.size() < PendingMessage::kKinds * kMaxReported) coming_.pending.push_back(pending_of(line));
  } else if (command == "tern_collective") {
    coming_.collective = text_of(line);
  } else if (command == "tern_moving") {
    coming_.moving = true;
  } else if (command == "tern_note") {
    if (coming_.notes.size() < kMaxReported) coming_.notes.push_back(text_of(line));
  } else if (command == "tern_wait_end") {
    report_ = std::move(coming_);
    coming_ = WaitReport();
    if (report_.told) told_ = true;
    else waiting_ = true;
  } else if (command == "tern_going") {
    told_ = false;
  } else if (command == "tern_differs") {
    differs_ = true;
  } else if (command == "tern_failing") {
    failing_ = true;
  } else if (command == "tern_error") {
    failing_ = true;
    if (error_.size() < kMaxErrorLines) error_.push_back({whole(fields, "head", 1) != 0, text_of(line, kMaxErrorText)});
  } else {
    return false;
  }
  return true;
}

}  // namespace tern
