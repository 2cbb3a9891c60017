// MessageReport: what the messages of a rank are doing, in words and as data: for the hang report, the end of the
// program, TERN_CHECK, statistics, tests. It only looks.
//
// Thread rule: under the rank's lock.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "p2p/pending.h"

namespace tern {

class PointToPoint;       // p2p/point_to_point.h
struct ProtocolCounters;  // p2p/protocols/protocol.h

class MessageReport {
 public:
  /// What it tells of messages is also of those of their engines.
  explicit MessageReport(const PointToPoint& messages) : p2p_(messages) {}

  ProtocolCounters counters() const;
  /// Receives that their senders know of and that are not complete.
  uint32_t open_announcements() const;
  /// The counters in words: a line, empty when no large message was sent or received.
  std::string statistics() const;
  /// What is pending, in words, for the hang report: some lines.
  std::string text() const;
  /// What is pending, as data.
  std::vector<PendingMessage> pending() const;
  /// How reports call the communicator of a context id; the predefined ones have their names without that.
  /// Empty: it knows none.
  void name_contexts(std::function<std::string(uint64_t context)> name) { name_of_context_ = std::move(name); }
  std::string name_of(uint64_t context) const { return name_of_context_ ? name_of_context_(context) : std::string(); }

 private:
  const PointToPoint& p2p_;
  std::function<std::string(uint64_t)> name_of_context_;
};

}  // namespace tern
