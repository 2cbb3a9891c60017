#include "check/probes.h"

#include <sys/syscall.h>
#include <unistd.h>

namespace tern::check {

uint64_t Probes::self() { return uint64_t(syscall(SYS_gettid)); }

void Probes::found(uint64_t context, const Status& status) {
  found_.insert_or_assign(self(), Found{context, status.source, status.tag, status.bytes, findings_.place(), ""});
}

Probes::Doubt Probes::receives(uint64_t context, int source, int tag, Count capacity) {
  const auto mine = found_.find(self());
  if (mine == found_.end()) return {};
  const Found found = std::move(mine->second);
  found_.erase(mine);
  if (!found.fits(context, source, tag)) return {};
  const std::string place = findings_.place();
  for (auto& [thread, other] : found_) {
    if (other.taken.empty() && other.fits(context, source, tag)) other.taken = place;
  }
  if (found.taken.empty() || found.bytes != capacity) return {};
  return {found.bytes, "the message that " + found.place + " has found was received by another thread in " +
                           found.taken + ", which had found it, too: " + place +
                           " gets another message. Use MPI_Mprobe and MPI_Mrecv (MPI 5.0, 3.8.2)."};
}

}  // namespace tern::check
