#include "check/probes.h"

namespace tern::check {

void Probes::found(uint64_t context, int source, int tag) {
  found_.insert_or_assign(std::this_thread::get_id(), Found{context, source, tag, findings_.place(), ""});
}

void Probes::receives(uint64_t context, int source, int tag) {
  const auto mine = found_.find(std::this_thread::get_id());
  if (mine == found_.end()) return;
  const Found found = std::move(mine->second);
  found_.erase(mine);
  if (!found.fits(context, source, tag)) return;
  const std::string place = findings_.place();
  if (!found.taken.empty()) {
    findings_.report("the message that " + found.place + " has found was received by another thread in " + found.taken +
                     ", which had found it, too: " + place +
                     " receives another message, or waits. Use MPI_Mprobe and MPI_Mrecv (MPI 5.0, 3.8.2).");
  }
  for (auto& [thread, other] : found_) {
    if (other.taken.empty() && other.fits(context, source, tag)) other.taken = place;
  }
}

}  // namespace tern::check
