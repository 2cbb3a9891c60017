// The handshake alone: both proofs, every verdict, every single changed bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/rng.h"
#include "fabric/tcp/handshake.h"
#include "wire/header.h"

namespace tern {
namespace {

using State = TcpHandshake::State;
using wire::Verdict;

TcpIdentity identity(PeerId rank, uint8_t key = 1) {
  TcpIdentity out;
  out.name.rank = rank;
  out.key.fill(key);
  out.version = wire::kVersion;
  out.agreement = "a=1\nb=2\n";
  return out;
}

// Hands over what `from` has to say, in pieces of at most `piece` bytes.
void pass(TcpHandshake& from, TcpHandshake& to, size_t piece = 1000) {
  std::string bytes = std::exchange(from.output(), {});
  size_t at = 0;
  while (at < bytes.size() && to.state() == State::talking) {
    size_t n = std::min({piece, to.need(), bytes.size() - at});
    to.feed(reinterpret_cast<const std::byte*>(bytes.data()) + at, n);
    at += n;
  }
  if (to.calls() && to.state() == State::asks) to.decide(Verdict::accept, 4711);
}

TEST(TcpHandshake, BothSidesAreProven) {
  for (size_t piece : {1, 7, 1000}) {
    TcpIdentity a = identity(3), b = identity(5);
    TcpHandshake caller(a, {0, 5}, 2, 77), called(b);
    pass(caller, called, piece);
    EXPECT_TRUE(called.greeted());
    EXPECT_EQ(called.state(), State::talking);
    EXPECT_FALSE(caller.committed());
    pass(called, caller, piece);
    EXPECT_TRUE(caller.committed());
    pass(caller, called, piece);
    ASSERT_EQ(called.state(), State::asks);
    EXPECT_EQ(called.peer().rank, 3u);
    EXPECT_EQ(called.stream(), 2u);
    EXPECT_EQ(called.generation(), 77u);
    EXPECT_EQ(called.received(), 4711u);
    called.decide(Verdict::accept, uint64_t{1} << 40);
    pass(called, caller, piece);
    EXPECT_EQ(caller.state(), State::decided);
    EXPECT_EQ(caller.verdict(), Verdict::accept);
    EXPECT_EQ(caller.received(), uint64_t{1} << 40);
  }
}

// With a key exchange the session keys do not follow from the job's key and what went over the wire: with everything
// that is to be had there, another secret gives other keys.
TEST(TcpHandshake, AnExchangedSecretIsInTheSessionKeys) {
  TcpIdentity a = identity(3), b = identity(5);
  a.encrypts = b.encrypts = true;
  std::vector<TcpKey> keys;
  for (int i = 0; i < 2; ++i) {
    TcpHandshake caller(a, {0, 5}), called(b);
    pass(caller, called);
    pass(called, caller);
    pass(caller, called);
    ASSERT_EQ(called.state(), State::asks);
    called.decide(Verdict::accept);
    pass(called, caller);
    ASSERT_EQ(caller.verdict(), Verdict::accept);
    EXPECT_EQ(caller.session_key(true), called.session_key(true));
    EXPECT_EQ(caller.session_key(false), called.session_key(false));
    keys.push_back(caller.session_key(true));
  }
  EXPECT_NE(keys[0], keys[1]);
}

TEST(KeyExchange, BothSidesComeToTheSameAndAThirdDoesNot) {
  KeyExchange a, b, c;
  ExchangeKey at_a, at_b, at_c;
  ASSERT_TRUE(a.share(b.public_key(), at_a));
  ASSERT_TRUE(b.share(a.public_key(), at_b));
  ASSERT_TRUE(c.share(a.public_key(), at_c));
  EXPECT_EQ(at_a, at_b);
  EXPECT_NE(at_a, at_c);
  EXPECT_FALSE(a.share(ExchangeKey{}, at_a)) << "a key of small order";
}

// The same on both sides, another one for each direction, connection and job.
TEST(TcpHandshake, SessionKeys) {
  std::set<TcpKey> seen;
  for (uint8_t job : {1, 1, 2}) {
    TcpIdentity a = identity(3, job), b = identity(5, job);
    TcpHandshake caller(a, {0, 5}), called(b);
    pass(caller, called);
    pass(called, caller);
    pass(caller, called);
    called.decide(Verdict::accept);
    pass(called, caller);
    for (bool from_caller : {true, false}) {
      EXPECT_EQ(caller.session_key(from_caller), called.session_key(from_caller));
      EXPECT_TRUE(seen.insert(caller.session_key(from_caller)).second);
    }
  }
}

TEST(TcpHandshake, TheVerdictReachesTheCaller) {
  for (Verdict verdict : {Verdict::keep_other, Verdict::refused}) {
    TcpIdentity a = identity(0), b = identity(1);
    TcpHandshake caller(a, {0, 1}), called(b);
    pass(caller, called);
    pass(called, caller);
    pass(caller, called);
    ASSERT_EQ(called.state(), State::asks);
    called.decide(verdict);
    pass(called, caller);
    EXPECT_EQ(caller.verdict(), verdict);
  }
}

TEST(TcpHandshake, MismatchesAreToldToBoth) {
  struct Case {
    const char* what;
    void (*change)(TcpIdentity&);
    Verdict verdict;
    const char* text;
  };
  const std::string versions = "wire version 9999 and " + std::to_string(wire::kVersion);
  const Case cases[] = {
      {"version", [](TcpIdentity& b) { b.version = 9999; }, Verdict::version, versions.c_str()},
      {"agreement", [](TcpIdentity& b) { b.agreement = "a=1\nb=3\n"; }, Verdict::agreement, "b: theirs 3, ours 2"},
      {"a tunable more", [](TcpIdentity& b) { b.agreement += "c=4\n"; }, Verdict::agreement,
       "c: theirs 4, ours not set"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    TcpIdentity a = identity(0), b = identity(1);
    c.change(b);
    TcpHandshake caller(a, {0, 1}), called(b);
    pass(caller, called);
    pass(called, caller);
    EXPECT_EQ(caller.state(), State::decided);
    EXPECT_FALSE(caller.committed());
    EXPECT_EQ(caller.verdict(), c.verdict);
    EXPECT_NE(caller.describe(caller.verdict()).find(c.text), std::string::npos) << caller.describe(caller.verdict());
    pass(caller, called);
    EXPECT_EQ(called.state(), State::decided);
    EXPECT_EQ(called.verdict(), c.verdict);
    EXPECT_EQ(called.peer().rank, 0u);
  }
}

TEST(TcpHandshake, TheWrongRank) {
  TcpIdentity a = identity(0), b = identity(2);
  TcpHandshake caller(a, {0, 1}), called(b);
  pass(caller, called);
  pass(called, caller);
  EXPECT_EQ(caller.verdict(), Verdict::wrong_rank);
}

TEST(TcpHandshake, AnotherKeyGetsNoAnswer) {
  TcpIdentity a = identity(0, 1), b = identity(1, 2);
  TcpHandshake caller(a, {0, 1}), called(b);
  pass(caller, called);
  EXPECT_EQ(called.state(), State::rubbish);
  EXPECT_EQ(called.output(), "");
}

// Without the key, what a rank says cannot be sent back to it: stages and nonces are part of every proof.
TEST(TcpHandshake, ReflectionsAndReplaysProveNothing) {
  TcpIdentity a = identity(0), b = identity(1);
  TcpHandshake caller(a, {0, 1});
  std::string hello = caller.output();
  {
    TcpHandshake reflected(a);  // our own hello, sent to our own listener: its answer is a true one, but of no use
    reflected.feed(reinterpret_cast<const std::byte*>(hello.data()), 8);
    reflected.feed(reinterpret_cast<const std::byte*>(hello.data()) + 8, hello.size() - 8);
    pass(reflected, caller);
    EXPECT_FALSE(caller.committed());
    EXPECT_EQ(caller.verdict(), Verdict::wrong_rank);
  }
  // A whole overheard session, played to a new listener: the nonce of the answer is another.
  TcpHandshake first(a, {0, 1}), called(b);
  std::string overheard_hello = first.output();
  pass(first, called);
  pass(called, first);
  std::string overheard_proof = first.output();
  TcpHandshake again(b);
  again.feed(reinterpret_cast<const std::byte*>(overheard_hello.data()), 8);
  again.feed(reinterpret_cast<const std::byte*>(overheard_hello.data()) + 8, overheard_hello.size() - 8);
  ASSERT_TRUE(again.greeted());
  again.feed(reinterpret_cast<const std::byte*>(overheard_proof.data()), 8);
  again.feed(reinterpret_cast<const std::byte*>(overheard_proof.data()) + 8, overheard_proof.size() - 8);
  EXPECT_EQ(again.state(), State::rubbish);
}

TEST(TcpHandshake, EveryChangedBitIsNoticed) {
  TcpIdentity a = identity(0), b = identity(1);
  for (int message = 0; message < 4; ++message) {
    for (size_t bit = 0;; ++bit) {
      TcpHandshake caller(a, {0, 1}), called(b);
      TcpHandshake* sides[2] = {&caller, &called};
      for (int i = 0; i < message; ++i) {
        if (sides[i % 2]->state() == State::asks) sides[i % 2]->decide(Verdict::accept);
        pass(*sides[i % 2], *sides[(i + 1) % 2]);
      }
      TcpHandshake &from = *sides[message % 2], &to = *sides[(message + 1) % 2];
      if (from.state() == State::asks) from.decide(Verdict::accept);
      std::string& bytes = from.output();
      if (bit / 8 == bytes.size()) break;
      bytes[bit / 8] = char(bytes[bit / 8] ^ (1 << bit % 8));
      State before = to.state();
      ASSERT_EQ(before, State::talking);
      pass(from, to);
      // Either it is rubbish, or a longer body is still awaited: nothing is believed.
      bool believed = message == 0   ? to.greeted()
                      : message == 1 ? to.committed()
                                     : to.state() == State::asks || to.state() == State::decided;
      ASSERT_FALSE(believed) << "message " << message << " bit " << bit;
      ASSERT_EQ(to.output(), "");
    }
  }
}

}  // namespace
}  // namespace tern
