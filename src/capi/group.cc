// Groups: the bodies of MPI 5.0 section 7.3 (process sets: 11.3.2). A result without members is
// MPI_GROUP_EMPTY.
#include <strings.h>

#include <span>

#include "impl.gen.h"

namespace tern::capi::body {

namespace {

/// One reference for the user's handle; MPI_GROUP_EMPTY, like all predefined handles, is not counted. What is derived
/// from `parent` refers to its session.
Group* hand_out_group(Call& call, Ref<Group> group, const Group& parent) {
  if (group->size() == 0) return call.world().predefined.empty_group.get();
  group->session = parent.session;
  return group.release();
}

/// A session's own group of the same members.
Group* copy_for(const Session& session, const Group& set) {
  Ref<Group> copy = Group::strided(set.me(), set.peer(0), 1, set.size());
  copy->session = session.handle;
  return copy.release();
}

Error check_length(int n, const void* array, const char* name) {
  if (n < 0) return Error(ErrorClass::arg, "argument 'n' is " + std::to_string(n) + ". A length cannot be negative.");
  if (n > 0 && !array)
    return Error(ErrorClass::arg, "argument '" + std::string(name) + "' is a null pointer. Pass an array.");
  return {};
}

std::vector<Group::Range> to_ranges(int n, int (*ranges)[3]) {
  std::vector<Group::Range> result;
  for (int i = 0; i < n; ++i) result.push_back({ranges[i][0], ranges[i][1], ranges[i][2]});
  return result;
}

}  // namespace

Error Group_size(Call& call, Group& group, int& size) {
  size = group.size();
  return {};
}

Error Group_rank(Call& call, Group& group, int& rank) {
  rank = group.rank();
  return {};
}

Error Group_translate_ranks(Call& call, Group& group1, int n, const int* ranks1, Group& group2, int* ranks2) {
  if (Error error = check_length(n, ranks1, "ranks1")) return error;
  if (Error error = check_length(n, ranks2, "ranks2")) return error;
  return group1.translate(std::span<const int>(ranks1, size_t(n)), group2, ranks2);
}

Error Group_compare(Call& call, Group& group1, Group& group2, int& result) {
  switch (group1.compare(group2)) {
    case Comparison::identical: result = MPI_IDENT; break;
    case Comparison::similar: result = MPI_SIMILAR; break;
    default: result = MPI_UNEQUAL;
  }
  return {};
}

Error Group_union(Call& call, Group& group1, Group& group2, Group*& newgroup) {
  newgroup = hand_out_group(call, group1.join(group2), group1);
  return {};
}

Error Group_intersection(Call& call, Group& group1, Group& group2, Group*& newgroup) {
  newgroup = hand_out_group(call, group1.intersect(group2), group1);
  return {};
}

Error Group_difference(Call& call, Group& group1, Group& group2, Group*& newgroup) {
  newgroup = hand_out_group(call, group1.subtract(group2), group1);
  return {};
}

Error Group_incl(Call& call, Group& group, int n, const int* ranks, Group*& newgroup) {
  if (Error error = check_length(n, ranks, "ranks")) return error;
  Ref<Group> result;
  if (Error error = group.include(std::span<const int>(ranks, size_t(n)), result)) return error;
  newgroup = hand_out_group(call, std::move(result), group);
  return {};
}

Error Group_excl(Call& call, Group& group, int n, const int* ranks, Group*& newgroup) {
  if (Error error = check_length(n, ranks, "ranks")) return error;
  Ref<Group> result;
  if (Error error = group.exclude(std::span<const int>(ranks, size_t(n)), result)) return error;
  newgroup = hand_out_group(call, std::move(result), group);
  return {};
}

Error Group_range_incl(Call& call, Group& group, int n, int (*ranges)[3], Group*& newgroup) {
  if (Error error = check_length(n, ranges, "ranges")) return error;
  Ref<Group> result;
  if (Error error = group.include_ranges(to_ranges(n, ranges), result)) return error;
  newgroup = hand_out_group(call, std::move(result), group);
  return {};
}

Error Group_range_excl(Call& call, Group& group, int n, int (*ranges)[3], Group*& newgroup) {
  if (Error error = check_length(n, ranges, "ranges")) return error;
  Ref<Group> result;
  if (Error error = group.exclude_ranges(to_ranges(n, ranges), result)) return error;
  newgroup = hand_out_group(call, std::move(result), group);
  return {};
}

// A name that is no process set gives MPI_GROUP_NULL, which is no error (7.3.2).
Error Group_from_session_pset(Call& call, Session& session, const char* pset_name, Group*& newgroup) {
  Process& process = call.process();
  // In any case, as the scheme and the authority of a URI are.
  if (!strcasecmp(pset_name, "mpi://WORLD")) newgroup = copy_for(session, process.world().group());
  if (!strcasecmp(pset_name, "mpi://SELF")) newgroup = copy_for(session, process.self().group());
  return {};
}

Error Group_free(Call& call, Group*& group) {
  // MPI_GROUP_EMPTY may be freed as a result of the functions above; it stays.
  if (group->handle >= 4096) Ref<Group>::adopt(group).reset();
  group = nullptr;
  return {};
}

}  // namespace tern::capi::body
