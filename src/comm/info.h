// Info: an ordered list of (key, value) strings. Source: MPI 5.0 chapter 10.
// Lists are short, so a vector and a linear look; order of setting is the order MPI_Info_get_nthkey shows.
// Limits on lengths (MPI_MAX_INFO_KEY, MPI_MAX_INFO_VAL) are the C API's to check. Thread rule: under the
// rank's lock.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/object.h"

namespace tern {

class Info : public Object {
 public:
  struct Entry {
    std::string key, value;
  };

  Info() = default;
  ~Info() = default;

  /// Sets or replaces (a replaced key keeps its place).
  void set(std::string_view key, std::string_view value);
  /// Null when absent; valid until the next change.
  const std::string* find(std::string_view key) const;
  /// False when absent.
  bool remove(std::string_view key);
  const std::vector<Entry>& entries() const { return entries_; }
  bool empty() const { return entries_.empty(); }

  Ref<Info> dup() const;
  /// Takes the content of `other`, dropping what was here.
  void assign(const Info& other);
  /// Takes over those keys of `other` that are in `known`: the hints an object understands. Others stay as
  /// they were.
  void assign_hints(const Info& other, std::initializer_list<std::string_view> known);
  /// Whether `key` is set to "true" (or, with no such key, `otherwise`).
  bool flag(std::string_view key, bool otherwise = false) const;
  /// mpi_minimum_memory_alignment (9.2): bytes, a power of two. 0: it is not there, or is no power of two, and so says
  /// nothing.
  size_t minimum_alignment() const;

 private:
  std::vector<Entry> entries_;
};

}  // namespace tern
