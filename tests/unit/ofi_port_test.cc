// libfabric's providers in software, as ports: what the path relies on beyond what they state. Those that this machine
// does not have are left out.
#if __has_include(<rdma/fi_endpoint.h>)
#include "fabric/ofi/ofi_port.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "fabric/ofi/fi_library.h"
#include "fabric/ofi/fi_port.h"
#include "fabric/ofi/ofi.h"
#include "fabric/ofi/ofi_adapter.h"
#include "wire/ofi.h"

namespace tern {
namespace {

constexpr const char* kProviders[] = {"tcp;ofi_rxm", "tcp", "sockets", "shm", "udp;ofi_rxd", "net"};

/// An endpoint with its buffers, as a rank has it; null: this machine does not have the provider.
std::unique_ptr<OfiAdapter> open_adapter(const std::string& provider, Clock& clock) {
  Tunables tunables;
  tunables.ofi_provider = provider;
  tunables.ofi_receive_bytes = 0;  // buffers for many as short as can be: two long frames
  std::unique_ptr<ofi::Port> port;
  if (ofi::open_port({0, 2}, ofi::Wanted::any, tunables, port) || port->capabilities().provider != provider)
    return nullptr;
  auto adapter = std::make_unique<OfiAdapter>(OfiOptions(), tunables, std::move(port), clock);
  const Error error = adapter->start();
  EXPECT_FALSE(error) << error.text();
  return adapter;
}

constexpr size_t kShort = 64;
constexpr uint32_t kRound = 8;  // frames that fill the buffers

class Pair {
 public:
  explicit Pair(const std::string& provider) : from(open_adapter(provider, clock)), to(open_adapter(provider, clock)) {
    if (!from || !to) return;
    EXPECT_EQ(from->port->insert(to->port->address(), address), 0);
  }
  explicit operator bool() const { return from && to; }

  size_t bytes_of(uint32_t number) const { return number % 2 == 0 ? from->frame_bytes : kShort; }
  /// A frame that begins with its number: long ones and short ones in turn. False: there is no room.
  bool send(uint32_t number) {
    OfiBuffer* buffer = from->take_buffer();
    if (!buffer) return false;
    const size_t bytes = bytes_of(number);
    std::memset(buffer->memory, int(number), bytes);
    std::memcpy(buffer->memory, &number, sizeof number);
    const int result = from->port->send(address, from->piece_of(*buffer, bytes), false, *buffer);
    EXPECT_TRUE(result == 0 || result == ofi::kAgain) << from->port->explain("fi_sendmsg", result);
    if (result != 0) from->give_back(*buffer);
    return result == 0;
  }
  void poll_sender() {
    ofi::Completion its;
    if (from->poll(&its, 1) != 1) return;
    EXPECT_EQ(its.error, 0) << from->port->explain("fi_sendmsg", its.error);
    from->give_back(static_cast<OfiBuffer&>(static_cast<OfiOperation&>(*its.context)));
  }
  void poll_receiver() {
    ofi::Completion its;
    if (to->poll(&its, 1) != 1) return;
    if (const std::byte* message = to->message_of(its)) {
      uint32_t number = 0;
      std::memcpy(&number, message, sizeof number);
      EXPECT_EQ(its.bytes, bytes_of(number));
      EXPECT_EQ(message[its.bytes - 1], std::byte(number));
      EXPECT_FALSE(free.contains(its.context)) << "frame " << number << " is in a buffer that came back before";
      ++times[number];
      ++received;
    }
    if (its.released) free.insert(its.context);
    to->receive_handled(its);
    // Buffers for many are posted again between two rounds only.
    if (to->able().multi_receive && received % kRound != 0) return;
    free.clear();
    to->repost();
  }
  /// Until the receiver has that many frames; false: it has not got them in time.
  bool wait_for(uint32_t frames) {
    const uint64_t until = clock.now_ns() + 5 * kSecond_ns;
    while (received < frames && clock.now_ns() < until) {
      poll_sender();
      poll_receiver();
    }
    return received == frames;
  }

  RealClock clock;
  std::unique_ptr<OfiAdapter> from, to;
  ofi::Address address = ofi::kNoAddress;
  uint32_t received = 0;
  std::map<uint32_t, uint32_t> times;  ///< how often each number has come
  std::set<const ofi::Context*> free;  ///< buffers of the receiver that have come back, not posted again
};

// ofi_rxm sends what is longer in several pieces.
TEST(OfiProviders, AFrameWithItsHeadIsOnePieceOfRxm) {
  RealClock clock;
  const auto adapter = open_adapter("tcp;ofi_rxm", clock);
  if (!adapter) GTEST_SKIP() << "this machine does not have it";
  std::string why_not;
  const uint32_t version = ofi::FiLibrary::load(why_not)->version();
  const bool has_limit = version >= FI_VERSION(1, 13) && version < FI_VERSION(1, 20);
  const char* limit = getenv(has_limit ? "FI_OFI_RXM_EAGER_LIMIT" : "FI_OFI_RXM_BUFFER_SIZE");
  ASSERT_TRUE(limit);
  EXPECT_LE(adapter->frame_bytes, std::stoul(limit));
  EXPECT_GE(adapter->frame_bytes - wire::ofi_head_bytes(wire::OfiFrameType::whole), has_limit ? 65536u : 16384u);
}

// ofi_rxm gives a buffer for many messages back with a short message that is in it, though the data of a longer one
// before it is still on its way there.
TEST(OfiProviders, EveryFrameIsInABufferThatTheReceiverHasPosted) {
  constexpr uint32_t kRounds = 3;
  for (const char* provider : kProviders) {
    Pair pair(provider);
    if (!pair) continue;
    SCOPED_TRACE(provider);
    for (uint32_t round = 0; round < kRounds; ++round) {
      // The receiver is busy for a while.
      const uint64_t busy_until = pair.clock.now_ns() + 20 * kMillisecond_ns;
      uint32_t sent = round * kRound;
      while (sent < (round + 1) * kRound || pair.clock.now_ns() < busy_until) {
        if (sent < (round + 1) * kRound) sent += pair.send(sent);
        pair.poll_sender();
        if (pair.clock.now_ns() > busy_until) pair.poll_receiver();
      }
      ASSERT_TRUE(pair.wait_for((round + 1) * kRound)) << pair.received << " frames have arrived";
    }
    for (uint32_t number = 0; number < kRounds * kRound; ++number) EXPECT_EQ(pair.times[number], 1u) << number;
  }
}

/// The receive buffers of this process's TCP sockets, by descriptor.
std::map<int, int> receive_buffers() {
  std::map<int, int> result;
  constexpr int kMostDescriptors = 1024;
  for (int descriptor = 0; descriptor < kMostDescriptors; ++descriptor) {
    int protocol = 0;
    socklen_t bytes = sizeof(int);
    if (getsockopt(descriptor, SOL_SOCKET, SO_PROTOCOL, &protocol, &bytes) != 0 || protocol != IPPROTO_TCP) continue;
    EXPECT_EQ(getsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &result[descriptor], &bytes), 0);
  }
  return result;
}

// The head of a message that has come in part must not fill the buffer for its rest.
TEST(OfiProviders, SocketsHaveRoomForMoreThanTheKernelsLargestPiece) {
  const std::map<int, int> before = receive_buffers();
  Pair pair("sockets");
  if (!pair) GTEST_SKIP() << "this machine does not have it";
  while (!pair.send(0)) {
  }
  ASSERT_TRUE(pair.wait_for(1));
  constexpr int kPieceBytes = 17 * 32 * 1024, kSegmentBytes = 65536;
  int sockets = 0;
  for (const auto& [descriptor, bytes] : receive_buffers()) {
    if (before.contains(descriptor)) continue;
    ++sockets;
    EXPECT_GE(bytes, kPieceBytes + kSegmentBytes);
  }
  EXPECT_EQ(sockets, 4) << "two that listen, a connection with two ends";
}

/// A process with a port of that provider, which stops when it has said its address: nothing there answers.
class StoppedPeer {
 public:
  StoppedPeer(const std::string& provider, size_t address_bytes) : address(address_bytes, '\0') {
    int ends[2];
    if (pipe(ends) != 0) return;
    pid_ = fork();
    if (pid_ == 0) {
      RealClock clock;
      const auto adapter = open_adapter(provider, clock);
      const std::string& its = adapter->port->address();
      if (write(ends[1], its.data(), its.size()) == ssize_t(its.size())) raise(SIGSTOP);
      _exit(0);
    }
    close(ends[1]);
    int status = 0;
    if (read(ends[0], address.data(), address.size()) != ssize_t(address.size())) address.clear();
    close(ends[0]);
    if (pid_ > 0) (void)waitpid(pid_, &status, WUNTRACED);
  }
  ~StoppedPeer() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    (void)waitpid(pid_, nullptr, 0);
  }

  std::string address;  ///< empty: it has none

 private:
  pid_t pid_ = -1;
};

// Else each message costs an answer of the peer's provider, for which the thread of `sockets` polls.
TEST(OfiProviders, ASendIsOverWhenItsMemoryIsFree) {
  RealClock clock;
  auto adapter = open_adapter("sockets", clock);
  if (!adapter) GTEST_SKIP() << "this machine does not have it";
  const size_t address_bytes = adapter->port->address().size();
  adapter.reset();  // fork copies no thread
  StoppedPeer peer("sockets", address_bytes);
  ASSERT_FALSE(peer.address.empty());
  adapter = open_adapter("sockets", clock);
  ofi::Address to = ofi::kNoAddress;
  ASSERT_EQ(adapter->port->insert(peer.address, to), 0);
  for (const bool tagged : {false, true}) {
    OfiBuffer& buffer = *adapter->take_buffer();
    const ofi::Piece piece = adapter->piece_of(buffer, kShort);
    const uint64_t until = clock.now_ns() + 5 * kSecond_ns;
    bool sent = false;
    int completions = 0;
    while (completions == 0 && clock.now_ns() < until) {
      if (!sent) {
        sent = (tagged ? adapter->port->send_tagged(to, 7, piece, true, buffer)
                       : adapter->port->send(to, piece, false, buffer)) == 0;
      }
      ofi::Completion its;
      completions = adapter->poll(&its, 1);
    }
    EXPECT_EQ(completions, 1) << (tagged ? "by tag" : "without a tag");
  }
}

// As many words at a time as a provider says: each is changed, and answered, for itself.
TEST(OfiProviders, AtomicsOfSeveralWords) {
  for (const char* provider : kProviders) {
    Pair pair(provider);
    if (!pair || !pair.from->able().atomics) continue;
    SCOPED_TRACE(provider);
    ofi::Port &origin = *pair.from->port, &target = *pair.to->port;
    const size_t most = std::min(pair.from->able().atomic_words, pair.from->frame_bytes / 16);
    std::vector<uint64_t> words(most), operands(most), answers(most);
    int error = 0;
    const auto region = target.register_memory(words.data(), most * 8, {true, true, true, true}, error);
    ASSERT_TRUE(region) << target.explain("fi_mr_reg", error);
    const uint64_t remote = target.capabilities().virtual_addresses ? reinterpret_cast<uintptr_t>(words.data()) : 0;
    for (const size_t count : {size_t{1}, std::min<size_t>(most, 5), most}) {
      for (const auto kind : {AtomicOperation::Kind::fetch_add, AtomicOperation::Kind::swap}) {
        if (kind == AtomicOperation::Kind::swap && !pair.from->able().atomic_swap) continue;
        for (size_t i = 0; i < most; ++i) words[i] = 1000 + i, operands[i] = 7 * i + 1, answers[i] = 0;
        ofi::Context context;
        const ofi::Piece operand{operands.data(), count * 8}, answer{answers.data(), count * 8};
        const uint64_t until = pair.clock.now_ns() + 5 * kSecond_ns;
        bool begun = false, over = false;
        while (!over && pair.clock.now_ns() < until) {
          if (!begun) begun = origin.atomic(pair.address, kind, operand, answer, remote, region->key(), context) == 0;
          pair.poll_receiver();
          ofi::Completion its;
          if (pair.from->poll(&its, 1) == 1 && its.context == &context) {
            over = true;
            EXPECT_EQ(its.error, 0) << origin.explain("fi_fetch_atomicmsg", its.error);
          }
        }
        ASSERT_TRUE(over) << count << " words";
        for (size_t i = 0; i < most; ++i) {
          const uint64_t was = 1000 + i, is = kind == AtomicOperation::Kind::swap ? operands[i] : was + operands[i];
          ASSERT_EQ(words[i], i < count ? is : was) << i << " of " << count;
          ASSERT_EQ(answers[i], i < count ? was : 0) << i << " of " << count;
        }
      }
    }
  }
}

TEST(OfiProviders, ProvidersLearnOfTheJobUnlessTheEnvironmentSays) {
  std::string why_not;
  if (!ofi::FiLibrary::load(why_not)) GTEST_SKIP() << why_not;
  constexpr const char *kRanks = "FI_UNIVERSE_SIZE", *kPolling = "FI_SOCKETS_PE_WAITTIME",
                       *kPiece = "FI_OFI_RXM_BUFFER_SIZE", *kStreamed = "FI_OFI_RXM_EAGER_LIMIT";
  std::unique_ptr<ofi::Port> port;
  const Tunables tunables;
  auto told = [&](const char* said, bool cores_shared) {
    for (const char* name : {kRanks, kPolling, kPiece, kStreamed}) {
      if (said) setenv(name, said, 1);
      else unsetenv(name);
    }
    (void)ofi::open_port({0, 3, cores_shared}, ofi::Wanted::fast, tunables, port);
  };
  told("7", true);
  EXPECT_STREQ(getenv(kRanks), "7");
  EXPECT_STREQ(getenv(kPolling), "7");
  EXPECT_STREQ(getenv(kPiece), "7");
  EXPECT_STREQ(getenv(kStreamed), "7");
  told(nullptr, true);
  EXPECT_STREQ(getenv(kRanks), "4");
  EXPECT_STREQ(getenv(kPiece), "16448");
  EXPECT_STREQ(getenv(kStreamed), "65600");
  EXPECT_STREQ(getenv(kPolling), "0");  // no thread polls on a rank's core
  told(nullptr, false);
  EXPECT_EQ(getenv(kPolling), nullptr);
  unsetenv(kRanks);
  unsetenv(kPiece);
  unsetenv(kStreamed);
}

TEST(OfiProviders, ErrorsNameWhatIsMissing) {
  std::string why_not;
  const auto library = ofi::FiLibrary::load(why_not);
  if (!library) GTEST_SKIP() << why_not;
  constexpr struct {
    const char *provider, *call;
    int error;
    const char* remedy;
  } kCases[] = {
      {"efa", "fi_mr_reg", FI_ENOMEM, "ulimit -l"},
      {"cxi", "fi_domain", FI_ENODEV, "/dev/cxi0"},
      {"opx", "fi_domain", FI_ENODEV, "/dev/hfi1_0"},
      {"verbs;ofi_rxm", "fi_domain", FI_ENODEV, "/dev/infiniband"},
      {"cxi", "fi_domain", FI_EACCES, "may this user open"},
      {"efa", "fi_sendmsg", FI_EHOSTUNREACH, "security group"},
      {"verbs;ofi_rxm", "fi_enable", FI_EINVAL, "FI_UNIVERSE_SIZE"},
  };
  for (const auto& its : kCases) {
    const std::string text = ofi::explain_error(*library, its.provider, its.call, -its.error);
    EXPECT_TRUE(text.starts_with(std::string("provider ") + its.provider + ": " + its.call + ": ")) << text;
    EXPECT_NE(text.find(its.remedy), std::string::npos) << text;
  }
  // A provider that is not there at all.
  std::unique_ptr<ofi::Port> port;
  Tunables tunables;
  tunables.ofi_provider = "cxi";
  const Error error = ofi::open_port({0, 2}, ofi::Wanted::any, tunables, port);
  if (!error) GTEST_SKIP() << "this machine has cxi";
  EXPECT_NE(error.text().find("no provider cxi here"), std::string::npos) << error.text();
  EXPECT_NE(error.text().find("/dev/cxi0"), std::string::npos) << error.text();
}

}  // namespace
}  // namespace tern
#endif
