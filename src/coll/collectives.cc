#include "coll/collectives.h"

#include <algorithm>

#include "base/recorder.h"
#include "coll/algorithms.h"
#include "coll/environment.h"
#include "datatype/predefined.h"

namespace tern {

namespace {
// Immutable; equal on all processes (select.h).
Situation situation_of(Operation operation, const Operands& o, int ranks) {
  Situation s{operation, 0, ranks, !o.op || o.op->commutative(), false};
  auto bytes = [](const Side& side) { return size_t(side.count) * size_t(side.type->size()); };
  switch (operation) {
    case Operation::bcast:
    case Operation::reduce:
    case Operation::allreduce:
    case Operation::scan:
    case Operation::exscan:
    case Operation::allgather:
    case Operation::alltoall: s.bytes = bytes(o.receive); break;
    case Operation::gather:  // not in place, or not the root: both sides would be the same
      s.bytes = o.receive.type ? bytes(o.receive) : bytes(o.send);
      break;
    case Operation::scatter: s.bytes = o.send.type ? bytes(o.send) : bytes(o.receive); break;
    case Operation::allgatherv: {
      size_t total = 0;
      for (int i = 0; i < ranks; ++i) total += o.receive.block(i).bytes();
      s.bytes = total / size_t(ranks);
      break;
    }
    case Operation::reduce_scatter_block: s.bytes = bytes(o.receive) * size_t(ranks); break;
    case Operation::reduce_scatter: {
      Count total = 0;
      for (int i = 0; i < ranks; ++i) total += o.receive.counts[i];
      s.bytes = size_t(total * o.receive.type->size());
      break;
    }
    default: break;
  }
  return s;
}

bool is_neighbor(Operation operation) { return operation >= Operation::neighbor_allgather; }

void hold(Schedule& schedule, const Side& side, int blocks) {
  if (side.shape == Side::Shape::general) {
    for (int i = 0; i < blocks; ++i) schedule.hold(side.types[i]);
  } else {
    schedule.hold(side.type);
  }
}

void hold_operands(Schedule& schedule, const Operands& o, Operation operation, Communicator& communicator) {
  int sends = communicator.peer_group().size(), receives = sends;
  if (operation == Operation::neighbor_alltoallw) {
    std::vector<int> in, out;
    communicator.topology->neighbors(communicator.rank(), in, out);
    sends = int(out.size());
    receives = int(in.size());
  }
  if (o.send.types || o.send.type) hold(schedule, o.send, sends);
  if (o.receive.types || o.receive.type) hold(schedule, o.receive, receives);
  if (o.op) schedule.hold(o.op);
}
}  // namespace

CollectiveEnvironment::CollectiveEnvironment(Communicator& communicator) {
  PredefinedTypes types;
  byte = Ref<Datatype>::share(&types.get(type_id::kByte));
  selection_error = selection.parse(communicator.p2p().tunables().coll);
}

CollectiveEnvironment& CollectiveEnvironment::make(Communicator& communicator) {
  communicator.collective_state = std::make_unique<CollectiveEnvironment>(communicator);
  return static_cast<CollectiveEnvironment&>(*communicator.collective_state);
}

namespace {
// Asks for the members' shared memory after a few operations that would use it. All members make the same calls, so
// they ask at the same call, and get the same answer.
void make_node_team(CollectiveEnvironment& environment, Communicator& communicator) {
  environment.no_team = true;
  if (!NodeTeam::possible(communicator)) return;
  constexpr uint64_t kNoRoom = ~uint64_t{0};  // instead of an offset
  uint64_t offset = kNoRoom;
  NodeMemory& memory = *communicator.environment().node_memory;
  if (communicator.rank() == 0 && !memory.allocate(NodeTeam::bytes_for(communicator.size()), offset,
                                                   NodeTeam::zeroed_bytes_for(communicator.size())))
    offset = kNoRoom;
  Operands o;
  o.receive.buffer = reinterpret_cast<std::byte*>(&offset);
  o.receive.count = sizeof offset;
  o.receive.type = environment.byte.get();
  Schedule* schedule =
      environment.schedules.create(environment, communicator, Mode::blocking, communicator.next_collective_tag());
  Builder builder(*schedule, environment);
  bcast_binomial(builder, o);
  if (schedule->finish_immediate() || offset == kNoRoom) return;
  environment.node_team = std::make_unique<NodeTeam>(communicator, offset);
}

// Whether this call can use node memory, which takes contributions of a bounded size; equal at all members.
bool suits_node(const Situation& s, const Operands& o) {
  size_t bytes = s.bytes;  // of the longest contribution
  switch (s.operation) {
    case Operation::barrier: return true;
    case Operation::bcast:
    case Operation::gather:
    case Operation::allgather: break;
    case Operation::scatter:
    case Operation::alltoall: bytes *= size_t(s.ranks - 1); break;
    case Operation::allgatherv:
      for (int i = 0; i < s.ranks; ++i) bytes = std::max(bytes, o.receive.block(i).bytes());
      break;
    case Operation::reduce:
    case Operation::allreduce:
    case Operation::reduce_scatter:
    case Operation::reduce_scatter_block:
    case Operation::scan:
    case Operation::exscan:
      if (!o.receive.type->is_contiguous()) return false;
      break;
    default: return false;
  }
  return bytes != 0 && s.bytes <= NodeTeam::kBulkBytes && bytes <= NodeTeam::kBulkBytes;
}
}  // namespace

Error check_collective_tunable(std::string_view text) { return Selection().parse(text); }

Error collective(Communicator& communicator, Operation operation, const Operands& operands, Mode mode,
                 Request*& request) {
  CollectiveEnvironment& environment = CollectiveEnvironment::of(communicator);
  if (environment.selection_error) [[unlikely]] {
    return Error(environment.selection_error.error_class(), std::string(environment.selection_error.text()));
  }
  const bool whole = !communicator.is_inter() && !is_neighbor(operation);
  const Algorithm* algorithm = nullptr;
  if (whole) {
    Situation situation = situation_of(operation, operands, communicator.size());
    if (mode == Mode::blocking && suits_node(situation, operands)) {
      if (!environment.no_team && ++environment.wishes >= CollectiveEnvironment::kBeforeTeam) {
        make_node_team(environment, communicator);
      }
      situation.node_memory = environment.node_team != nullptr;
    }
    algorithm = &environment.selection.choose(situation);
    if (Recorder* tracer = communicator.p2p().progress().tracer()) [[unlikely]]
      tracer->describe_algorithm(algorithm->name);
    if (algorithm->at_once) {
      ++communicator.p2p().progress().counters().coll_node;
      environment.node_team->set_operation(operation);
      return algorithm->at_once(*environment.node_team, operands);
    }
  }
  int tag = mode == Mode::persistent ? environment.next_persistent_tag() : communicator.next_collective_tag();
  Schedule* schedule = environment.schedules.create(environment, communicator, mode, tag);
  if (mode == Mode::blocking) {
    schedule->use(operands.op);
  } else {
    hold_operands(*schedule, operands, operation, communicator);
  }
  Builder builder(*schedule, environment, communicator.is_inter() ? Builder::Team::remote : Builder::Team::whole);
  if (algorithm) {
    algorithm->build(builder, operands);
  } else if (communicator.is_inter()) {
    build_inter(builder, operation, operands);
  } else {
    build_neighbor(builder, operation, operands);
  }
  Counters& counters = communicator.p2p().progress().counters();
  ++(mode == Mode::blocking ? counters.coll_blocking : counters.coll_scheduled);
  if (mode == Mode::blocking) return schedule->finish_immediate();
  schedule->begin();
  request = schedule;
  return {};
}

}  // namespace tern
