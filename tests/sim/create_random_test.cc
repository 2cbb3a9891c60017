// Random programs that make communicators from communicators, on many ranks over a network with faults. Every
// rank draws the same program and keeps the same model of who is in which communicator; ranks run apart, so
// creations overlap. Checked: members and their order, one context on all members and on no other
// communicator, the two sides of intercommunicators, and that messages through each communicator arrive.
#include <algorithm>
#include <map>
#include <stdexcept>

#include <gtest/gtest.h>

#include "coll/create/create.h"
#include "datatype/kind.h"
#include "datatype/predefined.h"
#include "sim/world.h"
#include "tests/sim/seeds.h"

namespace tern::sim {
namespace {

using Peers = std::vector<PeerId>;

/// Who is in a communicator; `right` empty: an intracommunicator.
struct Model {
  int id = 0;
  Peers left, right;
  bool inter() const { return !right.empty(); }
};

/// What the ranks found, for comparison between them: they share the test's memory.
struct Findings {
  std::map<int, uint64_t> context_of;                     ///< by model
  std::map<std::pair<int, bool>, uint64_t> side_context;  ///< of local_intra, by model and whether left
  std::map<int, bool> left_is_low;
  std::map<uint64_t, std::string> owner_of;
};

void require(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

void require_no(const Error& error) {
  if (error) throw std::runtime_error(std::string(error.text()));
}

bool has(const Peers& peers, PeerId peer) { return std::find(peers.begin(), peers.end(), peer) != peers.end(); }

class Program {
 public:
  Program(Process& process, uint64_t seed, Findings& findings)
      : process_(process),
        findings_(findings),
        rng_(seed * 31 + 7),
        me_(PeerId(process.world_rank())),
        maker_{process.environment(), types_.get(type_id::kByte), process.peers(),
               [&process] { return process.new_context(); }} {
    Peers all;
    for (int rank = 0; rank < process.world_size(); ++rank) all.push_back(PeerId(rank));
    Model world{next_id_++, all, {}};
    models_.push_back(world);
    auto same = Ref<Communicator>();
    require_no(create::duplicate(maker_, process.world(), same));
    check(world, same);
    mine_[world.id] = same;
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      step();
      if (models_.size() > 12) drop(1 + rng_.below(models_.size() - 1));
    }
    finish_pending();
  }

 private:
  struct Pending {
    Model model;
    Request* request;
    Ref<Communicator> communicator;
  };

  Peers shuffled(Peers peers) {
    for (size_t i = peers.size(); i > 1; --i) std::swap(peers[i - 1], peers[rng_.below(i)]);
    return peers;
  }
  Peers some(const Peers& from) {
    Peers chosen;
    for (PeerId peer : from)
      if (rng_.chance(2, 3)) chosen.push_back(peer);
    return chosen;
  }
  Ref<Group> group_of(const Peers& peers) { return Group::of(me_, peers); }
  bool member(const Model& model) const { return has(model.left, me_) || has(model.right, me_); }
  Communicator& at(const Model& model) { return *mine_.at(model.id); }

  /// Draws a communicator, of the kind asked for; the world when there is none.
  Model draw(bool inter) {
    std::vector<size_t> fitting;
    for (size_t i = 0; i < models_.size(); ++i)
      if (models_[i].inter() == inter) fitting.push_back(i);
    return models_[fitting.empty() ? 0 : fitting[rng_.below(fitting.size())]];
  }

  void step() {
    bool inter = rng_.chance(2, 5);
    Model parent = draw(inter);
    if (parent.inter()) {
      switch (rng_.below(4)) {
        case 0: return duplicate(parent);
        case 1: return split(parent);
        case 2: return create_inter_subset(parent);
        default: return merge(parent);
      }
    }
    switch (rng_.below(8)) {
      case 0: return duplicate(parent);
      case 1: return split(parent);
      case 2: return create_disjoint(parent);
      case 3: return create_tagged(parent);
      case 4: return create_from_group();
      case 5: return exchange(parent);
      default: return connect(parent);
    }
  }

  /// Enters a new communicator into the model; members give theirs.
  void add(Model model, Ref<Communicator> communicator) {
    model.id = next_id_++;
    if (member(model)) {
      require(bool(communicator), "a member got nothing");
      check(model, communicator);
      mine_[model.id] = communicator;
    } else {
      require(!communicator, "an outsider got a communicator");
    }
    models_.push_back(model);
  }

  void drop(size_t index) {
    mine_.erase(models_[index].id);
    models_.erase(models_.begin() + ptrdiff_t(index));
  }

  void check(const Model& model, const Ref<Communicator>& communicator) {
    bool on_left = has(model.left, me_);
    require(communicator->group().peers() == (on_left ? model.left : model.right), "wrong local group");
    require(communicator->is_inter() == model.inter(), "wrong kind");
    note(findings_.context_of, model.id, communicator->context(), "communicator " + std::to_string(model.id));
    if (model.inter()) {
      require(communicator->remote_group().peers() == (on_left ? model.right : model.left), "wrong remote group");
      require(communicator->local_intra != nullptr, "no local intracommunicator");
      require(communicator->local_intra->group().peers() == communicator->group().peers(), "wrong local_intra");
      note(findings_.side_context, std::pair(model.id, on_left), communicator->local_intra->context(),
           "side of " + std::to_string(model.id) + (on_left ? " left" : " right"));
      bool left_low = on_left == communicator->low_side;
      auto [known, fresh] = findings_.left_is_low.try_emplace(model.id, left_low);
      require(known->second == left_low, "the sides disagree which is low");
    }
    talk(model, *communicator);
  }

  template <typename Map, typename Key>
  void note(Map& map, const Key& key, uint64_t context, const std::string& owner) {
    require(map.try_emplace(key, context).first->second == context, "members have different contexts: " + owner);
    std::string& other = findings_.owner_of.try_emplace(context, owner).first->second;
    require(other == owner, owner + " has the context of " + other);
  }

  /// A message from everybody to one rank of the other side (or of the communicator), and back from there.
  void talk(const Model& model, Communicator& communicator) {
    int far = communicator.peer_group().size(), me = communicator.rank();
    std::vector<Request*> requests;
    int said = model.id * 1000 + me, heard = -1;
    auto from_me = [&](int to, const int* what) {
      requests.push_back(process_.p2p().isend(communicator.send_arguments(what, 4, maker_.byte, to, 3)));
    };
    if (!model.inter()) {
      int next = (me + 1) % far, previous = (me + far - 1) % far;
      from_me(next, &said);
      requests.push_back(process_.p2p().ireceive(communicator.receive_arguments(&heard, 4, maker_.byte, previous, 3)));
      wait(requests);
      require(heard == model.id * 1000 + previous, "a wrong message");
      return;
    }
    // Rank 0 of each side tells all of the other.
    int greeting = model.id * 1000 + 500;
    if (me == 0)
      for (int to = 0; to < far; ++to) from_me(to, &greeting);
    requests.push_back(process_.p2p().ireceive(communicator.receive_arguments(&heard, 4, maker_.byte, 0, 3)));
    wait(requests);
    require(heard == greeting, "a wrong message between the sides");
  }

  void wait(std::vector<Request*>& requests) {
    for (Request* request : requests) {
      process_.p2p().wait(*request);
      require_no(request->error);
      request->release();
    }
  }

  // --- The operations. Draws come before anything that depends on me: every rank draws the same.

  void duplicate(const Model& parent) {
    bool nonblocking = rng_.chance(2, 3), finish = rng_.chance(1, 3);
    Ref<Communicator> result;
    if (!nonblocking) {
      if (member(parent)) require_no(create::duplicate(maker_, at(parent), result));
      add(parent, result);
      return;
    }
    Model model = parent;
    model.id = next_id_++;
    if (member(parent)) {
      Request* request = create::start_duplicate(maker_, at(parent), result);
      pending_.push_back({model, request, result});
    }
    if (finish) finish_pending();
  }

  void finish_pending() {
    // In an order of this rank's own.
    if (me_ % 2) std::reverse(pending_.begin(), pending_.end());
    for (Pending& pending : pending_) {
      process_.p2p().wait(*pending.request);
      require_no(pending.request->error);
      pending.request->release();
    }
    std::sort(pending_.begin(), pending_.end(), [](auto& a, auto& b) { return a.model.id < b.model.id; });
    for (Pending& pending : pending_) check(pending.model, pending.communicator);
    pending_.clear();
  }

  void split(const Model& parent) {
    std::map<PeerId, std::pair<int64_t, int>> choice;  // colour, key
    int colors = 1 + int(rng_.below(3));
    for (const Peers* side : {&parent.left, &parent.right})
      for (PeerId peer : *side) {
        int64_t color = rng_.chance(1, 6) ? create::kNoColor : int64_t(rng_.below(uint64_t(colors))) << 33;
        choice[peer] = {color, int(rng_.below(5)) - 2};
      }
    Ref<Communicator> result;
    if (member(parent)) require_no(create::split(maker_, at(parent), choice[me_].first, choice[me_].second, result));
    auto of_color = [&](const Peers& side, int64_t color) {
      Peers chosen;
      for (PeerId peer : side)
        if (choice[peer].first == color) chosen.push_back(peer);
      std::stable_sort(chosen.begin(), chosen.end(),
                       [&](PeerId a, PeerId b) { return choice[a].second < choice[b].second; });
      return chosen;
    };
    bool placed = false;
    for (int color = 0; color < colors; ++color) {
      Model model{0, of_color(parent.left, int64_t(color) << 33), of_color(parent.right, int64_t(color) << 33)};
      if (model.left.empty() || (parent.inter() && model.right.empty())) continue;
      placed = placed || member(model);
      add(model, member(model) ? result : Ref<Communicator>());
    }
    require(placed || !result, "split gave a communicator to one who should have none");
  }

  void create_disjoint(const Model& parent) {
    Peers order = shuffled(some(parent.left));
    size_t cut = order.empty() ? 0 : rng_.below(order.size() + 1);
    Peers first(order.begin(), order.begin() + ptrdiff_t(cut)), second(order.begin() + ptrdiff_t(cut), order.end());
    Ref<Communicator> result;
    if (member(parent))
      require_no(create::create(maker_, at(parent), *group_of(has(first, me_) ? first : second), result));
    for (const Peers& group : {first, second})
      if (!group.empty()) add({0, group, {}}, has(group, me_) ? result : Ref<Communicator>());
  }

  void create_tagged(const Model& parent) {
    Peers members = shuffled(some(parent.left));
    int tag = int(rng_.below(2));
    Ref<Communicator> result;
    if (has(members, me_)) require_no(create::create_group(maker_, at(parent), *group_of(members), tag, result));
    if (!members.empty()) add({0, members, {}}, result);
  }

  void create_from_group() {
    Peers members = shuffled(some(models_[0].left));
    std::string tag = rng_.chance(1, 2) ? "org.example.a" : "org.example.b";
    Ref<Communicator> result;
    if (has(members, me_)) require_no(create::create_from_group(maker_, *group_of(members), tag, result));
    if (!members.empty()) add({0, members, {}}, result);
  }

  /// Two disjoint groups of the parent become an intercommunicator.
  void connect(const Model& parent) {
    Peers order = shuffled(parent.left);
    bool through_groups = rng_.chance(1, 2);
    if (order.size() < 2) return;
    size_t cut = 1 + rng_.below(order.size() - 1), end = cut + 1 + rng_.below(order.size() - cut);
    Model model{0, Peers(order.begin(), order.begin() + ptrdiff_t(cut)),
                Peers(order.begin() + ptrdiff_t(cut), order.begin() + ptrdiff_t(end))};
    int left_leader = int(rng_.below(model.left.size())), right_leader = int(rng_.below(model.right.size()));
    int tag = int(rng_.below(3));
    bool on_left = has(model.left, me_);
    const Peers& near = on_left ? model.left : model.right;
    const Peers& far = on_left ? model.right : model.left;
    int leader = on_left ? left_leader : right_leader, far_leader = on_left ? right_leader : left_leader;
    bool leading = member(model) && near[size_t(leader)] == me_;
    Ref<Communicator> result;
    if (through_groups) {
      if (member(model)) {
        Ref<Group> remote = group_of(far);
        require_no(create::create_inter_from_groups(maker_, *group_of(near), leader, leading ? remote.get() : nullptr,
                                                    far_leader, "tag", result));
      }
    } else {
      Ref<Communicator> side;
      if (member(parent))
        require_no(create::create(maker_, at(parent), *group_of(member(model) ? near : Peers()), side));
      if (member(model)) {
        int far_rank = at(parent).group().rank_of(far[size_t(far_leader)]);
        require_no(create::create_inter(maker_, *side, leader, leading ? &at(parent) : nullptr, far_rank, tag, result));
      }
    }
    add(model, result);
  }

  void create_inter_subset(const Model& parent) {
    Model model{0, shuffled(some(parent.left)), shuffled(some(parent.right))};
    Ref<Communicator> result;
    if (member(parent)) {
      const Peers& near = has(parent.left, me_) ? model.left : model.right;
      require_no(create::create(maker_, at(parent), *group_of(near), result));
    }
    if (model.left.empty() || model.right.empty()) require(!result, "a communicator with one side");
    else add(model, result);
  }

  void merge(const Model& parent) {
    bool left_high = rng_.chance(1, 2), right_high = rng_.chance(1, 2);
    Ref<Communicator> result;
    if (member(parent))
      require_no(create::merge(maker_, at(parent), has(parent.left, me_) ? left_high : right_high, result));
    // With equal words the low side comes first.
    bool left_first = right_high;
    if (left_high == right_high) {
      // Ranks outside cannot know it: this communicator does not enter the model.
      if (member(parent)) left_first = has(parent.left, me_) == at(parent).low_side;
      Model model{next_id_++, left_first ? parent.left : parent.right, {}};
      const Peers& rest = left_first ? parent.right : parent.left;
      model.left.insert(model.left.end(), rest.begin(), rest.end());
      if (member(parent)) check(model, result);
      return;
    }
    Model model{0, left_first ? parent.left : parent.right, {}};
    const Peers& rest = left_first ? parent.right : parent.left;
    model.left.insert(model.left.end(), rest.begin(), rest.end());
    add(model, result);
  }

  void exchange(const Model& parent) {
    uint64_t base = rng_.next();
    if (!member(parent)) return;
    Communicator& communicator = at(parent);
    int n = communicator.size(), me = communicator.rank();
    auto row = [&](int from, int to) {
      Rng words(base + uint64_t(from * 1000 + to));
      create::Words drawn(words.chance(1, 2) ? 0 : words.below(300));
      for (uint64_t& word : drawn) word = words.next();
      return drawn;
    };
    std::vector<create::Words> outgoing, incoming;
    for (int to = 0; to < n; ++to) outgoing.push_back(row(me, to));
    require_no(create::exchange_all(maker_, communicator, outgoing, incoming));
    for (int from = 0; from < n; ++from) require(incoming[size_t(from)] == row(from, me), "wrong row in exchange_all");
  }

  Process& process_;
  Findings& findings_;
  Rng rng_;
  PeerId me_;
  PredefinedTypes types_;
  create::Maker maker_;
  int next_id_ = 0;
  std::vector<Model> models_;
  std::map<int, Ref<Communicator>> mine_;
  std::vector<Pending> pending_;
};

WorldOptions options_for(uint64_t seed) {
  Rng rng(seed);
  WorldOptions options;
  options.ranks = uint32_t(1 + rng.below(13));
  options.ranks_per_node = uint32_t(1 + rng.below(4));
  options.seed = seed;
  options.faults = Faults::random(rng);
  options.network.eager_bytes = size_t(64) << rng.below(6);
  options.network.packet_bytes = options.network.eager_bytes;
  return options;
}

TEST(Creation, RandomProgramsAgreeWithTheModel) {
  for_seeds(300, [](uint64_t seed) {
    Findings findings;
    WorldOptions options = options_for(seed);
    Report report = World(options).run([&](Process& process) { Program(process, seed, findings).run(25); });
    ASSERT_TRUE(report.ok()) << options.ranks << " ranks: " << report.failure;
  });
}

TEST(Creation, TheSameSeedGivesTheSameRun) {
  for_seeds(5, [](uint64_t seed) {
    uint64_t hashes[2];
    for (uint64_t& hash : hashes) {
      Findings findings;
      Report report = World(options_for(seed)).run([&](Process& process) { Program(process, seed, findings).run(15); });
      ASSERT_TRUE(report.ok()) << report.failure;
      hash = report.trace_hash;
    }
    ASSERT_EQ(hashes[0], hashes[1]);
  });
}

TEST(Creation, OverlappingGroupsAreRefusedOnBothSides) {
  WorldOptions options;
  options.ranks = 3;
  Report report = World(options).run([](Process& process) {
    PredefinedTypes types;
    create::Maker maker{process.environment(), types.get(type_id::kByte), process.peers(),
                        [&process] { return process.new_context(); }};
    // Sides {0, 1} and {1, 2} meet through their leaders 0 and 2; rank 1 is in both and sees one of them
    // only.
    Ref<Communicator> left, right, result;
    PeerId me = PeerId(process.world_rank());
    Ref<Group> left_group = Group::of(me, {0, 1}), right_group = Group::of(me, {2, 1});
    if (me <= 1) require_no(create::create_group(maker, process.world(), *left_group, 0, left));
    if (me >= 1) require_no(create::create_group(maker, process.world(), *right_group, 0, right));
    auto connect = [&](Communicator& side, Communicator* peer, int far) {
      Error error = create::create_inter(maker, side, 0, peer, far, 9, result);
      require(error.error_class() == int(ErrorClass::comm) && !result, "the overlap was not refused");
    };
    if (left) connect(*left, me == 0 ? &process.world() : nullptr, 2);
    if (right) connect(*right, me == 2 ? &process.world() : nullptr, 0);
  });
  ASSERT_TRUE(report.ok()) << report.failure;
}

}  // namespace
}  // namespace tern::sim
