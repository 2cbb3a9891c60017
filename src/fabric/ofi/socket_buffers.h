// SocketBuffers: larger receive buffers for the TCP sockets of libfabric's provider `sockets`.
//
// That provider takes nothing of a message before its whole head has come. The kernel frees the memory of a piece of a
// stream when the last byte of it was taken. A loopback's segments have 64 KiB, and the kernel joins them to pieces of
// up to 17 pages of 32 KiB. So if a rank was not run for a while, the first bytes of one head keep the whole buffer of
// 128 KiB busy, with which Linux begins: the window stays closed, the rest of the head never comes. (Seen in p2p_order
// on two shared cores: 12 bytes waiting, 126,784 of 131,072 bytes in use, for good.) The provider's own variable
// FI_SOCKETS_MAX_BUF_SZ applies to sockets that it accepts, not to those that it connects.
//
// Units: bytes. Thread rule: the rank's lock.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>

#include "fabric/ofi/ofi_port.h"

namespace tern::ofi {

class SocketBuffers {
 public:
  /// What the largest piece takes, and a window for one more segment beside it, where half of a buffer is window.
  static constexpr size_t kLeastBytes = 17 * 32 * 1024 + 2 * 65536;

  /// This rank's endpoint listens at that address: for all that connect to it from now on.
  void listening(std::string_view address) { enlarge(address); }
  void inserted(Address peer, std::string_view address) { unconnected_.insert_or_assign(peer, std::string(address)); }
  void removed(Address peer) { unconnected_.erase(peer); }
  /// An operation on that peer was posted: the provider connects in the first one.
  void posted(Address peer) {
    if (unconnected_.empty()) return;
    const auto found = unconnected_.find(peer);
    if (found == unconnected_.end()) return;
    enlarge(found->second);
    unconnected_.erase(found);
  }

 private:
  /// Of this process's TCP sockets with that address on one of both sides. (What fails is left as it is.)
  static void enlarge(std::string_view address);

  std::unordered_map<Address, std::string> unconnected_;
};

}  // namespace tern::ofi
