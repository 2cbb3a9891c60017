// What a communicator's info says of its messages (MPI 5.0, 7.4.4, and keys of Tern's own). Thread rule: a value.
#pragma once

namespace tern {

struct MessageHints {
  bool no_any_source = false;     ///< mpi_assert_no_any_source: no receive or probe names it
  bool no_any_tag = false;        ///< mpi_assert_no_any_tag: likewise
  bool exact_length = false;      ///< mpi_assert_exact_length: no message is shorter or longer than its receive
  bool allow_overtaking = false;  ///< mpi_assert_allow_overtaking: messages may be matched in any order
  bool tuple_queues = false;      ///< tern_rendezvous=tupleq; once set, it stays so
  bool operator==(const MessageHints&) const = default;
};

}  // namespace tern
