// The change of channels (fabric/rdma/channels/channel_switches.h) as a pure model: two ranks, four messages from one
// to the other, one or two changes, and every order in which anything can happen. Channels are queues that keep their
// own order and nothing else: what was sent over one may overtake what was sent over another.
#include <gtest/gtest.h>

#include <deque>
#include <set>
#include <string>
#include <vector>

namespace tern {
namespace {

constexpr int kMessages = 4;
constexpr int kLast = 100;  ///< the stream's last frame on a channel

struct Frame {
  int what = 0;  ///< a message's number, or kLast
  int epoch = 0;
  auto operator<=>(const Frame&) const = default;
};

enum class Control { offer, accept, ready, refuse };

/// Everything that the two know, and what is under way.
struct State {
  // Sender.
  int sent = 0, out_epoch = 0, credits = 0;
  bool leaving = false, may_leave = false;
  // Receiver.
  int taken = 0, in_epoch = 0, owed = 0, changes_left = 0;
  bool changing = false;
  std::vector<Frame> held;
  // Under way: by channel (its number is its epoch), control both ways, credits.
  std::vector<std::deque<Frame>> channels;
  std::deque<Control> to_sender, to_receiver;
  std::deque<int> credit_epochs;
  auto operator<=>(const State&) const = default;
};

struct Rules {
  int window = 2;
  bool connects = true;     ///< accept and ready are needed
  bool may_refuse = false;  ///< the sender may refuse, and the receiver fail to connect
  bool shared = true;       ///< new frames are found before the last of the old channel: they must be held
  bool hold = true;         ///< false: a broken protocol, which the exploration must find
};

class Explorer {
 public:
  explicit Explorer(const Rules& rules) : rules_(rules) {}

  void run(int changes) {
    State first;
    first.credits = rules_.window;
    first.changes_left = changes;
    first.channels.resize(size_t(changes) + 1);
    std::vector<State> open = {first};
    seen.insert(first);
    while (!open.empty() && failure.empty()) {
      State state = open.back();
      open.pop_back();
      bool moved = false;
      for (const State& next : successors(state)) {
        moved = true;
        if (seen.insert(next).second) open.push_back(next);
      }
      if (moved) continue;
      ++ends;
      if (state.taken != kMessages) failure = "stuck with " + std::to_string(state.taken) + " messages taken";
      if (state.changing || state.leaving || !state.held.empty()) failure = "stuck in a change";
    }
  }

  std::set<State> seen;
  std::string failure;
  int ends = 0;

 private:
  void take(State& s, const Frame& frame) {
    if (frame.epoch != s.in_epoch) {
      failure = "a frame of another channel";
      return;
    }
    if (frame.what == kLast) {
      if (!s.changing) failure = "left unasked";
      s.changing = false;
      ++s.in_epoch;
      s.owed = 0;
      std::vector<Frame> held;
      held.swap(s.held);
      for (const Frame& later : held) take(s, later);
      return;
    }
    if (frame.what != s.taken) failure = "message " + std::to_string(frame.what) + " after " + std::to_string(s.taken);
    ++s.taken;
    if (++s.owed >= rules_.window / 2) {
      for (; s.owed != 0; --s.owed) s.credit_epochs.push_back(s.in_epoch);
    }
  }

  void arrive(State& s, const Frame& frame) {
    if (frame.epoch == s.in_epoch + 1 && s.changing && rules_.hold) {
      s.held.push_back(frame);
    } else {
      take(s, frame);
    }
  }

  std::vector<State> successors(const State& s) {
    std::vector<State> out;
    auto step = [&](auto act) {
      State next = s;
      act(next);
      out.push_back(std::move(next));
    };
    if (s.sent < kMessages && s.credits > 0) {
      step([&](State& n) {
        --n.credits;
        n.channels[size_t(n.out_epoch)].push_back({n.sent++, n.out_epoch});
      });
    }
    if (s.changes_left > 0 && !s.changing) {  // J1
      step([&](State& n) {
        --n.changes_left;
        n.changing = true;
        n.to_sender.push_back(Control::offer);
      });
    }
    if (s.may_leave && s.credits > 0) {  // J4
      step([&](State& n) {
        n.channels[size_t(n.out_epoch)].push_back({kLast, n.out_epoch});
        ++n.out_epoch;
        n.credits = rules_.window;
        n.leaving = n.may_leave = false;
      });
    }
    if (!s.to_sender.empty()) at_sender(s, step);
    if (!s.to_receiver.empty()) at_receiver(s, step);
    if (!s.credit_epochs.empty()) {
      step([&](State& n) {
        if (n.credit_epochs.front() == n.out_epoch) ++n.credits;
        n.credit_epochs.pop_front();
      });
    }
    for (size_t c = 0; c < s.channels.size(); ++c) {
      if (s.channels[c].empty()) continue;
      if (!rules_.shared && int(c) != s.in_epoch) continue;  // a ring that is not looked at yet
      step([&](State& n) {
        const Frame frame = n.channels[c].front();
        n.channels[c].pop_front();
        arrive(n, frame);
      });
    }
    return out;
  }

  template <typename Step>
  void at_sender(const State& s, Step step) {
    const Control what = s.to_sender.front();
    if (what == Control::offer && rules_.may_refuse) {
      step([&](State& n) {
        n.to_sender.pop_front();
        n.to_receiver.push_back(Control::refuse);
      });
    }
    step([&](State& n) {
      n.to_sender.pop_front();
      if (what == Control::offer) {  // J2
        if (n.leaving) failure = "an offer during a change";
        n.leaving = true;
        if (rules_.connects) n.to_receiver.push_back(Control::accept);
        else n.may_leave = true;
      } else if (what == Control::ready) {
        n.may_leave = n.leaving;
      } else {
        n.leaving = n.may_leave = false;
      }
    });
  }

  template <typename Step>
  void at_receiver(const State& s, Step step) {
    const Control what = s.to_receiver.front();
    if (what == Control::accept && rules_.may_refuse) {  // cannot connect
      step([&](State& n) {
        n.to_receiver.pop_front();
        n.changing = false;
        n.to_sender.push_back(Control::refuse);
      });
    }
    step([&](State& n) {
      n.to_receiver.pop_front();
      if (what == Control::accept) n.to_sender.push_back(Control::ready);  // J3
      else n.changing = false;
    });
  }

  const Rules rules_;
};

TEST(ChannelSwitchModel, NoOrderOfEventsLosesOrReordersAMessage) {
  size_t states = 0;
  for (int changes : {1, 2}) {
    for (int window : {1, 2, 3}) {
      for (bool connects : {false, true}) {
        for (bool may_refuse : {false, true}) {
          for (bool shared : {false, true}) {
            Explorer explorer({window, connects, may_refuse && connects, shared, true});
            explorer.run(changes);
            EXPECT_EQ(explorer.failure, "") << "changes " << changes << " window " << window << " connects " << connects
                                            << " may refuse " << may_refuse << " shared " << shared;
            EXPECT_GT(explorer.ends, 0);
            states += explorer.seen.size();
          }
        }
      }
    }
  }
  RecordProperty("states", int(states));
  EXPECT_GT(states, 10'000u);
}

TEST(ChannelSwitchModel, WithoutHoldingTheExplorationFindsAFrameThatIsTooEarly) {
  Explorer explorer({2, true, false, true, false});
  explorer.run(1);
  EXPECT_NE(explorer.failure, "");
}

}  // namespace
}  // namespace tern
