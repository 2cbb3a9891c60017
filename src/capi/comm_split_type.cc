// MPI_Comm_split_type (MPI 5.0, 7.4.2): every kind is a split whose colour says where a process is.
// A place is (node, level of the hardware, instance), mixed into one colour; nodes are named by their lowest rank.
#include <strings.h>

#include <algorithm>

#include "capi/comm_common.h"
#include "capi/comm_hardware.h"
#include "impl.gen.h"

namespace tern::capi::body {

namespace {

constexpr const char* kTypeKey = "mpi_hw_resource_type";
constexpr const char* kSetKey = "mpi_pset_name";
constexpr const char* kShared = "mpi_shared_memory";

/// Never negative.
int64_t place(Call& call, size_t level, int64_t instance) {
  return int64_t(hash_of(call.process().node().name(), uint64_t{level} << 32 | uint64_t(instance)) >> 1);
}

/// Those that can share memory, whatever way messages take. Where none can, each rank is alone.
int64_t shared_color(Call& call) { return int64_t(hash_of(call.process().node().memory_name(), 0) >> 1); }

/// The colour for the hardware type `name`; kNoColor: unknown here, or not bound to one instance.
int64_t guided_color(Call& call, const std::string& name) {
  if (name == kShared) return shared_color(call);
  std::vector<HardwareLevel> levels = hardware_levels();
  for (size_t i = 0; i < levels.size(); ++i)
    if (name == levels[i].name && levels[i].instance >= 0) return place(call, i, levels[i].instance);
  return create::kNoColor;
}

/// The process sets of MPI_Session_init: the colour for those who are in it.
int64_t set_color(Call& call, const Communicator& comm, const std::string& name) {
  if (!comm.from_session) return create::kNoColor;
  if (!strcasecmp(name.c_str(), "mpi://WORLD")) return 0;
  if (!strcasecmp(name.c_str(), "mpi://SELF")) return int64_t(hash_of(call.process().peers().my_name()) >> 1);
  return create::kNoColor;
}

int local_size(const Communicator& comm) { return comm.is_inter() ? comm.local_intra->size() : comm.size(); }

/// The largest level whose instance holds me and some of the communicator, but fewer than `whole`: everybody tells
/// where it is, and each chooses for itself; who shares an instance chooses alike. `name` of the level, for the info.
Error unguided_color(Call& call, Communicator& comm, int whole, int64_t& color, const char*& name) {
  std::vector<HardwareLevel> levels = hardware_levels();
  create::Words mine, all;
  for (size_t i = 0; i < levels.size(); ++i) {
    int64_t instance = levels[i].instance;
    mine.push_back(uint64_t(instance < 0 ? -1 : place(call, i, instance)));
  }
  Communicator& intra = comm.is_inter() ? *comm.local_intra : comm;
  if (Error error = create::allgather(maker_of(call), intra, mine, all)) return error;
  color = create::kNoColor;
  for (size_t i = 0; i < levels.size(); ++i) {
    if (levels[i].instance < 0) continue;
    int here = 0;
    for (size_t at = i; at < all.size(); at += levels.size()) here += all[at] == mine[i];
    if (here == whole) continue;
    color = int64_t(mine[i]);
    name = levels[i].name;
    return {};
  }
  return {};
}

/// Ranks that pass MPI_UNDEFINED do not know what the others pass, so the first step is theirs, too: a split into those
/// who take part and those who do not. The rest is among the former.
Error split_unguided(Call& call, Communicator& comm, int key, Ref<Communicator>& fresh, const char*& chosen) {
  Ref<Communicator> taking_part;
  if (Error error = create::split(maker_of(call), comm, 0, key, taking_part)) return error;
  if (!taking_part) return {};  // of an inter-communicator: nobody in the other group takes part
  int64_t color = create::kNoColor;
  if (Error error = unguided_color(call, *taking_part, local_size(comm), color, chosen)) return error;
  return create::split(maker_of(call), *taking_part, color, key, fresh);
}

}  // namespace

Error Comm_split_type(Call& call, Communicator& comm, int split_type, int key, Info* info, Communicator*& newcomm) {
  const std::string* type = info ? info->find(kTypeKey) : nullptr;
  const std::string* set = info ? info->find(kSetKey) : nullptr;
  int64_t color = create::kNoColor;
  switch (split_type) {
    case MPI_UNDEFINED: break;
    case MPI_COMM_TYPE_SHARED: color = shared_color(call); break;
    case MPI_COMM_TYPE_HW_GUIDED:
      if (type) color = guided_color(call, *type);
      break;
    case MPI_COMM_TYPE_RESOURCE_GUIDED:
      if (type && set)
        return Error(ErrorClass::info, "the info has both mpi_hw_resource_type and mpi_pset_name. Set one.");
      if (type) color = guided_color(call, *type);
      if (set) color = set_color(call, comm, *set);
      break;
    case MPI_COMM_TYPE_HW_UNGUIDED: break;
    default:
      return Error(ErrorClass::arg, "argument 'split_type' is " + std::to_string(split_type) +
                                        ". Pass one of MPI_COMM_TYPE_SHARED, _HW_GUIDED, _HW_UNGUIDED, "
                                        "_RESOURCE_GUIDED, or MPI_UNDEFINED.");
  }
  Ref<Communicator> fresh;
  const char* chosen = nullptr;
  if (Error error = split_type == MPI_COMM_TYPE_HW_UNGUIDED ? split_unguided(call, comm, key, fresh, chosen)
                                                            : create::split(maker_of(call), comm, color, key, fresh))
    return error;
  newcomm = hand_out(comm, fresh);
  if (newcomm && chosen && info) info->set(kTypeKey, chosen);
  return {};
}

}  // namespace tern::capi::body
