#include "p2p/point_to_point.h"

#include <algorithm>

#include "p2p/engines.h"
#include "p2p/impl.h"
#include "p2p/tuples/tuples.h"

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

// A wrong value was reported when the program started; here it means the default.
RendezvousPolicy policy_of(const Tunables& tunables) {
  RendezvousPolicy policy;
  static_cast<void>(parse_rendezvous(tunables, policy));
  return policy;
}
}  // namespace

PointToPoint::Impl::Impl(ProgressEngine& p, const Tunables& t, Counters& counts)
    : progress(p),
      tracer(p.tracer()),
      policy(policy_of(t)),
      endpoints(t.unexpected_credit_bytes),
      control(p, endpoints),
      heartbeat(p),
      sends(p, *this, counts),
      receives(p, *this, heartbeat, counts),
      unexpected(p, receives.matching, counts),
      buffers(size_t(t.hybrid_buffers)),
      puts(sends, endpoints, control),
      announcements(p, receives, control, counters, policy.by_write),
      eager_sender(sends),
      eager_receiver(p, receives, announcements, unexpected, control, counters),
      copy_out(sends, buffers, control, p.clock(), counters),
      deferred(p, sends, puts, copy_out),
      rendezvous_sender(sends, puts, deferred, control, heartbeat, policy.mode),
      rendezvous_receiver(p, receives, announcements, unexpected, sends, endpoints, control, counters, policy),
      announced_sender(sends, puts, rendezvous_sender, control, counters, policy.mode),
      choice(policy, buffers, receives, counters),
      hybrid(p, endpoints, sends, buffers, choice, announced_sender, rendezvous_sender, counters),
      cancels(sends, announced_sender, eager_receiver, unexpected, control) {}

// From now on every message is looked at. Without a path that has queues there is nothing to look for.
void PointToPoint::Impl::use_tuple_queues(const Tunables& t) {
  const auto& paths = endpoints.paths();
  if (tuples || std::none_of(paths.begin(), paths.end(), [](Path* path) { return path->tuple_queues(); })) return;
  const bool everywhere = policy.mode == RendezvousMode::tupleq;
  tuples = std::make_unique<Tuples>(progress, endpoints, sends, receives, unexpected, control, t, everywhere);
  looks.look_always();
  endpoints.want_tuple_queues();
}

PointToPoint::Impl::~Impl() = default;

PointToPoint::PointToPoint(ProgressEngine& progress, const Tunables& tunables, Counters* counters)
    : progress_(progress),
      impl_(std::make_unique<Impl>(progress, tunables, counters ? *counters : progress.counters())),
      tunables_(tunables) {}

PointToPoint::~PointToPoint() = default;

Sink& PointToPoint::sink() { return *impl_; }

void PointToPoint::add_path(Path& path) {
  impl_->endpoints.add_path(path);
  const size_t announce_from_bytes = path.properties().announce_from_bytes;
  if (is_customised(impl_->policy.mode, false)) impl_->looks.add_path(announce_from_bytes);
  if (impl_->policy.mode == RendezvousMode::tupleq) impl_->use_tuple_queues(tunables_);
  const RemoteMemory* memory = path.remote_memory();
  if (path.copy_arbiter() && memory && !memory->remote_properties().autonomous)
    impl_->heartbeat.set_arbiter(*path.copy_arbiter());
}

void PointToPoint::set_hints(uint64_t context, const MessageHints& hints) {
  if (hints.tuple_queues) impl_->use_tuple_queues(tunables_);
  if (impl_->tuples) impl_->tuples->contexts.set_hints(context, hints);
}

void PointToPoint::forget_hints(uint64_t context) {
  if (impl_->tuples) impl_->tuples->contexts.forget_hints(context);
}

Endpoints& PointToPoint::endpoints() { return impl_->endpoints; }

uint32_t PointToPoint::losses() const { return impl_->endpoints.losses(); }
bool PointToPoint::lost(PeerId peer) const { return impl_->endpoints.lost(peer); }

Request* PointToPoint::completed(const Status& status) { return new DoneRequest(status); }

// Of an open engine only what the network has not taken.
Need PointToPoint::pending() const {
  if (impl_->receives.open() != 0 || impl_->sends.open() != 0 || impl_->endpoints.posts_queued() != 0) return Need::now;
  Need need = Need::nothing;
  for (const Path* path : impl_->endpoints.paths()) need = std::max(need, path->unsent_hint());
  if (!engines_) return need;
  for (uint32_t i = 0; i < engines_->count(); ++i) {
    Engine& engine = (*engines_)[i];
    need = std::max(need, engine.gate.is_open() ? engine.left.ask() : engine.p2p.pending());
  }
  return need;
}

void PointToPoint::include(Engines& engines) {
  engines_ = &engines;
  for (uint32_t i = 0; i < engines.count(); ++i) {
    engines[i].p2p.report().name_contexts([this](uint64_t context) { return report_.name_of(context); });
  }
}

bool PointToPoint::each_engine(const std::function<bool(const PointToPoint&)>& fits) const {
  if (!engines_) return true;
  engines_->close();
  bool all = true;
  engines_->for_each_closed([&](const Engine& engine) { all = fits(engine.p2p) && all; });
  return all;
}

bool PointToPoint::sends_complete() const {
  impl_->control.flush_all_releases();  // the senders of those wait for them
  return impl_->sends.open() == 0 && impl_->endpoints.posts_queued() == 0 &&
         each_engine([](const PointToPoint& p2p) { return p2p.sends_complete(); });
}

bool PointToPoint::quiet() const {
  if (!sends_complete()) return false;
  for (Path* path : impl_->endpoints.paths()) {
    if (path->has_unsent()) return false;
  }
  return each_engine([](const PointToPoint& p2p) { return p2p.quiet(); });
}

bool PointToPoint::is_plain() const {
  const Receives& receives = impl_->receives;
  const bool idle = impl_->control.is_idle() && impl_->heartbeat.is_idle() && impl_->announcements.is_idle() &&
                    impl_->deferred.is_idle() && impl_->rendezvous_receiver.is_idle();
  return idle && impl_->sends.open() == 0 && receives.open() == receives.matching.posted_count() &&
         receives.offered() == 0 && impl_->endpoints.posts_queued() == 0 && !impl_->tuples;
}

uint64_t PointToPoint::context_of(const Request& request) const {
  if (auto* send = dynamic_cast<const SendRequest*>(&request))
    return &send->sends == &impl_->sends ? send->arguments.context : 0;
  if (auto* sent = dynamic_cast<const SentRequest*>(&request)) return &sent->sends == &impl_->sends ? sent->context : 0;
  auto* receive = dynamic_cast<const ReceiveRequest*>(&request);
  return receive && &receive->receives == &impl_->receives ? receive->context : 0;
}

}  // namespace tern
