#include "process/hang_monitor.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "process/launch/rank_report.h"

namespace tern {

namespace {
// Empty polls (some 2 us) before the clock is first read, unless it was read for another purpose: a sleep, or a yield
// that may have been long. So short waits cost nothing.
constexpr uint32_t kFirstLook = 64;
}  // namespace

void HangMonitor::set_surroundings(Surroundings surroundings) {
  surroundings_ = std::move(surroundings);
  wake_ = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
}

void HangMonitor::ask(To to) {
  asked_.fetch_or(int(to), std::memory_order_relaxed);
  const uint64_t one = 1;
  if (wake_.get() >= 0) static_cast<void>(!write(wake_.get(), &one, sizeof one));
}

void HangMonitor::begin_wait(uint64_t now_ns) {
  since_ns_ = now_ns;
  printed_ = false;
}

void HangMonitor::on_empty_polls(uint32_t empty_polls) {
  if (empty_polls <= last_) on_wait_over();  // something has come, which was not what is waited for
  last_ = empty_polls;
  const int asked = asked_.load(std::memory_order_relaxed);
  if (empty_polls < kFirstLook && since_ns_ == 0 && asked == 0) return;
  if (since_ns_ == 0) begin_wait(clock_.now_ns());
  if (asked != 0) answer();
  if ((limit_ns_ == 0 || printed_) && !slept_) return;
  slept_ = false;
  look(clock_.now_ns());
}

void HangMonitor::on_clock(uint64_t now_ns) {
  if (since_ns_ == 0) begin_wait(now_ns);
}

void HangMonitor::on_sleep() {
  if (since_ns_ == 0) begin_wait(clock_.now_ns());
  slept_ = true;
}

void HangMonitor::on_wait_over() {
  last_ = 0;
  since_ns_ = 0;
  if (!told_) return;
  told_ = false;
  send("cmd=tern_going\n");
}

uint64_t HangMonitor::next_deadline_ns() const {
  if (since_ns_ == 0) return ~uint64_t{0};
  const uint64_t print = limit_ns_ == 0 || printed_ ? ~uint64_t{0} : since_ns_ + limit_ns_;
  return std::min(print, tells() && !told_ ? since_ns_ + kTell_ns : ~uint64_t{0});
}

void HangMonitor::look(uint64_t now) {
  if (limit_ns_ != 0 && !printed_ && now - since_ns_ >= limit_ns_) {
    printed_ = true;
    print(now);
  }
  if (tells() && !told_ && now - since_ns_ >= kTell_ns) {
    told_ = true;
    tell(now, true);
    if (const Counters& counters = p2p_.progress().counters(); counters.watched != 0)
      counters.tell(Event::hang_suspected, {-1, -1, int64_t(now - since_ns_), 0});
  }
}

void HangMonitor::answer() {
  const int asked = asked_.exchange(0, std::memory_order_relaxed);
  uint64_t count;
  if (wake_.get() >= 0) static_cast<void>(!read(wake_.get(), &count, sizeof count));
  const uint64_t now = clock_.now_ns();
  if (asked & int(To::standard_error)) print(now);
  if ((asked & int(To::mpiexec)) && tells()) tell(now, false);
}

std::string HangMonitor::more() const {
  std::string lines;
  for (const auto& report : more_) lines += report();
  return lines;
}

std::string HangMonitor::ways() const {
  std::string lines;
  if (!surroundings_.on_the_way) return lines;
  for (const std::string& line : surroundings_.on_the_way()) lines += "  " + line + "\n";
  return lines;
}

void HangMonitor::print(uint64_t now) {
  const char* name = call_ ? *call_ : nullptr;
  char head[160];
  std::snprintf(head, sizeof head, "[tern rank %d] waiting in %s for %.1f s\n", rank_, name ? name : "MPI",
                double(now - since_ns_) * 1e-9);
  const std::string page = head + p2p_.report().text() + ways() + more();
  // One write, so that the pages of several ranks do not mix.
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, page.data(), page.size());
}

void HangMonitor::tell(uint64_t now, bool by_itself) {
  WaitReport report;
  report.told = by_itself;
  report.certain = surroundings_.certain && surroundings_.certain();
  report.waited_ms = (now - since_ns_) / 1'000'000;
  if (call_ && *call_) report.call = *call_;
  if (surroundings_.place) report.place = surroundings_.place();
  if (surroundings_.collective) report.collective = surroundings_.collective();
  report.pending = p2p_.report().pending();
  if (surroundings_.on_the_way) report.notes = surroundings_.on_the_way();
  report.moving = !report.notes.empty();
  const std::string lines = more();
  for (size_t at = 0; at < lines.size();) {
    const size_t end = std::min(lines.find('\n', at), lines.size());
    at = std::min(lines.find_first_not_of(' ', at), end);
    if (at != end) report.notes.push_back(lines.substr(at, end - at));
    at = end + 1;
  }
  send(to_lines(report));
}

// One call, so that lines of signal handlers and other threads stay apart: the kernel takes a short text as a whole.
void HangMonitor::send(const std::string& lines) {
  size_t sent = 0;
  while (sent < lines.size()) {
    const ssize_t n = ::send(surroundings_.mpiexec, lines.data() + sent, lines.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return;  // mpiexec has ended, and this job with it
    sent += size_t(n);
  }
}

}  // namespace tern
