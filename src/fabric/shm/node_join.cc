// How the ranks of a node join (node.h): abstract Unix sockets, a mutual proof of the job key, descriptors by
// SCM_RIGHTS. SEQPACKET, so that one send is one message.
//
//   member                          leader (lowest rank)
//   Hello {rank, nonce}       ->
//                             <-    Challenge {nonce, proof}
//   Answer {proof} + bell, life ->     joined; when all have joined or given up:
//                             <-    Welcome {slots} + memfd
//                             <-    Descriptors {first slot, n} + bells, lives   (as often as needed)
//   Attached {ok}             ->     when all have answered or gone:
//                             <-    Go                           `present` in the segment is final
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sodium.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>

#include "base/assert.h"
#include "fabric/shm/node_internal.h"

namespace tern {
namespace {

using shm::system_error;

constexpr size_t kNonceBytes = 16, kProofBytes = 32;  // 128 random bits; HMAC-SHA-256
constexpr uint32_t kProtocol = 3;                     // version of these messages
constexpr uint32_t kDescriptorBatch = 100;            ///< slots per message: two descriptors each, SCM_MAX_FD is 253
constexpr int kLookAgain_ms = 20;      ///< between two tries to reach a socket whose queue strangers have filled
constexpr size_t kMaxStrangers = 256;  ///< unproven connections; a node has at most kMaxRanks (512) honest ones

/// Of a payload ring, if the tunable leaves it open (0).
size_t ring_bytes_for(size_t tunable, size_t peers) {
  // In 256 KiB a window of 64 messages flows in both directions, which 64 KiB stop (of 2 KiB: 8.4 instead of 3.9
  // million messages a second, of 8 KiB 2.4 instead of 1.4); 512 KiB gain no more.
  constexpr size_t kMaxBytes = size_t{256} << 10;
  constexpr size_t kMinBytes = size_t{64} << 10;  // 8 eager messages
  constexpr size_t kRankBytes = size_t{4} << 20;  // of all rings into a rank: 64 KiB each with 64 peers
  constexpr size_t kSmallestBytes = 8192;         // holds the smallest chunks
  if (tunable != 0) return shm::Layout::up(std::max(tunable, kSmallestBytes));
  return shm::Layout::up(std::clamp(kRankBytes / std::max<size_t>(peers, 1), kMinBytes, kMaxBytes));
}

struct Hello {
  uint32_t magic, protocol;
  int32_t rank;
  uint8_t nonce[kNonceBytes];
};
struct Challenge {
  uint8_t nonce[kNonceBytes];
  uint8_t proof[kProofBytes];
};
struct Answer {
  uint8_t proof[kProofBytes];
  uint32_t has_life_line;
};
/// What a segment is made by.
constexpr const char* kSegmentSteps[] = {"memfd_create", "reserving the segment", "mapping the segment", "eventfd"};
enum SegmentStep : uint32_t { kCreating, kReserving, kMapping, kDoorbell };
/// `slots` = 0: no segment could be made; `failed` is the errno that says why, `failed_step` says at what.
struct Welcome {
  uint32_t slots = 0, my_slot = 0;
  uint32_t failed = 0, failed_step = 0;
  uint64_t ring_bytes = 0;
  uint64_t spill_cells = 0;
};
struct Descriptors {
  uint32_t first, count;
  uint8_t has_bell[kDescriptorBatch], has_life[kDescriptorBatch];
};
struct Attached {
  uint32_t ok;
};

/// How many bytes of address space a process of this node may have (ulimit -v).
uint64_t address_space() {
  rlimit limit{};
  return getrlimit(RLIMIT_AS, &limit) == 0 ? uint64_t(limit.rlim_cur) : ~uint64_t{0};
}

using Key = std::array<uint8_t, 32>;

/// The abstract socket of a rank: its name cannot be guessed without the key, and differs between jobs.
socklen_t socket_name(const Key& key, int rank, sockaddr_un& address) {
  uint8_t digest[16];
  const std::string text = "tern shm " + std::to_string(rank);
  crypto_generichash(digest, sizeof digest, reinterpret_cast<const uint8_t*>(text.data()), text.size(), key.data(),
                     key.size());
  char hex[2 * sizeof digest + 1];
  sodium_bin2hex(hex, sizeof hex, digest, sizeof digest);
  const std::string name = std::string("tern-") + hex;
  address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return socklen_t(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

void make_proof(const Key& key, char role, const Hello& hello, const uint8_t* leader_nonce, uint8_t* proof) {
  crypto_generichash_state state;
  crypto_generichash_init(&state, key.data(), key.size(), kProofBytes);
  crypto_generichash_update(&state, reinterpret_cast<const uint8_t*>(&role), 1);
  crypto_generichash_update(&state, reinterpret_cast<const uint8_t*>(&hello), sizeof hello);
  crypto_generichash_update(&state, leader_nonce, kNonceBytes);
  crypto_generichash_final(&state, proof, kProofBytes);
}

bool same_user(int fd) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) == 0 && credentials.uid == geteuid();
}

bool send_message(int fd, const void* data, size_t bytes, const std::vector<int>& descriptors = {}) {
  iovec piece{const_cast<void*>(data), bytes};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  std::vector<char> control(CMSG_SPACE(descriptors.size() * sizeof(int)));
  if (!descriptors.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
    std::memcpy(CMSG_DATA(part), descriptors.data(), descriptors.size() * sizeof(int));
  }
  ssize_t sent;
  do sent = sendmsg(fd, &message, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent == ssize_t(bytes);
}

/// Reads exactly `bytes`; false: end, error, or another length. The caller owns descriptors that came along.
bool receive_message(int fd, void* data, size_t bytes, std::vector<Descriptor>* descriptors = nullptr) {
  alignas(cmsghdr) char control[CMSG_SPACE(2 * kDescriptorBatch * sizeof(int))];
  iovec piece{data, bytes};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t got;
  do got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  if (got < 0) return false;
  std::vector<Descriptor> came;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int descriptor;
      std::memcpy(&descriptor, CMSG_DATA(part) + i * sizeof(int), sizeof descriptor);
      came.emplace_back(descriptor);
    }
  }
  if (got != ssize_t(bytes) || (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) return false;
  if (descriptors) *descriptors = std::move(came);
  return true;
}

/// Null with `reachable` false: no process has that socket. Null with `reachable` true: a process has it,
/// but its queue of connections is full (only without `wait`).
Descriptor connect_to(const Key& key, int rank, bool wait, bool& reachable) {
  sockaddr_un address;
  const socklen_t length = socket_name(key, rank, address);
  Descriptor fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | (wait ? 0 : SOCK_NONBLOCK), 0));
  int result = -1;
  if (fd) {
    do result = connect(fd.get(), reinterpret_cast<sockaddr*>(&address), length);
    while (result != 0 && errno == EINTR);
  }
  reachable = result == 0 || (fd && errno == EAGAIN);
  return result == 0 ? std::move(fd) : Descriptor();
}

/// A candidate as the leader sees it.
struct Candidate {
  int rank;
  /// Connection to its socket while it has not joined: the end of it means that the rank has given up. Null and not
  /// gone: strangers have filled its queue, and it is tried again.
  Descriptor beacon;
  Descriptor connection;  ///< to the proven member
  Descriptor bell, life;
  bool gone = false;
};

struct Stranger {
  Descriptor connection;
  Hello hello{};
  Challenge challenge{};
  bool challenged = false;
};

/// The leader's side until every candidate has joined or given up.
class Reception {
 public:
  Reception(const ShmSetup& setup, int listener) : setup_(setup), listener_(listener) {
    for (int rank : setup.candidates) {
      if (rank == setup.rank) continue;
      candidates.push_back(Candidate{rank, {}, {}, {}, {}, false});
    }
  }

  void run() {
    for (Candidate& candidate : candidates) look_for(candidate);
    while (pending() && failure_ == 0) step();
  }
  /// 0, or the errno for which accepting ended.
  int failure() const { return failure_; }

  std::vector<Candidate> candidates;

 private:
  bool pending() const {
    return std::any_of(candidates.begin(), candidates.end(),
                       [](const Candidate& c) { return !c.gone && !c.connection; });
  }

  void look_for(Candidate& candidate) {
    bool reachable = false;
    candidate.beacon = connect_to(setup_.job_key, candidate.rank, false, reachable);
    if (!candidate.beacon && is_shortage(errno)) failure_ = errno;
    candidate.gone = !reachable;
  }

  void step() {
    bool look_again = false;
    for (Candidate& candidate : candidates) {
      if (candidate.gone || candidate.connection || candidate.beacon) continue;
      look_for(candidate);
      look_again |= !candidate.beacon;
    }
    std::vector<pollfd> set{{listener_, POLLIN, 0}};
    for (const Stranger& stranger : strangers_) set.push_back({stranger.connection.get(), POLLIN, 0});
    const size_t beacons = set.size();
    for (const Candidate& c : candidates) set.push_back({c.gone || c.connection ? -1 : c.beacon.get(), POLLIN, 0});
    if (::poll(set.data(), set.size(), look_again ? kLookAgain_ms : -1) < 0) return;  // EINTR: again
    // Joined members first: if one answers and dies at once, the end of its connection is handled.
    for (size_t i = strangers_.size(); i-- > 0;) {
      if (set[1 + i].revents != 0 && !advance(strangers_[i])) strangers_.erase(strangers_.begin() + ptrdiff_t(i));
    }
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (set[beacons + i].revents != 0 && !candidates[i].connection) candidates[i].gone = true;
    }
    if (set[0].revents & POLLIN) {
      Descriptor connection(accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC));
      if (!connection && is_shortage(errno)) {
        // It stays in the queue. Unproven connections are closed to make room; without any, accepting ends.
        if (strangers_.empty()) failure_ = errno;
        else strangers_.erase(strangers_.begin());
      }
      if (!connection || !same_user(connection.get())) return;
      if (strangers_.size() == kMaxStrangers) strangers_.erase(strangers_.begin());
      strangers_.emplace_back();
      strangers_.back().connection = std::move(connection);
    }
  }

  // Returns false if this connection is no longer a stranger's.
  bool advance(Stranger& stranger) {
    const int fd = stranger.connection.get();
    if (!stranger.challenged) {
      if (!receive_message(fd, &stranger.hello, sizeof(Hello))) return false;
      if (stranger.hello.magic != shm::kMagic || stranger.hello.protocol != kProtocol) return false;
      randombytes_buf(stranger.challenge.nonce, kNonceBytes);
      make_proof(setup_.job_key, 'L', stranger.hello, stranger.challenge.nonce, stranger.challenge.proof);
      stranger.challenged = true;
      return send_message(fd, &stranger.challenge, sizeof(Challenge));
    }
    Answer answer;
    std::vector<Descriptor> descriptors;
    if (!receive_message(fd, &answer, sizeof answer, &descriptors)) return false;
    uint8_t proof[kProofBytes];
    make_proof(setup_.job_key, 'M', stranger.hello, stranger.challenge.nonce, proof);
    if (sodium_memcmp(proof, answer.proof, kProofBytes) != 0) return false;
    if (descriptors.size() != (answer.has_life_line ? 2u : 1u)) return false;
    for (Candidate& candidate : candidates) {
      if (candidate.rank != stranger.hello.rank || candidate.connection) continue;
      candidate.gone = false;
      candidate.connection = std::move(stranger.connection);
      candidate.bell = std::move(descriptors[0]);
      if (answer.has_life_line) candidate.life = std::move(descriptors[1]);
      candidate.beacon = Descriptor();
    }
    return false;
  }

  const ShmSetup& setup_;
  int listener_;
  std::vector<Stranger> strangers_;
  int failure_ = 0;
};

bool send_descriptors(int fd, const std::vector<int>& bells, const std::vector<int>& lives) {
  for (uint32_t first = 0; first < bells.size(); first += kDescriptorBatch) {
    Descriptors batch{};
    batch.first = first;
    batch.count = std::min<uint32_t>(kDescriptorBatch, uint32_t(bells.size()) - first);
    std::vector<int> descriptors;
    for (uint32_t i = 0; i < batch.count; ++i) {
      if ((batch.has_bell[i] = bells[first + i] >= 0)) descriptors.push_back(bells[first + i]);
      if ((batch.has_life[i] = lives[first + i] >= 0)) descriptors.push_back(lives[first + i]);
    }
    if (!send_message(fd, &batch, sizeof batch, descriptors)) return false;
  }
  return true;
}

bool receive_descriptors(int fd, std::vector<int>& bells, std::vector<int>& lives) {
  for (uint32_t first = 0; first < bells.size();) {
    Descriptors batch;
    std::vector<Descriptor> came;
    if (!receive_message(fd, &batch, sizeof batch, &came)) return false;
    if (batch.first != first || batch.count == 0 || batch.count > kDescriptorBatch ||
        batch.count > bells.size() - first) {
      return false;
    }
    size_t next = 0;
    for (uint32_t i = 0; i < batch.count; ++i) {
      if (batch.has_bell[i] && next < came.size()) bells[first + i] = came[next++].release();
      if (batch.has_life[i] && next < came.size()) lives[first + i] = came[next++].release();
    }
    first += batch.count;
  }
  return true;
}

Error alone(const char* why) { return Error(ErrorClass::other, std::string("shared memory: ") + why); }

}  // namespace

std::unique_ptr<ShmNode> ShmNode::prepare(const ShmSetup& setup, Error& error) {
  if (setup.candidates.size() < 2 || setup.candidates.size() > shm::kMaxRanks) {
    error = alone(setup.candidates.size() < 2 ? "no other rank on this node"
                                              : "more ranks on this node than a segment holds");
    return nullptr;
  }
  if (sodium_init() < 0) {
    error = alone("libsodium cannot be initialised");
    return nullptr;
  }
  sockaddr_un address;
  const socklen_t length = socket_name(setup.job_key, setup.rank, address);
  Descriptor listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!listener || bind(listener.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      listen(listener.get(), int(shm::kMaxRanks)) != 0) {
    error = system_error("a Unix socket to meet the other ranks at");
    return nullptr;
  }
  auto node = std::unique_ptr<ShmNode>(new ShmNode);
  node->joining_ = std::make_unique<Joining>();
  node->joining_->setup = setup;
  node->joining_->listener = std::move(listener);
  return node;
}

Error ShmNode::join() {
  TERN_ASSERT(joining_);
  // If Yama restricts attaching to ancestors, this allows the launcher's descendants (the other ranks).
  if (joining_->setup.allow_attach) prctl(PR_SET_PTRACER, getppid());
  const bool leader = joining_->setup.rank == joining_->setup.candidates.front();
  Error error = leader ? join_as_leader() : join_as_member();
  joining_.reset();
  if (!error) settle();
  if (!error && members_.size() < 2) error = alone("no other rank could attach");
  return error;
}

uint32_t ShmNode::engines() const {
  uint32_t fewest = ~0u;
  for (uint32_t slot = 0; slot < slots(); ++slot) {
    if (present(slot)) fewest = std::min(fewest, block(slot).engines);
  }
  return fewest;
}

Error ShmNode::join_as_leader() {
  const ShmSetup& setup = joining_->setup;
  Reception reception(setup, joining_->listener.get());
  reception.run();
  if (reception.failure() != 0) {
    errno = reception.failure();
    return system_error("meeting the other ranks of this node");
  }
  std::vector<Candidate*> joined;
  for (Candidate& candidate : reception.candidates) {
    if (candidate.connection) joined.push_back(&candidate);
  }
  if (joined.empty()) return alone("no other rank could be reached on this node");

  // The members are told why there is no segment: each of them may be the one whose error the user sees.
  auto refuse = [&](SegmentStep step) {
    const Welcome refusal{.failed = uint32_t(errno), .failed_step = step};
    Error error = system_error(kSegmentSteps[step]);
    for (Candidate* member : joined) (void)send_message(member->connection.get(), &refusal, sizeof refusal);
    return error;
  };
  shm::Layout layout{uint32_t(joined.size()) + 1, ring_bytes_for(setup.ring_bytes, joined.size())};
  layout.fit_into(address_space());
  Descriptor memfd(memfd_create("tern", MFD_CLOEXEC));
  if (!memfd) return refuse(kCreating);
  // What all ranks need is reserved now, so that a lack of memory is an error here and not a signal later.
  int failed = resize_file(memfd.get(), layout.total());
  if (failed == 0) failed = reserve_file(memfd.get(), 0, layout.progress());
  if (failed != 0) {
    errno = failed;
    return refuse(kReserving);
  }
  if (map(memfd.get(), layout, Users::processes)) return refuse(kMapping);
  doorbells_.assign(layout.ranks, -1);
  life_lines_.assign(layout.ranks, -1);
  head().magic = shm::kMagic;
  head().ranks = layout.ranks;
  head().ring_bytes = layout.ring_bytes;
  head().rank_of[0] = setup.rank;
  doorbells_[0] = shm::open_doorbell();
  life_lines_[0] = shm::open_life_line();
  if (doorbells_[0] < 0) return refuse(kDoorbell);
  for (uint32_t slot = 1; slot < layout.ranks; ++slot) {
    head().rank_of[slot] = joined[slot - 1]->rank;
    doorbells_[slot] = joined[slot - 1]->bell.release();
    life_lines_[slot] = joined[slot - 1]->life.release();
  }
  attach(0);
  for (uint32_t slot = 1; slot < layout.ranks; ++slot) {
    Candidate& member = *joined[slot - 1];
    const Welcome welcome{
        .slots = layout.ranks, .my_slot = slot, .ring_bytes = layout.ring_bytes, .spill_cells = layout.spill_cells};
    member.gone = !send_message(member.connection.get(), &welcome, sizeof welcome, {memfd.get()}) ||
                  !send_descriptors(member.connection.get(), doorbells_, life_lines_);
  }
  block(0).present.store(1, std::memory_order_relaxed);
  for (uint32_t slot = 1; slot < layout.ranks; ++slot) {
    Candidate& member = *joined[slot - 1];
    Attached attached{};
    if (member.gone || !receive_message(member.connection.get(), &attached, sizeof attached) || attached.ok != 1) {
      member.gone = true;
      continue;
    }
    block(slot).present.store(1, std::memory_order_relaxed);
  }
  head().settled.store(1, std::memory_order_release);
  for (Candidate* member : joined) {
    const uint32_t go = shm::kMagic;
    if (!member->gone) (void)send_message(member->connection.get(), &go, sizeof go);
  }
  return {};
}

Error ShmNode::join_as_member() {
  const ShmSetup& setup = joining_->setup;
  bool reachable = false;
  Descriptor leader = connect_to(setup.job_key, setup.candidates.front(), true, reachable);
  if (!leader)
    return alone("the lowest rank of this node cannot be reached (another network namespace, or it has given up?)");
  if (!same_user(leader.get())) return alone("the lowest rank of this node runs as another user");
  Hello hello{};
  hello.magic = shm::kMagic;
  hello.protocol = kProtocol;
  hello.rank = setup.rank;
  randombytes_buf(hello.nonce, kNonceBytes);
  Challenge challenge;
  if (!send_message(leader.get(), &hello, sizeof hello) ||
      !receive_message(leader.get(), &challenge, sizeof challenge)) {
    return alone("the lowest rank of this node does not answer");
  }
  uint8_t proof[kProofBytes];
  make_proof(setup.job_key, 'L', hello, challenge.nonce, proof);
  if (sodium_memcmp(proof, challenge.proof, kProofBytes) != 0) return alone("what answers does not know the job's key");

  Descriptor bell(shm::open_doorbell()), life(shm::open_life_line());
  if (!bell) return system_error("eventfd");
  Answer answer{};
  make_proof(setup.job_key, 'M', hello, challenge.nonce, answer.proof);
  answer.has_life_line = bool(life);
  std::vector<int> mine{bell.get()};
  if (life) mine.push_back(life.get());
  Welcome welcome;
  std::vector<Descriptor> came;
  if (!send_message(leader.get(), &answer, sizeof answer, mine) ||
      !receive_message(leader.get(), &welcome, sizeof welcome, &came)) {
    return alone("the lowest rank of this node made no segment");
  }
  if (welcome.slots == 0) {
    const char* step = welcome.failed_step < std::size(kSegmentSteps) ? kSegmentSteps[welcome.failed_step] : "?";
    const std::string what = std::string("the lowest rank of this node could make no segment: ") + step;
    errno = int(welcome.failed);
    return system_error(what.c_str());
  }
  if (came.size() != 1 || welcome.slots > shm::kMaxRanks || welcome.my_slot >= welcome.slots) {
    return alone("the lowest rank of this node sent no segment");
  }
  doorbells_.assign(welcome.slots, -1);
  life_lines_.assign(welcome.slots, -1);
  if (!receive_descriptors(leader.get(), doorbells_, life_lines_)) return alone("doorbells did not arrive");
  const shm::Layout layout{welcome.slots, welcome.ring_bytes, uint32_t(welcome.spill_cells)};
  Error error = map(came[0].get(), layout, Users::processes);
  Attached attached{error ? 0u : 1u};
  if (!error) attach(welcome.my_slot);
  uint32_t go = 0;
  if (!send_message(leader.get(), &attached, sizeof attached) || error)
    return error ? std::move(error) : alone("the leader is gone");
  if (!receive_message(leader.get(), &go, sizeof go)) return alone("the leader is gone");
  return {};
}

}  // namespace tern
