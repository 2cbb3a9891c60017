#include "sim/machine_file.h"

#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include <algorithm>
#include <fstream>
#include <iterator>

namespace tern::sim {
namespace {

// The parameters by their members' names; a file can set these and nothing else.
#define TERN_NETWORK_PARAMETERS(X)                                                                             \
  X(latency_ns)                                                                                                \
  X(adapter_bytes_per_us)                                                                                      \
  X(port_bytes_per_us)                                                                                         \
  X(packet_ns)                                                                                                 \
  X(frame_bytes)                                                                                               \
  X(local_latency_ns)                                                                                          \
  X(local_bytes_per_us)                                                                                        \
  X(copy_bytes_per_us)                                                                                         \
  X(l1_bytes)                                                                                                  \
  X(copy_l1_bytes_per_us)                                                                                      \
  X(l2_bytes)                                                                                                  \
  X(copy_l2_bytes_per_us) X(reduce_bytes_per_us) X(socket_bytes_per_us) X(message_ns) X(send_ns) X(receive_ns) \
      X(datagram_send_ns) X(datagram_receive_ns) X(interrupt_ns) X(poll_ns) X(call_ns) X(fence_ns) X(wake_ns)  \
          X(eager_bytes) X(packet_bytes) X(window_bytes)
#define TERN_ADAPTER_PARAMETERS(X)                                                                                \
  X(xrc)                                                                                                          \
  X(dc)                                                                                                           \
  X(atomics)                                                                                                      \
  X(atomic_swap)                                                                                                  \
  X(atomics_with_cpu)                                                                                             \
  X(ordered_writes)                                                                                               \
  X(mtu_bytes)                                                                                                    \
  X(max_message_bytes)                                                                                            \
  X(max_inline_bytes)                                                                                             \
  X(max_queue_depth)                                                                                              \
  X(max_reads)                                                                                                    \
  X(max_queue_pairs)                                                                                              \
  X(post_ns)                                                                                                      \
  X(doorbell_ns)                                                                                                  \
  X(poll_ns) X(completion_ns) X(register_ns) X(register_page_ns) X(deregister_ns) X(queue_pair_ns) X(connect_ns)  \
      X(page_bytes) X(send_latency_ns) X(inline_latency_ns) X(receive_latency_ns) X(read_latency_ns) X(atomic_ns) \
          X(message_ns) X(receive_message_ns) X(segment_bytes) X(queue_pair_cache) X(cache_miss_ns) X(relaxed_ns) \
              X(dc_latency_ns) X(dc_responders) X(dc_connect_ns) X(dc_idle_ns) X(dc_nack_wait_ns)

class Reader {
 public:
  Reader(std::string where, MachineModel& machine) : where_(std::move(where)), machine_(machine) {}

  Error read(const toml::table& file) {
    for (const auto& [section, node] : file) {
      const toml::table* table = node.as_table();
      if (!table) return wrong(std::string(section.str()), "is no section");
      for (const auto& [name, value] : *table) {
        if (Error error = set(std::string(section.str()), std::string(name.str()), value)) return error;
      }
    }
    if (machine_.name.empty()) return wrong("machine.name", "is missing");
    return {};
  }

 private:
  Error wrong(const std::string& what, const std::string& how) const {
    return Error(ErrorClass::arg, where_ + ": " + what + " " + how);
  }

  Error set(const std::string& section, const std::string& name, const toml::node& node) {
    std::string full = section + "." + name;
    if (section == "machine" && name == "name") return text(full, node, machine_.name);
    if (section == "machine" && name == "about") return text(full, node, machine_.about);
    if (section == "adapter") machine_.has_adapter = true;
    if (section == "adapter" && name == "device") return text(full, node, machine_.adapter.device);
    if (section == "machine" && name == "cores_per_node") return number(full, node, machine_.cores_per_node);
    if (section == "claims") return number(full, node, machine_.claims[name]);
#define TERN_SET(parameter) \
  if (name == #parameter) return number(full, node, model.parameter);
    if (section == "network") {
      NetworkModel& model = machine_.network;
      TERN_NETWORK_PARAMETERS(TERN_SET)
    }
    if (section == "adapter") {
      AdapterModel& model = machine_.adapter;
      TERN_ADAPTER_PARAMETERS(TERN_SET)
    }
#undef TERN_SET
    return wrong(full, "is not known");
  }

  Error text(const std::string& full, const toml::node& node, std::string& out) const {
    auto value = node.value_exact<std::string>();
    if (!value || value->empty()) return wrong(full, "is no text");
    out = *value;
    return {};
  }

  template <typename T>
  Error number(const std::string& full, const toml::node& node, T& out) {
    const toml::table* table = node.as_table();
    auto source = table ? (*table)["source"].value_exact<std::string>() : std::nullopt;
    if (!source || source->empty()) return wrong(full, "has no source; write { value = ..., source = \"...\" }");
    machine_.sources[full] = *source;
    if (const toml::node* fitted = table->get("fitted")) {
      if (Error error = text(full + ".fitted", *fitted, machine_.fitted[full])) return error;
    }
    if (table->size() != 2 + machine_.fitted.count(full))
      return wrong(full, "has more than a value, a source, and the figure that it was fitted to");
    if constexpr (std::is_same_v<T, bool>) {
      auto value = (*table)["value"].value_exact<bool>();
      if (!value) return wrong(full, "is neither true nor false");
      out = *value;
    } else {
      auto value = (*table)["value"].value_exact<int64_t>();
      if (!value || *value < 0 || uint64_t(*value) > std::numeric_limits<T>::max())
        return wrong(full, "is no number in range");
      bool rate = full.ends_with("_per_us") || full.ends_with("_bytes");
      if (rate && *value == 0) return wrong(full, "must not be 0");
      out = T(*value);
    }
    return {};
  }

  std::string where_;
  MachineModel& machine_;
};

}  // namespace

Error parse_machine(const std::string& text, const std::string& where, MachineModel& machine) {
  // toml++ 3 has undefined behaviour for some other characters where TOML has white space.
  const auto other = std::find_if(text.begin(), text.end(), [](char c) { return uint8_t(c) >= 0x80; });
  if (other != text.end()) {
    const auto line = 1 + std::count(text.begin(), other, '\n');
    return Error(ErrorClass::arg, where + ":" + std::to_string(line) + ": a character that is not ASCII");
  }
  toml::parse_result result = toml::parse(text, where);
  if (!result) {
    return Error(ErrorClass::arg, where + ":" + std::to_string(result.error().source().begin.line) + ": " +
                                      std::string(result.error().description()));
  }
  machine = MachineModel();
  return Reader(where, machine).read(result.table());
}

Error load_machine(const std::string& path, MachineModel& machine) {
  std::ifstream file(path);
  if (!file) return Error(ErrorClass::arg, path + ": cannot be read");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  return parse_machine(text, path, machine);
}

}  // namespace tern::sim
