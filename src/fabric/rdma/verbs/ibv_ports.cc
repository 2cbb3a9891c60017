// The adapters of this machine and their ports, and which RoCE address peers should use.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "fabric/rdma/verbs/ibv.h"
#include "fabric/rdma/verbs/ibv_library.h"

namespace tern::rdma {
namespace {

constexpr uint32_t kMellanox = 0x02c9;  // PCI vendor id
constexpr uint32_t kConnectIb = 4113;   // MT27600

bool is_ipv4_mapped(const IbvGid& gid) {
  static constexpr uint8_t prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return memcmp(gid.bytes, prefix, sizeof prefix) == 0;
}

bool is_link_local(const IbvGid& gid) { return gid.bytes[0] == 0xfe && (gid.bytes[1] & 0xc0) == 0x80; }

// The first line of a file of the adapter's folder in /sys, as a number.
int read_number(const ibv_device* device, const char* name, int otherwise) {
  FILE* file = fopen(fmt::format("{}/{}", device->ibdev_path, name).c_str(), "re");
  if (!file) return otherwise;
  int number = otherwise;
  if (fscanf(file, "%d", &number) != 1) number = otherwise;
  fclose(file);
  return number;
}

// Bytes in a microsecond from verbs' codes (rdma/ib_verbs.h: lanes and gigabits of a lane, encoding taken off).
uint64_t link_rate(uint8_t width, uint8_t speed) {
  static constexpr struct {
    uint8_t code;
    double value;
  } kLanes[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}},
    kGigabits[] = {{1, 2}, {2, 4}, {4, 8}, {8, 10}, {16, 14}, {32, 25}, {64, 50}, {128, 100}};
  double lanes = 1, gigabits = 2;
  for (auto entry : kLanes) lanes = entry.code == width ? entry.value : lanes;
  for (auto entry : kGigabits) gigabits = entry.code == speed ? entry.value : gigabits;
  return uint64_t(lanes * gigabits * 1000 / 8);
}

uint32_t mtu_bytes(int code) { return code >= IBV_MTU_256 && code <= IBV_MTU_4096 ? 128u << code : 0; }

uint32_t positive(int value) { return value > 0 ? uint32_t(value) : 0; }

Capabilities describe(const IbvPort& port, const ibv_device_attr& device, const ibv_port_attr& attributes) {
  Capabilities can;
  can.provider = "ibv";
  can.device = port.device;
  can.rc = can.ud = true;
  can.xrc = (device.device_cap_flags & IBV_DEVICE_XRC) != 0;
  can.shared_receive = device.max_srq > 0;
  can.atomics = device.atomic_cap != IBV_ATOMIC_NONE;
  can.atomics_with_cpu = device.atomic_cap == IBV_ATOMIC_GLOB;
  // No standard guarantees it; these adapters write a message's packets in order. PCI Express keeps their order unless
  // relaxed ordering is on, which a BIOS, a hypervisor or a driver may decide.
  can.ordered_writes = !port.software && device.vendor_id == kMellanox;
  // Takagi et al. (2015): 26 connected queue pairs beside 8 of DC are well, 64 are not.
  if (device.vendor_id == kMellanox && device.vendor_part_id == kConnectIb) can.queue_pair_cache = 34;
  can.autonomous = !port.software;
  can.roce = !port.infiniband;
  can.mtu_bytes = mtu_bytes(attributes.active_mtu);
  can.max_message_bytes = attributes.max_msg_sz;
  can.max_pieces = positive(device.max_sge);
  can.max_queue_depth = positive(device.max_qp_wr);
  can.max_srq_depth = positive(device.max_srq_wr);
  can.max_completions = positive(device.max_cqe);
  can.max_queue_pairs = positive(device.max_qp);
  // Verbs count them in a byte.
  can.max_reads = std::min({positive(device.max_qp_rd_atom), positive(device.max_qp_init_rd_atom), 255u});
  // Estimates: a small write over a present-day adapter and one switch; over Soft-RoCE two passes through the UDP
  // stack.
  can.latency_ns = port.software ? 20'000 : 1'000;
  can.bytes_per_us = link_rate(attributes.active_width, attributes.active_speed);
  return can;
}

// The port's addresses, those of the wanted index only when one is wanted.
std::vector<IbvGid> read_gids(const IbvLibrary& library, ibv_context* context, int port, int64_t wanted_index) {
  std::vector<ibv_gid_entry> entries(1024);
  ssize_t count = library.query_gid_table(context, entries.data(), entries.size(), 0, sizeof(ibv_gid_entry));
  std::vector<IbvGid> gids;
  for (ssize_t i = 0; i < count; ++i) {
    const ibv_gid_entry& entry = entries[size_t(i)];
    if (int(entry.port_num) != port || (wanted_index >= 0 && entry.gid_index != wanted_index)) continue;
    IbvGid gid;
    memcpy(gid.bytes, entry.gid.raw, sizeof gid.bytes);
    gid.index = int(entry.gid_index);
    gid.type = entry.gid_type == IBV_GID_TYPE_ROCE_V2   ? IbvGid::Type::roce_v2
               : entry.gid_type == IBV_GID_TYPE_ROCE_V1 ? IbvGid::Type::roce_v1
                                                        : IbvGid::Type::infiniband;
    gids.push_back(gid);
  }
  return gids;
}

void judge_port(const IbvLibrary& library, ibv_context* context, const ibv_device_attr& device, int64_t wanted_gid,
                IbvPort& port) {
  ibv_port_attr attributes{};
  // The library's own function knows the older, shorter form of the structure: all the fields that are read here.
  auto* compatible = reinterpret_cast<_compat_ibv_port_attr*>(&attributes);
  if (library.query_port(context, uint8_t(port.port), compatible) != 0) {
    port.why_not = fmt::format("the port cannot be asked: {}", strerror(errno));
    return;
  }
  port.infiniband = attributes.link_layer != IBV_LINK_LAYER_ETHERNET;
  port.lid = attributes.lid;
  port.mtu = attributes.active_mtu;
  port.capabilities = describe(port, device, attributes);
  const std::vector<IbvGid> gids = read_gids(library, context, port.port, wanted_gid);
  const IbvGid* gid = port.infiniband ? (gids.empty() ? nullptr : &gids[0]) : choose_roce_gid(gids);
  if (gid) port.gid = *gid;
  if (attributes.state != IBV_PORT_ACTIVE) {
    port.why_not = "the port is down (`rdma link` shows its state)";
  } else if (!gid && wanted_gid >= 0) {
    port.why_not = fmt::format("the port has no address number {} (TERN_RDMA_GID_INDEX)", wanted_gid);
  } else if (!gid && !port.infiniband) {
    port.why_not = "the port has no RoCE address: its network interface is down or has no IP address";
  }
}

void judge_device(const IbvLibrary& library, ibv_device* device, int64_t wanted_gid, std::vector<IbvPort>& ports) {
  IbvPort port;
  port.device = library.get_device_name(device);
  // Soft-RoCE names its network interface in a file of its own; it may or may not have a device on the bus.
  port.software = access(fmt::format("{}/device", device->ibdev_path).c_str(), F_OK) != 0 ||
                  access(fmt::format("{}/parent", device->ibdev_path).c_str(), F_OK) == 0;
  port.numa_node = read_number(device, "device/numa_node", -1);
  if (library.mlx5.is_supported == nullptr) {
    port.why_no_dc = library.mlx5_why_not;
  } else if (!library.mlx5.is_supported(device)) {
    port.why_no_dc = "not an mlx5 adapter";
  }
  if (device->transport_type != IBV_TRANSPORT_IB) {
    port.why_not = "iWARP and other transports are not supported: no datagrams, other rules of order";
    ports.push_back(port);
    return;
  }
  ibv_context* context = library.open_device(device);
  if (!context) {
    port.why_not =
        fmt::format("it cannot be opened: {} (is /dev/infiniband/{} accessible?)", strerror(errno), device->dev_name);
    ports.push_back(port);
    return;
  }
  ibv_device_attr attributes{};
  if (library.query_device(context, &attributes) != 0) attributes.phys_port_cnt = 0;
  for (int number = 1; number <= attributes.phys_port_cnt; ++number) {
    port.port = number;
    ports.push_back(port);
    judge_port(library, context, attributes, wanted_gid, ports.back());
  }
  library.close_device(context);
}

}  // namespace

std::string IbvGid::text() const {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(AF_INET6, bytes, text, sizeof text);
  return text;
}

const IbvGid* choose_roce_gid(std::span<const IbvGid> gids) {
  const IbvGid* best = nullptr;
  int best_worth = -1;
  for (const IbvGid& gid : gids) {
    int worth = gid.type == IbvGid::Type::roce_v2 ? 10 : 0;
    worth += is_ipv4_mapped(gid) ? 2 : is_link_local(gid) ? 0 : 1;
    if (worth > best_worth) {
      best = &gid;
      best_worth = worth;
    }
  }
  return best;
}

std::vector<IbvPort> find_ibv_ports(const Tunables& tunables, std::string& why_none) {
  std::vector<IbvPort> ports;
  std::shared_ptr<const IbvLibrary> library = IbvLibrary::load(why_none);
  if (!library) return ports;
  int count = 0;
  ibv_device** devices = library->get_device_list(&count);
  for (int i = 0; i < count; ++i) judge_device(*library, devices[i], tunables.rdma_gid_index, ports);
  if (devices) library->free_device_list(devices);
  if (ports.empty()) why_none = "no RDMA adapter is on this machine (or its driver is not loaded)";
  std::sort(ports.begin(), ports.end(), [](const IbvPort& a, const IbvPort& b) {
    if (a.why_not.empty() != b.why_not.empty()) return a.why_not.empty();
    if (a.software != b.software) return b.software;
    if (a.capabilities.bytes_per_us != b.capabilities.bytes_per_us)
      return a.capabilities.bytes_per_us > b.capabilities.bytes_per_us;
    return a.device != b.device ? a.device < b.device : a.port < b.port;
  });
  return ports;
}

}  // namespace tern::rdma
