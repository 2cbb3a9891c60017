// A model check of point-to-point between two ranks: the real protocols over a path whose every step is chosen by an
// explorer, which runs through all interleavings of two sends, two receives (and a cancel), the arrival of each
// message, the landing of each put and get. Judged: data exact and in order, nothing written into memory after it was
// given back, everything completes, nothing is held at the end.
//
//   TERN_MODEL_RUNS=n   at most so many interleavings a program (default 400; the largest programs have millions)
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <string>

#include "datatype/kind.h"
#include "datatype/predefined.h"
#include "p2p/point_to_point.h"
#include "tests/unit/rendezvous_model.h"
#include "tests/unit/still.h"

namespace tern::test {
namespace {

constexpr size_t kSmall = 8, kMedium = 16, kLarge = 24;
constexpr uint64_t kContext = 4;

struct Rank {
  StillClock clock;
  Driving driving;
  NobodyWaits port;
  ProgressEngine progress{clock, driving, port};
  PointToPoint p2p;
  ModelPath path;
  Rank(Model& model, PeerId me, const Tunables& tunables) : p2p(progress, tunables), path(model, me, p2p.sink()) {
    progress.add(path);
    p2p.add_path(path);
  }
};

struct Program {
  size_t bytes[2];     ///< of the messages, in the order of sending
  size_t capacity[2];  ///< of the receives, in the order of posting
  int tags[2];         ///< of messages and receives
  int receive_tags[2];
  int cancel;  ///< index of the receive that is cancelled after both are posted; -1: none
};

PredefinedTypes& types() {
  static PredefinedTypes all;
  return all;
}

std::byte byte_of(int message, size_t i) { return std::byte(uint8_t(0x10 + 0x20 * message + i)); }
constexpr std::byte kUntouched{0xa5}, kTakenBack{0x77};

struct Sending {
  std::vector<std::byte> data;
  Request* request = nullptr;
  bool over = false;
};
struct Receiving {
  std::vector<std::byte> data, got;
  Request* request = nullptr;
  bool over = false;
  Status status;
  int error_class = 0;
};

class Run {
 public:
  Run(Explorer& explorer, const Kind& kind, const Program& program, const Tunables& tunables)
      : explorer_(explorer),
        program_(program),
        model_{explorer, kind, {}, {}, {}, {}},
        ranks_{{model_, 0, tunables}, {model_, 1, tunables}} {}

  void go() {
    while (!testing::Test::HasFailure()) {
      reap();
      enum Action { send, receive, poll0, poll1, land0, land1, fly };
      std::vector<std::pair<Action, size_t>> actions;
      if (sent_ < 2) actions.emplace_back(send, 0);
      if (received_ < 2 + (program_.cancel >= 0)) actions.emplace_back(receive, 0);
      for (size_t r = 0; r < 2; ++r) {
        if (ranks_[r].path.busy()) actions.emplace_back(r ? poll1 : poll0, r);
        if (first_put(r) != model_.toward[r].end()) actions.emplace_back(r ? land1 : land0, r);
      }
      for (size_t i = 0; i < model_.flying.size(); ++i) actions.emplace_back(fly, i);
      if (actions.empty()) break;
      auto [action, which] = actions[explorer_.choose(actions.size())];
      switch (action) {
        case send: start_send(); break;
        case receive: start_receive(); break;
        case poll0:
        case poll1:
          ranks_[which].path.allow_one();
          ranks_[which].progress.poll();
          break;
        case land0:
        case land1: {
          auto landing = first_put(which);
          TransferOperation* put = landing->put;
          model_.toward[which].erase(landing);
          ranks_[which].path.move(*put, true);
          break;
        }
        case fly: {
          TransferOperation* operation = model_.flying[which];
          bool put = model_.flying_is_put[which];
          model_.flying.erase(model_.flying.begin() + ptrdiff_t(which));
          model_.flying_is_put.erase(model_.flying_is_put.begin() + ptrdiff_t(which));
          ranks_[operation->lane->id].path.move(*operation, put);
          break;
        }
      }
    }
    finish();
  }

 private:
  const Datatype& byte() { return types().get(type_id::kByte); }

  // An adapter lands puts in order, but does not wait until the messages before them are looked at.
  std::deque<Item>::iterator first_put(size_t r) {
    auto& queue = model_.toward[r];
    return std::find_if(queue.begin(), queue.end(), [](const Item& item) { return item.put != nullptr; });
  }
  void start_send() {
    int i = sent_++;
    Sending& s = sending_[i];
    for (size_t at = 0; at < program_.bytes[i]; ++at) s.data.push_back(byte_of(i, at));
    s.request = ranks_[0].p2p.isend({s.data.data(), Count(s.data.size()), &byte(), 1, 0, program_.tags[i], kContext});
  }
  void start_receive() {
    int i = received_++;
    if (i == 2) {
      if (!receiving_[program_.cancel].over) receiving_[program_.cancel].request->cancel();
      return;
    }
    Receiving& r = receiving_[i];
    r.data.assign(program_.capacity[i], kUntouched);
    r.request = ranks_[1].p2p.ireceive(
        {r.data.data(), Count(r.data.size()), &byte(), 0, 0, program_.receive_tags[i], kContext});
  }
  // What is complete is the user's again, and used at once for something else.
  void reap() {
    for (Sending& s : sending_) {
      if (!s.request || s.over || !s.request->complete()) continue;
      s.over = true;
      EXPECT_FALSE(s.request->error);
      s.request->release();
      std::fill(s.data.begin(), s.data.end(), kTakenBack);
    }
    for (Receiving& r : receiving_) {
      if (!r.request || r.over || !r.request->complete()) continue;
      r.over = true;
      r.status = r.request->status;
      r.error_class = r.request->error.error_class();
      r.request->release();
      r.got = r.data;
      std::fill(r.data.begin(), r.data.end(), kTakenBack);
    }
  }

  void finish() {
    if (testing::Test::HasFailure()) return;
    settle();
    // Unreceived messages of a cancelled receive are taken now, so that everything can end.
    std::vector<std::byte> rest[2];
    Request* requests[2] = {};
    for (int i = 0; i < 2; ++i) {
      bool got = false;
      for (Receiving& r : receiving_) got |= r.over && !r.status.cancelled && matched(r) == i;
      if (got || program_.cancel < 0) continue;
      rest[i].assign(program_.bytes[i], kUntouched);
      requests[i] =
          ranks_[1].p2p.ireceive({rest[i].data(), Count(rest[i].size()), &byte(), 0, 0, program_.tags[i], kContext});
    }
    settle();
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(sending_[i].over) << "send " << i << " does not end";
      ASSERT_TRUE(receiving_[i].over) << "receive " << i << " does not end";
      if (requests[i]) {
        ASSERT_TRUE(requests[i]->complete()) << "the receive for message " << i << " does not end";
        for (size_t at = 0; at < rest[i].size(); ++at) ASSERT_EQ(rest[i][at], byte_of(i, at));
        requests[i]->release();
      }
    }
    judge();
    for (Rank& rank : ranks_) {
      EXPECT_TRUE(rank.p2p.quiet());
      EXPECT_EQ(rank.p2p.report().open_announcements(), 0u);
    }
    EXPECT_EQ(ranks_[1].path.exposed(), 0u);
    EXPECT_LE(ranks_[0].path.exposed(), size_t(16)) << "more than library buffers";
  }

  // Whatever is still on its way arrives.
  void settle() {
    for (int round = 0; round < 40; ++round) {
      while (!model_.flying.empty()) {
        TransferOperation* operation = model_.flying.back();
        bool put = model_.flying_is_put.back();
        model_.flying.pop_back();
        model_.flying_is_put.pop_back();
        ranks_[operation->lane->id].path.move(*operation, put);
      }
      for (Rank& rank : ranks_) {
        rank.path.allow_one();
        rank.progress.poll();
      }
      reap();
      static_cast<void>(ranks_[1].p2p.quiet());  // gives library buffers back
    }
  }

  int matched(const Receiving& r) {
    return r.got.empty() ? -1 : r.got[0] == byte_of(0, 0) ? 0 : r.got[0] == byte_of(1, 0) ? 1 : -1;
  }

  void judge() {
    std::vector<int> order[2];
    for (int i = 0; i < 2; ++i) {
      Receiving& r = receiving_[i];
      for (std::byte b : r.data) ASSERT_EQ(b, kTakenBack) << "receive " << i << ": written to after it was complete";
      if (r.status.cancelled) {
        ASSERT_EQ(i, program_.cancel);
        for (std::byte b : r.got) ASSERT_EQ(b, kUntouched) << "cancelled, and written to";
        continue;
      }
      int m = matched(r);
      ASSERT_GE(m, 0);
      ASSERT_EQ(r.status.tag, program_.tags[m]);
      size_t stored = std::min(program_.bytes[m], program_.capacity[i]);
      ASSERT_EQ(r.error_class, program_.bytes[m] > program_.capacity[i] ? int(ErrorClass::truncate) : 0);
      ASSERT_EQ(size_t(r.status.bytes), stored);
      for (size_t at = 0; at < r.got.size(); ++at) ASSERT_EQ(r.got[at], at < stored ? byte_of(m, at) : kUntouched);
      order[size_t(r.status.tag) & 1].push_back(m);
    }
    for (auto& of_tag : order) ASSERT_TRUE(of_tag.size() < 2 || of_tag[0] < of_tag[1]) << "overtaken";
  }

  Explorer& explorer_;
  const Program& program_;
  Model model_;
  Rank ranks_[2];
  Sending sending_[2];
  Receiving receiving_[2];
  int sent_ = 0, received_ = 0;
};

uint64_t explore(const Kind& kind, const Program& program, const char* form, uint64_t most) {
  Tunables tunables;
  tunables.sender_rendezvous = form;
  Explorer explorer;
  uint64_t runs = 0;
  bool more = true;
  while (more && runs < most) {
    Run(explorer, kind, program, tunables).go();
    ++runs;
    if (testing::Test::HasFailure()) {
      ADD_FAILURE() << kind.name << ", sender by " << form << ", messages of " << program.bytes[0] << " and "
                    << program.bytes[1] << " into " << program.capacity[0] << " and " << program.capacity[1]
                    << ", tags " << program.tags[0] << program.tags[1] << "/" << program.receive_tags[0]
                    << program.receive_tags[1] << ", cancel " << program.cancel << ", run " << runs << ": "
                    << explorer.text();
      break;
    }
    // All of them in turn; when they prove too many, by fives here and there.
    if (runs > most / 2 && runs % 5 == 0) explorer.jump();
    else more = explorer.next();
  }
  return runs;
}

TEST(RendezvousModel, AllInterleavingsOfTwoMessages) {
  const char* wanted = std::getenv("TERN_MODEL_RUNS");
  const uint64_t most = wanted ? std::strtoull(wanted, nullptr, 10) : 400;
  constexpr size_t kSizes[] = {kSmall, kMedium, kLarge};
  uint64_t runs = 0, programs = 0;
  for (const Kind& kind : kKinds) {
    for (const char* form : {"read", "write"}) {
      for (size_t first : kSizes) {
        for (size_t second : kSizes) {
          for (int shape = 0; shape < 3; ++shape) {
            for (int cancel = -1; cancel < 2; ++cancel) {
              // The same size; more room than is needed (a small message for an announced receive); different tags.
              size_t room = shape == 1 ? 4 : 0;
              bool crossed = shape == 2;
              Program program{
                  {first, second}, {first + room, second + room}, {0, crossed ? 1 : 0}, {0, crossed ? 1 : 0}, cancel};
              if (shape != 2 && cancel >= 0) program.capacity[0] = program.capacity[1] = kLarge;
              if (crossed) {
                std::swap(program.capacity[0], program.capacity[1]);
                std::swap(program.receive_tags[0], program.receive_tags[1]);
              }
              runs += explore(kind, program, form, most);
              ++programs;
              if (testing::Test::HasFailure()) return;
            }
          }
        }
      }
    }
  }
  RecordProperty("runs", std::to_string(runs));
  std::printf("%llu interleavings of %llu programs\n", static_cast<unsigned long long>(runs),
              static_cast<unsigned long long>(programs));
}

// A receive with less room than its message, put or streamed: the head is stored, the rest is told of.
TEST(RendezvousModel, Truncation) {
  for (const Kind& kind : kKinds) {
    for (const char* form : {"read", "write"}) {
      Program program{{kLarge, kLarge}, {kMedium, kMedium - 4}, {0, 0}, {0, 0}, -1};
      explore(kind, program, form, 300);
      if (testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace tern::test
