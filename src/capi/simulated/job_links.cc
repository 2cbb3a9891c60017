// What the links and adapters of a simulated machine have done, as a table of a job's report.
#include <fmt/format.h>

#include <algorithm>

#include "capi/simulated/simulated_job.h"
#include "sim/adapter.h"

namespace tern::sim {
namespace {

struct Use {
  uint64_t sum_ns = 0, most_ns = 0, packets = 0;
  uint32_t used = 0, most_node = 0;
  void add(uint32_t node, uint64_t busy_ns, uint64_t count) {
    sum_ns += busy_ns;
    packets += count;
    used += busy_ns != 0;
    if (busy_ns > most_ns) most_ns = busy_ns, most_node = node;
  }
};

}  // namespace

void SimulatedJob::describe_links(Machine& machine) {
  const Network& network = machine.network();
  Use out, port, in;
  uint64_t misses = 0, refusals = 0, connects = 0, turned_away = 0;
  for (uint32_t node = 0; node < network.nodes(); ++node) {
    const Network::LinkUse use = network.use_of(node);
    out.add(node, use.out_ns, use.out_packets);
    port.add(node, use.port_ns, 0);
    in.add(node, use.in_ns, use.in_packets);
    if (!machine.options().rdma) continue;
    const AdapterNode& adapter = machine.adapters().node(node);
    misses += adapter.cache.misses();
    refusals += adapter.rnr_nacks;
    connects += adapter.dc_connects;
    turned_away += adapter.dc_nacks;
  }
  if (out.used == 0 && in.used == 0) return;
  const double time_ns = double(std::max<uint64_t>(report_.time_ns, 1));
  auto line = [&](const char* name, const Use& use) {
    report_.links +=
        fmt::format("{:<28} {:>7} {:>12.1f} {:>12.1f} {:>7} {:>12}\n", name, use.used,
                    100 * double(use.sum_ns) / std::max<double>(use.used, 1) / time_ns,
                    100 * double(use.most_ns) / time_ns, use.most_node, use.packets ? std::to_string(use.packets) : "");
  };
  report_.links = fmt::format("{:<28} {:>7} {:>12} {:>12} {:>7} {:>12}\n", "links", "in use", "busy % mean",
                              "busy % most", "node", "packets");
  line("node's adapter, out", out);
  line("switch's port to the node", port);
  line("node's adapter, in", in);
  if (!machine.options().rdma) return;
  report_.links += fmt::format(
      "adapters: {} queue pairs not in the cache, {} receivers not ready, {} connects of DC, {} of them refused\n",
      misses, refusals, connects, turned_away);
}

}  // namespace tern::sim
