#include "comm/info.h"

#include <algorithm>
#include <bit>
#include <charconv>

namespace tern {

void Info::set(std::string_view key, std::string_view value) {
  for (Entry& entry : entries_) {
    if (entry.key == key) {
      entry.value = value;
      return;
    }
  }
  entries_.push_back({std::string(key), std::string(value)});
}

const std::string* Info::find(std::string_view key) const {
  for (const Entry& entry : entries_)
    if (entry.key == key) return &entry.value;
  return nullptr;
}

bool Info::remove(std::string_view key) {
  return std::erase_if(entries_, [&](const Entry& entry) { return entry.key == key; }) != 0;
}

Ref<Info> Info::dup() const {
  auto copy = Ref<Info>::adopt(new Info);
  copy->assign(*this);
  return copy;
}

void Info::assign(const Info& other) {
  if (this != &other) entries_ = other.entries_;
}

void Info::assign_hints(const Info& other, std::initializer_list<std::string_view> known) {
  for (const Entry& entry : other.entries_)
    if (std::find(known.begin(), known.end(), entry.key) != known.end()) set(entry.key, entry.value);
}

bool Info::flag(std::string_view key, bool otherwise) const {
  const std::string* value = find(key);
  return value ? *value == "true" : otherwise;
}

size_t Info::minimum_alignment() const {
  const std::string* text = find("mpi_minimum_memory_alignment");
  if (!text) return 0;
  size_t value = 0;
  const auto [end, wrong] = std::from_chars(text->data(), text->data() + text->size(), value);
  const bool whole = wrong == std::errc() && end == text->data() + text->size();
  return whole && std::has_single_bit(value) ? value : 0;
}

}  // namespace tern
