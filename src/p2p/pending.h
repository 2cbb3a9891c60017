// What is pending in point-to-point, as data: for the hang report. Thread rule: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tern {

struct PendingMessage {
  enum class Kind : uint8_t {
    receive,  ///< no message has matched it
    message,  ///< has arrived, no receive has asked for it
    send,     ///< its receiver has not taken it
    moving,   ///< a send of which something is on its way: the network has to act, or the receiver has answered
  };
  static constexpr size_t kKinds = 4;
  Kind kind = Kind::receive;
  uint64_t context = 0;      ///< within the rank; its record to mpiexec leaves it out
  std::string communicator;  ///< in words
  bool of_user = true;       ///< of the program's own point-to-point; false: the inside of another operation
  int peer = 0;              ///< the other side's rank in MPI_COMM_WORLD; kAnyPeer
  int source = 0;            ///< the same as a rank of the communicator; of a send: the receiver's in MPI_COMM_WORLD
  int tag = 0;               ///< kAnyTagAtAll: any
  uint64_t bytes = 0;        ///< of a receive: room for so many

  static constexpr int kAnyPeer = -1, kAnyTagAtAll = -1;
  /// "MPI_COMM_WORLD, source 1, tag 5, up to 4 bytes".
  std::string text() const {
    std::string words = communicator;
    const bool leaves = kind == Kind::send || kind == Kind::moving;
    if (leaves) words += ", to rank " + std::to_string(source) + " of MPI_COMM_WORLD";
    else words += ", source " + (peer == kAnyPeer ? "any" : std::to_string(source));
    words += ", tag " + (tag == kAnyTagAtAll ? "any" : std::to_string(tag));
    return words + (kind == Kind::receive ? ", up to " : ", ") + std::to_string(bytes) + " bytes";
  }
};

}  // namespace tern
