// A sink for tests that know peers by number: hands each arrival on with the peer's id instead of its lane.
#pragma once

#include <utility>

#include "fabric/path.h"

namespace tern::test {

class PeerSink {
 public:
  PeerSink() : adapter_(*this) {}
  PeerSink(PeerSink&&) : PeerSink() {}
  operator Sink&() { return adapter_; }

  virtual void on_message(PeerId peer, const wire::Header& header, const std::byte* payload, size_t bytes) = 0;
  virtual Landing on_header(PeerId peer, const wire::Header& header, size_t bytes) = 0;
  virtual void on_landed(PeerId peer, const wire::Header& header, Landing& landing, size_t bytes, Error error) = 0;
  virtual void on_peer_lost(PeerId peer, Error error) = 0;

 protected:
  ~PeerSink() = default;

 private:
  struct Adapter final : Sink {
    explicit Adapter(PeerSink& owner) : by_peer(owner) {}
    void on_message(Lane& from, const wire::Header& header, const std::byte* payload, size_t bytes) override {
      by_peer.on_message(from.id, header, payload, bytes);
    }
    Landing on_header(Lane& from, const wire::Header& header, size_t bytes) override {
      return by_peer.on_header(from.id, header, bytes);
    }
    void on_landed(Lane& from, const wire::Header& header, Landing& landing, size_t bytes, Error error) override {
      by_peer.on_landed(from.id, header, landing, bytes, std::move(error));
    }
    void on_peer_lost(Lane& from, Error error) override { by_peer.on_peer_lost(from.id, std::move(error)); }
    PeerSink& by_peer;
  } adapter_;
};

}  // namespace tern::test
