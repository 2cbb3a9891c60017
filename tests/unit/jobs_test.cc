// Jobs that meet: the text of ports, what the roots say, the folder of secrets and names, and the conversation itself.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "base/clock.h"
#include "process/jobs/name_folder.h"
#include "process/jobs/port_link.h"
#include "process/jobs/port_name.h"
#include "process/jobs/ports.h"
#include "wire/meeting.h"

namespace tern {
namespace {

/// A folder of its own, gone with the test.
struct Folder {
  Folder() {
    char text[] = "/tmp/tern-jobs-XXXXXX";
    path = mkdtemp(text);
    tunables.names_dir = path;
    tunables.tcp_interfaces = "lo";
  }
  ~Folder() { (void)!std::system(("rm -rf " + path).c_str()); }
  std::string path;
  Tunables tunables;
};

wire::Card card_of(int addresses) {
  wire::Card card;
  for (int i = 0; i < addresses; ++i) {
    wire::CardAddress address;
    address.port = uint16_t(1000 + i);
    address.bytes = {10, 0, 0, uint8_t(i + 1)};
    address.prefix_length = 24;
    card.addresses.push_back(address);
  }
  return card;
}

TEST(PortName, WhatIsWrittenIsRead) {
  for (bool with_secret : {false, true}) {
    PortName name{.number = 0x1234567890abcdef, .secret = {}, .card = card_of(3)}, read;
    if (with_secret) name.secret.emplace().fill(7);
    ASSERT_FALSE(parse_port_name(to_text(name), read));
    EXPECT_EQ(read.number, name.number);
    EXPECT_EQ(read.secret, name.secret);
    EXPECT_EQ(read.card.addresses, name.card.addresses);
  }
}

TEST(PortName, HasRoomForSomeAddressesHoweverManyThereAre) {
  PortName name{.number = 1, .secret = TcpKey{}, .card = card_of(60)}, read;
  const std::string text = to_text(name);
  EXPECT_LE(text.size(), kMaxPortName);
  ASSERT_FALSE(parse_port_name(text, read));
  EXPECT_GT(read.card.addresses.size(), 5u);
}

TEST(PortName, OtherTextsAreRefused) {
  const std::string good = to_text({.number = 1, .secret = TcpKey{}, .card = card_of(1)});
  PortName name;
  for (std::string text : {std::string(), std::string("ocean"), std::string("tern1."), std::string("tern1.1.."),
                           good + "!", good.substr(0, good.size() - 3), "x" + good, std::string(2000, 'a')})
    EXPECT_EQ(parse_port_name(text, name).error_class(), int(ErrorClass::port)) << text;
}

TEST(Meeting, WhatIsWrittenIsRead) {
  wire::MeetingSide side, read;
  side.context = 99;
  for (uint32_t i = 0; i < 5; ++i) {
    wire::Member member;
    member.name = {i / 2 + 1, i};
    member.job_ranks = 10;
    member.secret.fill(uint8_t(i));
    member.card = std::string(i * 10, 'c');
    side.members.push_back(member);
  }
  const std::string text = build_meeting(side);
  ASSERT_TRUE(parse_meeting(text, read));
  EXPECT_EQ(read.context, 99u);
  ASSERT_EQ(read.members.size(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(read.members[i].name, side.members[i].name);
    EXPECT_EQ(read.members[i].secret, side.members[i].secret);
    EXPECT_EQ(read.members[i].card, side.members[i].card);
  }
  for (size_t length = 0; length < text.size(); ++length) EXPECT_FALSE(parse_meeting(text.substr(0, length), read));
  EXPECT_FALSE(parse_meeting(text + "x", read));
}

TEST(NameFolder, NamesAndSecrets) {
  Folder folder;
  NameFolder names(folder.tunables);
  TcpKey secret, found;
  secret.fill(5);
  ASSERT_FALSE(names.keep_secret(17, secret));
  ASSERT_FALSE(names.find_secret(17, found));
  EXPECT_EQ(found, secret);
  names.drop_secret(17);
  EXPECT_EQ(names.find_secret(17, found).error_class(), int(ErrorClass::port));

  std::string port;
  EXPECT_EQ(names.look_up("ocean/1 \xff", port).error_class(), int(ErrorClass::name));
  ASSERT_FALSE(names.publish("ocean/1 \xff", "tern1.x"));
  ASSERT_FALSE(names.look_up("ocean/1 \xff", port));
  EXPECT_EQ(port, "tern1.x");
  EXPECT_EQ(names.publish("ocean/1 \xff", "other").error_class(), int(ErrorClass::service));
  ASSERT_FALSE(names.unpublish("ocean/1 \xff"));
  EXPECT_EQ(names.unpublish("ocean/1 \xff").error_class(), int(ErrorClass::service));
}

TEST(NameFolder, ANameOfAProcessThatHasEndedIsReplaced) {
  Folder folder;
  if (fork() == 0) {
    NameFolder names(folder.tunables);
    _exit(names.publish("ocean", "dead") ? 1 : 0);
  }
  int status = 0;
  wait(&status);
  ASSERT_EQ(status, 0);
  NameFolder names(folder.tunables);
  std::string port;
  EXPECT_EQ(names.look_up("ocean", port).error_class(), int(ErrorClass::name));
  ASSERT_FALSE(names.publish("ocean", "alive"));
  ASSERT_FALSE(names.look_up("ocean", port));
  EXPECT_EQ(port, "alive");
}

TEST(NameFolder, AFolderThatOthersMayEnterIsRefused) {
  Folder folder;
  chmod(folder.path.c_str(), 0755);
  NameFolder names(folder.tunables);
  EXPECT_EQ(names.publish("ocean", "port").error_class(), int(ErrorClass::port));
}

template <typename Done>
bool drive(Ports& ports, PortLink& link, Done&& done) {
  RealClock clock;
  for (const uint64_t end = clock.now_ns() + 20'000'000'000; clock.now_ns() < end;) {
    ports.poll();
    link.advance();
    if (done()) return true;
  }
  return false;
}

TEST(Ports, AConversation) {
  Folder folder;
  RealClock clock;
  Ports ports(folder.tunables, clock);
  std::string name;
  ASSERT_FALSE(ports.open(false, name));
  uint64_t port = 0;
  ASSERT_FALSE(ports.find(name, port));
  std::unique_ptr<PortLink> caller;
  ASSERT_FALSE(ports.connect(name, caller));
  ASSERT_TRUE(drive(ports, *caller, [&] { return ports.has_caller(port) && caller->proven(); }));
  std::unique_ptr<PortLink> called = ports.next_caller(port);
  ASSERT_TRUE(called);
  // Of every length around a block's.
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{32767}, size_t{32768}, size_t{32769}, size_t{3'000'000}}) {
    const std::string text(bytes, char('a' + bytes % 26));
    caller->send(text);
    ASSERT_TRUE(drive(ports, *caller, [&] { return called->advance(), called->has_message(); })) << bytes;
    EXPECT_EQ(called->take_message(), text);
    called->send(text);
    ASSERT_TRUE(drive(ports, *caller, [&] { return called->advance(), caller->has_message(); })) << bytes;
    EXPECT_EQ(caller->take_message(), text);
  }
  called.reset();
  EXPECT_TRUE(drive(ports, *caller, [&] { return caller->ended(); }));
  EXPECT_EQ(caller->error().error_class(), int(ErrorClass::port));
}

TEST(Ports, WhoDoesNotKnowTheSecretIsTurnedAway) {
  Folder folder, stranger;
  RealClock clock;
  Ports ports(folder.tunables, clock), strangers(stranger.tunables, clock);
  std::string name;
  ASSERT_FALSE(ports.open(false, name));
  uint64_t port = 0;
  ASSERT_FALSE(ports.find(name, port));
  std::unique_ptr<PortLink> caller;
  EXPECT_EQ(strangers.connect(name, caller).error_class(), int(ErrorClass::port)) << "it has only read the name";
  PortName forged;
  ASSERT_FALSE(parse_port_name(name, forged));
  forged.secret.emplace().fill(1);
  ASSERT_FALSE(strangers.connect(to_text(forged), caller));
  EXPECT_TRUE(drive(ports, *caller, [&] { return caller->ended(); }));
  EXPECT_FALSE(ports.has_caller(port));
}

TEST(Ports, AClosedPortIsAnErrorAtOnce) {
  Folder folder;
  RealClock clock;
  Ports ports(folder.tunables, clock);
  std::string name;
  ASSERT_FALSE(ports.open(true, name));
  ASSERT_FALSE(ports.close(name));
  EXPECT_EQ(ports.close(name).error_class(), int(ErrorClass::port));
  std::unique_ptr<PortLink> caller;
  ASSERT_FALSE(ports.connect(name, caller));
  EXPECT_TRUE(drive(ports, *caller, [&] { return caller->ended(); }));
}

// Threads of one process connect and accept at the same time. One of them sleeps on the descriptors of all, also of
// what the others begin meanwhile.
TEST(Ports, SeveralThreadsWait) {
  Folder folder;
  RealClock clock;
  Ports ports(folder.tunables, clock);
  std::string name;
  uint64_t port = 0;
  ASSERT_FALSE(ports.open(true, name));
  ASSERT_FALSE(ports.find(name, port));
  EXPECT_EQ(ports.next_deadline_ns(), ~uint64_t{0});
  ASSERT_TRUE(ports.arm());
  std::unique_ptr<PortLink> first, second;
  ASSERT_FALSE(ports.connect(name, first));
  ASSERT_FALSE(ports.connect(name, second));
  const Ports::Waiting accepts(ports, nullptr, 3000);
  std::optional<Ports::Waiting> one(std::in_place, ports, first.get(), 2000),
      other(std::in_place, ports, second.get(), 1000);
  EXPECT_EQ(ports.next_deadline_ns(), 1000u);
  // Asleep, except where the descriptor says that something has come. The first poll begins both calls.
  ports.poll();
  const uint64_t end = clock.now_ns() + 20'000'000'000;
  while (!(first->proven() && second->proven()) && clock.now_ns() < end) {
    pollfd sleep{ports.wait_fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&sleep, 1, 10'000), 1);
    ports.poll();
  }
  EXPECT_TRUE(first->proven() && second->proven());
  other.reset();
  EXPECT_GT(ports.next_deadline_ns(), 1000u);
  std::unique_ptr<PortLink> called[2];
  for (auto& link : called) {
    ASSERT_TRUE(drive(ports, *first, [&] { return ports.has_caller(port); }));
    link = ports.next_caller(port);
    link->send("hello");
  }
  EXPECT_TRUE(drive(ports, *first, [&] { return called[0]->advance(), called[1]->advance(), first->has_message(); }));
  ports.disarm();
}

}  // namespace
}  // namespace tern
