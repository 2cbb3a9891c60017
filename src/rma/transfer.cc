// Puts and gets by the path's RemoteMemory: an adapter or this rank's CPU moves the bytes, and the target's processor
// is not needed. What the epoch does not allow yet waits as a parcel; a transfer that fails goes by message instead.
//
// A transfer is over at the target when it is done, so the end of an epoch waits for transfers first, and for what
// went by message (also instead of a transfer) after that.
#include "rma/window.h"

namespace tern::rma {

using wire::WindowAction;

/// From its beginning until it is done, or has gone by message.
struct RemoteTransfer final : TransferOperation {
  Window* window = nullptr;
  Target* target = nullptr;
  WindowRequest* request = nullptr;
  Operation operation;
  Ref<Datatype> here, there;  ///< keep the operation's datatypes

  bool is_put() const { return operation.action == WindowAction::put; }
};

namespace {

Cursor local_of(const Operation& o, size_t bytes) {
  const bool put = o.action == WindowAction::put;
  Cursor local = put ? Cursor(const_cast<void*>(o.origin), o.origin_count, *o.origin_type)
                     : Cursor(o.result, o.result_count, *o.result_type);
  local.truncate(bytes);
  return local;
}

}  // namespace

void Window::find_remote(Target& target) {
  target.remote_known = true;
  const Endpoint& way = target.endpoint;
  target.remote_key = remote_.key_of(target.rank, way);
  if (target.remote_key.empty()) return;
  target.remote_address = remote_.address_of(target.rank);
  target.can_get = way.memory->remote_properties().get && way.can_get();
  target.can_put = way.memory->remote_properties().put && way.can_put();
}

// Without an adapter that moves bytes by itself, few of them go by message: that is quicker while the target is inside
// MPI, and more of them leave together. Of more bytes both ranks can copy a part at the same time: the path knows which
// way was faster.
bool Window::goes_by_memory(Target& target, const Operation& o) {
  const bool put = o.action == WindowAction::put;
  if (!put && o.action != WindowAction::get) return false;
  if (!target.remote_known) find_remote(target);
  if (!(put ? target.can_put : target.can_get) || target.endpoint.lost()) return false;
  if (!Cursor(nullptr, o.target_count, *o.target_type).is_contiguous()) return false;
  const size_t bytes = put ? bytes_of(o.origin_count, o.origin_type) : bytes_of(o.target_count, o.target_type);
  if (bytes == 0) return false;
  // The request for the lock takes short operations along.
  if (!design_ && target.lock == LockState::wanted && bytes <= kMaxInside_bytes) return false;
  if (target.endpoint.autonomous() || !target.endpoint.peer_is_polling(true)) return true;
  return bytes >= environment_.transfer_from_bytes() && !target.endpoint.stream_is_faster(bytes);
}

void Window::begin_transfer(const Operation& o, Target& target, WindowRequest* request) {
  const bool put = o.action == WindowAction::put;
  auto* transfer = new RemoteTransfer;
  transfer->window = this;
  transfer->target = &target;
  transfer->request = request;
  transfer->operation = o;
  transfer->here = Ref<Datatype>::share(put ? o.origin_type : o.result_type);
  transfer->there = Ref<Datatype>::share(o.target_type);
  transfer->bytes = put ? bytes_of(o.origin_count, o.origin_type) : bytes_of(o.target_count, o.target_type);
  transfer->local = local_of(o, transfer->bytes);
  auto* start = reinterpret_cast<std::byte*>(target.remote_address);
  start += o.displacement * disp_units_.of(target.rank);
  transfer->remote_address =
      reinterpret_cast<uintptr_t>(Cursor(start, o.target_count, *o.target_type).contiguous_data());
  transfer->key = target.remote_key;
  transfer->lane = &target.endpoint.lane();
  transfer->done = [](TransferOperation& operation, Error error) {
    auto& self = static_cast<RemoteTransfer&>(operation);
    self.window->transfer_over(self, std::move(error));
  };
  ++target.transfers;
  if (request) request->begin_part();
  if (gate_open(target)) return issue(*transfer);
  seal(target, nullptr);
  target.sealed.push_back({{}, 0, nullptr, transfer, nullptr});
  pump(target, false);
}

void Window::issue(RemoteTransfer& transfer) {
  Endpoint& way = transfer.target->endpoint;
  if (way.lost()) return transfer_over(transfer, environment_.endpoints().loss_of(way.peer));
  ++environment_.counters().rma_transfers;
  if (transfer.is_put()) way.memory->put(transfer);
  else way.memory->get(transfer);
}

// An error says nothing about the bytes here: they are moved again, by message.
void Window::transfer_over(RemoteTransfer& transfer, Error error) {
  std::unique_ptr<RemoteTransfer> own(&transfer);
  Target& target = *transfer.target;
  --target.transfers;
  if (error && (target.lost || target.endpoint.lost() || target.lock == LockState::refused)) {
    if (!target.error) target.error = Error(error.error_class(), std::string(error.text()));
    if (transfer.request && !transfer.request->error) transfer.request->error = std::move(error);
  } else if (error) {
    put_out(transfer.operation, target, transfer.request);
    seal(target, nullptr);
    pump(target, false);
  }
  if (transfer.request) transfer.request->end_part();
  environment_.progress().notify();
}

void Window::wait_for_transfers(Target& target) {
  if (target.transfers != 0) wait_until([&] { return target.transfers == 0; });
}

}  // namespace tern::rma
