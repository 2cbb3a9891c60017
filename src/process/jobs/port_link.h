// PortLink: the conversation of two roots in MPI_Comm_accept and MPI_Comm_connect, before their jobs know each other.
// A socket, the handshake of the TCP path with the port's secret as key, then messages of any length, encrypted.
//
//   who connects                              who accepts
//   handshake (fabric/tcp/handshake.h)  <->
//   messages, in blocks                 <->   messages, in blocks
//
// A block is a wire::BlockHead, its bytes and their seal; a block shorter than the longest ends a message.
//
// Thread rule: under the rank's lock. Nothing here waits.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "base/error.h"
#include "fabric/ip/interfaces.h"
#include "fabric/tcp/cipher.h"
#include "fabric/tcp/handshake.h"

namespace tern {

class PortLink {
 public:
  /// The side that accepts, from a connection that the kernel has accepted.
  PortLink(Descriptor socket, const TcpKey& secret, uint64_t port);
  /// The side that connects: tries the addresses one after the other.
  PortLink(std::vector<TcpCandidate> addresses, const TcpKey& secret, uint64_t port);

  /// Does what can be done without waiting; returns whether there was anything.
  bool advance();
  int descriptor() const { return socket_.get(); }
  /// Whether the socket must be watched for writing, too.
  bool wants_to_write() const { return connecting_ || !output_.empty(); }

  /// The other side has proven that it has the port's secret.
  bool proven() const { return proven_; }
  /// Nothing more will come: the other side is gone, or is not Tern. `error` says more.
  bool ended() const { return ended_; }
  const Error& error() const { return error_; }

  /// Only when proven.
  void send(std::string_view message);
  bool has_message() const { return !messages_.empty(); }
  std::string take_message();

 private:
  /// Longer messages end the connection: a group of 10^6 ranks needs some 300 MB.
  static constexpr size_t kMaxMessageBytes = size_t{1} << 30;

  static TcpIdentity identity(const TcpKey& secret, RankName name);
  void try_next();
  void end(ErrorClass error_class, std::string text);
  bool shake();
  bool read();
  bool take_blocks();
  bool write();

  const TcpIdentity identity_;
  const RankName peer_;  ///< kNoRank: this side accepts
  std::unique_ptr<TcpHandshake> handshake_;
  std::vector<TcpCandidate> addresses_;
  size_t next_address_ = 0;
  std::string trouble_;  ///< with the last address
  Descriptor socket_;
  bool connecting_ = false, proven_ = false, ended_ = false;
  Error error_;
  TcpCipher sealer_, opener_;
  std::string output_, input_, message_;
  std::vector<std::string> messages_;  ///< whole ones, oldest first
};

}  // namespace tern
