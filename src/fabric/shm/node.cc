#include "fabric/shm/node.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cstring>

#include "base/assert.h"
#include "fabric/shm/node_internal.h"

namespace tern {

namespace shm {
int open_doorbell() { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); }

int open_life_line() {
#ifdef SYS_pidfd_open
  // Valgrind 3.19 does not know this system call, and prints a warning to users.
  const char* preloaded = secure_getenv("LD_PRELOAD");
  if (preloaded && strstr(preloaded, "/vgpreload_")) return -1;
  return int(syscall(SYS_pidfd_open, getpid(), 0));
#else
  return -1;
#endif
}

Error system_error(const char* what) {
  return Error(ErrorClass::other, std::string("shared memory: ") + what + ": " + errno_text(errno));
}

namespace {
int membarrier(int command) { return int(syscall(SYS_membarrier, command, 0, 0)); }

uint64_t pid_namespace() {
  struct stat info;
  return stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}
}  // namespace
}  // namespace shm

ShmNode::~ShmNode() {
  if (base_ && my_slot_ < layout_.ranks) block(my_slot_).left.store(1, std::memory_order_release);
  for (int fd : doorbells_) {
    if (fd >= 0) close(fd);
  }
  for (int fd : life_lines_) {
    if (fd >= 0) close(fd);
  }
}

uint32_t ShmNode::slot_of(PeerId peer) const {
  for (uint32_t slot = 0; slot < layout_.ranks; ++slot) {
    if (rank_of(slot) == peer && present(slot)) return slot;
  }
  return layout_.ranks;
}

Error ShmNode::map(int memfd, const shm::Layout& layout, Users users) {
  auto mapping = std::make_shared<Mapping>();
  // NORESERVE: the address space grows with the square of the ranks, the used pages do not.
  const int flags = MAP_NORESERVE | (users == Users::processes ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS);
  void* base = mmap(nullptr, layout.total(), PROT_READ | PROT_WRITE, flags, users == Users::processes ? memfd : -1, 0);
  if (base == MAP_FAILED) return shm::system_error("mmap");
  mapping->base = static_cast<std::byte*>(base);
  mapping->bytes = layout.total();
  mapping->memfd = Descriptor(fcntl(memfd, F_DUPFD_CLOEXEC, 0));
  if (!mapping->memfd) return shm::system_error("a descriptor");
  base_ = mapping->base;
  mapping_ = std::move(mapping);
  layout_ = layout;
  return {};
}

/// Fills in my own block. The others read it after `ready`.
void ShmNode::attach(uint32_t slot) {
  my_slot_ = slot;
  shm::RankBlock& mine = block(slot);
  probe_ = std::make_unique<uint64_t[]>(2);
  if (getrandom(probe_.get(), sizeof probe_[0], GRND_NONBLOCK) != sizeof probe_[0]) probe_[0] = uintptr_t(probe_.get());
  mine.pid = getpid();
  mine.pid_namespace = shm::pid_namespace();
  mine.probe_address = reinterpret_cast<uint64_t>(probe_.get());
  mine.probe_value = probe_[0];
  mine.full_fence = shm::membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) != 0;
  mine.engines = joining_ ? joining_->setup.engines : 0;
  mine.ready.store(1, std::memory_order_release);
}

/// The list is final: reads it.
void ShmNode::settle() {
  members_.clear();
  full_fence_ = false;
  for (uint32_t slot = 0; slot < layout_.ranks; ++slot) {
    if (!present(slot)) continue;
    members_.push_back(rank_of(slot));
    TERN_ASSERT(block(slot).ready.load(std::memory_order_acquire) != 0);
    if (block(slot).full_fence) full_fence_ = true;
  }
}

int ShmNode::memfd() const { return mapping_->memfd.get(); }

void ShmNode::fence() {
#ifdef __SANITIZE_THREAD__
  std::atomic<int> barrier{
      0};  // the sanitizer does not know fences; a sequentially consistent read-modify-write replaces one here
  barrier.fetch_add(1, std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

void ShmNode::ring_doorbell(uint32_t slot) {
  // Several may have seen the flag; only the one that clears it rings.
  if (block(slot).asleep.exchange(0, std::memory_order_seq_cst) == 0) return;
  const uint64_t one = 1;
  [[maybe_unused]] ssize_t written = write(doorbells_[slot], &one, sizeof one);
  port_->rung(slot);
}

void ShmNode::declare_asleep(uint32_t reasons) {
  // A second thread of this rank may arm while the first still sleeps: a ring in between must not be
  // forgotten.
  if (block(my_slot_).asleep.exchange(reasons, std::memory_order_seq_cst) == 0 && declared_) ++rings_owed_;
  declared_ = true;
  fence();
  if (!full_fence_ && shm::membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED) != 0) TERN_ASSERT(!"membarrier went away");
}

int ShmNode::members_asleep() const {
  int asleep = 0;
  for (const PeerId member : members_) {
    const uint32_t slot = slot_of(member);
    const uint32_t reasons = block(slot).asleep.load(std::memory_order_relaxed);
    asleep += slot != my_slot_ && (reasons & shm::kAsleep) && !(reasons & shm::kHelped);
  }
  return asleep;
}

bool ShmNode::declare_awake() {
  declared_ = false;
  bool rung = block(my_slot_).asleep.exchange(0, std::memory_order_seq_cst) == 0;
  // The rank that cleared the flag writes to the doorbell, perhaps a moment later: the write is drained here or the
  // next time.
  if (rung) ++rings_owed_;
  if (rings_owed_ != 0) {
    uint64_t rings = 0;
    if (read(doorbells_[my_slot_], &rings, sizeof rings) == sizeof rings)
      rings_owed_ -= rings < rings_owed_ ? rings : rings_owed_;
  }
  return rung;
}

std::unique_ptr<ShmNode> ShmNode::create(const ShmSetup& setup, const std::function<Error()>& fence, Error& error) {
  Error problem;
  std::unique_ptr<ShmNode> node = prepare(setup, problem);
  error = fence();
  if (error) return nullptr;
  if (node) problem = node->join();
  if (problem) {
    error = std::move(problem);
    return nullptr;
  }
  return node;
}

std::vector<std::unique_ptr<ShmNode>> ShmNode::create_local(const std::vector<int>& ranks, size_t ring_bytes,
                                                            const Local& local) {
  shm::Layout layout{uint32_t(ranks.size()), shm::Layout::up(ring_bytes), local.spill_cells};
  Descriptor memfd(memfd_create("tern", MFD_CLOEXEC));
  TERN_ASSERT(memfd && ftruncate(memfd.get(), off_t(layout.total())) == 0);
  std::vector<std::unique_ptr<ShmNode>> nodes;
  std::vector<Descriptor> bells;
  for (size_t slot = 0; slot < ranks.size(); ++slot) bells.emplace_back(shm::open_doorbell());
  for (uint32_t slot = 0; slot < layout.ranks; ++slot) {
    nodes.push_back(std::unique_ptr<ShmNode>(new ShmNode));
    ShmNode& node = *nodes.back();
    if (slot == 0) {
      Error error = node.map(memfd.get(), layout, Users::this_process);
      TERN_ASSERT(!error);
      shm::SegmentHead& head = node.head();
      head.magic = shm::kMagic;
      head.ranks = layout.ranks;
      head.ring_bytes = layout.ring_bytes;
      for (uint32_t i = 0; i < layout.ranks; ++i) head.rank_of[i] = ranks[i];
    } else {
      node.mapping_ = nodes[0]->mapping_;
      node.base_ = nodes[0]->base_;
      node.layout_ = layout;
    }
    for (const Descriptor& bell : bells) node.doorbells_.push_back(dup(bell.get()));
    if (!local.ports.empty()) node.port_ = local.ports[slot];
    for (uint32_t i = 0; i < layout.ranks; ++i)
      node.life_lines_.push_back(local.life_lines.empty() ? -1 : dup(local.life_lines[i]));
    node.attach(slot);
    node.block(slot).present.store(1, std::memory_order_relaxed);
  }
  for (auto& node : nodes) node->settle();
  return nodes;
}

}  // namespace tern
