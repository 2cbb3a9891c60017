#include "capi/checks.h"

#include <algorithm>
#include <cstdio>

#include "capi/call.h"
#include "capi/call_site.h"
#include "capi/coll_operands.h"
#include "check/type_summary.h"
#include "fmt/format.h"
#include "p2p/core/send_request.h"

namespace tern::capi {

using check::Use;

Checks::Checks(World& world, bool fatal)
    : world_(world),
      fatal_(fatal),
      findings_{[this](const std::string& text) { report(text); }, [this] { return place(); },
                [this] { return frames(); }},
      threads_(world, findings_),
      uses_(world, findings_, [this](int32_t handle) { return find_request(handle); }),
      messages_(world.process->p2p(), findings_),
      collectives_(world.process->p2p(), findings_),
      probes_(findings_) {
  call_sites();
  world.process->p2p().endpoints().register_kinds(wire::kFirstCheckKind, wire::kLastCheckKind, *this);
}

Request* Checks::find_request(int32_t handle) const { return world_.handles.requests.find_user(uintptr_t(handle)); }

std::string Checks::place() const {
  std::string call = world_.call_name ? world_.call_name : "MPI";
  const CallStack stack = walk_stack();
  const size_t site = call_sites().first_outside(stack);
  const uintptr_t at = site != 0 && site < stack.depth ? stack.frames[site] : 0;
  if (const char* outermost = threads_.call()) call = outermost;
  const std::lock_guard guard(places_mutex_);
  const auto [known, added] = places_.try_emplace(at);
  if (added && at != 0) {
    char where[256];
    call_sites().describe(stack, false, where, sizeof where);
    known->second = where;
  }
  return known->second.empty() ? call : call + " at " + known->second;
}

std::vector<Frame> Checks::frames() const {
  Frame all[CallStack::kMaxFrames];
  const size_t depth = walk_frames(all, CallStack::kMaxFrames);
  size_t first = depth;
  while (first > 0 && !call_sites().in_library(all[first - 1].pc)) --first;
  return std::vector<Frame>(all + (first == 0 ? depth : first), all + depth);
}

void Checks::report(const std::string& text) {
  if (!told_.insert(text).second || told_.size() > kMaxTold) return;
  const std::string line = fmt::format("TERN_CHECK: {}", text);
  if (fatal_) world_.abort_job(MPI_ERR_OTHER, line, "\nTERN_CHECK=2: the job ends.");
  std::fprintf(stderr, "[tern rank %d] %s\n%s", world_.rank(), line.c_str(),
               told_.size() == kMaxTold ? "[tern] TERN_CHECK: further findings of this rank are not shown\n" : "");
}

// --- Calls.

void Checks::enter(const char* call, bool any_time) { threads_.enter(call, any_time); }

void Checks::leave() {
  if (!threads_.leave()) return;
  session_.reset();
  uses_.end_of_call();
  std::erase_if(completing_, [&](const auto& entry) { return entry.second == std::this_thread::get_id(); });
}

void Checks::uses_alone(const void* object) { uses_.begin_alone(check::Sharing::object(object)); }
void Checks::uses_alone(const Communicator& comm) { uses_.begin_alone(check::Sharing::communicator(comm.context())); }

// --- Point-to-point.

// Whether a send waits for its receive is the library's choice, and a correct program does not depend on it (MPI 5.0,
// 3.5). Here it waits, so that the hang report shows the deadlock that another library, or a longer message, would
// have.
Error Checks::send(const SendArguments& arguments, Count count, const Datatype& type) {
  const CheckedUses::Shared shared{arguments.context, &type};
  uses_.use({Use{arguments.buffer, arguments.count, arguments.type, false}}, &shared);
  SendArguments synchronous = arguments;
  if (synchronous.mode == SendMode::standard) synchronous.mode = SendMode::synchronous;
  Request* request = messages_.isend(synchronous, count, type);
  // Where there are sessions a peer may go on after its MPI_Finalize (MPI 5.0, 11.3).
  world_.process->progress().wait_until(
      [&] { return request->complete() || (!world_.models.sessions_used && messages_.finalizes(arguments.peer)); });
  if (!request->complete()) {
    report(fmt::format("the message of {} with tag {} was never received: rank {} of the job is in MPI_Finalize",
                       place(), arguments.tag, arguments.peer));
    request->cancel();
    world_.process->p2p().wait(*request);
  }
  Error error = std::move(request->error);
  request->release();
  return error;
}

Request* Checks::isend(const SendArguments& arguments) {
  const CheckedUses::Shared shared{arguments.context, arguments.type};
  uses_.stage({Use{arguments.buffer, arguments.count, arguments.type, false}}, &shared);
  return messages_.isend(arguments, arguments.count, *arguments.type);
}

Error Checks::receive(const ReceiveArguments& arguments, Status& status) {
  const CheckedUses::Shared shared{arguments.context, arguments.type};
  uses_.use({Use{arguments.buffer, arguments.count, arguments.type, true}}, &shared);
  const check::Probes::Doubt doubt = probes_.receives(arguments.context, arguments.source, arguments.tag,
                                                      arguments.count * Count(arguments.type->size()));
  const std::string where = place();
  PointToPoint& p2p = world_.process->p2p();
  Request* request = p2p.ireceive(arguments);
  p2p.wait(*request);
  messages_.received(static_cast<ReceiveRequest&>(*request), where);
  status = request->status;
  if (!doubt.text.empty() && status.bytes != doubt.bytes) report(doubt.text);
  Error error = std::move(request->error);
  request->release();
  return error;
}

Request* Checks::ireceive(const ReceiveArguments& arguments) {
  const CheckedUses::Shared shared{arguments.context, arguments.type};
  uses_.stage({Use{arguments.buffer, arguments.count, arguments.type, true}}, &shared);
  probes_.receives(arguments.context, arguments.source, arguments.tag, 0);
  Request* request = world_.process->p2p().ireceive(arguments);
  watch(*request);
  return request;
}

void Checks::probed(const Communicator& comm, const Status* found) {
  if (!found) return probes_.found_nothing();
  probes_.found(comm.context(), *found);
  uses_.pause();
}

void Checks::watch(Request& receive) {
  const std::string where = place();
  if (receive.complete() && receive.active()) {
    messages_.received(static_cast<ReceiveRequest&>(receive), where);
    if (!receive.persistent()) return;
  }
  receives_[&receive] = where;
  receive.watcher = this;
  receive.on_complete = [](Request& done) {
    auto& checks = *static_cast<Checks*>(done.watcher);
    const auto found = checks.receives_.find(&done);
    if (found == checks.receives_.end()) return;
    checks.messages_.received(static_cast<ReceiveRequest&>(done), found->second);
    if (!done.persistent()) checks.receives_.erase(found);
  };
}

void Checks::prepare(const void* buffer, Count count, const Datatype& type, bool writes) {
  uses_.stage({Use{buffer, count, &type, writes}});
}

Error Checks::start(Request& request) {
  auto* send = dynamic_cast<SendRequest*>(&request);
  const uint32_t before = send ? messages_.sent_so_far(send->arguments.peer) : 0;
  if (Error error = request.start()) return error;
  uses_.buffers().start(request.handle);
  if (send) messages_.begun(send->arguments, before, send->arguments.count, *send->arguments.type);
  return {};
}

// --- Collectives.

namespace {

std::vector<wire::TypeSummary> summaries(const Side& side, int blocks) {
  std::vector<wire::TypeSummary> all;
  if (side.shape == Side::Shape::uniform) {
    if (side.type) all.push_back(check::summary_of(side.count, *side.type));
    return all;
  }
  if (!side.type && !side.types) return all;
  for (int i = 0; i < blocks; ++i) {
    const Datatype& type = side.types ? *side.types[i] : *side.type;
    all.push_back(check::summary_of(side.counts[i], type));
  }
  return all;
}

void add_uses(const Side& side, int blocks, bool writes, std::vector<Use>& uses) {
  if (side.shape == Side::Shape::uniform) {
    if (side.type) uses.push_back({side.buffer, side.count * blocks, side.type, writes});
    return;
  }
  if (!side.type && !side.types) return;
  for (int i = 0; i < blocks; ++i) {
    const Block block = side.block(i);
    uses.push_back({block.data, block.count, block.type, writes});
  }
}

std::vector<Use> uses_of(const Communicator& comm, Operation operation, const Operands& o) {
  std::vector<Use> uses;
  const int n = comm.size();
  switch (operation) {
    case Operation::barrier: break;
    case Operation::bcast: add_uses(o.receive, 1, o.root != comm.rank(), uses); break;
    case Operation::reduce:
      if (!o.in_place) add_uses(o.send, 1, false, uses);
      if (o.root == comm.rank()) add_uses(o.receive, 1, true, uses);
      break;
    case Operation::reduce_scatter:
      if (!o.in_place) add_uses(o.send, 1, false, uses);
      uses.push_back({o.receive.buffer, o.receive.counts[comm.rank()], o.receive.type, true});
      break;
    case Operation::allreduce:
    case Operation::reduce_scatter_block:
    case Operation::scan:
    case Operation::exscan:
      if (!o.in_place) add_uses(o.send, 1, false, uses);
      add_uses(o.receive, 1, true, uses);
      break;
    case Operation::scatter:
    case Operation::scatterv:
      add_uses(o.send, n, false, uses);
      if (!o.in_place) add_uses(o.receive, 1, true, uses);
      break;
    default:
      const bool to_all = operation >= Operation::alltoall && operation <= Operation::alltoallw;
      if (!o.in_place) add_uses(o.send, to_all ? n : 1, false, uses);
      add_uses(o.receive, n, true, uses);
  }
  return uses;
}

bool is_reduction(Operation operation) { return operation >= Operation::reduce && operation <= Operation::exscan; }

// The large-count variant of a function is the same operation.
std::string operation_name(const char* function) {
  std::string name = function;
  if (name.ends_with("_c")) name.resize(name.size() - 2);
  return name;
}

}  // namespace

void Checks::reduction(const Op& op, const Datatype& type) {
  if (!type.kind() || !op_goes_beyond(op.id(), *type.kind())) return;
  report(fmt::format("{} of {} in {} is beyond the standard (MPI 5.0, 6.9.2), and other MPI libraries may refuse it{}",
                     op.name(), type.name(), place(),
                     type.kind()->type_class == TypeClass::character ? ". For numbers pass MPI_SIGNED_CHAR or "
                                                                       "MPI_UNSIGNED_CHAR."
                                                                     : "."));
}

Error Checks::collective(Communicator& comm, Operation operation, const Operands& o, Mode mode) {
  if (o.op && o.receive.type) reduction(*o.op, *o.receive.type);
  wire::CheckedCollective call;
  call.function = operation_name(world_.call_name);
  call.blocking = mode == Mode::blocking;
  if (!comm.is_inter() && operation < Operation::neighbor_allgather) {
    const std::vector<Use> uses = uses_of(comm, operation, o);
    if (call.blocking) uses_.use(uses);
    else uses_.stage(uses);
    call.operation = uint8_t(operation);
    call.root = o.root;
    call.op = o.op ? int(o.op->id()) + (o.op->commutative() ? 0 : 1000) : 0;
    call.in_place = o.in_place;
    if (is_reduction(operation)) {
      call.receives = summaries(o.receive.type ? o.receive : o.send, comm.size());
    } else if (operation == Operation::bcast) {
      call.receives = summaries(o.receive, 1);
    } else if (operation != Operation::barrier) {
      call.sends = summaries(o.send, comm.size());
      call.receives = summaries(o.receive, comm.size());
    }
  }
  uses_.begin_alone(check::Sharing::collectives_of(comm.context()));
  return begin(comm, std::move(call));
}

Error Checks::collective(Communicator& comm) {
  wire::CheckedCollective call;
  call.function = operation_name(world_.call_name);
  uses_.begin_alone(check::Sharing::collectives_of(comm.context()));
  return begin(comm, std::move(call));
}

// --- Handles.

void Checks::given(const void* table, uintptr_t handle) {
  if (handle >= 4096) creators_[{table, handle}] = place();
}

void Checks::bind(const Request& request) {
  uses_.buffers().bind(request.handle, !request.persistent() || request.active());
}

void Checks::completing(const Request& request) {
  uses_.buffers().completing(request.handle);
  const auto [found, added] = completing_.try_emplace(&request, std::this_thread::get_id());
  if (added || found->second == std::this_thread::get_id()) return;
  report(
      fmt::format("two threads complete one request at the same time, the second in {}. Each request may be waited "
                  "for by one thread only (MPI 5.0, 11.6.2).",
                  place()));
}

void Checks::taken(const Request& request) { uses_.buffers().completing(request.handle); }

void Checks::freeing(const Request& request) {
  if (request.complete()) return;
  const bool one_sided = request.kind() == Request::Kind::window;
  if (one_sided || request.kind() == Request::Kind::file) {
    report(
        fmt::format("an active request of {} operation is freed in {}, which MPI 5.0, {}, does not allow. Complete it "
                    "with MPI_Wait.",
                    one_sided ? "a one-sided" : "a file", place(), one_sided ? "12.3.5" : "3.7.3"));
  }
  if (request.kind() != Request::Kind::receive || request.persistent()) return;
  report(
      fmt::format("an active receive is freed in {}: nothing tells when its message is there. Complete it with "
                  "MPI_Wait, or cancel it (MPI 5.0, 3.7.3).",
                  place()));
}

// --- What other ranks say.

void Checks::on_message(Endpoint& from, const wire::Header& header, const std::byte* payload, size_t bytes) {
  const std::string_view record(reinterpret_cast<const char*>(payload), bytes);
  if (header.kind == wire::kCheckMessage) messages_.on_record(from, record);
  else if (header.kind == wire::kCheckCollective) collectives_.on_record(from, record);
  else if (header.kind == wire::kCheckVerdict) collectives_.on_verdict(record);
  else if (header.kind == wire::kCheckFinalize) messages_.on_finalize(from);
}

Landing Checks::on_header(Endpoint&, const wire::Header&, size_t bytes) {
  auto* record = new std::vector<std::byte>(bytes);
  return Landing{.target = Cursor::bytes(record->data(), bytes), .token = record};
}

void Checks::on_landed(Endpoint& from, const wire::Header& header, Landing& landing, size_t bytes, Error error) {
  const std::unique_ptr<std::vector<std::byte>> record(static_cast<std::vector<std::byte>*>(landing.token));
  if (!error) on_message(from, header, record->data(), bytes);
}

// --- The entry points' side.

Error check_collective(Call& call, Communicator& comm, Operation operation, const Operands& operands, Mode mode) {
  return call.world().checks->collective(comm, operation, operands, mode);
}

Error Call::check_collective(Communicator& comm) { return world_.checks->collective(comm); }

}  // namespace tern::capi
