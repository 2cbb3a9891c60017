// Variables and types of a small program, compiled here, from its debug information; damaged files do no harm.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include <unistd.h>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "check/variables.h"

namespace tern::check {
namespace {

constexpr const char* kProgram = R"(
typedef unsigned int count_t;
struct Inner { char c; double d; };
struct Outer { int i; count_t u; struct Inner inner[3]; long tail : 5; };
enum Color { red };
union Any { int i; float f; };
int globals[7];
void use(void*, ...);
double function(const float* parameter, long number) {
  struct Outer outer[4];
  volatile double matrix[2][5];
  _Complex double z;
  enum Color color = red;
  union Any any;
  if (number) {
    short hidden[3];
    use(hidden);
  }
  use(outer, matrix, &z, &color, &any, &parameter);
  return matrix[1][2];
}
)";

/// The program's file with debug information of a version of DWARF; empty: there is no compiler.
std::string compiled(const std::string& flags) {
  const std::string base = std::filesystem::temp_directory_path() / ("tern-variables-" + std::to_string(getpid()));
  std::ofstream(base + ".c") << kProgram;
  const std::string command = "cc -w -O0 -fPIC -shared -nostdlib " + flags + " " + base + ".c -o " + base + ".so";
  std::string content;
  if (std::system(command.c_str()) == 0) {
    std::ifstream file(base + ".so", std::ios::binary);
    content.assign(std::istreambuf_iterator<char>(file), {});
  }
  std::filesystem::remove(base + ".c");
  std::filesystem::remove(base + ".so");
  return content;
}

uint64_t address_of_function(const dwarf::File& file) {
  for (const dwarf::Unit& unit : file.units()) {
    const dwarf::Entry root = file.entry(unit, unit.first);
    for (uint64_t at = root.next; at != 0;) {
      const dwarf::Entry entry = file.entry(unit, at);
      if (entry.tag == 0) break;
      if (entry.tag == dwarf::kSubprogram && entry.name == "function") return entry.low_pc.number;
      at = file.behind(unit, entry);
    }
  }
  return 0;
}

class VariablesOf : public ::testing::TestWithParam<const char*> {};

TEST_P(VariablesOf, AProgramAreFoundWithTheirTypes) {
  const std::string content = compiled(GetParam());
  if (content.empty()) GTEST_SKIP() << "no compiler";
  auto file = std::make_unique<dwarf::File>(content);
  ASSERT_FALSE(file->units().empty());
  const uint64_t pc = address_of_function(*file);
  ASSERT_NE(pc, 0u);
  VariablesOfFile variables(std::move(file), {.loaded = 0, .begin = 0, .end = UINT32_MAX});
  // A frame that contains what its description says, wherever that is.
  const Frame frame{.pc = pc + 5, .sp = 0x100000, .fp = 0x180000};
  std::map<std::string, Variable> found;
  for (const Variable& variable : variables.visible(frame, 0x180000 + 16)) found[variable.name] = variable;
  const SourceTypes& types = variables.types();
  ASSERT_TRUE(found.contains("outer"));
  EXPECT_TRUE(found.contains("parameter"));
  EXPECT_TRUE(found.contains("globals"));
  EXPECT_FALSE(found.contains("hidden")) << "the code there is in another block";
  EXPECT_EQ(found["globals"].bytes, 28u);
  EXPECT_EQ(types.name(found["globals"].type), "int[7]");
  EXPECT_EQ(types.name(types.target(found["parameter"].type)), "const float");
  const uint64_t outer = found["outer"].type;
  EXPECT_EQ(types.name(outer), "struct Outer[4]");
  ASSERT_EQ(found["outer"].bytes, 4 * 64u);
  const auto kind = [&](uint64_t offset) { return types.leaf(outer, offset).kind; };
  EXPECT_EQ(kind(0), Leaf::Kind::signed_integer);
  EXPECT_EQ(kind(4), Leaf::Kind::unsigned_integer);
  EXPECT_EQ(kind(8), Leaf::Kind::character);
  EXPECT_EQ(kind(9), Leaf::Kind::padding);
  EXPECT_EQ(kind(16), Leaf::Kind::floating);
  EXPECT_EQ(types.leaf(outer, 64 + 8 + 16 + 8 + 3).offset, 3u);
  EXPECT_EQ(kind(64 + 56), Leaf::Kind::unknown) << "a bit field";
  EXPECT_EQ(types.leaf(found["matrix"].type, 72).bytes, 8u);
  EXPECT_EQ(types.leaf(found["z"].type, 0).kind, Leaf::Kind::complex);
  EXPECT_EQ(types.leaf(found["color"].type, 0).kind, Leaf::Kind::enumeration);
  EXPECT_EQ(types.leaf(found["any"].type, 0).kind, Leaf::Kind::unknown);
}

INSTANTIATE_TEST_SUITE_P(All, VariablesOf,
                         ::testing::Values("-gdwarf-5", "-gdwarf-4", "-gdwarf-3 -fno-omit-frame-pointer"));

TEST(VariablesOfDamagedFiles, DoNoHarm) {
  const std::string content = compiled("-gdwarf-5");
  if (content.empty()) GTEST_SKIP() << "no compiler";
  Rng rng(7);
  size_t read = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = content;
    for (uint64_t i = 1 + rng.below(20); i != 0; --i) damaged[rng.below(damaged.size())] = char(rng.below(256));
    if (rng.chance(1, 10)) damaged.resize(rng.below(damaged.size()));
    auto file = std::make_unique<dwarf::File>(damaged);
    const uint64_t pc = address_of_function(*file);
    VariablesOfFile variables(std::move(file), {.loaded = 0, .begin = 0, .end = UINT64_MAX});
    const Frame frame{.pc = pc + 5, .sp = 0x100000, .fp = 0x180000};
    for (const Variable& variable : variables.visible(frame, 0x180000 + 16)) {
      read += variables.types().name(variable.type).size() + variables.types().leaf(variable.type, 8).bytes;
    }
  }
  EXPECT_NE(read, 0u);
}

}  // namespace
}  // namespace tern::check
