#include "p2p/point_to_point.h"

#include <algorithm>

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

PointToPoint::Impl::Impl(ProgressEngine& p, const Tunables& t)
    : progress(p),
      counts(p.counters()),
      tracer(p.tracer()),
      tunables(t),
      much_owed(t.unexpected_credit_bytes / 64 * 5 / 8),
      worth_carrying(std::max<int64_t>(t.unexpected_credit_bytes / 64 / 16, 1)) {
  // A wrong value was reported when the program started; here it means the default.
  static_cast<void>(parse_rendezvous(t, mode, by_write));
}

PointToPoint::PointToPoint(ProgressEngine& progress, const Tunables& tunables)
    : progress_(progress), impl_(std::make_unique<Impl>(progress, tunables)) {}

PointToPoint::~PointToPoint() = default;

Sink& PointToPoint::sink() { return *impl_; }

const Tunables& PointToPoint::tunables() const { return impl_->tunables; }

void PointToPoint::connect(PeerId peer, Path& path) {
  if (impl_->peers.size() <= peer) impl_->peers.resize(peer + 1);
  Impl::Peer& entry = impl_->peers[peer];
  entry.path = &path;
  entry.eager_limit = entry.at_once_limit = path.properties().eager_bytes;
  if (size_t from = path.properties().keep_from_bytes; from != 0)
    entry.at_once_limit = std::min(entry.at_once_limit, from - 1);
  entry.peek = path.properties().peek;
  entry.credit = impl_->tunables.unexpected_credit_bytes / 64;
  const PathProperties& properties = path.properties();
  if (impl_->mode == RendezvousMode::customised && properties.announce_from_bytes != 0) {
    impl_->announce_from = std::min(impl_->announce_from, properties.announce_from_bytes);
  }
  if ((properties.get || properties.put) && !properties.autonomous && properties.attention) {
    impl_->attention_path = &path;
  }
}

Request* PointToPoint::completed(const Status& status) { return new DoneRequest(status); }

Need PointToPoint::pending() const {
  if (impl_->receives_open != 0 || impl_->sends_open != 0 || impl_->controls_queued != 0) return Need::now;
  Need need = Need::nothing;
  for (const Path* path : progress_.paths()) need = std::max(need, path->unsent_at_a_glance());
  return need;
}

bool PointToPoint::sends_complete() const {
  impl_->flush_all_releases();  // the senders of those wait for them
  return impl_->sends_open == 0 && impl_->controls_queued == 0;
}

bool PointToPoint::quiet() const {
  if (!sends_complete()) return false;
  for (Path* path : progress_.paths()) {
    if (path->has_unsent()) return false;
  }
  return true;
}

}  // namespace tern
