#include "check/sharing.h"

namespace tern::check {

void Sharing::begin(Object object, bool alone) {
  const std::thread::id self = std::this_thread::get_id();
  std::string place = findings_.place();
  for (const Use& other : uses_) {
    if (other.object != object || other.thread == self || !(alone || other.alone)) continue;
    const bool collective = object.first == 'x';
    findings_.report(
        collective ? "two threads are in collective operations of one communicator at the same time: " + other.place +
                         ", and " + place +
                         ". Let one thread at a time call them, or give each thread a communicator of its own "
                         "(MPI 5.0, 11.6.2)."
                   : "one thread frees or changes an object while another one uses it: " + other.place + ", and " +
                         place + ". Let the threads wait for each other.");
  }
  uses_.push_back({object, self, alone, std::move(place)});
}

void Sharing::end() {
  const std::thread::id self = std::this_thread::get_id();
  std::erase_if(uses_, [&](const Use& use) { return use.thread == self; });
}

}  // namespace tern::check
