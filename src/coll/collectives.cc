#include "coll/collectives.h"

#include <algorithm>
#include <optional>

#include "base/recorder.h"
#include "coll/algorithms.h"
#include "coll/environment.h"
#include "datatype/predefined.h"

namespace tern {

namespace {
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

Error check_collective_tunable(std::string_view text) { return Selection().parse(text); }

// While it lives, the hang report knows where this rank is.
class Inside {
 public:
  Inside(Communicator& comm, Operation operation, const Operands& operands) : environment_(comm.environment()) {
    environment_.inside = &comm;
    environment_.inside_root = has_root(operation) && !comm.is_inter() ? operands.root : -1;
  }
  ~Inside() { environment_.inside = nullptr; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  static bool has_root(Operation operation) {
    switch (operation) {
      case Operation::bcast:
      case Operation::gather:
      case Operation::gatherv:
      case Operation::scatter:
      case Operation::scatterv:
      case Operation::reduce: return true;
      default: return false;
    }
  }

  RankEnvironment& environment_;
};

// While it lives, a blocking collective is going on, for those who listen.
class Watched {
 public:
  Watched(Communicator& comm, Operation operation, int algorithm)
      : counters_(comm.environment().p2p.progress().counters()),
        data_{algorithm, int32_t(operation), int64_t(comm.context()), 0} {
    tell(Event::collective_begun);
  }
  ~Watched() { tell(Event::collective_done); }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

 private:
  void tell(Event event) const {
    if (counters_.watched != 0) [[unlikely]]
      counters_.tell(event, data_);
  }
  Counters& counters_;
  const EventData data_;
};

Error collective(Communicator& communicator, Operation operation, const Operands& operands, Mode mode,
                 Request*& request) {
  CollectiveEnvironment& environment = CollectiveEnvironment::of(communicator);
  if (environment.selection_error) [[unlikely]] {
    return Error(environment.selection_error.error_class(), std::string(environment.selection_error.text()));
  }
  std::optional<Inside> inside;
  if (mode == Mode::blocking) inside.emplace(communicator, operation, operands);
  const bool whole = !communicator.is_inter() && !is_neighbor(operation);
  const Algorithm* algorithm = nullptr;
  int number = -1;  // of the algorithm, only if somebody watches
  if (whole) {
    Situation situation = situation_of(operation, operands, communicator.size());
    // The same bits wherever the ranks are: the order of combining follows from ranks and bytes alone.
    const bool anywhere = combines(operation) && (communicator.reproducible || environment.reproducible);
    if (mode == Mode::blocking && suits_node(situation, operands)) {
      if (!environment.no_team && ++environment.wishes >= CollectiveEnvironment::kBeforeTeam) {
        environment.learn_team(communicator);
      }
      situation.node_memory = environment.node_team && !anywhere;
    }
    if (mode == Mode::blocking && !environment.levels_asked &&
        ++environment.blocking_calls >= CollectiveEnvironment::kBeforeTeam) {
      environment.learn_levels(communicator);
    }
    if (!anywhere) situation.nodes = environment.nodes;
    situation.shares_cores = environment.shares_cores && !anywhere;
    algorithm = &environment.selection.choose(situation);
    ProgressEngine& progress = communicator.environment().p2p.progress();
    if (progress.counters().watched != 0) [[unlikely]] {
      number = int(algorithm - algorithms().data());
      if (Recorder* tracer = progress.tracer()) tracer->describe_algorithm(algorithm->name);
    }
    if (algorithm->at_once) {
      ++communicator.environment().p2p.progress().counters().coll_node;
      environment.node_team->set_operation(operation);
      const Watched watched(communicator, operation, number);
      return algorithm->at_once(*environment.node_team, operands);
    }
  }
  int tag = mode == Mode::persistent ? environment.next_persistent_tag() : communicator.next_collective_tag();
  Schedule* schedule = environment.schedules.create(environment, communicator, mode, tag);
  std::optional<Watched> watched;
  if (mode == Mode::blocking) {
    schedule->use(operands.op);
    watched.emplace(communicator, operation, number);
  } else {
    schedule->name(operation, number);
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
  Counters& counters = communicator.environment().p2p.progress().counters();
  ++(mode == Mode::blocking ? counters.coll_blocking : counters.coll_scheduled);
  if (mode == Mode::blocking) return schedule->finish_immediate();
  schedule->begin();
  request = schedule;
  return {};
}

}  // namespace tern
