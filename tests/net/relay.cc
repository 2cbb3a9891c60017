// A bad network between two hosts: takes the packets that one host's TUN device sends, and hands them to the other's
// after delaying, dropping, doubling, reordering or damaging them, by a seed.
//
//   relay NAMESPACE NAMESPACE [what=parts per 10000 ...]    until it is killed; then one line of what it has done
//     drop=  duplicate=  reorder=  what it says
//     damage=   a bit is flipped, and the packet's checksum is wrong: the kernel throws it away
//     forge=    a bit of payload is flipped, and the checksum is made right again: only the receiver can know
//     delay_us= for every packet   seed=
//
// It makes the device tun0 in either namespace; its starter gives them addresses. Layouts: RFC 791, RFC 793,
// RFC 768, checksum RFC 1071. IPv4 only; of datagrams that IP has cut only the first piece is known, and forge passes
// them over; what is neither TCP nor UDP is delayed and dropped only.
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"

namespace {

using Packet = std::vector<uint8_t>;

volatile sig_atomic_t over = 0;

int open_tun(const char* name) {
  int space = open((std::string("/run/netns/") + name).c_str(), O_RDONLY | O_CLOEXEC);
  if (space < 0 || setns(space, CLONE_NEWNET) != 0) return -1;
  close(space);
  int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  ifreq request{};
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  std::strcpy(request.ifr_name, "tun0");
  return fd >= 0 && ioctl(fd, TUNSETIFF, &request) == 0 ? fd : -1;
}

uint32_t sum16(const uint8_t* data, size_t bytes, uint32_t sum) {
  for (size_t i = 0; i + 1 < bytes; i += 2) sum += uint32_t(data[i] << 8 | data[i + 1]);
  if (bytes % 2) sum += uint32_t(data[bytes - 1] << 8);
  return sum;
}

constexpr uint8_t kTcp = 6, kUdp = 17;

/// TCP's segment or UDP's datagram in a packet.
struct Segment {
  size_t at = 0, payload = 0;  ///< offsets; at 0: the packet is neither
  size_t checksum = 0;         ///< its offset
  uint8_t protocol = 0;
  bool whole = true;  ///< not cut by IP
};

Segment segment_of(const Packet& packet) {
  if (packet.size() < 28 || packet[0] >> 4 != 4 || (packet[9] != kTcp && packet[9] != kUdp)) return {};
  const size_t at = size_t(packet[0] & 15) * 4;
  const uint8_t protocol = packet[9];
  const int offset = (packet[6] & 0x1f) << 8 | packet[7];
  if (offset != 0 || at + (protocol == kTcp ? 20 : 8) > packet.size()) return {};
  const size_t payload = protocol == kTcp ? at + size_t(packet[at + 12] >> 4) * 4 : at + 8;
  if (payload > packet.size()) return {};
  return {at, payload, at + (protocol == kTcp ? 16 : 6), protocol, (packet[6] & 0x20) == 0};
}

void make_checksum_right(Packet& packet, const Segment& segment) {
  packet[segment.checksum] = packet[segment.checksum + 1] = 0;
  uint32_t sum = sum16(&packet[12], 8, segment.protocol + uint32_t(packet.size() - segment.at));
  sum = sum16(&packet[segment.at], packet.size() - segment.at, sum);
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  uint16_t checksum = uint16_t(~sum);
  if (checksum == 0 && segment.protocol == kUdp) checksum = 0xffff;  // 0 says that there is none
  packet[segment.checksum] = uint8_t(checksum >> 8);
  packet[segment.checksum + 1] = uint8_t(checksum);
}

struct Faults {
  uint64_t drop = 0, duplicate = 0, reorder = 0, damage = 0, forge = 0, delay_us = 0, seed = 1;
  uint64_t* named(const std::string& name) {
    return name == "drop"        ? &drop
           : name == "duplicate" ? &duplicate
           : name == "reorder"   ? &reorder
           : name == "damage"    ? &damage
           : name == "forge"     ? &forge
           : name == "delay_us"  ? &delay_us
           : name == "seed"      ? &seed
                                 : nullptr;
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return std::fprintf(stderr, "usage: relay NAMESPACE NAMESPACE [what=parts per 10000 ...]\n"), 2;
  Faults faults, done;
  done.seed = 0;
  for (int i = 3; i < argc; ++i) {
    std::string text = argv[i];
    size_t equals = text.find('=');
    uint64_t* value = equals == std::string::npos ? nullptr : faults.named(text.substr(0, equals));
    if (!value) return std::fprintf(stderr, "relay: what is '%s'?\n", argv[i]), 2;
    *value = std::strtoull(text.c_str() + equals + 1, nullptr, 10);
  }
  int fds[2] = {open_tun(argv[1]), open_tun(argv[2])};
  if (fds[0] < 0 || fds[1] < 0) return std::perror("relay: no TUN device"), 77;
  struct sigaction action {};
  action.sa_handler = [](int) { over = 1; };
  sigaction(SIGTERM, &action, nullptr);
  std::puts("ready");
  std::fflush(stdout);

  tern::RealClock clock;
  tern::Rng rng(faults.seed);
  struct Waiting {
    int to;
    Packet packet;
  };
  std::multimap<uint64_t, Waiting> waiting;  // by the time they are due
  uint64_t packets = 0;
  while (!over) {
    uint64_t now = clock.now_ns();
    while (!waiting.empty() && waiting.begin()->first <= now) {
      auto& [to, packet] = waiting.begin()->second;
      (void)!write(fds[to], packet.data(), packet.size());
      waiting.erase(waiting.begin());
    }
    pollfd ready[2] = {{fds[0], POLLIN, 0}, {fds[1], POLLIN, 0}};
    timespec nap{0, 0};
    if (!waiting.empty() && waiting.begin()->first > now) nap.tv_nsec = long(waiting.begin()->first - now);
    if (ppoll(ready, 2, waiting.empty() ? nullptr : &nap, nullptr) <= 0) continue;
    now = clock.now_ns();
    for (int from = 0; from < 2; ++from) {
      Packet packet(65536);
      ssize_t n = read(fds[from], packet.data(), packet.size());
      if (n <= 0) continue;
      packet.resize(size_t(n));
      ++packets;
      if (rng.chance(faults.drop, 10'000)) {
        ++done.drop;
        continue;
      }
      const Segment segment = segment_of(packet);
      const size_t payload = segment.at ? packet.size() - segment.payload : 0;
      if (payload != 0 && rng.chance(faults.damage, 10'000)) {
        packet[segment.payload + size_t(rng.below(payload))] ^= uint8_t(1 << rng.below(8));
        ++done.damage;
      }
      if (payload != 0 && segment.whole && rng.chance(faults.forge, 10'000)) {
        packet[segment.payload + size_t(rng.below(payload))] ^= uint8_t(1 << rng.below(8));
        make_checksum_right(packet, segment);
        ++done.forge;
      }
      uint64_t due = now + faults.delay_us * 1000;
      if (rng.chance(faults.reorder, 10'000)) {
        due += 500'000 + rng.below(2'000'000);
        ++done.reorder;
      }
      if (rng.chance(faults.duplicate, 10'000)) {
        waiting.emplace(due + rng.below(1'000'000), Waiting{1 - from, packet});
        ++done.duplicate;
      }
      waiting.emplace(due, Waiting{1 - from, std::move(packet)});
    }
  }
  std::printf("relayed %llu: dropped %llu duplicated %llu reordered %llu damaged %llu forged %llu\n",
              static_cast<unsigned long long>(packets), static_cast<unsigned long long>(done.drop),
              static_cast<unsigned long long>(done.duplicate), static_cast<unsigned long long>(done.reorder),
              static_cast<unsigned long long>(done.damage), static_cast<unsigned long long>(done.forge));
  return 0;
}
