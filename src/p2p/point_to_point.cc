#include "p2p/point_to_point.h"

#include <algorithm>

#include "p2p/impl.h"
#include "p2p/tuples.h"

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
    : progress(p), counts(p.counters()), tracer(p.tracer()), tunables(t), endpoints(t.unexpected_credit_bytes) {
  // A wrong value was reported when the program started; here it means the default.
  static_cast<void>(parse_rendezvous(t, mode, by_write));
  if (mode != RendezvousMode::tupleq) return;
  tuples = std::make_unique<Tuples>(*this, t);
  announce_from = 0;  // every receive is looked at
  endpoints.want_tuple_queues();
}

PointToPoint::Impl::~Impl() = default;

PointToPoint::PointToPoint(ProgressEngine& progress, const Tunables& tunables)
    : progress_(progress), impl_(std::make_unique<Impl>(progress, tunables)) {}

PointToPoint::~PointToPoint() = default;

Sink& PointToPoint::sink() { return *impl_; }

const Tunables& PointToPoint::tunables() const { return impl_->tunables; }

void PointToPoint::add_path(Path& path) {
  impl_->endpoints.add_path(path);
  const size_t announce_from = path.properties().announce_from_bytes;
  if (impl_->mode == RendezvousMode::customised && announce_from != 0)
    impl_->announce_from = std::min(impl_->announce_from, announce_from);
  const RemoteMemory* memory = path.remote_memory();
  if (path.copy_arbiter() && memory && !memory->remote_properties().autonomous) impl_->heartbeat = path.copy_arbiter();
}

Endpoints& PointToPoint::endpoints() { return impl_->endpoints; }

Request* PointToPoint::completed(const Status& status) { return new DoneRequest(status); }

Need PointToPoint::pending() const {
  if (impl_->receives_open != 0 || impl_->sends_open != 0 || impl_->endpoints.posts_queued() != 0) return Need::now;
  Need need = Need::nothing;
  for (const Path* path : impl_->endpoints.paths()) need = std::max(need, path->unsent_hint());
  return need;
}

bool PointToPoint::sends_complete() const {
  impl_->flush_all_releases();  // the senders of those wait for them
  return impl_->sends_open == 0 && impl_->endpoints.posts_queued() == 0;
}

bool PointToPoint::quiet() const {
  if (!sends_complete()) return false;
  for (Path* path : impl_->endpoints.paths()) {
    if (path->has_unsent()) return false;
  }
  return true;
}

}  // namespace tern
