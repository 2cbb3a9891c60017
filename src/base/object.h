// The common head of everything a user can hold a handle to. Reference counts are plain: a rank's objects are
// touched only under the rank's lock (see process/process.h).
#pragma once

#include <cstdint>

#include "base/assert.h"

namespace tern {

class Object {
 public:
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  /// The C API's handle value for this object; 0 while no user handle exists. Owned by capi/.
  int32_t handle = 0;

  void add_ref() { ++references_; }
  /// Drops one reference; true when it was the last, and the caller must destroy the object.
  [[nodiscard]] bool drop_ref() {
    TERN_ASSERT(references_ > 0);
    return --references_ == 0;
  }
  int references() const { return references_; }

 protected:
  ~Object() = default;

 private:
  int references_ = 1;
};

/// A counted pointer to an Object whose last reference deletes it.
template <typename T>
class Ref {
 public:
  Ref() = default;
  /// Takes over the reference that the caller holds.
  static Ref adopt(T* object) {
    Ref ref;
    ref.object_ = object;
    return ref;
  }
  /// Adds a reference of its own.
  static Ref share(T* object) {
    if (object) object->add_ref();
    return adopt(object);
  }
  Ref(const Ref& other) : object_(other.object_) {
    if (object_) object_->add_ref();
  }
  Ref(Ref&& other) noexcept : object_(other.object_) { other.object_ = nullptr; }
  Ref& operator=(Ref other) noexcept {
    T* mine = object_;
    object_ = other.object_;
    other.object_ = mine;
    return *this;
  }
  [[gnu::always_inline]] ~Ref() { reset(); }

  [[gnu::always_inline]] void reset() {
    T* mine = release();
    if (mine && mine->drop_ref()) [[unlikely]]
      destroy(mine);
  }
  /// Gives the reference up to the caller.
  T* release() {
    T* object = object_;
    object_ = nullptr;
    return object;
  }
  T* get() const { return object_; }
  T& operator*() const { return *object_; }
  T* operator->() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  // Out of line: references are dropped in many places, and hardly one is the last.
  [[gnu::noinline]] static void destroy(T* last) { delete last; }
  T* object_ = nullptr;
};

}  // namespace tern
