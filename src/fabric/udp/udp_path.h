// The UDP path: reliable, ordered messages over datagrams that may be lost, duplicated, reordered, damaged or forged.
//
// Two protocols (TERN_UDP), each a state machine for each peer (channel.h): `modern` (stream_channel.h) and `paper`
// (fragment_channel.h). This file has what both need: first contact, the check of every datagram, timers, silent peers,
// loss.
//
// There is no connection. A rank that knows a peer's card has keys and addresses, introduces itself, and may send a
// message at once. A datagram is accepted only with a valid seal and a new number; all others are counted and dropped,
// and change no state: nothing is looked up for a sender that has not introduced itself.
//
// A peer that computes does not answer, because the kernel does not run this protocol. So silence alone does not mean
// loss: the host of a silent peer is asked by TCP whether the process lives (DatagramPort::ask_life; its kernel
// answers), over another network after some timeouts. A peer is lost if its host reports three times that there is no
// such process, or if its host does not answer for TERN_UDP_TIMEOUT_S. Peers that only receive probe each other after
// TERN_UDP_KEEPALIVE_MS without traffic.
//
// udp_path.cc: the data's way; udp_peers.cc: first contact, silence, loss. Source: Majumder 2004, chapter 3.1; RFC
// 9002. Units: bytes, nanoseconds. Thread rule: as Path.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/peer_table.h"
#include "base/tunables.h"
#include "fabric/path.h"
#include "fabric/udp/channel.h"

namespace tern {

enum class UdpProtocol : uint8_t { paper = 1, modern = 2 };

struct UdpOptions {
  const PeerTable* peers = nullptr;  ///< not owned: datagrams of ranks that are not in it are forged
  UdpKey key{};                      ///< the job's secret
  uint64_t message_ns = 0;           ///< simulated ranks: see UdpShared
  const Log* log = nullptr;          ///< null: no log
};

class UdpPath final : public CountingPath {
 public:
  /// Gets what `peer` published as its card; called on first contact only. May block.
  using Lookup = std::function<Error(PeerId peer, std::string& card)>;

  /// Clock and sink outlive the path. Null exactly when `error` is set.
  static std::unique_ptr<UdpPath> create(const UdpOptions& options, const Tunables& tunables,
                                         std::unique_ptr<DatagramPort> port, Clock& clock, Sink& sink, Lookup lookup,
                                         Error& error);
  ~UdpPath() override;

  /// TERN_UDP.
  static Error read_protocol(const Tunables& tunables, UdpProtocol& protocol);
  /// Sockets that the protocol uses: the paper's short and long one.
  static int channels(UdpProtocol protocol) { return protocol == UdpProtocol::paper ? 2 : 1; }

  const std::string& card() const { return card_; }
  /// Memory for datagrams in use: zero when everything has arrived. For tests.
  size_t held() const { return shared_.pool.live(); }
  DatagramPort& port() { return *port_; }

  bool reaches(PeerId peer) const override { return peer != table_.me() && table_.in_my_job(peer); }
  Lane& lane(PeerId peer) override;
  bool try_send(Lane& lane, const wire::Header& header, const void* payload, size_t bytes) override;
  void enqueue(SendOperation& operation) override;
  bool withdraw(SendOperation& operation) override;
  void give_up(Lane& lane) override;
  bool reopen(Lane& lane, uint32_t incarnation) override;
  void set_replaceable() override { replaceable_ = true; }
  void count_into(Counters& counters) override {
    CountingPath::count_into(counters);
    shared_.counters = &counters;
  }
  int poll() override;
  int poll_shortly() override;
  int wait_fd() const override { return port_->descriptor(); }
  bool arm() override;
  uint64_t next_deadline_ns() const override;
  bool has_unsent() const override;
  void tell_on_the_way(std::vector<InTransit>& all) override;

 private:
  struct Peer : Lane {
    using Lane::Lane;
    bool lost = false;
    bool doomed = false;            ///< in doomed_: lost in the next poll
    bool busy = false;              ///< in busy_
    bool knows_us = false;          ///< it has sent an authentic datagram, so it needs no introduction
    UdpSalt salt{};                 ///< of its card
    std::unique_ptr<UdpLink> link;  ///< null: not met
    std::unique_ptr<UdpChannel> channel;
    uint64_t heard_ns = 0;          ///< when an authentic datagram came last
    uint64_t asked_ns = 0;          ///< since when its host owes an answer; 0: it does not
    uint64_t ask_at_ns = 0;         ///< when its host is asked (again)
    uint64_t life_interval_ns = 0;  ///< pause after its host's last answer
    bool asking = false;
    int refusals = 0;
    uint32_t incarnation = 0;  ///< how often the lane was restarted
    std::string trouble;
    /// Why it is lost.
    Error reason() const;
  };

  UdpPath(const UdpOptions& options, const Tunables& tunables, std::unique_ptr<DatagramPort> port, UdpProtocol protocol,
          Clock& clock, Sink& sink, Lookup lookup);

  // udp_path.cc
  enum class Takes : uint8_t { all, known };  ///< `known`: what comes from peers that are met
  void move(uint64_t now_ns, Takes takes, int& handled);
  bool receive(uint64_t now_ns, Takes takes, int& handled);
  void on_arrival(const DatagramPort::Arrival& arrival, uint64_t now_ns, int& handled);
  void keep_busy(Peer& peer) {
    if (peer.busy) return;
    peer.busy = true;
    busy_.push_back(&peer);
  }
  void advance_busy(uint64_t now_ns, bool all);
  int complete();

  // udp_peers.cc
  Peer& add_peer(PeerId id);
  Error meet(Peer& peer);
  void introduce(Peer& peer);
  Peer* find_sender(const wire::Datagram& datagram, const DatagramPort::Arrival& arrival);
  void look_after(uint64_t now_ns);
  bool look_after(Peer& peer, uint64_t now_ns);
  void stop_asking(Peer& peer);
  void ask_host(Peer& peer, uint64_t now_ns);
  void doom(Peer& peer, std::string trouble);
  int lose_doomed();

  const UdpOptions options_;
  const PeerTable& table_;
  const UdpProtocol protocol_;
  const Lookup lookup_;
  Clock& clock_;
  std::unique_ptr<DatagramPort> port_;
  UdpShared shared_;
  UdpSalt salt_{};
  bool aes_ = false, encrypts_ = false;
  std::optional<KeyExchange> exchange_;  ///< if TERN_ENCRYPT is set
  std::string card_;
  uint64_t keepalive_ns_ = 0, timeout_ns_ = 0, failover_ns_ = 0;
  bool replaceable_ = false;                  ///< another path reaches the same peers
  std::vector<std::unique_ptr<Peer>> peers_;  ///< by PeerId; null: never heard of
  std::vector<Peer*> busy_;                   ///< peers with running timers, or with data to send
  std::vector<Peer*> doomed_;
  std::vector<DatagramPort::Arrival> left_;  ///< arrivals that poll_shortly has left to poll; the port's last
  SendList unsendable_;                      ///< for lost peers
  uint64_t next_look_ns_ = ~uint64_t{0};     ///< ~0: no peer is met
};

}  // namespace tern
