// Properties and costs of a simulated RDMA adapter. The link itself (latency, bandwidth, sharing at the switch) belongs
// to the network (network.h); the adapter's own times are added to it. Parts of a small send's time, in order:
//
//   CPU: post_ns + doorbell_ns | adapter: send_latency_ns, message_ns | link | receive_message_ns, receive_latency_ns |
//   the entry is in the peer's completion queue | its CPU: poll_ns, completion_ns
//
// The defaults are an estimate of a present-day adapter (NDR); machines/*.toml have others with their sources.
// Units: nanoseconds, bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tern::sim {

struct AdapterModel {
  std::string device = "sim";
  bool xrc = true, dc = true;
  bool atomics = true, atomic_swap = false;
  bool atomics_with_cpu = false;  ///< false: a store of the CPU into a word is lost if it comes in the middle of one
  bool ordered_writes = true;
  bool polled_wakes = true;  ///< false: waiting ranks sleep, as real ones do after a while
  uint32_t mtu_bytes = 4096;
  uint32_t max_message_bytes = 1u << 30;
  uint32_t max_inline_bytes = 220;
  uint32_t max_queue_depth = 16384;
  uint32_t max_reads = 16;
  uint32_t max_queue_pairs = 131072;

  // The rank's CPU.
  uint64_t post_ns = 30;           ///< making one work request
  uint64_t doorbell_ns = 50;       ///< ringing, once a call
  uint64_t poll_ns = 10;           ///< looking at a completion queue
  uint64_t completion_ns = 20;     ///< taking an entry
  uint64_t register_ns = 1500;     ///< a system call, pinning and writing the first page's translation
  uint64_t register_page_ns = 70;  ///< each further page
  uint64_t deregister_ns = 1000;
  uint64_t queue_pair_ns = 80'000;  ///< making a queue pair
  uint64_t connect_ns = 40'000;     ///< its state transitions
  uint32_t page_bytes = 4096;

  // The adapter: latencies (of one message; several overlap) and occupation (what limits the rate).
  uint64_t send_latency_ns =
      250;  ///< from the doorbell to the first byte on the link: work request and data are fetched
  uint64_t inline_latency_ns = 120;   ///< the same for inlined data
  uint64_t receive_latency_ns = 150;  ///< from the last byte in the adapter to its visibility in memory
  uint64_t read_latency_ns = 250;     ///< fetching memory to answer a read
  uint64_t atomic_ns = 100;
  uint64_t message_ns = 10;  ///< sender's adapter, per message (100 million a second)
  uint64_t receive_message_ns = 10;
  uint32_t segment_bytes = 16384;    ///< link and adapter turn to another queue pair after so many bytes
  uint32_t queue_pair_cache = 1024;  ///< contexts kept in the adapter
  uint64_t cache_miss_ns = 500;
  uint64_t relaxed_ns = 300;  ///< without ordered_writes: how much later than its end a write's beginning may land

  // DC (Takagi et al. 2015, section 2.1).
  uint64_t dc_latency_ns = 0;       ///< additional time of a message compared to RC, with an existing connection
  uint32_t dc_responders = 64;      ///< connections that a target holds at one time; beyond: NACK
  uint64_t dc_connect_ns = 120;     ///< each adapter's time for making a connection, and again for ending it
  uint64_t dc_idle_ns = 10'000;     ///< an initiator without work keeps its connection so long
  uint64_t dc_nack_wait_ns = 4000;  ///< before the initiator tries again; drawn between half and one and a half
};

/// Faults of adapters. Parts of 1024 per message.
struct AdapterFaults {
  /// The adapter claims ordered_writes, but what is behind it does not keep the order (PCI Express with relaxed
  /// ordering): as without that property.
  bool reorders_writes = false;
  uint32_t storm_in_1024 = 0;  ///< messages that begin a period in which the receiver seems to have no receives
  uint64_t storm_ns = 0;
  uint32_t error_in_1024 = 0;        ///< messages that end with retry_exceeded, though they may have arrived
  uint32_t xrc_error_in_1024 = 0;    ///< XRC messages whose connection fails, before, in or after their delivery
  uint32_t xrc_refusal_in_1024 = 0;  ///< connects and posts of XRC queue pairs that the adapter refuses
  // UD messages that are lost, come twice, come later than others sent after them.
  uint32_t datagram_loss_in_1024 = 0, datagram_double_in_1024 = 0, datagram_late_in_1024 = 0;
  uint64_t datagram_late_ns = 0;  ///< at most so much later
};

}  // namespace tern::sim
