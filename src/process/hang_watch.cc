#include "process/hang_watch.h"

#include <unistd.h>

#include <cstdio>

namespace tern {

namespace {
// The clock is first read after so many empty polls (some 2 us): short waits cost nothing.
constexpr uint32_t kFirstLook = 64;
}  // namespace

void HangWatch::on_empty_polls(uint32_t empty_polls) {
  bool asked = asked_.load(std::memory_order_relaxed);
  if (empty_polls < kFirstLook && !asked) {
    seen_ = 0;
    return;
  }
  if (empty_polls <= seen_ || seen_ == 0) {  // another wait than the last one seen
    since_ns_ = clock_.now_ns();
    deadline_ns_ = since_ns_ + limit_ns_;
    reported_ = false;
  }
  seen_ = empty_polls;
  if (asked) {
    asked_.store(false, std::memory_order_relaxed);
    report(clock_.now_ns());
    return;
  }
  if (limit_ns_ == 0 || reported_) return;
  uint64_t now = clock_.now_ns();
  if (now < deadline_ns_) return;
  reported_ = true;
  report(now);
}

void HangWatch::report(uint64_t now) {
  const char* name = call_ ? *call_ : nullptr;
  char head[160];
  std::snprintf(head, sizeof head, "[tern rank %d] waiting in %s for %.1f s\n", rank_, name ? name : "MPI",
                double(now - since_ns_) * 1e-9);
  std::string page = head + p2p_.report() + (more_ ? more_() : std::string());
  // One write, so that the pages of several ranks do not mix.
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, page.data(), page.size());
}

}  // namespace tern
