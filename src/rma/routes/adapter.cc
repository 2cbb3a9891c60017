#include "rma/routes/adapter.h"
#include "base/assert.h"

namespace tern::rma {

/// From its beginning until it is done, or has gone by message.
struct RemoteTransfer final : TransferOperation, HeldOperation {
  RemoteTransfer(AdapterRoute& of, Target& to) : route(of), target(to) {}
  void leave() override { route.leave(*this); }
  void drop(Error why) override { route.over(*this, std::move(why)); }

  AdapterRoute& route;
  Target& target;
  WindowRequest* request = nullptr;
  Operation operation;
  Ref<Datatype> here, there;  ///< keep the operation's datatypes
};

namespace {

Cursor local_of(const Operation& o, size_t bytes) {
  Cursor local = o.is_put() ? Cursor(const_cast<void*>(o.origin), o.origin_count, *o.origin_type)
                            : Cursor(o.result, o.result_count, *o.result_type);
  local.truncate(bytes);
  return local;
}

}  // namespace

void AdapterRoute::find_keys(Target& target) {
  TargetKeys& keys = target.keys;
  keys.known = true;
  const Endpoint& way = target.endpoint;
  keys.key = memory_.remote().key_of(target.rank, way);
  if (keys.key.empty()) return;
  keys.address = memory_.remote().address_of(target.rank);
  keys.can_get = way.memory->remote_properties().get && way.can_get();
  keys.can_put = way.memory->remote_properties().put && way.can_put();
  if (keys.can_get || keys.can_put) target.routes.add(Route::adapter);
}

bool AdapterRoute::takes(Target& target, const Operation& o) {
  if (!o.is_put() && !o.is_get()) return false;
  if (!target.keys.known) find_keys(target);
  if (!target.routes.has(Route::adapter) || target.endpoint.lost()) return false;
  if (!(o.is_put() ? target.keys.can_put : target.keys.can_get)) return false;
  if (!Cursor(nullptr, o.target_count, *o.target_type).is_contiguous()) return false;
  const size_t bytes = o.worked_bytes();
  if (bytes == 0 || bytes < target.endpoint.memory->remote_properties().least_bytes) return false;
  // The request for the lock takes short operations along.
  if (!locks_.by_words() && target.lock.state == LockState::wanted && bytes <= kMaxInsideBytes) return false;
  if (target.endpoint.autonomous() || !target.endpoint.peer_is_polling(true)) return true;
  return bytes >= context_.environment.transfer_from_bytes() &&
         !target.endpoint.stream_is_faster(bytes, Traffic::one_way);
}

void AdapterRoute::begin(const Operation& o, Target& target, WindowRequest* request) {
  auto* transfer = new RemoteTransfer(*this, target);
  TERN_DEBUG_ASSERT(target.keys.known && !target.keys.key.empty());
  transfer->request = request;
  transfer->operation = o;
  transfer->here = Ref<Datatype>::share(o.is_put() ? o.origin_type : o.result_type);
  transfer->there = Ref<Datatype>::share(o.target_type);
  transfer->bytes = o.worked_bytes();
  transfer->local = local_of(o, transfer->bytes);
  auto* start = reinterpret_cast<std::byte*>(target.keys.address);
  start += o.displacement * memory_.disp_unit_of(target.rank);
  transfer->remote_address =
      reinterpret_cast<uintptr_t>(Cursor(start, o.target_count, *o.target_type).contiguous_data());
  transfer->key = target.keys.key;
  transfer->lane = &target.endpoint.lane();
  TERN_DEBUG_ASSERT(transfer->bytes != 0 && transfer->local.remaining() == transfer->bytes);
  transfer->done = [](TransferOperation& operation, Error error) {
    auto& self = static_cast<RemoteTransfer&>(operation);
    self.route.over(self, std::move(error));
  };
  ++target.flight.transfers;
  if (request) request->begin_part();
  if (!records_.hold(target, *transfer)) leave(*transfer);
}

void AdapterRoute::leave(RemoteTransfer& transfer) {
  Endpoint& way = transfer.target.endpoint;
  if (way.lost()) return over(transfer, context_.environment.endpoints().loss_of(way.peer));
  ++context_.counters().rma_transfers;
  TERN_DEBUG_ASSERT(transfer.target.flight.transfers != 0);
  if (transfer.operation.is_put()) way.memory->put(transfer);
  else way.memory->get(transfer);
}

// An error says nothing about the bytes here: they are moved again, by message.
void AdapterRoute::over(RemoteTransfer& transfer, Error error) {
  std::unique_ptr<RemoteTransfer> own(&transfer);
  Target& target = transfer.target;
  target.flight.end_transfer();
  if (error && (target.is_dropped() || target.endpoint.lost())) {
    target.fail(error);
    if (transfer.request) transfer.request->fail(std::move(error));
  } else if (error) {
    records_.begin(transfer.operation, target, transfer.request);
    target.out.seal();
    records_.pump(target, false);
  }
  if (transfer.request) transfer.request->end_part();
  context_.progress().notify();
}

}  // namespace tern::rma
