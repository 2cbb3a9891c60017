// Attributes: values that users attach to communicators, datatypes and windows under keys of their own.
// Source: MPI 5.0 section 7.7. The callbacks of a key are the C API's business (it knows handles and
// languages); here they are a small interface. Rules kept here:
//   - setting over an old value deletes the old value first, and sets nothing when that fails;
//   - a key whose handle is freed lives on while attributes use it (Keyval is counted);
//   - an attribute whose delete callback fails stays;
//   - attributes are deleted in the reverse of the order they were set in (required for MPI_COMM_SELF at
//   finalize,
//     11.2.4, and the kindest order elsewhere);
//   - callbacks may call MPI, also on the same object: no iterator is held across one.
// Thread rule: under the rank's lock.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/object.h"

namespace tern {

class Keyval;

/// The callbacks of one key. Errors carry the code that the user's function returned.
class AttributeHooks {
 public:
  virtual ~AttributeHooks() = default;
  /// `owner` is being duplicated: `keep` says whether the copy gets the attribute, `copied` with which value.
  virtual Error copy(Object& owner, Keyval& keyval, void* value, void*& copied, bool& keep) = 0;
  virtual Error remove(Object& owner, Keyval& keyval, void* value) = 0;
};

/// A key. Its handle is Object::handle.
class Keyval : public Object {
 public:
  enum class Kind : uint8_t { communicator, datatype, window };
  Keyval(Kind kind, std::unique_ptr<AttributeHooks> hooks) : kind_(kind), hooks_(std::move(hooks)) {}
  ~Keyval() = default;
  Kind kind() const { return kind_; }
  /// Null: never copied, nothing to do on deletion (MPI_NULL_COPY_FN, MPI_NULL_DELETE_FN).
  AttributeHooks* hooks() const { return hooks_.get(); }

 private:
  Kind kind_;
  std::unique_ptr<AttributeHooks> hooks_;
};

class AttributeCache {
 public:
  AttributeCache() = default;
  AttributeCache(const AttributeCache&) = delete;
  AttributeCache& operator=(const AttributeCache&) = delete;

  /// Whether the key is set, and to what.
  bool get(const Keyval& keyval, void*& value) const;
  Error set(Object& owner, Keyval& keyval, void* value);
  /// Error: the callback's, or not set (MPI_ERR_KEYVAL).
  Error remove(Object& owner, Keyval& keyval);
  /// Runs the copy callbacks in the order of setting, for a duplicate. On the first error the rest is not
  /// copied.
  Error copy_to(Object& owner, AttributeCache& copy);
  /// Deletes all, last set first. Stops at the first error; that attribute and the earlier ones stay.
  Error clear(Object& owner);
  bool empty() const { return entries_.empty(); }
  /// Takes the attributes of `other`; nothing may be set here yet.
  void take(AttributeCache& other) { entries_.swap(other.entries_); }

 private:
  struct Entry {
    Ref<Keyval> keyval;
    void* value;
  };
  Entry* find(const Keyval& keyval);

  std::vector<Entry> entries_;  ///< in the order of setting
};

}  // namespace tern
