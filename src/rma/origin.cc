// The way of records to targets, and of what comes back.
#include "rma/window.h"

namespace tern::rma {

namespace {
// So many posted messages wait for room on their way: the caller helps them along before it adds more.
constexpr uint32_t kManyQueued = 64;
}  // namespace

Target& Window::target(int rank) {
  if (targets_.empty()) targets_.resize(size_t(comm_->size()));
  std::unique_ptr<Target>& place = targets_[size_t(rank)];
  if (!place) {
    const PeerId peer = comm_->peer(rank);
    place = std::make_unique<Target>(rank, environment_.endpoints().at(peer));
    place->lost = environment_.endpoints().lost(peer);
    place->memory = reachable(rank);
    place->size = sizes_.of(rank);
    place->disp_unit = disp_units_.of(rank);
    place->place = part_.empty() ? -1 : part_.place_of(rank);
    place->epoch_place = epoch_place(rank);
  }
  return *place;
}

// The records gathered so far become a parcel; `data` belong to the last of them.
void Window::seal(Target& target, DataSend* data) {
  if (!target.fills_parcel()) return;
  target.sealed.push_back({std::move(target.open), target.confirm, data, nullptr, nullptr});
  target.open.clear();
  target.confirm = 0;
}

bool Window::gate_open(const Target& target) const {
  if (target.lock != LockState::none) return target.lock == LockState::held;
  if (!started_ || started_unchecked_ || target.posts != 0) return true;
  return target.epoch_place >= 0 && epochs_->is_open(target.epoch_place);
}

// A post that comes as a message releases what is held back until then; one in memory must be waited for, as
// MPI_Win_start may, too (MPI 5.0, 12.5.2).
void Window::await_post(Target& target) {
  if (target.epoch_place < 0) return;
  target.awaited = true;
  wait_for_count([&] { return gate_open(target) || target.lost; }, !serves());
  target.awaited = false;
}

void Window::pump(Target& target, bool everything) {
  if (target.pumping || target.in_cell) return;  // an answer that came while sending, of this rank itself
  const bool at_once = everything && target.fills_parcel() && target.sealed.empty() && may_leave(target);
  if (at_once && goes_by_cell(target)) return ask_by_cell(target);
  target.pumping = true;
  if (at_once) send_open(target);
  if (everything) seal(target, nullptr);
  while (!target.sealed.empty()) {
    if (target.lost || target.lock == LockState::refused) {
      drop_parcels(target);
    } else if (target.lock == LockState::wanted && design_) {
      ask_design(target);
    } else if (target.lock == LockState::wanted) {
      Parcel& first = target.sealed.front();
      const bool together =
          target.sealed.size() == 1 && !target.fills_parcel() && !first.data && !first.transfer && !first.words;
      if (!together) {
        send_lock(target);
        continue;
      }
      Parcel parcel;
      wire::WindowWriter(parcel.records).record({wire::WindowCode::lock, uint8_t(begin_lock(target))});
      parcel.records.insert(parcel.records.end(), first.records.begin(), first.records.end());
      parcel.confirm = first.confirm;
      target.sealed.pop_front();
      send(target, std::move(parcel));
    } else if (gate_open(target)) {
      Parcel parcel = std::move(target.sealed.front());
      target.sealed.pop_front();
      if (parcel.transfer) issue(*parcel.transfer);
      else if (parcel.words) issue(*parcel.words);
      else send(target, std::move(parcel));
    } else {
      break;
    }
  }
  target.pumping = false;
}

bool Window::may_leave(const Target& target) const {
  return !target.lost && target.lock != LockState::refused && target.lock != LockState::wanted && gate_open(target);
}

// The commonest case, without the way through the parcels; the vector's memory is used again.
void Window::send_open(Target& target) {
  Parcel parcel;
  parcel.records.swap(target.open);
  std::swap(parcel.confirm, target.confirm);
  post_records(target, parcel);
  parcel.records.clear();
  if (target.open.empty()) target.open.swap(parcel.records);
}

void Window::send_lock(Target& target) {
  Parcel parcel;
  wire::WindowWriter(parcel.records).record({wire::WindowCode::lock, uint8_t(begin_lock(target))});
  send(target, std::move(parcel));
}

void Window::post_records(Target& target, const Parcel& parcel) {
  ++environment_.counters().rma_messages;
  target.unasked = parcel.confirm == 0;
  environment_.endpoints().post(target.endpoint, header(wire::kWindowBatch, parcel.confirm), parcel.records.data(),
                                parcel.records.size());
  if (environment_.endpoints().posts_queued() > kManyQueued && !environment_.progress().polling())
    environment_.progress().poll();
}

void Window::send(Target& target, Parcel parcel) {
  Endpoint& endpoint = target.endpoint;
  post_records(target, parcel);
  if (DataSend* data = parcel.data) {
    ++environment_.counters().rma_messages;
    data->header = header(wire::kWindowData);
    data->done = [](SendOperation& operation, Error error) {
      auto* self = static_cast<DataSend*>(&operation);
      --self->target->pending;
      if (self->request) {
        if (error && !self->request->error) self->request->error = std::move(error);
        self->request->end_part();
      }
      self->window->environment_.progress().notify();
      delete self;
    };
    if (endpoint.lost()) data->done(*data, environment_.endpoints().loss_of(endpoint.peer));
    else endpoint.enqueue(*data);
  }
}

Error Window::why_dropped(const Target& target) const {
  if (target.lost) return environment_.endpoints().loss_of(target.endpoint.peer);
  return Error(target.refusal.error_class(), std::string(target.refusal.text()));
}

// Nothing of what was begun will happen.
void Window::drop_operations(Target& target) {
  seal(target, nullptr);
  drop_parcels(target);
  for (size_t i = 0; i < awaited_.size(); ++i) {
    if (awaited_[i].target == &target) result_over(uint32_t(i + 1), why_dropped(target));
  }
}

void Window::drop_parcels(Target& target) {
  while (!target.sealed.empty()) {
    RemoteTransfer* transfer = target.sealed.front().transfer;
    WordAccumulate* words = target.sealed.front().words;
    DataSend* data = target.sealed.front().data;
    target.sealed.pop_front();
    if (transfer) transfer_over(*transfer, why_dropped(target));
    if (words) words_over(*words, why_dropped(target));
    if (!data) continue;
    --target.pending;
    if (data->request) {
      if (!data->request->error) data->request->error = why_dropped(target);
      data->request->end_part();
    }
    delete data;
  }
}

// Everything that goes to the target before this is over when the answer is here.
void Window::ask_confirmation(Target& target) {
  target.confirm = begin_confirmation(target);
  pump(target, true);
}

uint32_t Window::begin_confirmation(Target& target) {
  ++environment_.counters().rma_flushes;
  target.unconfirmed = false;
  if (++target.asked == 0) ++target.asked;
  return target.asked;
}

// --- What comes back.

void Window::take_post(int from) {
  Target& origin_of = target(from);
  ++origin_of.posts;
  pump(origin_of, true);
  environment_.progress().notify();
}

void Window::take_nudge() { environment_.progress().notify(); }

void Window::take_answers(Target& about, std::span<const std::byte> records) {
  wire::WindowReader in(records);
  wire::WindowRecord head;
  while (in.next(head)) {
    std::span<const std::byte> text;
    switch (head.code) {
      case wire::WindowCode::granted:
        if (about.lock == LockState::asked) about.lock = LockState::held;
        pump(about, true);
        break;
      case wire::WindowCode::ack: about.confirmed = head.number; break;
      case wire::WindowCode::result: {
        if (!in.text(text) || head.number == 0 || head.number > awaited_.size()) break;
        Awaited& awaited = awaited_[head.number - 1];
        if (awaited.target != &about || awaited.bytes != text.size()) break;
        awaited.into.unpack(text.data(), text.size());
        result_over(head.number, Error());
        break;
      }
      case wire::WindowCode::failed: {
        if (!in.text(text)) break;
        const std::string why(reinterpret_cast<const char*>(text.data()), text.size());
        Error error(int(head.flag), describe() + ", target " + std::to_string(about.rank) + ": " + why);
        const bool known = head.number != 0 && head.number <= awaited_.size();
        if (!about.error) about.error = Error(int(head.flag), std::string(error.text()));
        if (known && awaited_[head.number - 1].target == &about) result_over(head.number, std::move(error));
        break;
      }
      default: break;
    }
  }
  environment_.progress().notify();
}

void Window::result_over(uint32_t token, Error error) {
  Awaited& awaited = awaited_[token - 1];
  --awaited.target->pending;
  WindowRequest* request = awaited.request;
  awaited.target = nullptr;
  awaited.request = nullptr;
  awaited.type.reset();
  awaited.next_free = free_awaited_;
  free_awaited_ = token;
  if (!request) return;
  if (error && !request->error) request->error = std::move(error);
  request->end_part();
}

void Window::lose(int rank, const Error& error) {
  if (!targets_.empty() && targets_[size_t(rank)]) {
    Target& gone = *targets_[size_t(rank)];
    gone.lost = true;
    forget_cell(gone);
    drop_operations(gone);
    if (!gone.error) gone.error = Error(error.error_class(), std::string(error.text()));
  }
  if (locks_.holds(rank) && broken_.empty()) {
    broken_ = "rank " + std::to_string(rank) + " of the window was lost while it held the lock";
    for (int waiting : locks_.dismiss()) granted_.push_back(waiting);
  }
  if (design_) {
    design_->lost(rank, error);
    wake_design();
  }
  locks_.forget(rank);
  if (!sources_.empty() && sources_[size_t(rank)]) own_turns_.forget(sources_[size_t(rank)]->returns);
  std::erase(granted_, rank);
  grant_ready();
  environment_.progress().notify();
}

std::string Window::report() const {
  std::string lines;
  const auto add = [&](const std::string& line) { lines += "  " + describe() + ": " + line + "\n"; };
  for (const auto& target : targets_) {
    if (!target) continue;
    const std::string of = " rank " + std::to_string(target->rank);
    if (target->lock == LockState::asked) add("the lock of" + of + " has been asked for");
    if (target->transfers != 0)
      add(std::to_string(target->transfers) + " transfers with the memory of" + of + " are not over");
    if (target->pending != 0) add(std::to_string(target->pending) + " transfers with" + of + " are not over");
    if (target->confirmed != target->asked) add("a confirmation of" + of + " has not come");
    const bool held = started_ && target->has_records() && target->posts == 0;
    if (held || target->awaited) add(of.substr(1) + " has not called MPI_Win_post");
  }
  if (posted_ && completed_ < int(posted_group_.ranks.size()))
    add(std::to_string(completed_) + " of " + std::to_string(posted_group_.ranks.size()) +
        " origins have called MPI_Win_complete");
  for (int holder : locks_.holders()) add("rank " + std::to_string(holder) + " holds this rank's lock");
  if (locks_.queued() != 0) add(std::to_string(locks_.queued()) + " origins wait for this rank's lock");
  for (const auto& source : sources_) {
    if (source && source->replying != 0)
      add(std::to_string(source->replying) + " results for rank " + std::to_string(source->rank) + " have not left");
  }
  return lines;
}

}  // namespace tern::rma
