// The hand-over between tuple queues and the lane (p2p/tuples/tuples.h), both ways, as a model whose states are all
// visited: one sender, one receiver, two tags, three messages, received by name and by wildcard in every order that can
// end.
//
// The model has the protocol's messages and both ranks' states, and lets everything that can happen next happen in any
// order: the sender asks for queues and ends them whenever it likes; data in a queue lands whenever a buffer is there;
// either rank sees what has landed at any later time. It must always end, with the one matching that MPI allows (one
// sender: messages and receives both prefer the earlier one, so it is unique), whatever went which way.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <string>
#include <unordered_set>
#include <vector>

namespace tern {
namespace {

constexpr int kAny = 9;
constexpr int kNone = -1;
constexpr size_t kMaxQueues = 2;  // ever made
constexpr int kMaxEnds = 1;       // by the sender's own wish

struct Program {
  std::vector<int> sends, receives;  // tags
};

bool fits(int wanted, int tag) { return wanted == kAny || wanted == tag; }

std::vector<int> expected(const Program& program) {
  std::vector<int> got(program.receives.size(), kNone);
  std::vector<bool> taken(program.sends.size());
  for (size_t r = 0; r < got.size(); ++r) {
    for (size_t m = 0; m < taken.size(); ++m) {
      if (taken[m] || !fits(program.receives[r], program.sends[m])) continue;
      taken[m] = true;
      got[r] = int(m);
      break;
    }
  }
  return got;
}

struct Note {
  enum Kind : int { message, ask, begin, owed, stopped, answer, stop } kind;
  int queue = kNone, id = kNone, index = 0, position = 0, count = 0;
};

struct Owed {
  int id = kNone;       // kNone: its size is not known yet
  int receive = kNone;  // kNone: waits
  bool posted = false;
};

struct Queue {
  enum S : int { asked, open, closing, refused } s = asked;
  enum R : int { nothing, accepted, live, draining, closed } r = nothing;
  int tag = 0;
  bool stopping = false, holds = false;
  int sent = 0, acked = 0, landed = 0, end = 0;
  std::deque<int> wire;         // in the adapter, for want of a buffer
  std::deque<int> buffers;      // receives in the queue; kNone: a buffer of an owed message
  std::vector<int> landed_ids;  // by the adapter, not yet seen by the receiver
  std::vector<Note> envelopes;  // the sender's, of all that it has sent
  std::deque<Owed> owed;
};

struct Waiting {
  int id, tag, position, order, queue;  // queue: kNone: here
};

struct State {
  size_t next_send = 0, next_receive = 0;
  int lane_sent = 0, queue_sent = 0, ends = 0;
  std::deque<Note> there, back;
  std::vector<Queue> queues;
  // The receiver.
  int arrived = 0, holding = 0;
  std::vector<int> got;
  std::vector<int> posted;  // receives in Matching, in order
  std::deque<int> held;
  std::vector<Waiting> waiting;

  std::string key() const {
    std::string k;
    auto put = [&](int v) { k += char(v + 40); };
    auto all = [&](const auto& list) {
      put(int(list.size()));
      for (int v : list) put(v);
    };
    put(int(next_send)), put(int(next_receive)), put(lane_sent), put(queue_sent), put(ends), put(arrived), put(holding);
    for (const auto* list : {&there, &back}) {
      put(int(list->size()));
      for (const Note& n : *list) put(n.kind), put(n.queue), put(n.id), put(n.index), put(n.position), put(n.count);
    }
    for (const Queue& q : queues) {
      put(100), put(q.s), put(q.r), put(q.tag), put(q.stopping), put(q.holds), put(q.sent), put(q.acked);
      put(q.landed), put(q.end);
      all(q.wire), all(q.buffers), all(q.landed_ids);
      put(int(q.envelopes.size()));
      for (const Note& n : q.envelopes) put(n.id), put(n.position), put(n.count);
      put(int(q.owed.size()));
      for (const Owed& o : q.owed) put(o.id), put(o.receive), put(o.posted);
    }
    all(got), all(posted), all(held);
    for (const Waiting& w : waiting) put(w.id), put(w.position), put(w.order), put(w.queue);
    return k;
  }
};

class Model {
 public:
  explicit Model(const Program& program) : program_(program), expected_(expected(program)) {}

  void explore() {
    State first;
    first.got.assign(program_.receives.size(), kNone);
    visit(first);
    while (!pending_.empty() && !testing::Test::HasFailure()) {
      State state = std::move(pending_.back());
      pending_.pop_back();
      bool moved = step(state);
      if (!moved) check(state);
    }
  }
  size_t states() const { return seen_.size(); }
  size_t by_queue = 0, reopened = 0, unseen = 0;  // final states that had such messages

 private:
  void visit(const State& state) {
    if (seen_.insert(state.key()).second) pending_.push_back(state);
  }

  void check(const State& state) {
    std::string what = describe(state);
    ASSERT_EQ(state.got, expected_) << what;
    ASSERT_TRUE(state.held.empty() && state.posted.empty() && state.waiting.empty()) << what;
    for (const Queue& q : state.queues) ASSERT_TRUE(q.wire.empty()) << what;
    by_queue += state.queue_sent != 0;
    reopened += state.queues.size() > 1;
  }
  std::string describe(const State& state) const {
    std::string text = "sends";
    for (int tag : program_.sends) text += " " + std::to_string(tag);
    text += ", receives";
    for (int tag : program_.receives) text += " " + std::to_string(tag);
    text += "; got";
    for (int id : state.got) text += " " + std::to_string(id);
    for (const Queue& q : state.queues)
      text += "; queue of " + std::to_string(q.tag) + " s " + std::to_string(q.s) + " r " + std::to_string(q.r);
    return text;
  }

  // Everything that can happen next; false: nothing.
  bool step(const State& now) {
    bool moved = false;
    auto branch = [&](auto&& change) {
      State next = now;
      change(next);
      visit(next);
      moved = true;
    };
    if (now.next_send < program_.sends.size()) branch([&](State& s) { send(s); });
    if (now.next_receive < program_.receives.size()) {
      branch([&](State& s) {
        int receive = int(s.next_receive++);
        begin(s, receive, false);
      });
    }
    if (!now.there.empty()) branch([&](State& s) { arrive(s); });
    if (!now.back.empty()) branch([&](State& s) { hear(s); });
    for (int tag = 0; tag < 2; ++tag) {
      if (now.queues.size() < kMaxQueues && current(now, tag) == kNone && now.next_send < program_.sends.size())
        branch([&](State& s) { ask(s, tag); });
    }
    for (size_t i = 0; i < now.queues.size(); ++i) {
      const Queue& q = now.queues[i];
      if (q.s == Queue::open && now.ends < kMaxEnds) {
        branch([&](State& s) {
          ++s.ends;
          end(s, int(i));
        });
      }
      if (!q.wire.empty() && !q.buffers.empty()) {
        branch([&](State& s) {
          Queue& queue = s.queues[i];
          queue.landed_ids.push_back(queue.wire.front());
          queue.wire.pop_front();
          queue.buffers.pop_front();
        });
      }
      // The sender hears of what has landed.
      if (q.acked < q.sent - int(q.wire.size())) branch([&](State& s) { ++s.queues[i].acked; });
      if (!q.landed_ids.empty()) branch([&](State& s) { see(s, int(i)); });
    }
    return moved;
  }

  // --- The sender
  static int current(const State& s, int tag) {
    for (size_t i = 0; i < s.queues.size(); ++i) {
      const Queue& q = s.queues[i];
      if (q.tag == tag && (q.s == Queue::asked || q.s == Queue::open)) return int(i);
    }
    return kNone;
  }
  void send(State& s) {
    int id = int(s.next_send++), at = current(s, program_.sends[size_t(id)]);
    if (at != kNone && s.queues[size_t(at)].s == Queue::open) {
      Queue& q = s.queues[size_t(at)];
      ++q.sent;
      q.wire.push_back(id);
      q.envelopes.push_back({Note::owed, at, id, 0, s.lane_sent, s.queue_sent++});
      return;
    }
    ++s.lane_sent;
    s.there.push_back({Note::message, kNone, id});
  }
  void ask(State& s, int tag) {
    Queue q;
    q.tag = tag;
    s.queues.push_back(q);
    s.there.push_back({Note::ask, int(s.queues.size()) - 1});
  }
  void end(State& s, int at) {
    Queue& q = s.queues[size_t(at)];
    q.s = Queue::closing;
    for (int index = q.acked; index < q.sent; ++index) {
      Note envelope = q.envelopes[size_t(index)];
      envelope.index = index;
      s.there.push_back(envelope);
    }
    q.envelopes.clear();
    s.there.push_back({Note::stopped, at, kNone, 0, 0, q.sent});
  }
  void hear(State& s) {
    Note note = s.back.front();
    s.back.pop_front();
    Queue& q = s.queues[size_t(note.queue)];
    if (note.kind == Note::answer) {
      q.s = note.count ? Queue::open : Queue::refused;
      if (note.count) s.there.push_back({Note::begin, note.queue});
    } else if (q.s == Queue::open) {
      end(s, note.queue);
    }
  }

  // --- The receiver
  void arrive(State& s) {
    Note note = s.there.front();
    s.there.pop_front();
    switch (note.kind) {
      case Note::message: {
        ++s.arrived;
        int tag = program_.sends[size_t(note.id)];
        int receive = match(s, tag);
        if (receive != kNone) s.got[size_t(receive)] = note.id;
        else wait(s, {note.id, tag, s.arrived, -1, kNone});
        return;
      }
      case Note::ask: {
        Queue& q = s.queues[size_t(note.queue)];
        bool wild = s.holding != 0 || !s.held.empty();
        for (int r : s.posted) wild |= program_.receives[size_t(r)] == kAny;
        for (size_t i = 0; i < s.queues.size(); ++i)
          wild |= s.queues[i].tag == q.tag && (s.queues[i].r == Queue::accepted || s.queues[i].r == Queue::live);
        if (!wild) q.r = Queue::accepted;
        s.back.push_back({Note::answer, note.queue, kNone, 0, 0, wild ? 0 : 1});
        return;
      }
      case Note::begin: {
        Queue& q = s.queues[size_t(note.queue)];
        if (q.r != Queue::accepted || q.stopping) return;
        q.r = Queue::live;
        for (int r : s.posted) {
          if (program_.receives[size_t(r)] == q.tag) q.buffers.push_back(r);
        }
        return;
      }
      case Note::owed:
      case Note::stopped: break;
      default: FAIL();
    }
    // Envelopes come right before `stopped`: taken together.
    std::vector<Note> envelopes;
    int queue = note.queue;
    while (note.kind == Note::owed) {
      envelopes.push_back(note);
      note = s.there.front();
      s.there.pop_front();
    }
    stopped(s, queue, envelopes, note.count);
  }
  void wait(State& s, const Waiting& w) {
    auto later = [&](const Waiting& other) {
      if (w.order < 0) return false;  // over the lane: the last
      return other.order >= 0 ? other.order > w.order : other.position > w.position;
    };
    s.waiting.insert(std::find_if(s.waiting.begin(), s.waiting.end(), later), w);
  }
  int match(State& s, int tag) {
    auto found =
        std::find_if(s.posted.begin(), s.posted.end(), [&](int r) { return fits(program_.receives[size_t(r)], tag); });
    if (found == s.posted.end()) return kNone;
    int receive = *found;
    s.posted.erase(found);
    return receive;
  }
  void begin(State& s, int receive, bool released) {
    int wanted = program_.receives[size_t(receive)];
    bool behind = s.holding != 0 || (!s.held.empty() && !released);
    if (!behind && wanted == kAny) {
      for (size_t i = 0; i < s.queues.size(); ++i) {
        Queue& q = s.queues[i];
        if (q.r != Queue::accepted && q.r != Queue::live) continue;
        if (!q.stopping) s.back.push_back({Note::stop, int(i)});
        q.stopping = true;
        if (!q.holds) ++s.holding;
        q.holds = true;
      }
      behind = s.holding != 0;
    }
    if (behind) {
      if (released) s.held.push_front(receive);
      else s.held.push_back(receive);
      return;
    }
    for (auto w = s.waiting.begin(); w != s.waiting.end(); ++w) {
      if (!fits(wanted, w->tag)) continue;
      Waiting message = *w;
      s.waiting.erase(w);
      if (message.queue == kNone) {
        s.got[size_t(receive)] = message.id;
      } else {
        for (Owed& o : s.queues[size_t(message.queue)].owed) {
          if (o.id == message.id) o.receive = receive;
        }
        land(s.queues[size_t(message.queue)]);
      }
      return;
    }
    s.posted.push_back(receive);
    for (Queue& q : s.queues) {
      if (q.r == Queue::live && q.tag == wanted) q.buffers.push_back(receive);
    }
  }
  void stopped(State& s, int at, const std::vector<Note>& envelopes, int sent) {
    Queue& q = s.queues[size_t(at)];
    q.end = sent;
    size_t next = 0;
    while (next < envelopes.size() && envelopes[next].index < q.landed) ++next;
    // Receives whose buffers are, or were until their landing was to be seen, in the queue.
    std::vector<int> inside;
    for (int r : s.posted) {
      if (q.r == Queue::live && program_.receives[size_t(r)] == q.tag) inside.push_back(r);
    }
    for (int index = q.landed; index < sent; ++index) {
      bool known = next < envelopes.size() && envelopes[next].index == index;
      bool buffer = size_t(index - q.landed) < inside.size();
      ASSERT_TRUE(known || buffer);
      Owed owed;
      owed.id = known ? envelopes[next].id : kNone;
      owed.posted = buffer;
      unseen += !known;
      if (buffer) {
        owed.receive = inside[size_t(index - q.landed)];
        std::erase(s.posted, owed.receive);
      } else {
        owed.receive = match(s, q.tag);
      }
      q.owed.push_back(owed);
      if (owed.receive == kNone) wait(s, {owed.id, q.tag, envelopes[next].position, envelopes[next].count, at});
      next += known;
    }
    q.r = Queue::draining;
    if (q.holds) --s.holding;
    land(q);
    close(q);
    while (s.holding == 0 && !s.held.empty()) {
      int receive = s.held.front();
      s.held.pop_front();
      begin(s, receive, true);
    }
  }
  static void land(Queue& q) {
    for (Owed& o : q.owed) {
      if (o.posted) continue;
      if (o.receive == kNone) return;
      o.posted = true;
      q.buffers.push_back(kNone);
    }
  }
  static void close(Queue& q) {
    if (q.r != Queue::draining || q.landed != q.end) return;
    q.r = Queue::closed;
    q.buffers.clear();
  }
  // The receiver sees the oldest message that has landed.
  void see(State& s, int at) {
    Queue& q = s.queues[size_t(at)];
    int id = q.landed_ids.front();
    q.landed_ids.erase(q.landed_ids.begin());
    ++q.landed;
    if (q.r == Queue::draining) {
      Owed owed = q.owed.front();
      q.owed.pop_front();
      ASSERT_TRUE(owed.posted && (owed.id == kNone || owed.id == id));
      s.got[size_t(owed.receive)] = id;
      land(q);
      close(q);
      return;
    }
    ASSERT_EQ(q.r, Queue::live);
    int receive = kNone;
    for (int r : s.posted) {
      if (receive == kNone && program_.receives[size_t(r)] == q.tag) receive = r;
    }
    ASSERT_NE(receive, kNone);
    std::erase(s.posted, receive);
    s.got[size_t(receive)] = id;
  }

  const Program program_;
  const std::vector<int> expected_;
  std::unordered_set<std::string> seen_;
  std::vector<State> pending_;
};

TEST(TupleModel, EveryHandOverOfThreeMessagesWithTwoTags) {
  size_t programs = 0, states = 0, by_queue = 0, reopened = 0, unseen = 0;
  for (int sends = 0; sends < 8; sends += 2) {  // the first of tag 0: the tags are alike
    for (int receives = 0; receives < 27; ++receives) {
      Program program;
      for (int i = 0, s = sends, r = receives; i < 3; ++i, s /= 2, r /= 3) {
        program.sends.push_back(s % 2);
        program.receives.push_back(r % 3 == 2 ? kAny : r % 3);
      }
      const std::vector<int> wanted = expected(program);
      if (std::count(wanted.begin(), wanted.end(), kNone) != 0) continue;
      Model model(program);
      model.explore();
      ASSERT_FALSE(HasFailure());
      ++programs;
      states += model.states();
      by_queue += model.by_queue;
      reopened += model.reopened;
      unseen += model.unseen;
    }
  }
  std::printf(
      "%zu programs, %zu states; ends with messages by queue %zu, with a second queue %zu, unseen landings %zu\n",
      programs, states, by_queue, reopened, unseen);
  EXPECT_GT(states, 100'000u);
  EXPECT_GT(by_queue, 1000u);
  EXPECT_GT(reopened, 1000u);
  EXPECT_GT(unseen, 100u);
}

}  // namespace
}  // namespace tern
