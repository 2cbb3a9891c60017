// AccessOrder: in atomic mode the accesses of one rank to one file happen one after the other, in the order in which
// they began: a lock on the file keeps out other ranks, not other accesses through the same descriptor. Thread rule:
// under the rank's lock.
#pragma once

#include <deque>

#include "p2p/request.h"
#include "progress/engine.h"

namespace tern::io {

class AccessOrder {
 public:
  explicit AccessOrder(ProgressEngine& progress) : progress_(progress) {}

  /// Complete when it is the caller's turn; who asked releases it, and calls `pass` at the end of its turn.
  Request* take() {
    auto* ticket = new Ticket;
    if (taken_) {
      waiting_.push_back(ticket);
    } else {
      taken_ = true;
      ticket->set_complete();
    }
    return ticket;
  }
  void pass() {
    taken_ = !waiting_.empty();
    if (!taken_) return;
    Ticket* next = waiting_.front();
    waiting_.pop_front();
    next->set_complete();
    progress_.notify();
  }

 private:
  struct Ticket final : Request {
    Ticket() : Request(Kind::file) {}
    void destroy() override { delete this; }
  };
  ProgressEngine& progress_;
  bool taken_ = false;
  std::deque<Ticket*> waiting_;
};

}  // namespace tern::io
