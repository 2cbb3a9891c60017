// Condition: what a thread waits for, without its type.
#pragma once

namespace tern {

/// Refers to the caller's predicate, which must outlive it.
class Condition {
 public:
  template <typename Predicate>
  explicit Condition(Predicate& predicate)
      : predicate_(&predicate), ask_([](void* it) -> bool { return (*static_cast<Predicate*>(it))(); }) {}
  bool operator()() const { return ask_(predicate_); }

 private:
  void* predicate_;
  bool (*ask_)(void*);
};

}  // namespace tern
