// What a scheduler of several paths keeps until the peer has it, and what it tells the peer.
#include "fabric/scheduler/unconfirmed.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fabric/scheduler/arrival_count.h"

namespace tern::scheduler {
namespace {

struct OnlyLane final : Lane {
  using Lane::Lane;
};

struct UnconfirmedTest : testing::Test {
  static SendOperation operation(const std::string& text) {
    SendOperation made;
    made.total_bytes = text.size();
    made.payload = Cursor::bytes(const_cast<char*>(text.data()), text.size());
    return made;
  }
  static std::string text_of(const SendOperation& carried) {
    Cursor payload = carried.payload;
    std::string text(payload.remaining(), '\0');
    payload.pack(reinterpret_cast<std::byte*>(text.data()), text.size());
    return text;
  }
  static void path_is_done(SendOperation& carried, Error error = Error()) { carried.done(carried, std::move(error)); }
  std::vector<SendOperation*> finished() {
    std::vector<SendOperation*> all;
    while (SendOperation* one = shared.finished.pop_front()) all.push_back(one);
    return all;
  }

  PollHints hints{.dormant = true};
  int times_returned = 0;
  Unconfirmed::Shared shared{.hints = hints, .returned = [this](Lane&) { ++times_returned; }};
  OnlyLane lane{PeerId(1)};
  Unconfirmed messages{lane, shared};
};

TEST_F(UnconfirmedTest, AShortOperationCompletesAsACopyWhenItsPathHasTakenIt) {
  std::string text = "short";
  SendOperation user = operation(text);
  SendOperation& carried = messages.add(user);
  EXPECT_EQ(text_of(carried), "short");
  EXPECT_EQ(messages.in_paths(), 1u);
  EXPECT_TRUE(finished().empty());
  path_is_done(carried);
  EXPECT_EQ(finished(), std::vector{&user});
  EXPECT_FALSE(hints.dormant);
  EXPECT_EQ(times_returned, 1);
  text = "other";  // the user's memory is free
  std::vector<std::string> again;
  messages.repeat([&](SendOperation& operation) { again.push_back(text_of(operation)); });
  EXPECT_EQ(again, std::vector<std::string>{"short"});
}

TEST_F(UnconfirmedTest, ALongOperationCompletesWhenThePeerHasIt) {
  const std::string text(Unconfirmed::kCopyBytes + 1, 'x');
  SendOperation user = operation(text);
  SendOperation& carried = messages.add(user);
  messages.confirm(1);
  EXPECT_TRUE(finished().empty()) << "its path still reads the memory";
  path_is_done(carried);
  EXPECT_EQ(finished(), std::vector{&user});
  EXPECT_EQ(shared.held, 0u);
}

TEST_F(UnconfirmedTest, WhatThePeerDoesNotHaveIsRepeatedInOrder) {
  const wire::Header header{};
  messages.add_copy(header, "first", 5);
  messages.add_copy(header, "second", 6);
  const std::string text(Unconfirmed::kCopyBytes + 1, 'x');
  SendOperation user = operation(text);
  path_is_done(messages.add(user), Error(ErrorClass::proc_aborted, "the lane is lost"));
  EXPECT_TRUE(finished().empty());
  messages.confirm_up_to(1);
  std::vector<size_t> sizes;
  messages.repeat([&](SendOperation& operation) { sizes.push_back(text_of(operation).size()); });
  EXPECT_EQ(sizes, (std::vector<size_t>{6, text.size()}));
}

TEST_F(UnconfirmedTest, CopiesAreBounded) {
  const std::string text(Unconfirmed::kCopyBytes, 'x');
  size_t added = 0;
  for (; messages.has_room(text.size()); added += text.size()) messages.add_copy({}, text.data(), text.size());
  EXPECT_EQ(added, Unconfirmed::kMaxCopiedBytes);
  SendOperation user = operation(text);
  path_is_done(messages.add(user));
  EXPECT_TRUE(finished().empty()) << "it has to keep the user's memory";
  messages.confirm(added / text.size());
  EXPECT_TRUE(messages.has_room(text.size()));
  messages.confirm(1);
  EXPECT_EQ(finished(), std::vector{&user});
}

TEST_F(UnconfirmedTest, ALostPeerGivesOperationsBackAndNothingElse) {
  messages.add_copy({}, "copied", 6);
  const std::string text(Unconfirmed::kCopyBytes + 1, 'x');
  SendOperation user = operation(text);
  SendOperation& carried = messages.add(user);
  IntrusiveList<SendOperation> failed;
  messages.surrender(failed);
  EXPECT_EQ(failed.pop_front(), &user);
  EXPECT_TRUE(failed.empty());
  path_is_done(carried, Error(ErrorClass::proc_aborted, "lost"));
  EXPECT_TRUE(finished().empty());
  EXPECT_EQ(messages.in_paths(), 0u);
}

TEST(ArrivalCount, EveryMessageIsToldOnce) {
  ArrivalCount arrivals;
  for (int i = 0; i < 40; ++i) EXPECT_FALSE(arrivals.count(8));
  const uint8_t first = arrivals.take_confirmation();
  EXPECT_EQ(first >> wire::kConfirmShift, wire::kMaxConfirmed);
  arrivals.give_back(first);
  EXPECT_EQ(arrivals.take_confirmation(), first);
  EXPECT_EQ(arrivals.take_confirmation() >> wire::kConfirmShift, 40 - wire::kMaxConfirmed);
  EXPECT_TRUE(arrivals.all_told());
  EXPECT_EQ(arrivals.take_confirmation(), 0);
}

TEST(ArrivalCount, ManyBytesOrALongMessageAreConfirmedSoon) {
  ArrivalCount arrivals;
  EXPECT_TRUE(arrivals.count(Unconfirmed::kCopyBytes + 1));
  arrivals.tell_all();
  size_t bytes = 0;
  while (!arrivals.count(Unconfirmed::kCopyBytes)) bytes += Unconfirmed::kCopyBytes;
  EXPECT_EQ(bytes + Unconfirmed::kCopyBytes, Unconfirmed::kMaxCopiedBytes / 2);
}

}  // namespace
}  // namespace tern::scheduler
