// LaterSink: the sink of a path that is opened before its owner exists (a message engine's, whose card must be
// published before the ranks meet). Nothing arrives until the path is polled, which is after `lead_to`. Thread rule:
// the path's.
#pragma once

#include <utility>

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

  void on_message(Lane& from, const wire::Header& header, const std::byte* payload, size_t bytes) override {
    sink_->on_message(from, header, payload, bytes);
  }
  Landing on_header(Lane& from, const wire::Header& header, size_t bytes) override {
    return sink_->on_header(from, header, bytes);
  }
  void on_landed(Lane& from, const wire::Header& header, Landing& landing, size_t bytes, Error error) override {
    sink_->on_landed(from, header, landing, bytes, std::move(error));
  }
  void on_peer_lost(Lane& from, Error error) override { sink_->on_peer_lost(from, std::move(error)); }
  void on_queues_lost(Lane& from) override { sink_->on_queues_lost(from); }

 private:
  Sink* sink_ = nullptr;
};

}  // namespace tern
