#include "fabric/tcp/handshake.h"

#include <sodium.h>

#include "base/assert.h"

namespace tern {

using wire::HandshakeStage;
using wire::Verdict;

static_assert(wire::kProofBytes == crypto_generichash_BYTES);

JobSecret secret_for_others(const TcpKey& job_key) {
  static constexpr std::string_view kPurpose = "tern secret for other jobs";
  JobSecret out;
  crypto_generichash(out.data(), out.size(), reinterpret_cast<const uint8_t*>(kPurpose.data()), kPurpose.size(),
                     job_key.data(), job_key.size());
  return out;
}

TcpHandshake::TcpHandshake(const TcpIdentity& self, const RankName& target, uint8_t stream, uint32_t generation,
                           uint32_t stood)
    : self_(self),
      peer_(target),
      initiator_(target != kNoRank),
      expected_(initiator_ ? HandshakeStage::answer : HandshakeStage::hello) {
  if (!initiator_) return;
  // Without a secret no peer is called; if one calls, no proof will be accepted.
  if (!choose_key(target.job)) randombytes_buf(key_.data(), key_.size());
  wire::Greeting hello = greeting(target);
  hello.stream = stream;
  hello.generation = generation;
  hello.stood = stood;
  append(wire::build_greeting(HandshakeStage::hello, hello));
}

TcpHandshake::~TcpHandshake() {
  sodium_memzero(shared_.data(), shared_.size());
  sodium_memzero(key_.data(), key_.size());
}

// The same on both sides: the job with the smaller number comes first.
bool TcpHandshake::choose_key(uint64_t job) {
  key_ = self_.key;
  if (job == self_.name.job) return true;
  const JobSecret* theirs = self_.jobs ? self_.jobs->secret_of(job) : nullptr;
  if (!theirs) return false;
  const JobSecret mine = secret_for_others(self_.key);
  const JobSecret* both[2] = {&mine, theirs};
  if (job < self_.name.job) std::swap(both[0], both[1]);
  crypto_generichash_state state;
  crypto_generichash_init(&state, nullptr, 0, key_.size());
  for (const JobSecret* secret : both) crypto_generichash_update(&state, secret->data(), secret->size());
  crypto_generichash_final(&state, key_.data(), key_.size());
  return true;
}

wire::Greeting TcpHandshake::greeting(const RankName& to) {
  wire::Greeting out;
  out.version = self_.version;
  out.from = self_.name;
  out.to = to;
  out.agreement = self_.agreement;
  // Random bytes from the system, not from the rank's seeded generator: a predictable nonce proves nothing.
  randombytes_buf(out.nonce.data(), out.nonce.size());
  if (self_.encrypts) out.exchange = exchange_.emplace().public_key();
  return out;
}

void TcpHandshake::feed(const std::byte* data, size_t bytes) {
  TERN_ASSERT(state_ == State::talking && bytes <= need());
  input_.append(reinterpret_cast<const char*>(data), bytes);
  const std::byte* begin = reinterpret_cast<const std::byte*>(input_.data());
  if (input_.size() < wire::kHandshakePrefixBytes) {
    if (!wire::may_be_prefix(begin, input_.size())) state_ = State::rubbish;
    return;
  }
  if (input_.size() < need_) return;
  if (need_ == wire::kHandshakePrefixBytes) {
    wire::HandshakePrefix prefix;
    if (!wire::parse_prefix(begin, expected_, prefix)) {
      state_ = State::rubbish;
      return;
    }
    need_ += prefix.body_bytes + wire::kProofBytes;
    return;
  }
  on_whole_message();
}

void TcpHandshake::on_whole_message() {
  std::string_view message(input_);
  std::string_view body =
      message.substr(wire::kHandshakePrefixBytes, message.size() - wire::kHandshakePrefixBytes - wire::kProofBytes);
  // The caller's hello names the job whose key it should have; the hello itself is not proven yet.
  if (expected_ == HandshakeStage::hello && (!wire::parse_greeting(body, theirs_) || !choose_key(theirs_.from.job))) {
    state_ = State::rubbish;
    return;
  }
  if (!authentic(message)) {
    state_ = State::rubbish;
    return;
  }
  bool sound = false;
  switch (expected_) {
    case HandshakeStage::hello: {
      sound = greeted_ = true;
      // Which rank the caller wants is checked after its proof; until then it learns only this rank's
      // number.
      append(wire::build_greeting(HandshakeStage::answer, greeting(theirs_.from)));
      expected_ = HandshakeStage::proof;
      break;
    }
    case HandshakeStage::answer:
      sound = wire::parse_greeting(body, theirs_);
      if (!sound) break;
      verdict_ = judge(theirs_);
      // Both have stated the same about encryption, so both have a key.
      if (verdict_ == Verdict::accept && exchange_) sound = exchange_->share(theirs_.exchange, shared_);
      if (verdict_ == Verdict::accept) {
        state_ = State::asks;
      } else {
        append(wire::build_verdict(HandshakeStage::proof, verdict_));
        state_ = State::decided;
      }
      break;
    case HandshakeStage::proof:
      sound = wire::parse_verdict(body, verdict_, received_);
      if (!sound) break;
      peer_ = theirs_.from;
      state_ = State::decided;
      if (verdict_ != Verdict::accept) break;  // the caller has closed, and this is the reason
      verdict_ = judge(theirs_);
      // Both have stated the same about encryption, so both have a key.
      if (verdict_ == Verdict::accept && exchange_) sound = exchange_->share(theirs_.exchange, shared_);
      if (verdict_ == Verdict::accept) {
        state_ = State::asks;
      } else {
        append(wire::build_verdict(HandshakeStage::verdict, verdict_));
      }
      break;
    case HandshakeStage::verdict:
      sound = wire::parse_verdict(body, verdict_, received_);
      state_ = State::decided;
      break;
  }
  if (!sound) state_ = State::rubbish;
  input_.clear();
  need_ = wire::kHandshakePrefixBytes;
}

void TcpHandshake::decide(Verdict verdict, uint64_t received) {
  TERN_ASSERT(state_ == State::asks);
  verdict_ = verdict;
  append(wire::build_verdict(initiator_ ? HandshakeStage::proof : HandshakeStage::verdict, verdict, received));
  state_ = State::decided;
  if (!initiator_ || verdict != Verdict::accept) return;
  committed_ = true;
  expected_ = HandshakeStage::verdict;
  state_ = State::talking;
}

Verdict TcpHandshake::judge(const wire::Greeting& greeting) const {
  if (greeting.version != self_.version) return Verdict::version;
  if (greeting.to != self_.name || greeting.from == self_.name) return Verdict::wrong_rank;
  if (initiator_ && greeting.from != peer_) return Verdict::wrong_rank;
  if (greeting.agreement != self_.agreement) return Verdict::agreement;
  return Verdict::accept;
}

std::string TcpHandshake::describe(Verdict verdict) const {
  std::string who = "rank " + std::to_string(peer_.rank) + " and rank " + std::to_string(self_.name.rank);
  if (verdict == Verdict::version) {
    return who + " use different versions of Tern (wire version " + std::to_string(theirs_.version) + " and " +
           std::to_string(self_.version) + "): install the same version on every host";
  }
  if (verdict == Verdict::agreement) {
    return who + " run with different settings that must agree: " +
           wire::describe_disagreement(theirs_.agreement, self_.agreement) +
           ". Set the TERN_* variable for all ranks (mpiexec -genv)";
  }
  return who + " cannot connect";
}

std::array<uint8_t, wire::kProofBytes> TcpHandshake::authentication() const {
  std::array<uint8_t, wire::kProofBytes> out;
  crypto_generichash(out.data(), out.size(), reinterpret_cast<const uint8_t*>(transcript_.data()), transcript_.size(),
                     key_.data(), key_.size());
  return out;
}

TcpKey TcpHandshake::session_key(bool from_caller) const {
  static constexpr std::string_view kCaller = "tern tcp stream of the caller",
                                    kCalled = "tern tcp stream of the called";
  const std::string_view purpose = from_caller ? kCaller : kCalled;
  TcpKey out;
  crypto_generichash_state state;
  crypto_generichash_init(&state, key_.data(), key_.size(), out.size());
  crypto_generichash_update(&state, reinterpret_cast<const uint8_t*>(purpose.data()), purpose.size());
  crypto_generichash_update(&state, reinterpret_cast<const uint8_t*>(transcript_.data()), transcript_.size());
  crypto_generichash_update(&state, shared_.data(), shared_.size());
  crypto_generichash_final(&state, out.data(), out.size());
  return out;
}

void TcpHandshake::append(std::string_view message) {
  transcript_ += message;
  auto proof = authentication();
  std::string_view tail(reinterpret_cast<const char*>(proof.data()), proof.size());
  transcript_ += tail;
  output_ += message;
  output_ += tail;
}

// On success the message becomes part of the transcript.
bool TcpHandshake::authentic(std::string_view message) {
  size_t bytes = message.size() - wire::kProofBytes;
  transcript_ += message.substr(0, bytes);
  auto wanted = authentication();
  transcript_ += message.substr(bytes);
  return sodium_memcmp(wanted.data(), message.data() + bytes, wire::kProofBytes) == 0;
}

}  // namespace tern
