// Attribute caches: order of deletion, failing callbacks, callbacks that change the cache, keys that die
// first.
#include "comm/attributes.h"

#include <functional>
#include <string>

#include <gtest/gtest.h>

namespace tern {
namespace {

struct Thing : Object {
  AttributeCache attributes;
};

/// Writes what happens to it into a diary.
struct Diary : AttributeHooks {
  Diary(std::string key, std::string& text, int* alive) : name(std::move(key)), written(text), living(alive) {
    ++*living;
  }
  ~Diary() override { --*living; }
  Error copy(Object&, Keyval&, void* value, void*& copied, bool& keep) override {
    written += "copy " + name + "; ";
    if (fail_copy) return Error(77, "no");
    keep = keep_copies;
    copied = static_cast<char*>(value) + 1;
    return {};
  }
  Error remove(Object&, Keyval&, void* value) override {
    if (on_remove) on_remove();
    written += "delete " + name + "; ";
    last = value;
    return fail_remove ? Error(78, "no") : Error();
  }
  std::string name;
  std::string& written;
  int* living;
  bool fail_copy = false, fail_remove = false, keep_copies = true;
  std::function<void()> on_remove;
  void* last = nullptr;
};

struct AttributesTest : testing::Test {
  Ref<Keyval> make(const char* name, Diary** hooks = nullptr) {
    auto made = std::make_unique<Diary>(name, diary, &alive);
    if (hooks) *hooks = made.get();
    return Ref<Keyval>::adopt(new Keyval(Keyval::Kind::communicator, std::move(made)));
  }
  void* value_of(const Thing& owner, const Keyval& key) {
    void* value = nullptr;
    return owner.attributes.get(key, value) ? value : nullptr;
  }
  std::string diary;
  int alive = 0;
  char values[8];
  Thing thing;
};

TEST_F(AttributesTest, AreDeletedInReverseOrderOfSetting) {
  auto a = make("a"), b = make("b"), c = make("c");
  ASSERT_FALSE(thing.attributes.set(thing, *b, &values[0]));
  ASSERT_FALSE(thing.attributes.set(thing, *c, &values[1]));
  ASSERT_FALSE(thing.attributes.set(thing, *a, &values[2]));
  ASSERT_FALSE(thing.attributes.clear(thing));
  EXPECT_EQ(diary, "delete a; delete c; delete b; ");
  EXPECT_TRUE(thing.attributes.empty());
}

TEST_F(AttributesTest, SettingAgainDeletesTheOldValueFirst) {
  Diary* hooks = nullptr;
  auto a = make("a", &hooks);
  ASSERT_FALSE(thing.attributes.set(thing, *a, &values[0]));
  ASSERT_FALSE(thing.attributes.set(thing, *a, &values[1]));
  EXPECT_EQ(diary, "delete a; ");
  EXPECT_EQ(hooks->last, &values[0]);
  EXPECT_EQ(value_of(thing, *a), &values[1]);
  hooks->fail_remove = true;
  EXPECT_EQ(thing.attributes.set(thing, *a, &values[2]).error_class(), 78);
  EXPECT_EQ(value_of(thing, *a), &values[1]);
}

TEST_F(AttributesTest, StayWhenTheirDeletionFails) {
  Diary* hooks = nullptr;
  auto a = make("a"), b = make("b", &hooks), c = make("c");
  for (auto* key : {&a, &b, &c}) ASSERT_FALSE(thing.attributes.set(thing, **key, &values[0]));
  hooks->fail_remove = true;
  EXPECT_EQ(thing.attributes.clear(thing).error_class(), 78);
  EXPECT_EQ(diary, "delete c; delete b; ");
  EXPECT_EQ(value_of(thing, *a), &values[0]);
  EXPECT_EQ(value_of(thing, *b), &values[0]);
  EXPECT_EQ(value_of(thing, *c), nullptr);
  hooks->fail_remove = false;
  ASSERT_FALSE(thing.attributes.clear(thing));
}

TEST_F(AttributesTest, AreCopiedAsTheirCallbacksSay) {
  Diary *keeps = nullptr, *drops = nullptr;
  auto a = make("a", &keeps), b = make("b", &drops);
  drops->keep_copies = false;
  auto null = Ref<Keyval>::adopt(new Keyval(Keyval::Kind::communicator, nullptr));
  for (auto* key : {&a, &b, &null}) ASSERT_FALSE(thing.attributes.set(thing, **key, &values[3]));
  Thing copy;
  ASSERT_FALSE(thing.attributes.copy_to(thing, copy.attributes));
  EXPECT_EQ(value_of(copy, *a), &values[4]);
  EXPECT_EQ(value_of(copy, *b), nullptr);
  EXPECT_EQ(value_of(copy, *null), nullptr);
  keeps->fail_copy = true;
  Thing other;
  EXPECT_EQ(thing.attributes.copy_to(thing, other.attributes).error_class(), 77);
  EXPECT_TRUE(other.attributes.empty());
}

TEST_F(AttributesTest, KeepTheirKeysAlive) {
  auto a = make("a");
  ASSERT_FALSE(thing.attributes.set(thing, *a, &values[0]));
  a.reset();
  EXPECT_EQ(alive, 1);
  ASSERT_FALSE(thing.attributes.clear(thing));
  EXPECT_EQ(diary, "delete a; ");
  EXPECT_EQ(alive, 0);
}

TEST_F(AttributesTest, RemovingWhatIsNotSetIsAnError) {
  auto a = make("a");
  EXPECT_EQ(ErrorClass(thing.attributes.remove(thing, *a).error_class()), ErrorClass::keyval);
}

TEST_F(AttributesTest, CallbacksMayChangeTheCache) {
  Diary* hooks = nullptr;
  auto a = make("a", &hooks), b = make("b");
  std::vector<Ref<Keyval>> more;
  for (int i = 0; i < 20; ++i) more.push_back(make("m"));
  ASSERT_FALSE(thing.attributes.set(thing, *b, &values[0]));
  ASSERT_FALSE(thing.attributes.set(thing, *a, &values[1]));
  // Deleting a sets twenty others (the list grows) and deletes b.
  hooks->on_remove = [&] {
    for (auto& key : more) ASSERT_FALSE(thing.attributes.set(thing, *key, &values[2]));
    ASSERT_FALSE(thing.attributes.remove(thing, *b));
  };
  ASSERT_FALSE(thing.attributes.remove(thing, *a));
  EXPECT_EQ(diary, "delete b; delete a; ");
  EXPECT_EQ(value_of(thing, *more[19]), &values[2]);
  ASSERT_FALSE(thing.attributes.clear(thing));
}

}  // namespace
}  // namespace tern
