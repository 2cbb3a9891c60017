#include "io/hints.h"

#include <fcntl.h>

#include <charconv>

namespace tern::io {

namespace {

/// True: `text` is a whole number in the range (in base 8 or 10).
bool number(const std::string& text, int64_t least, int64_t most, int64_t& value, int base = 10) {
  int64_t read = 0;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), read, base);
  if (wrong != std::errc() || end != text.data() + text.size() || read < least || read > most) return false;
  value = read;
  return true;
}

void take_wish(const Info& info, std::string_view key, Wish& wish) {
  const std::string* text = info.find(key);
  if (!text) return;
  if (*text == "automatic") wish = Wish::automatic;
  else if (*text == "enable" || *text == "true") wish = Wish::enable;
  else if (*text == "disable" || *text == "false") wish = Wish::disable;
}

void take_number(const Info& info, std::string_view key, int64_t least, int64_t most, int64_t& value) {
  if (const std::string* text = info.find(key)) number(*text, least, most, value);
}

void take_flag(const Info& info, std::string_view key, bool& flag) {
  const std::string* text = info.find(key);
  if (text && (*text == "true" || *text == "false")) flag = *text == "true";
}

const char* name_of(Wish wish) {
  return wish == Wish::automatic ? "automatic" : wish == Wish::enable ? "enable" : "disable";
}

// Bounds of cb_buffer_size and the like: any buffer that a machine can have, and one page.
constexpr int64_t kMaxBuffer = int64_t{1} << 40;
constexpr int64_t kMinBuffer = 4096;

}  // namespace

void Hints::take(const Info& info, bool opening) {
  // The standard's boolean stands for both directions; what ROMIO says of one of them counts more.
  Wish both = Wish::automatic;
  take_wish(info, "collective_buffering", both);
  if (both != Wish::automatic) collective_read = collective_write = both;
  take_wish(info, "romio_cb_read", collective_read);
  take_wish(info, "romio_cb_write", collective_write);
  take_wish(info, "romio_ds_read", sieve_read);
  take_wish(info, "romio_ds_write", sieve_write);
  take_number(info, "cb_buffer_size", kMinBuffer, kMaxBuffer, collective_buffer);
  take_number(info, "cb_block_size", kMinBuffer, kMaxBuffer, block);
  take_number(info, "ind_rd_buffer_size", kMinBuffer, kMaxBuffer, read_buffer);
  take_number(info, "ind_wr_buffer_size", kMinBuffer, kMaxBuffer, write_buffer);
  if (const std::string* style = info.find("access_style")) access_style = *style;
  if (const std::string* kinds = info.find("mpi_assert_memory_alloc_kinds")) memory_kinds = *kinds;
  if (!opening) return;
  take_number(info, "cb_nodes", 1, INT32_MAX, aggregators);
  if (const std::string* list = info.find("cb_config_list"); list && list->starts_with("*:")) {
    if (*list == "*:*") aggregators_per_node = INT32_MAX;
    else number(list->substr(2), 1, INT32_MAX, aggregators_per_node);
  }
  take_flag(info, "direct_read", direct_read);
  take_flag(info, "direct_write", direct_write);
  take_number(info, "striping_unit", kMinBuffer, kMaxBuffer, stripe);
  take_number(info, "striping_factor", 1, INT32_MAX, stripes);
  if (const std::string* text = info.find("file_perm")) number(*text, 0, 07777, permissions, 8);
}

void Hints::tell(Info& info) const {
  info.set("romio_cb_read", name_of(collective_read));
  info.set("romio_cb_write", name_of(collective_write));
  const bool never = collective_read == Wish::disable && collective_write == Wish::disable;
  info.set("collective_buffering", never ? "false" : "true");
  info.set("cb_nodes", std::to_string(aggregators));
  info.set("cb_buffer_size", std::to_string(collective_buffer));
  info.set("cb_block_size", std::to_string(block));
  info.set("romio_ds_read", name_of(sieve_read));
  info.set("romio_ds_write", name_of(sieve_write));
  info.set("ind_rd_buffer_size", std::to_string(read_buffer));
  info.set("ind_wr_buffer_size", std::to_string(write_buffer));
  info.set("direct_read", direct_read ? "true" : "false");
  info.set("direct_write", direct_write ? "true" : "false");
  if (aggregators_per_node > 0)
    info.set("cb_config_list", aggregators_per_node == INT32_MAX ? "*:*" : "*:" + std::to_string(aggregators_per_node));
  if (stripes > 0) info.set("striping_factor", std::to_string(stripes));
  if (stripe > 0) info.set("striping_unit", std::to_string(stripe));
  if (permissions >= 0) {
    char octal[24] = "";
    std::to_chars(octal, octal + sizeof octal - 1, permissions, 8);
    info.set("file_perm", octal);
  }
  if (!access_style.empty()) info.set("access_style", access_style);
  if (!memory_kinds.empty()) info.set("mpi_assert_memory_alloc_kinds", memory_kinds);
}

int Hints::advice() const {
  const auto says = [&](std::string_view word) { return access_style.find(word) != std::string::npos; };
  if (says("random")) return POSIX_FADV_RANDOM;
  if (says("sequential") && !says("reverse_sequential")) return POSIX_FADV_SEQUENTIAL;
  return POSIX_FADV_NORMAL;
}

}  // namespace tern::io
