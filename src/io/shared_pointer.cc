#include "io/shared_pointer.h"

namespace tern::io {

namespace {
// Tags on Communicator::Plane::tagged of the file's own communicator.
constexpr int kRequestTag = 0, kAnswerTag = 1;
}  // namespace

/// Answers requests: a receive is posted at every moment; one that is complete is handled in the next round of
/// progress.
struct SharedPointer::Server final : public Advanceable {
  explicit Server(SharedPointer& pointer) : owner(pointer), p2p(pointer.environment_.p2p()) { post(); }
  ~Server() {
    if (linked()) p2p.progress().deactivate(*this);
    receive->on_complete = nullptr;
    receive->cancel();
    receive->release();
  }

  void post() {
    receive = p2p.ireceive({&etypes, Count(sizeof etypes), &owner.environment_.byte(), kNoPeer, kAnySource, kRequestTag,
                            owner.comm_.context(Communicator::Plane::tagged)});
    receive->watcher = this;
    receive->on_complete = [](Request& completed) { static_cast<Server*>(completed.watcher)->wanted(); };
    if (receive->complete()) wanted();
  }
  void wanted() {
    if (!linked()) p2p.progress().activate(*this);
  }

  int advance() override {
    p2p.progress().deactivate(*this);
    const int source = receive->status.source;
    const bool good = !receive->error;
    receive->release();
    if (good) answer(source, owner.value().fetch_add(etypes, std::memory_order_relaxed));
    post();
    return 1;
  }

  /// The value stays until it has left.
  void answer(int to, int64_t value) {
    auto* kept = new int64_t(value);
    Request* send = p2p.isend({kept, Count(sizeof *kept), &owner.environment_.byte(), owner.comm_.peer(to),
                               owner.comm_.rank(), kAnswerTag, owner.comm_.context(Communicator::Plane::tagged)});
    if (send->complete()) {
      delete kept;
    } else {
      send->watcher = kept;
      send->on_complete = [](Request& completed) { delete static_cast<int64_t*>(completed.watcher); };
    }
    send->release();
  }

  SharedPointer& owner;
  PointToPoint& p2p;
  int64_t etypes = 0;
  Request* receive = nullptr;
};

SharedPointer::SharedPointer(Environment& environment, Communicator& comm, std::atomic<int64_t>* memory)
    : environment_(environment), comm_(comm), memory_(memory) {
  if (!memory && comm.size() > 1 && comm.rank() == 0) server_ = std::make_unique<Server>(*this);
}

SharedPointer::~SharedPointer() = default;

void SharedPointer::set(int64_t etypes) { value().store(etypes, std::memory_order_seq_cst); }

Flow SharedPointer::add(int64_t etypes, int64_t& before, bool blocking) {
  if (memory_ || comm_.rank() == 0) {
    before = value().fetch_add(etypes, std::memory_order_seq_cst);
    co_return Error();
  }
  PointToPoint& p2p = environment_.p2p();
  const uint64_t context = comm_.context(Communicator::Plane::tagged);
  int64_t answer = 0;
  Request* receive =
      p2p.ireceive({&answer, Count(sizeof answer), &environment_.byte(), comm_.peer(0), 0, kAnswerTag, context});
  Request* send = p2p.isend(
      {&etypes, Count(sizeof etypes), &environment_.byte(), comm_.peer(0), comm_.rank(), kRequestTag, context});
  Outcome sent = co_await Done(p2p, send, blocking);
  Outcome received = co_await Done(p2p, receive, blocking);
  before = answer;
  if (sent.error) co_return std::move(sent.error);
  co_return std::move(received.error);
}

}  // namespace tern::io
