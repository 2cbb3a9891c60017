#include "process/jobs/other_jobs.h"

#include <utility>

namespace tern {

Error OtherJobs::describe(wire::Member& me) {
  me.name = peers_.my_name();
  me.job_ranks = peers_.job_ranks();
  me.secret = secret_;
  return opener_(me.card);
}

Error OtherJobs::meet(const std::vector<wire::Member>& members, std::vector<PeerId>& ids) {
  for (const wire::Member& member : members) {
    if (member.name.job != peers_.my_name().job) peers_.add_job(member.name.job, member.job_ranks, member.secret);
    const PeerId id = peers_.find(member.name);
    if (id == kNoPeer) return Error(ErrorClass::port, "the other job describes itself in two ways");
    if (!peers_.in_my_job(id)) cards_[id] = member.card;
    ids.push_back(id);
  }
  return {};
}

Error OtherJobs::card_of(PeerId peer, std::string& card) const {
  auto found = cards_.find(peer);
  if (found == cards_.end()) {
    const RankName name = peers_.name(peer);
    return Error(ErrorClass::other, "this process has not met rank " + std::to_string(name.rank) +
                                        " of the other job: it was in no group that was connected with one of this "
                                        "process's");
  }
  card = found->second;
  return {};
}

}  // namespace tern
