// Provider `ibv`: adapters of this machine through libibverbs (and libmlx5's direct verbs for DC), as Hca. No
// connection manager is needed: queue pairs exchange their addresses through the launcher's key-value space, and the
// kernel resolves a RoCE peer's Ethernet address when the queue pair is joined. librdmacm would add a listener, a
// thread of events and a second way of exchanging addresses. Its only advantage is to ask a subnet manager for path
// records (a service level for each pair of ports); TERN_RDMA_SERVICE_LEVEL replaces that.
//
// Thread rule: as Hca. Nothing here needs verbs' headers.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/tunables.h"
#include "fabric/rdma/verbs/hca.h"

namespace tern::rdma {

/// One row of a port's table of addresses.
struct IbvGid {
  uint8_t bytes[16] = {};
  int index = -1;
  enum class Type : uint8_t { infiniband, roce_v1, roce_v2 } type = Type::infiniband;
  /// "fe80::1" or "::ffff:10.0.0.1".
  std::string text() const;
};

/// Which of a RoCE port's addresses peers should use: version 2 before 1 (only 2 passes routers), an IPv4 address
/// before a global IPv6 one before a link-local one, and the first of equals. Null when the list is empty.
const IbvGid* choose_roce_gid(std::span<const IbvGid> gids);

/// A port of an adapter of this machine, whether used or not.
struct IbvPort {
  std::string device;
  int port = 1;
  std::string why_not;  ///< it cannot be used; empty: it can
  std::string why_no_dc;
  bool software = false;    ///< Soft-RoCE, soft iWARP: no adapter behind it
  bool infiniband = false;  ///< else Ethernet (RoCE)
  int numa_node = -1;       ///< -1: not known
  uint16_t lid = 0;
  int mtu = 0;                ///< verbs' code of it
  IbvGid gid;                 ///< the one in use
  Capabilities capabilities;  ///< max_inline_bytes, register times and dc are known after opening only
};

/// All ports, the best first: usable, real before software, faster before slower, then by name. `why_none` says why the
/// list is empty. TERN_RDMA_GID_INDEX is heeded.
std::vector<IbvPort> find_ibv_ports(const Tunables& tunables, std::string& why_none);

struct IbvOptions {
  /// "mlx5_0" or "mlx5_0:2"; empty: what TERN_RDMA_DEVICES says, else the best of this machine.
  std::string device;
  int local_rank = 0;  ///< selects among several devices of TERN_RDMA_DEVICES
  uint64_t seed = 0;   ///< first packet numbers
};

/// Error: the reason why no adapter can be opened.
Error open_ibv(const IbvOptions& options, const Tunables& tunables, std::unique_ptr<Hca>& result);

}  // namespace tern::rdma
