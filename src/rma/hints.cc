#include "rma/hints.h"

namespace tern::rma {

namespace {

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

}  // namespace

void Hints::take(const Info& info, bool making) {
  no_locks = info.flag("no_locks", no_locks);
  lock_at_once = info.flag("tern_rma_lock_at_once", lock_at_once);
  same_size = info.flag("same_size", same_size);
  same_disp_unit = info.flag("same_disp_unit", same_disp_unit);
  if (const std::string* value = info.find("accumulate_ordering")) ordering = *value;
  if (const std::string* value = info.find("accumulate_ops");
      value && (*value == "same_op" || *value == "same_op_no_op"))
    ops = *value, ops_promised = true;
  if (const std::string* value = info.find("mpi_accumulate_granularity"); value && is_number(*value))
    granularity = *value;
  if (const std::string* value = info.find("mpi_assert_memory_alloc_kinds")) memory_kinds = *value;
  if (!making) return;
  noncontiguous = info.flag("alloc_shared_noncontig", noncontiguous);
  if (const std::string* value = info.find("tern_rma_lock")) lock = *value;
  alignment_bytes = std::max(alignment_bytes, info.minimum_alignment());
}

void Hints::tell(Info& info, bool shared, bool allocated) const {
  const auto flag = [&](const char* key, bool value) { info.set(key, value ? "true" : "false"); };
  flag("no_locks", no_locks);
  flag("tern_rma_lock_at_once", lock_at_once);
  info.set("accumulate_ordering", ordering);
  info.set("accumulate_ops", ops);
  info.set("mpi_accumulate_granularity", granularity);
  flag("same_size", same_size);
  flag("same_disp_unit", same_disp_unit);
  if (shared) flag("alloc_shared_noncontig", noncontiguous);
  if (allocated) info.set("mpi_minimum_memory_alignment", std::to_string(alignment_bytes));
  if (!memory_kinds.empty()) info.set("mpi_assert_memory_alloc_kinds", memory_kinds);
}

}  // namespace tern::rma
