// Costs and faults of simulated byte streams (streams.h), and the names of their ends.
//
// The hosts: node n has its loopback 127.0.0.1 (network 0) and, on network k = 1, 2, ..., the address 10.k.n/256.n%256
// with a prefix of 16 bits. Ranks of a node share its addresses and differ by their ports.
//
// Units: nanoseconds, bytes.
#pragma once

#include <compare>
#include <cstdint>

#include "fabric/ip/socket.h"
#include "sim/network.h"

namespace tern::sim {

struct StreamModel {
  uint32_t networks = 1;           ///< of every node, in addition to its loopback
  size_t segment_bytes = 1448;     ///< payload of a frame of Ethernet
  size_t send_bytes = 256 * 1024;  ///< of a stream's buffers
  size_t receive_bytes = 256 * 1024;
  size_t backlog = 4096;       ///< connections that wait to be accepted; net.core.somaxconn
  uint64_t call_ns = 125;      ///< a system call without data
  uint32_t descriptors = ~0u;  ///< that a rank may have open

  // The kernel's, as Linux has them (tcp(7), net/ipv4/tcp_timer.c), except the last.
  static constexpr uint64_t kFirstTimeout_ns = 200'000'000, kMaxTimeout_ns = 120'000'000'000;  // TCP_RTO_MIN, _MAX
  static constexpr uint64_t kCallTimeout_ns = 1'000'000'000;                                   // TCP_TIMEOUT_INIT
  static constexpr uint32_t kCallRepetitions = 6, kAnswerRepetitions = 5, kRepetitions = 15;   // tcp_syn_retries, ...
  static constexpr uint64_t kDelayedAnswer_ns = 40'000'000;                                    // TCP_DELACK_MIN
  static constexpr uint64_t kCork_ns = 200'000'000;                                            // tcp(7), TCP_CORK
  /// How long the host remembers a connection that is over: long enough for two repetitions of its end. (Linux: 60 s,
  /// which would only prolong each simulated run.)
  static constexpr uint64_t kTimeWait_ns = 1'000'000'000;
};

/// Probabilities are per segment that leaves over a network; nothing goes wrong on a loopback.
struct StreamFaults {
  uint32_t drop_in_1024 = 0;      ///< is lost, and repeated by the sender's kernel
  uint32_t corrupt_in_65536 = 0;  ///< a bit of its payload is wrong, and its checksum does not tell
  uint32_t reset_in_65536 = 0;    ///< its connection dies on both sides
  uint32_t outage_in_65536 = 0;   ///< a node's interface goes down for up to outage_ns
  uint64_t outage_ns = 3'000'000'000;
  uint32_t stranger_in_65536 = 0;  ///< a stranger connects to one of the ranks, and sends random bytes or nothing
  uint32_t partial_in_1024 = 0;    ///< of sends and receives: less is taken or given than possible
  uint32_t exhausted_in_1024 = 0;  ///< of connects and accepts: no descriptor is left for the moment
  bool dead_hosts = false;         ///< hosts of lost ranks fall silent; else their kernels close what the rank had open
};

/// Where an end of a connection is.
struct StreamAddress {
  uint32_t node = 0, network = 0;
  uint16_t port = 0;
  auto operator<=>(const StreamAddress&) const = default;
};

/// One segment on its way, of kind `stream`.
struct StreamSegment final : Packet {
  StreamAddress source, target;
  bool syn = false, ack = false, fin = false, reset = false;
  bool probe = false;  ///< must be acknowledged in any case
  uint64_t sequence = 0, acknowledged = 0;
  uint64_t limit = 0;  ///< the receiver has room up to this sequence number
};

}  // namespace tern::sim
