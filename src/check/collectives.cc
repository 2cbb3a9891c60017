#include "check/collectives.h"

#include <algorithm>

#include "check/compare.h"

namespace tern::check {

Error Collectives::begin(Communicator& comm, wire::CheckedCollective call) {
  if (comm.size() == 1) return {};
  call.context = comm.context();
  call.sequence = sequences_[call.context]++;
  call.rank = comm.rank();
  call.ranks = comm.size();
  call.place = findings_.place();
  self_ = comm.group().peer(comm.rank());
  const Key key{call.context, call.sequence};
  const bool waits = call.blocking;
  const PeerId judge_peer = comm.group().peer(0);
  if (judge_peer == self_) {
    judge(std::move(call), self_);
  } else {
    const std::string record = wire::build_checked_collective(call);
    p2p_.endpoints().post(p2p_.endpoints().at(judge_peer), wire::make_header(wire::kCheckCollective, 0, 0, 0, 0),
                          record.data(), record.size());
  }
  if (!waits) return {};
  p2p_.progress().wait_until([&] { return judgements_.contains(key) || some_peer_lost_; });
  const auto found = judgements_.find(key);
  if (found == judgements_.end()) return {};  // the operation itself will tell which peer is lost
  const Judgement judgement = std::move(found->second);
  judgements_.erase(found);
  return judgement.error_class == 0 ? Error() : Error(judgement.error_class, judgement.text);
}

void Collectives::on_record(Endpoint& from, std::string_view bytes) {
  wire::CheckedCollective call;
  if (wire::parse_checked_collective(bytes, call)) judge(std::move(call), from.peer);
}

void Collectives::on_verdict(std::string_view bytes) {
  wire::CheckVerdict verdict;
  std::string_view text;
  if (!wire::parse_verdict(bytes, verdict, text)) return;
  judgements_[{verdict.context, verdict.sequence}] = {verdict.error_class, std::string(text)};
}

void Collectives::judge(wire::CheckedCollective call, PeerId caller) {
  const Key key{call.context, call.sequence};
  Case& judged = cases_[key];
  const auto ranks = size_t(call.ranks);
  const bool twice = std::any_of(judged.calls.begin(), judged.calls.end(), [&](const auto& other) {
    return other.rank == call.rank || other.ranks != call.ranks;
  });
  if (twice) return;  // no rank of Tern says this
  judged.calls.push_back(std::move(call));
  judged.callers.push_back(caller);
  if (!judged.wrong) {
    if (Error error = compare_functions(judged.calls.front(), judged.calls.back())) condemn(judged, std::move(error));
  }
  const bool complete = judged.calls.size() == ranks;
  if (complete && !judged.wrong) {
    std::sort(judged.calls.begin(), judged.calls.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
    if (Error error = compare_calls(judged.calls)) condemn(judged, std::move(error));
  }
  if (complete || judged.wrong) answer(judged);
  if (complete) cases_.erase(key);
  p2p_.progress().notify();
}

void Collectives::condemn(Case& judged, Error error) {
  judged.wrong = true;
  judged.error_class = error.error_class();
  judged.text = error.text();
  const bool nonblocking =
      std::any_of(judged.calls.begin(), judged.calls.end(), [](const auto& call) { return !call.blocking; });
  if (nonblocking) findings_.report(judged.text);
}

// All calls of one number are of one kind, blocking or not, or the verdict is bad: one that nobody waits for is dropped
// by its receiver's next question only, so it goes to those that wait.
void Collectives::answer(Case& judged) {
  const wire::CheckedCollective& any = judged.calls.front();
  const wire::CheckVerdict verdict = {
      .context = any.context, .sequence = any.sequence, .error_class = judged.error_class};
  for (; judged.answered < judged.callers.size(); ++judged.answered) {
    const PeerId caller = judged.callers[judged.answered];
    if (!judged.wrong && !any.blocking) continue;
    if (caller == self_) {
      judgements_[{any.context, any.sequence}] = {judged.error_class, judged.text};
      continue;
    }
    const std::string bytes = wire::build_verdict(verdict, judged.text);
    p2p_.endpoints().post(p2p_.endpoints().at(caller), wire::make_header(wire::kCheckVerdict, 0, 0, 0, 0), bytes.data(),
                          bytes.size());
  }
}

}  // namespace tern::check
