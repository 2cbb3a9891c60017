#include "check/compare.h"

#include "check/type_summary.h"
#include "coll/operands.h"
#include "fmt/format.h"

namespace tern::check {
namespace {

using wire::CheckedCollective;
using wire::TypeSummary;

std::string who(const CheckedCollective& call) { return fmt::format("rank {} in {}", call.rank, call.place); }

/// What a rank sends to, or receives from, another one; null: it does not say (in place, or not its part).
const TypeSummary* block(const std::vector<TypeSummary>& blocks, int peer) {
  if (blocks.empty()) return nullptr;
  return blocks.size() == 1 ? &blocks[0] : &blocks[size_t(peer)];
}

Error compare_pair(const CheckedCollective& sender, const CheckedCollective& receiver) {
  const TypeSummary* sent = block(sender.sends, receiver.rank);
  const TypeSummary* wanted = block(receiver.receives, sender.rank);
  if (!sent || !wanted || same(*sent, *wanted)) return {};
  const bool count = sent->basic == wanted->basic || sent->elements == 0 || wanted->elements == 0;
  return Error(count ? ErrorClass::count : ErrorClass::type,
               fmt::format("what is sent and what is received do not match: {} sends {}, and {} receives {} from it",
                           who(sender), words(*sent), who(receiver), words(*wanted)));
}

// All ranks have the same (count, datatype).
Error compare_uniform(const std::vector<CheckedCollective>& calls) {
  for (const CheckedCollective& call : calls) {
    const TypeSummary *mine = block(call.receives, 0), *first = block(calls[0].receives, 0);
    if (!mine || !first || same(*mine, *first)) continue;
    return Error(mine->basic == first->basic ? ErrorClass::count : ErrorClass::type,
                 fmt::format("counts or datatypes do not match: {} has {}, and {} has {}", who(calls[0]), words(*first),
                             who(call), words(*mine)));
  }
  return {};
}

// The block of every rank is the same at all of them (recvcounts of MPI_Reduce_scatter).
Error compare_blocks(const std::vector<CheckedCollective>& calls) {
  for (const CheckedCollective& call : calls) {
    for (int i = 0; i < call.ranks; ++i) {
      const TypeSummary *mine = block(call.receives, i), *first = block(calls[0].receives, i);
      if (!mine || !first || same(*mine, *first)) continue;
      return Error(mine->basic == first->basic ? ErrorClass::count : ErrorClass::type,
                   fmt::format("the block of rank {} does not match: {} has {}, and {} has {}", i, who(calls[0]),
                               words(*first), who(call), words(*mine)));
    }
  }
  return {};
}

bool rooted(Operation operation) {
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

Error compare_arguments(const CheckedCollective& a, const CheckedCollective& b) {
  if (rooted(Operation(a.operation)) && a.root != b.root) {
    return Error(ErrorClass::root, fmt::format("roots do not match: {} names rank {}, and {} names rank {}", who(a),
                                               a.root, who(b), b.root));
  }
  if (a.op != b.op) {
    return Error(ErrorClass::op, fmt::format("the operators do not match: {} and {}", who(a), who(b)));
  }
  return {};
}

Error compare_data(const std::vector<CheckedCollective>& calls) {
  const CheckedCollective& any = calls[0];
  const auto root = [&]() -> const CheckedCollective& { return calls[size_t(any.root)]; };
  switch (Operation(any.operation)) {
    case Operation::bcast:
    case Operation::reduce:
    case Operation::allreduce:
    case Operation::reduce_scatter_block:
    case Operation::scan:
    case Operation::exscan: return compare_uniform(calls);
    case Operation::reduce_scatter: return compare_blocks(calls);
    case Operation::gather:
    case Operation::gatherv:
      for (const CheckedCollective& call : calls) {
        if (Error error = compare_pair(call, root())) return error;
      }
      return {};
    case Operation::scatter:
    case Operation::scatterv:
      for (const CheckedCollective& call : calls) {
        if (Error error = compare_pair(root(), call)) return error;
      }
      return {};
    case Operation::allgather:
    case Operation::allgatherv:
    case Operation::alltoall:
    case Operation::alltoallv:
    case Operation::alltoallw:
      for (const CheckedCollective& sender : calls) {
        for (const CheckedCollective& receiver : calls) {
          if (Error error = compare_pair(sender, receiver)) return error;
        }
      }
      return {};
    default: return {};
  }
}

}  // namespace

Error compare_functions(const CheckedCollective& a, const CheckedCollective& b) {
  if (a.function == b.function) return {};
  return Error(ErrorClass::other,
               fmt::format("the ranks of the communicator do not call the same collective operation: {}, and {}",
                           who(a), who(b)));
}

Error compare_calls(const std::vector<CheckedCollective>& calls) {
  const CheckedCollective& first = calls[0];
  for (const CheckedCollective& call : calls) {
    if (Error error = compare_functions(first, call)) return error;
    if (Error error = compare_arguments(first, call)) return error;
  }
  const bool known = first.operation < kOperations && first.root >= 0 && first.root < int(calls.size());
  return known ? compare_data(calls) : Error();
}

}  // namespace tern::check
