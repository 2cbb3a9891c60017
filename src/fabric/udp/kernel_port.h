// Datagrams through the kernel: one socket for each channel and address of this host (one channel in the modern
// protocol; a short and a long one in LA-MPI's), so for each interface in use.
//
// If the kernel can, many datagrams of one size go to it in one call, which splits them (UDP_SEGMENT), and come from it
// joined in one (UDP_GRO); else sendmmsg is used, and they come one by one. Trying shows what a kernel can do.
//
// A TCP socket also listens at each address; it accepts connections only to close them. A connection that is
// established shows that the process lives, though it may be computing; a refused one that it has ended. ICMP messages
// (port unreachable) are ignored: anybody who guesses ports can forge them.
//
// Polling: the sockets that were busy last are read in each call, all of them (epoll) every few calls. Thread rule:
// under the rank's lock. Units: bytes.
#pragma once

#include <sys/socket.h>

#include <memory>
#include <string>
#include <vector>

#include "base/tunables.h"
#include "fabric/ip/host_question.h"
#include "fabric/ip/interfaces.h"
#include "fabric/ip/kernel_streams.h"
#include "fabric/ip/socket.h"
#include "fabric/udp/datagram_port.h"

namespace tern {

struct KernelPortOptions {
  int channels = 1;
  bool segmentation = true;             ///< false: as on a kernel without it (tests)
  std::vector<LocalAddress> addresses;  ///< of this host, instead of asking the kernel (tests)
};

class KernelPort final : public DatagramPort {
 public:
  /// Null exactly when `error` is set.
  static std::unique_ptr<KernelPort> create(const KernelPortOptions& options, const Tunables& tunables, Error& error);

  void describe(wire::DatagramCard& card) const override;
  Error meet(PeerId peer, const wire::DatagramCard& card) override;
  size_t datagram_bytes(PeerId peer) const override {
    return peers_[peer]->pairs[peers_[peer]->current].datagram_bytes;
  }
  size_t buffer_bytes() const override { return buffer_bytes_; }
  size_t send(PeerId peer, int channel, const iovec* datagrams, size_t count) override;
  size_t receive(Arrival* out) override;
  uint32_t change_route(PeerId peer) override;
  void follow(PeerId peer, uint64_t route) override;
  void ask_life(PeerId peer) override;
  Life life(PeerId peer) override;
  void stop_asking(PeerId peer) override;
  int descriptor() const override { return epoll_.get(); }
  bool arm() override {
    // what wakes a sleeper may be a socket that was quiet for long: the next call looks at all
    empty_calls_ = kEmptyInterval;
    return true;
  }

  /// Whether the kernel splits and joins datagrams.
  bool segments() const { return segmentation_; }

 private:
  /// Where datagrams to a peer go: from one address of this host to one of its.
  struct AddressPair {
    SocketAddress to[2];  ///< by channel
    SocketAddress life;   ///< TCP
    size_t local = 0;     ///< this host's (locals_)
    size_t datagram_bytes = 0;
  };
  struct Peer {
    std::vector<AddressPair> pairs;  ///< best first
    size_t current = 0;
    /// A TCP connection that shows whether the process lives. Kept open while the process is silent: it takes one place
    /// in the queue of a peer that computes, however long that lasts.
    Descriptor question;
    size_t asked_pair = 0;  ///< of the question
    bool refused = false;   ///< the call was refused at once
    HostQuestion host;      ///< asked in addition (through streams_), for a peer whose queue is full
  };
  struct Local {
    LocalAddress address;
    Descriptor sockets[2];  ///< by channel
    Descriptor listener;
    uint16_t ports[2] = {}, life_port = 0;
  };

  KernelPort(const KernelPortOptions& options, const Tunables& tunables);
  Error start(const std::string& interfaces);
  Error open(Local& local);
  Error open_socket(Local& local, int channel);
  int find_pair(const wire::CardAddress& to, uint32_t scope, AddressPair& pair) const;
  size_t send_cut(int fd, const SocketAddress& to, const iovec* datagrams, size_t count);
  size_t send_each(int fd, const SocketAddress& to, const iovec* datagrams, size_t count);
  size_t read_socket(size_t index, Arrival* out);
  void look_at_all();

  const int channels_;
  const size_t most_bytes_;
  bool segmentation_;
  size_t buffer_bytes_ = ~size_t{0};
  wire::HostIdentity host_{};
  std::vector<Local> locals_;
  KernelStreams streams_;  ///< outlives the questions of peers_
  Descriptor epoll_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::unique_ptr<std::byte[]> memory_;
  /// Empty calls, or calls of any kind, after which all sockets are polled: an empty read costs 0.2 us, so a quiet
  /// socket waits 2 us, beside a busy one 13.
  static constexpr uint32_t kEmptyInterval = 8, kInterval = 64;
  static constexpr size_t kHot = 4;  ///< two sockets on two networks
  /// Sockets (2 * local + channel) read without asking epoll; the first had something last.
  size_t hot_[kHot] = {};
  size_t hot_count_ = 0;
  uint32_t calls_ = 0, empty_calls_ = 0;
};

}  // namespace tern
