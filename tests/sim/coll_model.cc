#include <gtest/gtest.h>

#include <algorithm>

#include "tests/sim/coll_model.h"

namespace tern::sim {

void Participant::fill() {
  Side& send = operands_.send;
  Side& receive = operands_.receive;
  Operation op = plan_.operation;
  Count units = plan_.count;
  int root_world = plan_.root;
  if (plan_.inter() && !plan_.root_left) root_world += plan_.left;
  operands_.root = plan_.root;
  if (plan_.inter()) {
    bool same_group = plan_.root_left == (me_ < plan_.left);
    if (me_ == root_world) operands_.root = kRoot;
    else if (same_group) operands_.root = kProcNull;
  }
  if (plan_.reduces()) {
    fill_reduction(root_world);
  } else if (op == Operation::bcast || op == Operation::gather || op == Operation::gatherv ||
             op == Operation::scatter || op == Operation::scatterv) {
    fill_rooted(root_world);
  } else if (op != Operation::barrier) {
    bool to_all = op == Operation::allgather || op == Operation::allgatherv;
    bool alike = op == Operation::allgather || op == Operation::alltoall;
    bool general = op == Operation::alltoallw;
    operands_.in_place = plan_.in_place;
    // Units from a process to another. In place, what comes back is as long as what goes.
    auto between = [&](int from, int to) {
      if (alike) return units;
      if (to_all) return plan_.units(from, 0);
      return plan_.in_place ? plan_.units(std::min(from, to), std::max(from, to)) : plan_.units(from, to);
    };
    if (alike) {
      uniform(receive, receive_, draw_type(), units, peer_size_);
    } else {
      various(receive, receive_, draw_type(), peer_size_, general, Who::receive,
              [&](int i) { return between(peer_first_ + i, me_); });
    }
    auto outgoing = [&](int i) {
      int to = peer_first_ + i;
      return stream(me_, to_all ? 0 : to, between(me_, to));
    };
    if (plan_.in_place) {
      for (int i = 0; i < peer_size_; ++i) {
        if (!to_all) store(receive_, receive, i, outgoing(i));
        else if (i == me_) store(receive_, receive, i, stream(me_, 0, between(me_, me_)));
      }
    } else if (to_all) {
      uniform(send, send_, draw_type(), between(me_, 0), 1);
      store(send_, send, 0, stream(me_, 0, between(me_, 0)));
    } else {
      if (alike) {
        uniform(send, send_, draw_type(), units, peer_size_);
      } else {
        various(send, send_, draw_type(), peer_size_, general, Who::send,
                [&](int i) { return between(me_, peer_first_ + i); });
      }
      for (int i = 0; i < peer_size_; ++i) store(send_, send, i, outgoing(i));
    }
    expect_after_filling();
    for (int i = 0; i < peer_size_; ++i) {
      int from = peer_first_ + i;
      expect(i, stream(from, to_all ? 0 : me_, between(from, me_)));
    }
  }
  send_before_ = send_.data;
  receive_before_ = receive_.data;
}

void Participant::fill_rooted(int root_world) {
  Side& send = operands_.send;
  Side& receive = operands_.receive;
  Operation op = plan_.operation;
  bool is_root = me_ == root_world;
  if (operands_.root == kProcNull) return;
  // The root's blocks are those of its peers: on an intercommunicator the other group.
  bool alike = op == Operation::gather || op == Operation::scatter;
  auto length = [&](int other) { return alike ? plan_.count : plan_.units(other, 0); };
  auto peers_side = [&](Side& side, Memory& memory, Who who) {
    if (alike) {
      uniform(side, memory, draw_type(), plan_.count, peer_size_);
    } else {
      various(side, memory, draw_type(), peer_size_, false, who, [&](int i) { return length(peer_first_ + i); });
    }
  };
  bool has_leaf_part = !is_root || !plan_.inter();
  if (op == Operation::bcast) {
    uniform(receive, receive_, draw_type(), plan_.count, 1);
    if (is_root) store(receive_, receive, 0, stream(root_world, 0, plan_.count));
    expect_after_filling();
    expect(0, stream(root_world, 0, plan_.count));
  } else if (op == Operation::gather || op == Operation::gatherv) {
    bool in_place = plan_.in_place && is_root;
    operands_.in_place = in_place;
    if (has_leaf_part && !in_place) {
      uniform(send, send_, draw_type(), length(me_), 1);
      store(send_, send, 0, stream(me_, 0, length(me_)));
    }
    if (!is_root) return;
    peers_side(receive, receive_, Who::receive);
    if (in_place) store(receive_, receive, me_, stream(me_, 0, length(me_)));
    expect_after_filling();
    for (int i = 0; i < peer_size_; ++i) expect(i, stream(peer_first_ + i, 0, length(peer_first_ + i)));
  } else {
    bool in_place = plan_.in_place && is_root;
    operands_.in_place = in_place;
    if (is_root) {
      peers_side(send, send_, Who::send);
      for (int i = 0; i < peer_size_; ++i)
        store(send_, send, i, stream(root_world, peer_first_ + i, length(peer_first_ + i)));
    }
    if (has_leaf_part && !in_place) {
      uniform(receive, receive_, draw_type(), length(me_), 1);
      expect_after_filling();
      expect(0, stream(root_world, me_, length(me_)));
    }
  }
}

void Participant::fill_reduction(int root_world) {
  Side& send = operands_.send;
  Side& receive = operands_.receive;
  Operation op = plan_.operation;
  bool is_root = me_ == root_world;
  if (op == Operation::reduce && operands_.root == kProcNull) return;
  make_op();
  Count vector = plan_.count;  // units that everyone brings
  if (op == Operation::reduce_scatter_block) {
    // Both groups must bring equally much: per member, the other group's size times a bit.
    Count each = plan_.inter() ? Count(peer_size_) * (plan_.count % 7) : plan_.count;
    uniform(receive, receive_, plan_.reduction_type, each, group_size_);
    vector = each * group_size_;
  } else if (op == Operation::reduce_scatter) {
    // The vector cut at drawn places.
    std::vector<Count> cuts{0, plan_.count};
    for (int i = 1; i < group_size_; ++i) {
      cuts.push_back(
          Count(Rng(plan_.seed + uint64_t(i) * 77 + uint64_t(group_first_)).below(uint64_t(plan_.count) + 1)));
    }
    std::sort(cuts.begin(), cuts.end());
    various(receive, receive_, plan_.reduction_type, group_size_, false, Who::receive,
            [&](int i) { return cuts[size_t(i) + 1] - cuts[size_t(i)]; });
    receive_.reserve(size_t(ModelTypes::elements(plan_.reduction_type, plan_.count) * receive.type->extent()));
  } else {
    uniform(receive, receive_, plan_.reduction_type, plan_.count, 1);
  }
  operands_.in_place = plan_.in_place && (op != Operation::reduce || is_root);
  uniform(send, send_, plan_.reduction_type, vector, 1);
  Bytes mine = stream(me_, 0, vector);
  if (operands_.in_place) {
    Side whole = send;
    whole.buffer = nullptr;
    store(receive_, whole, 0, mine);
  } else {
    store(send_, send, 0, mine);
  }
  expect_after_filling();
  int first = peer_first_, last = peer_first_ + peer_size_ - 1;
  if (op == Operation::reduce) {
    if (is_root) expect(0, reduced(first, last, vector));
  } else if (op == Operation::allreduce) {
    expect(0, reduced(first, last, vector));
  } else if (op == Operation::scan) {
    expect(0, reduced(0, me_, vector));
  } else if (op == Operation::exscan) {
    if (me_ > 0) expect(0, reduced(0, me_ - 1, vector));
  } else {
    Bytes whole = reduced(first, last, vector);
    int rank = me_ - group_first_;
    Count begin = 0, length = receive.count;
    if (op == Operation::reduce_scatter) {
      for (int i = 0; i < rank; ++i) begin += receive.counts[i];
      length = receive.counts[rank];
    } else {
      begin = rank * receive.count;
    }
    size_t element_bytes = size_t(receive.type->size());
    Bytes part(whole.begin() + begin * Count(element_bytes), whole.begin() + (begin + length) * Count(element_bytes));
    // In place, what follows the own block may have any value.
    Memory memory{expected_};
    if (length != 0) Cursor(memory.base(), length, *receive.type).unpack(part.data(), part.size());
    expected_ = std::move(memory.data);
  }
}

}  // namespace tern::sim
