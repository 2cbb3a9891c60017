#include "process/jobs/other_jobs.h"

#include <sodium.h>

#include <algorithm>
#include <cstring>
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

// The same at both ends.
bool OtherJobs::key_with(PeerId peer, JobSecret& key) const {
  const JobSecret* theirs = peers_.in_my_job(peer) ? &secret_ : peers_.secret_of(peers_.name(peer).job);
  if (!theirs) return false;
  const auto [first, second] = std::minmax(secret_, *theirs);
  crypto_generichash_state state;
  crypto_generichash_init(&state, nullptr, 0, key.size());
  crypto_generichash_update(&state, first.data(), first.size());
  crypto_generichash_update(&state, second.data(), second.size());
  crypto_generichash_final(&state, key.data(), key.size());
  return true;
}

// Words: number of sealed bytes, nonce, sealed bytes.
constexpr size_t kNonceWords = crypto_secretbox_NONCEBYTES / sizeof(uint64_t);
static_assert(kNonceWords * sizeof(uint64_t) == crypto_secretbox_NONCEBYTES);

Error OtherJobs::seal(PeerId peer, std::string_view text, std::vector<uint64_t>& words) const {
  JobSecret key;
  words.clear();
  if (!key_with(peer, key)) return Error(ErrorClass::comm, "the other group's leader is of a job that is unknown here");
  const size_t bytes = crypto_secretbox_MACBYTES + text.size();
  words.resize(1 + kNonceWords + (bytes + 7) / 8);
  words[0] = bytes;
  auto* nonce = reinterpret_cast<unsigned char*>(&words[1]);
  randombytes_buf(nonce, crypto_secretbox_NONCEBYTES);
  crypto_secretbox_easy(reinterpret_cast<unsigned char*>(&words[1 + kNonceWords]),
                        reinterpret_cast<const unsigned char*>(text.data()), text.size(), nonce, key.data());
  return {};
}

bool OtherJobs::open(PeerId peer, const std::vector<uint64_t>& words, std::string& text) const {
  JobSecret key;
  if (words.size() <= 1 + kNonceWords || !key_with(peer, key)) return false;
  const uint64_t bytes = words[0];
  if (bytes < crypto_secretbox_MACBYTES || bytes > (words.size() - 1 - kNonceWords) * sizeof(uint64_t)) return false;
  text.resize(bytes - crypto_secretbox_MACBYTES);
  return crypto_secretbox_open_easy(reinterpret_cast<unsigned char*>(text.data()),
                                    reinterpret_cast<const unsigned char*>(&words[1 + kNonceWords]), bytes,
                                    reinterpret_cast<const unsigned char*>(&words[1]), key.data()) == 0;
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
