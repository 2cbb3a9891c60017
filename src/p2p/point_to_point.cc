#include "p2p/point_to_point.h"

#include "p2p/impl.h"

namespace tern {

namespace {
/// A request that is complete from the start.
class DoneRequest final : public Request {
 public:
  explicit DoneRequest(const Status& s) : Request(Kind::done) {
    status = s;
    complete_ = true;
  }

 protected:
  void destroy() override { delete this; }
};
}  // namespace

PointToPoint::PointToPoint(ProgressEngine& progress, const Tunables& tunables)
    : progress_(progress), impl_(std::make_unique<Impl>(progress, tunables)) {}

PointToPoint::~PointToPoint() = default;

Sink& PointToPoint::sink() { return *impl_; }

const Tunables& PointToPoint::tunables() const { return impl_->tunables; }

void PointToPoint::connect(PeerId peer, Path& path) {
  if (impl_->peers.size() <= peer) impl_->peers.resize(peer + 1);
  Impl::Peer& entry = impl_->peers[peer];
  entry.path = &path;
  entry.eager_limit = path.properties().eager_bytes;
  entry.peek = path.properties().peek;
  entry.credit = impl_->tunables.unexpected_credit_bytes / 64;
}

Request* PointToPoint::completed(const Status& status) { return new DoneRequest(status); }

bool PointToPoint::pending() const { return impl_->receives.live() != 0 || !quiet(); }

bool PointToPoint::quiet() const {
  if (impl_->sends_open != 0 || impl_->controls_queued != 0) return false;
  for (Path* path : progress_.paths()) {
    if (path->has_unsent()) return false;
  }
  return true;
}

}  // namespace tern
