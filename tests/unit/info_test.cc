#include "comm/info.h"

#include <gtest/gtest.h>

namespace tern {
namespace {

std::string text(const Info& info) {
  std::string all;
  for (const auto& [key, value] : info.entries()) all += key + "=" + value + ";";
  return all;
}

TEST(Info, KeepsTheOrderOfSetting) {
  Info info;
  info.set("b", "1");
  info.set("a", "2");
  info.set("c", "");
  info.set("b", "3");
  EXPECT_EQ(text(info), "b=3;a=2;c=;");
  EXPECT_TRUE(info.remove("a"));
  EXPECT_FALSE(info.remove("a"));
  EXPECT_EQ(text(info), "b=3;c=;");
  ASSERT_NE(info.find("c"), nullptr);
  EXPECT_EQ(*info.find("c"), "");
  EXPECT_EQ(info.find("a"), nullptr);
}

TEST(Info, CopiesAreIndependent) {
  Info info;
  info.set("key", "old");
  Ref<Info> copy = info.dup();
  info.set("key", "new");
  EXPECT_EQ(*copy->find("key"), "old");
}

TEST(Info, TakesOnlyHintsItKnows) {
  Info given, held;
  given.set("x", "1");
  given.set("unknown", "2");
  held.set("x", "0");
  held.set("y", "9");
  held.assign_hints(given, {"x", "z"});
  EXPECT_EQ(text(held), "x=1;y=9;");
  held.set("yes", "true");
  EXPECT_TRUE(held.flag("yes"));
  EXPECT_FALSE(held.flag("x"));
  EXPECT_TRUE(held.flag("absent", true));
}

}  // namespace
}  // namespace tern
