// The one table of tunables. From it come the struct, the TERN_* environment variables, the configuration file, MPI_T
// control variables, tern-info and the reference page.
//
// A row: name, default, minimum, maximum, unit, must all ranks agree, meaning (with the measurement behind the
// default). Integers; text rows are in the second table.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace tern {

// clang-format off
#define TERN_INTEGER_TUNABLES(X) \
  X(spin_us, 10'000, 0, 1'000'000'000, "microseconds", false, \
    "how long a rank with a core of its own polls before it sleeps, unless another process wants the core (an answer " \
    "takes 0.13 us while the rank polls, 19-38 us when it sleeps: 0.4 % of a wait of 10 ms)") \
  X(yield_rounds, 200, 0, 1'000'000'000, "yields", false, \
    "sched_yield calls before sleeping (4 ranks on 2 cores: 1.2 us per hand-over, pure spinning 18-5000)") \
  X(oversubscribed, -1, -1, 1, "", false, \
    "1: more ranks than cores on this node, so ranks yield instead of spinning; 0: no; -1: determined at start") \
  X(tcp_poll_interval, 32, 1, 1'000'000, "polls", false, \
    "with shared memory in use, poll sockets only in every n-th round (a system call costs 125 ns, a shared-memory " \
    "poll 5)") \
  X(shm_eager_bytes, 8192, 0, 1 << 20, "bytes", false, \
    "largest message sent eagerly over shared memory") \
  X(shm_ring_bytes, 0, 0, 1 << 24, "bytes", true, \
    "payload ring of one direction of one pair of ranks in shared memory, at least 8 KiB; it begins with 32 KiB and " \
    "grows when it was full. 0: 256 KiB; with more than 17 ranks on the node less, from 64 ranks on 64 KiB") \
  X(shm_cma, 1, 0, 1, "", false, \
    "single-copy transfer by cross-memory attach where the kernel allows it; 0: always copy through shared memory") \
  X(shm_get_bytes, 0, 0, 1 << 30, "bytes", false, \
    "shortest message sent by cross-memory attach when both ranks are in MPI; shorter ones are streamed through the " \
    "ring. 0: the faster way, as measured on the messages themselves; where ranks share cores, at most half a ring's " \
    "bytes are streamed") \
  X(shm_hybrid_bytes, 65536, 0, 1 << 20, "bytes", false, \
    "longest message over shared memory that is copied to a library buffer when its receive is not posted yet") \
  X(hybrid_buffers, 16, 0, 4096, "buffers", false, \
    "library buffers for such messages; while all are in use, senders wait for their receivers") \
  X(tuple_queues, 256, 0, 1 << 20, "queues", false, \
    "tuple queues of a rank, for receiving and for sending (TERN_RENDEZVOUS=tupleq); further tuples use the " \
    "traditional protocols") \
  X(tuple_ways, 4, 1, 64, "queue pairs", false, \
    "ways of tuple queues from one rank to another; each carries one queue's messages at a time, so a message that " \
    "waits for its receive delays no other queue; while all are occupied, messages use the traditional protocols") \
  X(tuple_bytes, 4 << 20, 0, 8 << 20, "bytes", false, \
    "longest message to a tuple queue; a tuple with a longer one uses the traditional protocols from then on") \
  X(tuple_copy_bytes, 8192, 0, 1 << 20, "bytes", false, \
    "longest message to a tuple queue that is copied, so that its sender is free before the receive is posted") \
  X(tuple_wildcards, 16, 0, 1 << 30, "times", false, \
    "how often wildcards and probes stop the tuple queues of a communicator before it gives them up for good") \
  X(rendezvous_statistics, 0, 0, 1, "", false, \
    "1: every rank prints at its end how many messages took which protocol, and which side arrived first") \
  X(tcp_eager_bytes, 524288, 0, 1 << 24, "bytes", false, \
    "largest message sent eagerly over TCP, without the round trip of a rendezvous (512 KiB 52 and 45 us, 128 KiB " \
    "22 and 16); an unexpected one is copied once more, which costs more than was saved from 1 MiB on") \
  X(tcp_port_first, 0, 0, 65535, "", false, \
    "first port to listen on; 0: the system chooses") \
  X(tcp_connect_timeout_s, 30, 1, 3600, "seconds", false, \
    "how long a connection may take to be set up before the peer is reported unreachable") \
  X(port_timeout_s, 60, 1, 86'400, "seconds", false, \
    "how long MPI_Comm_connect waits for the other job to accept, and a spawn for the new processes; the info key " \
    "timeout overrides it") \
  X(rdma_gid_index, -1, -1, 255, "", false, \
    "row of the RDMA port's address table that peers use; -1: RoCE v2, IPv4 before IPv6") \
  X(rdma_service_level, 0, 0, 15, "", false, \
    "InfiniBand service level (RoCE: priority) of RDMA connections") \
  X(rdma_traffic_class, 0, 0, 255, "", false, \
    "traffic class of RDMA packets: on RoCE v2 the IP header's byte of DSCP and ECN (networks without loss often " \
    "want 106)") \
  X(rdma_eager_bytes, 8192, 256, 1 << 20, "bytes", false, \
    "largest message sent eagerly over RDMA; also the payload of one frame of longer ones") \
  X(rdma_hybrid_bytes, 65536, 0, 1 << 20, "bytes", false, \
    "longest message over RDMA that is copied to a library buffer when its receive is not posted yet") \
  X(rdma_ordered_writes, 0, 0, 1, "", false, \
    "1: the bytes of one RDMA write become visible in address order on every node of the job, where the adapter can " \
    "(no relaxed ordering over PCI Express): a receive then sees by its last byte that a large message is there, and " \
    "a ring's frame is one write. If that is wrong, receives complete before their data (docs/rdma.md)") \
  X(rdma_receives, 512, 16, 1 << 16, "frames", false, \
    "receive buffers that all peers of a rank share over RDMA (each of rdma_eager_bytes)") \
  X(rdma_sends, 256, 8, 1 << 16, "frames", false, \
    "send buffers of a rank over RDMA (each of rdma_eager_bytes)") \
  X(rdma_window, 32, 2, 1 << 15, "frames", false, \
    "frames that one peer may send over RDMA before it waits for credit") \
  X(rdma_registration_bytes, 1 << 28, 0, int64_t{1} << 40, "bytes", false, \
    "unused registered user memory that is kept for the next transfer; 0: none") \
  X(rdma_keepalive_ms, 1000, 0, 3'600'000, "milliseconds", false, \
    "a peer that was silent for so long is probed over RDMA; 0: never") \
  X(rdma_connect_timeout_s, 30, 1, 3600, "seconds", false, \
    "how long a peer may take to answer connection requests over RDMA before it is reported unreachable") \
  X(rdma_greeting_ms, 20, 1, 10'000, "milliseconds", false, \
    "how long a connection request over RDMA waits for its answer before it is repeated; doubled each time, up to a " \
    "second") \
  X(rdma_rnr_wait_us, 20, 1, 655'360, "microseconds", false, \
    "how long peers wait over RDMA when this rank has no receive buffer left (its next poll posts buffers again)") \
  X(rdma_timeout_ms, 67, 1, 10'000, "milliseconds", false, \
    "how long the adapter waits for an acknowledgement before it sends again (rounded up to 4.096 us times a power " \
    "of two)") \
  X(rdma_retries, 7, 0, 7, "times", false, \
    "how often the adapter sends again before the peer counts as lost") \
  X(rdma_dc_initiators, 4, 1, 256, "queue pairs", false, \
    "DC queue pairs that a rank sends by (Takagi et al. 2015, 4.1: 4 beside connected ones, 28 alone)") \
  X(rdma_ring_entries, 16, 2, 1024, "frames", false, \
    "frames of a ring into which a peer writes (each of at most 4 KB)") \
  X(rdma_rc_active, 26, 0, 1 << 16, "queue pairs", false, \
    "TERN_RDMA_CHANNELS=auto: most peers with a connected channel at one time, if the adapter has DC (so many queue " \
    "pairs fit in its cache: h of Takagi et al. 2015, Table 2)") \
  X(rdma_rc_pool, 128, 0, 1 << 20, "queue pairs", false, \
    "connected queue pairs that a rank keeps for such peers, in use or not, if the adapter has DC (pi of Takagi et " \
    "al. 2015, Table 2)") \
  X(rdma_queue_pair_cache, 0, 0, 1 << 24, "queue pairs", false, \
    "how many queue pairs an adapter keeps in its cache, those of all ranks of a node together; bench/tune measures " \
    "it. 0: as known of the adapter; if it is not, connected channels are limited for each rank only") \
  X(rdma_rings, 256, 0, 1 << 16, "rings", false, \
    "TERN_RDMA_CHANNELS=auto: most peers that write into rings at one time (tau of Takagi et al. 2015, Table 2)") \
  X(rdma_statistics, 2048, 16, 1 << 16, "rows", false, \
    "TERN_RDMA_CHANNELS=auto: units of time that the counts of messages cover; fewer above 1024 ranks (sigma of " \
    "Takagi et al. 2015, Table 2)") \
  X(rdma_statistics_ms, 1000, 1, 3'600'000, "milliseconds", false, \
    "TERN_RDMA_CHANNELS=auto: unit of time of these statistics, and interval of the selection") \
  X(rdma_ring_gain_ns, -1, -1, 1'000'000, "nanoseconds", false, \
    "TERN_RDMA_CHANNELS=auto: what a message costs less by a ring over a connected queue pair than by the channel it " \
    "begins with (r of Takagi et al. 2015, Table 2); -1: as published (docs/rdma.md)") \
  X(rdma_dc_ring_gain_ns, -1, -1, 1'000'000, "nanoseconds", false, \
    "TERN_RDMA_CHANNELS=auto: likewise by a ring over DC (d)") \
  X(rdma_connected_gain_ns, -1, -1, 1'000'000, "nanoseconds", false, \
    "TERN_RDMA_CHANNELS=auto: likewise by a connected queue pair without a ring") \
  X(rdma_empty_poll_ns, -1, -1, 1'000'000, "nanoseconds", false, \
    "TERN_RDMA_CHANNELS=auto: what an empty poll of a ring costs (p)") \
  X(rdma_credit_ns, -1, -1, 1'000'000, "nanoseconds", false, \
    "TERN_RDMA_CHANNELS=auto: what sending a credit message costs (c)") \
  X(rdma_ring_setup_us, -1, -1, 1'000'000, "microseconds", false, \
    "TERN_RDMA_CHANNELS=auto: what making a ring costs, with or without a connected queue pair (delta, rho)") \
  X(rdma_change_gain_ns, -1, -1, 1'000'000, "nanoseconds", false, \
    "TERN_RDMA_CHANNELS=auto: gain of a message below which nothing is changed (gamma)") \
  X(rdma_ud_timeout_s, 120, 0, 86'400, "seconds", false, \
    "TERN_RDMA_CHANNELS=ud: how long a peer that owes acknowledgements may be silent before it is reported lost " \
    "(a peer that computes without an event thread is silent, too); 0: for ever") \
  X(ofi_eager_bytes, 0, 0, 1 << 20, "bytes", false, \
    "the largest message sent eagerly over libfabric, and the largest part of a longer one; 0: 64 KiB where the " \
    "provider sends as much over TCP in one piece, else 16 KiB") \
  X(ofi_receive_bytes, 4 << 20, 65536, 1 << 30, "bytes", false, \
    "receive buffers that all peers of a rank share over libfabric") \
  X(ofi_sends, 256, 8, 1 << 16, "frames", false, \
    "send buffers of a rank over libfabric (each of ofi_eager_bytes)") \
  X(ofi_keepalive_ms, 1000, 0, 3'600'000, "milliseconds", false, \
    "a peer that was silent for so long is pinged over libfabric, so that the provider notices its loss; 0: never") \
  X(ofi_failover_ms, 1000, 10, 3'600'000, "milliseconds", false, \
    "how long a peer may leave a ping over libfabric unanswered before another path takes over, if TERN_PATH names " \
    "one") \
  X(tcp_lanes, 4, 1, 4, "connections", false, \
    "networks used at the same time between two hosts that share several; long messages are striped over them") \
  X(tcp_stripe_bytes, 262144, 65536, 1 << 30, "bytes", false, \
    "shortest message striped over several networks") \
  X(tcp_crc, 0, 0, 1, "", true, \
    "1: a CRC-32C for every 32 KiB sent over TCP; damaged blocks are sent again") \
  X(encrypt, 0, 0, 1, "", true, \
    "1: everything sent over TCP and UDP is encrypted and authenticated, with keys per connection that the job's key " \
    "does not reveal; paths that cannot do this (RDMA) are refused") \
  X(udp_eager_bytes, 65536, 0, 1 << 24, "bytes", false, \
    "largest message sent eagerly over UDP (modern protocol)") \
  X(udp_window_bytes, 1 << 20, 65536, 1 << 28, "bytes", false, \
    "unacknowledged data of one peer over UDP (modern protocol); at most half of the socket's buffer") \
  X(udp_datagram_bytes, 61440, 1200, 65487, "bytes", false, \
    "largest UDP datagram (modern protocol), unless the network's packets are smaller") \
  X(udp_paper_window, 8, 1, 64, "fragments", false, \
    "fragments of one message in flight (TERN_UDP=paper)") \
  X(udp_keepalive_ms, 1000, 0, 3'600'000, "milliseconds", false, \
    "a peer that was silent for so long is probed over UDP; 0: never") \
  X(udp_failover_ms, 1000, 10, 3'600'000, "milliseconds", false, \
    "another path takes over from UDP when a peer that owes acknowledgements was silent for so long (a rank that " \
    "computes without an event thread is silent too: then the change costs one round trip)") \
  X(path_failback_ms, 1000, 1, 3'600'000, "milliseconds", false, \
    "how long after its loss a path is tried again while another one carries its messages; doubled each time, up to " \
    "sixteen times this (a link that was unplugged is seldom back within a second)") \
  X(udp_timeout_s, 30, 1, 3600, "seconds", false, \
    "how long a peer and its host may be silent before the peer is reported lost over UDP") \
  X(unexpected_credit_bytes, 1 << 20, 4096, 1 << 30, "bytes", true, \
    "unread eager data of one sender at one receiver; beyond it messages use rendezvous") \
  X(rma_transfer_bytes, 16384, 0, 1 << 30, "bytes", false, \
    "MPI_Put and MPI_Get of fewer bytes are sent as messages while the target is inside MPI, too; longer ones go the " \
    "faster way, message or cross-memory attach; if the target computes, cross-memory attach carries out all of them") \
  X(io_uring, 1, 0, 1, "", false, \
    "nonblocking file accesses go through io_uring where the kernel allows it; 0: threads do them") \
  X(io_threads, 4, 1, 256, "threads", false, \
    "most threads of a rank that read and write files in the background, if io_uring is not used") \
  X(io_sync_on_close, 0, 0, 1, "", false, \
    "1: MPI_File_close waits until written data is on the storage device, as MPI_File_sync does; 0: until all hosts " \
    "can see it (fsync of a small file on a disk: 5-50 ms)") \
  X(reproducible, 0, 0, 1, "", true, \
    "1: a reduction over the same ranks gives the same bits wherever the ranks are placed: it combines in an order " \
    "that knows no nodes, which costs time; info key tern_reproducible for one communicator") \
  X(engines, -1, -1, 8, "engines", false, \
    "with MPI_THREAD_MULTIPLE: message engines of a rank, over which communicators are spread, so that threads with " \
    "communicators of their own do not wait for each other, over memory and TCP; -1: twice as many as the rank has " \
    "cores, at most 8, if it has two cores; 0: none") \
  X(hang_report_s, 0, 0, 1'000'000, "seconds", false, \
    "a rank blocked for this long prints what it waits for; 0: only on a signal") \
  X(check_arguments, 1, 0, 1, "", false, \
    "0: skip the argument checks of the C API")

#define TERN_TEXT_TUNABLES(X) \
  X(path, "", "comma-separated list of paths that may be used (self, shm, rdma, ofi, udp, tcp); empty: " \
    "shm, ofi where both ranks have a fast provider, and tcp, best first") \
  X(tcp_interfaces, "", "comma-separated interfaces or networks (eth0, 10.0.0.0/8) for TCP and UDP; empty: every " \
    "usable one, no bridges of containers") \
  X(tcp_congestion, "", "congestion control of TCP connections (reno, cubic, bbr: what " \
    "net.ipv4.tcp_allowed_congestion_control has); " \
    "empty: the host's default, and reno within a host") \
  X(udp, "modern", "protocol of the UDP path, for all ranks: modern, or paper (LA-MPI's, for comparison)") \
  X(rdma_devices, "", "comma-separated RDMA adapters (mlx5_0, mlx5_0:2 for a port), over which the ranks of a " \
    "node are distributed; empty: the best") \
  X(rdma_channels, "", "what carries messages over RDMA, for all ranks: rc (a connected queue pair for each " \
    "peer), rc-rdma (the same, into rings that the receiver polls), dc, dc-rdma (dynamically connected, which saves " \
    "memory), ud (datagrams, which save memory on every adapter), xrc (a connected queue pair for each node), auto " \
    "(selected per peer by the number of messages received from it, beginning with dc, without DC with ud), " \
    "auto-ud, auto-xrc (the same, beginning with ud or xrc), or auto-rc (the same as auto, but a peer that sends " \
    "gets a connected queue pair while the adapter's cache holds those of all ranks of the node); empty: rc, or " \
    "auto-rc where the cache would not hold a queue pair for each peer of each rank (TERN_RDMA_QUEUE_PAIR_CACHE)") \
  X(ofi_provider, "", "provider of libfabric for the path ofi, for all ranks, as fi_info names it (efa, cxi, " \
    "\"tcp;ofi_rxm\"); empty: the best fast one") \
  X(ofi_domain, "", "device or interface of that provider, as fi_info names it (eth0, cxi0); empty: the best, over " \
    "several adapters the ranks of a node are distributed") \
  X(ofi_filter, "", "for tests: the provider offers only what efa, cxi or psm3 states, and reorders what these may") \
  X(progress, "auto", "what moves messages while the application computes: polling (nothing; only its own MPI " \
    "calls do), event (a thread that sleeps until something comes), adaptive (the same, only while operations are " \
    "pending), event-driven (a thread that every message wakes, and that wakes the caller who waits: Majumder's " \
    "LA-MPI-ED, to compare with), or auto (adaptive if some peer is reached by TCP, UDP or software RDMA, which need " \
    "this rank's processor; polling if all peers share memory or have adapters that move data by themselves)") \
  X(names_dir, "", "folder of this user for the secrets of ports and for published names, by which jobs connect " \
    "(MPI_Open_port, MPI_Publish_name); on a filesystem that their hosts share; empty: .tern in the home folder") \
  X(coll, "", "forces collective algorithms: comma-separated operation=algorithm[:bytes][@ranks[xnodes]], from that " \
    "many bytes, ranks and nodes on (tern-info --collectives shows what is used)") \
  X(rendezvous, "customised", "how large messages are sent: customised (depends on which side arrives first); always " \
    "the same: rput, rget or stream; or tupleq: by queues of posted receives, one for each (communicator, source, " \
    "tag), if the path has them (RDMA with XRC), else as rget") \
  X(sender_rendezvous, "read", "customised, if the sender arrives first: the receiver fetches (read), or asks the " \
    "sender to put (write)") \
  X(rma_lock, "auto", "passive-target locks, for all ranks: polling-thread or event-thread (the target keeps the " \
    "queue), test-and-set or mcs (words that the origins change by atomic operations), or auto (in memory that the " \
    "ranks share tickets, or mcs if ranks share cores; else event-thread); info key tern_rma_lock for one window") \
  X(log, "warn", "what is logged: error, warn, info (start, paths) or debug (each connection); to a file " \
    "instead of stderr with LEVEL:FILE, where %r, %h and %p are rank, host and process")
// clang-format on

/// Values read once when a Process is built. A plain value: copied, never shared.
struct Tunables {
#define TERN_MEMBER(name, initial, ...) int64_t name = initial;
  TERN_INTEGER_TUNABLES(TERN_MEMBER)
#undef TERN_MEMBER
#define TERN_MEMBER(name, initial, ...) std::string name = initial;
  TERN_TEXT_TUNABLES(TERN_MEMBER)
#undef TERN_MEMBER

  /// Sets one tunable by name ("shm_eager_bytes"). Error: unknown name (with the nearest one), not a number, out of
  /// range.
  Error set(std::string_view name, std::string_view value);
  /// The value of one tunable as text; empty: there is none of that name.
  std::string get(std::string_view name) const;
  /// Reads every TERN_<NAME> of `environment` (null-terminated array of NAME=VALUE). Names of the tools' own variables
  /// (TERN_JOB_KEY and the like, listed in tunables.cc) are skipped. Other names that are no tunables (a module file's
  /// TERN_HOME) add a text to `warnings`, when given. Files: base/config_file.h. Returns the first wrong value, after
  /// reading all.
  Error read_environment(const char* const* environment, std::vector<std::string>* warnings = nullptr);
};

/// A row of the table, for tern-info, MPI_T and the reference page.
struct TunableRow {
  const char* name;
  bool is_integer;
  int64_t initial, minimum, maximum;  ///< integers only
  const char* initial_text;           ///< text only
  const char* unit;
  bool ranks_must_agree;
  const char* meaning;
};
std::span<const TunableRow> tunable_rows();
/// The present name of a tunable; differs from `name` if an earlier version used `name`.
std::string_view present_name(std::string_view name);
/// A hint for users of a former name.
std::string renamed(std::string_view name);

}  // namespace tern
