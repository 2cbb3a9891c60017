// LaterSink: the sink of a message engine's path over a network. It leads to a sink that is made later: the path is
// opened before its engine, since its card must be published before the ranks meet.
//
// And it keeps for a poll of the rank what a short poll (Path::poll_shortly) brings and must not handle: a message of
// another kind than `eager` may begin what needs the whole rank. What comes on a lane after a kept message is kept,
// too, so a lane's order stays. Thread rule: the path's.
#pragma once

#include <list>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "fabric/path.h"

namespace tern {

class LaterSink final : public Sink {
 public:
  /// Once, before the path is polled. Not owned.
  void lead_to(Sink& sink) {
    TERN_ASSERT(!sink_);
    sink_ = &sink;
  }
  /// A short poll begins, or ends.
  void set_short(bool on) { short_ = on; }
  /// A poll of the rank is due.
  bool keeps_any() const { return !kept_.empty(); }
  /// In a poll of the rank: hands on what was kept. Returns how many messages.
  int deliver();

  void on_message(Lane& from, const wire::Header& header, const std::byte* payload, size_t bytes) override {
    if (!short_ && !kept_.empty()) (void)deliver();
    if (short_ && (header.kind != wire::Kind::eager || keeps_of(from))) [[unlikely]] {
      kept_.push_back({&from, header, {payload, payload + bytes}, true});
      return;
    }
    sink_->on_message(from, header, payload, bytes);
  }
  /// (Data of a rendezvous does not come while short calls have the engine: it waits for one that is under way.)
  Landing on_header(Lane& from, const wire::Header& header, size_t bytes) override {
    if (!short_ && !kept_.empty()) (void)deliver();
    if (!keeps_of(from)) return sink_->on_header(from, header, bytes);
    Kept& kept = kept_.emplace_back(Kept{&from, header, std::vector<std::byte>(bytes), false});
    return {Cursor::bytes(kept.payload.data(), bytes), nullptr, 0};
  }
  void on_landed(Lane& from, const wire::Header& header, Landing& landing, size_t bytes, Error error) override;
  void on_peer_lost(Lane& from, Error error) override {
    TERN_DEBUG_ASSERT(!short_);
    (void)deliver();
    sink_->on_peer_lost(from, std::move(error));
  }
  void on_queues_lost(Lane& from) override { sink_->on_queues_lost(from); }

 private:
  struct Kept {
    Lane* from;
    wire::Header header;
    std::vector<std::byte> payload;
    bool whole;  ///< else it is landing, the last of its lane
  };
  bool keeps_of(const Lane& lane) const;

  Sink* sink_ = nullptr;
  bool short_ = false;
  std::list<Kept> kept_;  ///< in the order of arrival
};

}  // namespace tern
