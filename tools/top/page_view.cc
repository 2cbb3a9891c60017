#include "page_view.h"

#include <signal.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>

#include "top.h"

namespace tern::top {
namespace {

// What may be no text at all. Names of functions and hosts are ASCII.
std::string printable(const std::byte* at, size_t room) {
  const char* text = reinterpret_cast<const char*>(at);
  std::string shown(text, strnlen(text, room));
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return shown;
}

template <typename Value>
Value value_at(std::span<const std::byte> bytes, size_t offset) {
  Value value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

uint64_t sum_of(const CounterRow& row, const Counters& counters) {
  uint64_t total = 0;
  for (uint32_t i = 0; i < row.elements; ++i) total += row.in(counters)[i];
  return total;
}

}  // namespace

std::optional<PageView> read_page(std::span<const std::byte> bytes, pid_t process) {
  if (bytes.size() < sizeof(RankPage)) return std::nullopt;
  const bool ours =
      std::memcmp(bytes.data() + offsetof(RankPage, magic), RankPage::kMagic, sizeof RankPage::kMagic) == 0;
  if (!ours || value_at<uint32_t>(bytes, offsetof(RankPage, bytes)) != sizeof(RankPage)) return std::nullopt;
  if (value_at<int32_t>(bytes, offsetof(RankPage, process)) != int32_t(process)) return std::nullopt;
  PageView view;
  view.rank = std::max(-1, value_at<int32_t>(bytes, offsetof(RankPage, rank)));
  view.signal = value_at<int32_t>(bytes, offsetof(RankPage, signal));
  if (view.signal < SIGRTMIN || view.signal > SIGRTMAX) view.signal = 0;
  view.host = printable(bytes.data() + offsetof(RankPage, host), sizeof RankPage::host);
  view.call = printable(bytes.data() + offsetof(RankPage, call), sizeof RankPage::call);
  view.samples = value_at<uint32_t>(bytes, offsetof(RankPage, samples));
  view.samples_inside = value_at<uint32_t>(bytes, offsetof(RankPage, samples_inside));
  view.place = value_at<uint64_t>(bytes, offsetof(RankPage, place));
  view.counters = value_at<Counters>(bytes, offsetof(RankPage, counters));
  for (size_t i = 0; i < RankPage::kEngines; ++i)
    add_counters(view.counters, value_at<Counters>(bytes, offsetof(RankPage, engines) + i * sizeof(Counters)));
  return view;
}

// What is sent, over all protocols and by each: rows "sent_eager" and "sent_eager_bytes". Counters only grow; those of
// a faulty program may not.
void show_counters(TopRank& shown, const Counters& now, const Counters* before, double seconds) {
  for (const CounterRow& row : counter_rows()) {
    std::string_view name = row.name;
    if (row.elements == 1 || !name.starts_with("sent_")) continue;
    const uint64_t last = before ? sum_of(row, *before) : sum_of(row, now), sum = sum_of(row, now);
    const double rate = double(sum - std::min(sum, last)) / seconds;
    const bool bytes = name.ends_with("_bytes");
    if (!bytes) {
      shown.messages_s += rate;
      continue;
    }
    name.remove_prefix(std::string_view("sent_").size());
    name.remove_suffix(std::string_view("_bytes").size());
    shown.by_protocol[std::string(name)] += rate;
    shown.bytes_s += rate;
  }
  shown.unexpected_bytes = now.unexpected_bytes;
}

}  // namespace tern::top
