// HotLinks: the connections that every poll reads without asking epoll; the one that was busy last is first.
// Thread rule: under the rank's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace tern::tcp {

struct Link;

class HotLinks {
 public:
  bool empty() const { return count_ == 0; }
  /// Adds it; another one may be removed for it.
  void heat(Link& link) {
    size_t at = 0;
    while (at < count_ && links_[at] != &link) ++at;
    if (at < count_) return;
    if (count_ < kMax) links_[count_++] = &link;
    else links_[1 + turn_++ % (kMax - 1)] = &link;
  }
  void cool(Link& link) {
    for (size_t i = 0; i < count_; ++i) {
      if (links_[i] == &link) links_[i] = links_[--count_];
    }
  }
  /// Reads by `receive(link)`, which returns how much it did and may heat and cool: the first link, and if that was
  /// empty, in every other call one of the others.
  template <typename Receive>
  int read(Receive&& receive) {
    if (count_ == 0) return 0;
    int handled = receive(*links_[0]);
    if (handled != 0 || count_ < 2 || (++turn_ & 1) == 0) return handled;
    const size_t other = 1 + turn_ / 2 % (count_ - 1);
    handled = receive(*links_[other]);
    if (handled != 0 && other < count_) std::swap(links_[0], links_[other]);
    return handled;
  }
  template <typename Predicate>
  bool any(Predicate&& predicate) const {
    for (size_t i = 0; i < count_; ++i) {
      if (predicate(*links_[i])) return true;
    }
    return false;
  }

 private:
  static constexpr size_t kMax = 4;  ///< neighbours of a 2-D stencil; a useless read costs 0.2 us
  Link* links_[kMax] = {};
  size_t count_ = 0;
  uint32_t turn_ = 0;
};

}  // namespace tern::tcp
