// LockDesign: how an origin gets the lock of a target without the target's doing (Jiang et al. 2004: lock words that
// the origins themselves change). A window without one sends messages: the target keeps the queue (lock_queue.h), and
// the request for the lock travels with the operations (origin.cc); that is what a polling or an event-driven thread of
// the target serves.
// Thread rule: under the rank's lock.
#pragma once

namespace tern::rma {

struct Target;

class LockDesign {
 public:
  virtual ~LockDesign() = default;
  /// Joins those who want the lock of the target (Target::exclusive says which); returns at once.
  virtual void ask(Target& target) = 0;
  /// Does what can be done without waiting; whether the lock is held now. Asked again and again by whoever waits.
  virtual bool held(Target& target) = 0;
  virtual void release(Target& target) = 0;
};

}  // namespace tern::rma
