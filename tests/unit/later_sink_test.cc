// What a short poll keeps for a poll of the rank, and in which order it comes then.
#include "fabric/later_sink.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tcp_fixture.h"

namespace tern {
namespace {

struct Fixture {
  Fixture() { later.lead_to(sink); }
  void message(Lane& lane, wire::Kind kind, int tag, const std::string& text = "text") {
    later.on_message(lane, {.kind = kind, .tag = tag}, reinterpret_cast<const std::byte*>(text.data()), text.size());
  }
  Landing header(Lane& lane, int tag, size_t bytes) {
    return later.on_header(lane, {.kind = wire::Kind::eager, .tag = tag}, bytes);
  }
  void landed(Lane& lane, int tag, Landing& landing, const std::string& text, Error error = {}) {
    if (!error) landing.target.unpack(reinterpret_cast<const std::byte*>(text.data()), text.size());
    later.on_landed(lane, {.kind = wire::Kind::eager, .tag = tag}, landing, text.size(), std::move(error));
  }
  std::vector<int> tags() const {
    std::vector<int> all;
    for (const Arrival& arrival : sink.arrivals) all.push_back(arrival.header.tag);
    return all;
  }
  KeepingSink sink;
  LaterSink later;
  struct TestLane : Lane {
    using Lane::Lane;
  } a{1}, b{2};
};

using Tags = std::vector<int>;

TEST(LaterSink, AShortPollKeepsOtherKindsAndWhatFollowsThemOnTheirLane) {
  Fixture f;
  f.later.set_short(true);
  f.message(f.a, wire::Kind::eager, 0);
  f.message(f.a, wire::Kind::rts, 1, "asks");
  f.message(f.a, wire::Kind::eager, 2, "behind");
  f.message(f.b, wire::Kind::eager, 3);
  f.later.set_short(false);
  EXPECT_EQ(f.tags(), (Tags{0, 3}));
  EXPECT_TRUE(f.later.keeps_any());
  EXPECT_EQ(f.later.deliver(), 2);
  EXPECT_EQ(f.tags(), (Tags{0, 3, 1, 2}));
  EXPECT_EQ(f.sink.arrivals[2].bytes, "asks");
  EXPECT_EQ(f.sink.arrivals[3].bytes, "behind");
  EXPECT_FALSE(f.later.keeps_any());
}

TEST(LaterSink, WhatAPollBringsComesBehindWhatWasKept) {
  Fixture f;
  f.later.set_short(true);
  f.message(f.a, wire::Kind::rts, 1);
  f.later.set_short(false);
  f.message(f.a, wire::Kind::eager, 2);
  EXPECT_EQ(f.tags(), (Tags{1, 2}));
  EXPECT_FALSE(f.later.keeps_any());
}

// It begins in a short poll and ends in any.
TEST(LaterSink, AMessageInPartsKeepsItsPlace) {
  for (const bool ends_short : {true, false}) {
    Fixture f;
    f.later.set_short(true);
    f.message(f.a, wire::Kind::rts, 1);
    Landing landing = f.header(f.a, 2, 5);
    if (ends_short) f.landed(f.a, 2, landing, "whole");
    f.later.set_short(false);
    f.message(f.b, wire::Kind::eager, 3);
    if (!ends_short) {
      EXPECT_EQ(f.tags(), (Tags{1, 3}));
      f.message(f.b, wire::Kind::eager, 4);
      f.landed(f.a, 2, landing, "whole");
      EXPECT_EQ(f.tags(), (Tags{1, 3, 4, 2}));
    } else {
      EXPECT_EQ(f.tags(), (Tags{1, 2, 3}));
    }
    EXPECT_FALSE(f.later.keeps_any());
    for (const Arrival& arrival : f.sink.arrivals) EXPECT_EQ(arrival.bytes, arrival.header.tag == 2 ? "whole" : "text");
  }
}

TEST(LaterSink, AMessageThatWasNotToldOfIsForgottenWithItsLane) {
  Fixture f;
  f.later.set_short(true);
  f.message(f.a, wire::Kind::rts, 1);
  Landing landing = f.header(f.a, 2, 5);
  f.later.set_short(false);
  f.landed(f.a, 2, landing, "", Error(ErrorClass::proc_aborted, "lost"));
  f.later.on_peer_lost(f.a, Error(ErrorClass::proc_aborted, "lost"));
  EXPECT_EQ(f.tags(), (Tags{1}));
  EXPECT_EQ(f.sink.lost.count(1), 1u);
  EXPECT_FALSE(f.later.keeps_any());
}

// A message that began before, in the sink's own memory, stays the sink's.
TEST(LaterSink, AMessageThatHasBegunEndsInAShortPoll) {
  Fixture f;
  Landing landing = f.header(f.a, 1, 5);
  f.later.set_short(true);
  f.landed(f.a, 1, landing, "whole");
  f.later.set_short(false);
  EXPECT_EQ(f.tags(), (Tags{1}));
  EXPECT_EQ(f.sink.arrivals[0].bytes, "whole");
}

}  // namespace
}  // namespace tern
