#include "io/agreement.h"

#include <cstring>

#include "coll/collectives.h"

namespace tern::io {

namespace {

Side bytes_side(Environment& environment, const void* data, size_t bytes) {
  Side side;
  side.buffer = static_cast<std::byte*>(const_cast<void*>(data));
  side.count = Count(bytes);
  side.type = &environment.byte();
  return side;
}

Error run(Communicator& comm, tern::Operation operation, const Operands& operands) {
  Request* none = nullptr;
  return collective(comm, operation, operands, Mode::blocking, none);
}

Error gather(Environment& environment, Communicator& comm, const void* mine, size_t bytes, void* all) {
  Operands o;
  o.send = bytes_side(environment, mine, bytes);
  if (comm.rank() == 0) o.receive = bytes_side(environment, all, bytes);
  return run(comm, tern::Operation::gather, o);
}

}  // namespace

Error broadcast(Environment& environment, Communicator& comm, void* data, size_t bytes, int root) {
  Operands o;
  o.root = root;
  o.receive = bytes_side(environment, data, bytes);
  return run(comm, tern::Operation::bcast, o);
}

Error allgather(Environment& environment, Communicator& comm, const void* mine, size_t bytes, void* all) {
  Operands o;
  o.send = bytes_side(environment, mine, bytes);
  o.receive = bytes_side(environment, all, bytes);
  return run(comm, tern::Operation::allgather, o);
}

void Statement::set(const Error& error) {
  error_class = error.error_class();
  const size_t n = std::min(error.text().size(), sizeof text - 1);
  if (error) std::memcpy(text, error.text().data(), n);
  text[n] = '\0';
}

Error Statement::error() const { return error_class == 0 ? Error() : Error(error_class, text); }

Error require_same(std::span<const Statement> all, int index, std::string_view what) {
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank].words[index] == all[0].words[index]) continue;
    return Error(ErrorClass::not_same, std::string(what) + " is " + std::to_string(all[0].words[index]) +
                                           " at rank 0 and " + std::to_string(all[rank].words[index]) + " at rank " +
                                           std::to_string(rank) + " of the file. All ranks must pass the same.");
  }
  return {};
}

Error agree(Environment& environment, Communicator& comm, const Statement& mine, const Judge& judge,
            Statement* verdict) {
  std::vector<Statement> all(comm.rank() == 0 ? size_t(comm.size()) : 0);
  Statement said = mine;
  if (comm.size() > 1) {
    if (Error error = gather(environment, comm, &mine, sizeof mine, all.data())) return error;
  } else {
    all[0] = mine;
  }
  if (comm.rank() == 0) {
    for (size_t rank = 0; rank < all.size() && said.error_class == 0; ++rank) {
      if (all[rank].error_class == 0) continue;
      said.set(Error(all[rank].error_class, "rank " + std::to_string(rank) + " of the file: " + all[rank].text));
    }
    if (judge) judge(all, said);
  }
  if (comm.size() > 1) {
    if (Error error = broadcast(environment, comm, &said, sizeof said)) return error;
  }
  if (verdict) *verdict = said;
  return mine.error_class != 0 ? mine.error() : said.error();
}

Error agree(Environment& environment, Communicator& comm, Error mine) {
  Statement statement;
  statement.set(mine);
  Error agreed = agree(environment, comm, statement, nullptr);
  return mine ? std::move(mine) : std::move(agreed);
}

}  // namespace tern::io
