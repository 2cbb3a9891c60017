// Objects of MPI that two threads of a rank use at the same time where they must not (MPI 5.0, 11.6): collective
// operations of one communicator, a handle that one thread frees or changes while another one uses it.
//
// Such calls rarely meet, so the checker makes a call that must be alone with its object wait for a moment, without the
// rank's lock; what another thread calls meanwhile is seen. Source: Li et al. 2019, "Efficient scalable
// thread-safety-violation detection", section 3. Thread rule: under the rank's lock.
#pragma once

#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "check/findings.h"

namespace tern::check {

class Sharing {
 public:
  explicit Sharing(const Findings& findings) : findings_(findings) {}

  /// What an object is known by: its address, or the context of a communicator.
  using Object = std::pair<char, uint64_t>;
  static Object object(const void* at) { return {'o', reinterpret_cast<uint64_t>(at)}; }
  static Object communicator(uint64_t context) { return {'c', context}; }
  static Object collectives_of(uint64_t context) { return {'x', context}; }

  /// The calling thread uses the object until `end`. `alone`: nobody else may meanwhile.
  void begin(Object object, bool alone);
  /// The calling thread leaves MPI.
  void end();

 private:
  struct Use {
    Object object;
    std::thread::id thread;
    bool alone;
    std::string place;
  };
  const Findings& findings_;
  std::vector<Use> uses_;
};

}  // namespace tern::check
