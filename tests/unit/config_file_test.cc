#include "base/config_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

namespace tern {
namespace {

/// A folder of its own, gone at the end.
class ConfigFile : public testing::Test {
 protected:
  ConfigFile() {
    char name[] = "/tmp/tern-config-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~ConfigFile() override {
    std::string command = "rm -rf " + folder_;
    EXPECT_EQ(std::system(command.c_str()), 0);
  }
  std::string write(const std::string& name, const std::string& text) {
    std::string path = folder_ + "/" + name;
    for (size_t slash = folder_.size(); (slash = path.find('/', slash + 1)) != std::string::npos;) {
      mkdir(path.substr(0, slash).c_str(), 0700);
    }
    std::ofstream(path) << text;
    return path;
  }
  Error read(const std::string& text) { return read_config_file(write("tern.toml", text), true, tunables_, found_); }

  std::string folder_;
  Tunables tunables_;
  Configuration found_;
};

TEST_F(ConfigFile, ValuesOfEveryKind) {
  EXPECT_FALSE(read("# a comment\nshm_eager_bytes = 4096\nshm_get_bytes = \"1M\"\nshm_cma = false\npath = \"tcp\"\n"));
  EXPECT_EQ(tunables_.shm_eager_bytes, 4096);
  EXPECT_EQ(tunables_.shm_get_bytes, 1 << 20);
  EXPECT_EQ(tunables_.shm_cma, 0);
  EXPECT_EQ(tunables_.path, "tcp");
  EXPECT_TRUE(found_.warnings.empty());
  EXPECT_EQ(found_.files.size(), 1u);
}

TEST_F(ConfigFile, AnUnknownNameIsWarnedOfByFileAndLineAndTheRestIsRead) {
  EXPECT_FALSE(read("\nshm_eager_byte = 1\nspin_us = 7\n[more]\nspin_us = 9\n"));
  EXPECT_EQ(tunables_.spin_us, 7);
  ASSERT_EQ(found_.warnings.size(), 2u);
  EXPECT_NE((found_.warnings[0] + found_.warnings[1])
                .find("tern.toml:2: there is no tunable TERN_SHM_EAGER_BYTE; the "
                      "nearest name is TERN_SHM_EAGER_BYTES"),
            std::string::npos);
}

TEST_F(ConfigFile, MistakesAreErrorsByFileAndLine) {
  EXPECT_NE(read("spin_us = 1\n\nspin_us2 = [\n").text().find("tern.toml:"), std::string_view::npos);
  EXPECT_NE(read("shm_cma = 5\n").text().find("tern.toml:1: TERN_SHM_CMA is '5'"), std::string_view::npos);
  EXPECT_NE(read("\nspin_us = [1, 2]\n").text().find("tern.toml:2: spin_us takes"), std::string_view::npos);
  EXPECT_NE(read("\nspin_us = 1\nspin_us = 2\n").text().find("tern.toml:3: "), std::string_view::npos);
}

TEST_F(ConfigFile, TheOrderOfPlaces) {
  write("prefix/etc/tern.toml", "spin_us = 1\nyield_rounds = 1\nshm_cma = 0\n");
  write("home/.config/tern/tern.toml", "spin_us = 2\nyield_rounds = 2\n");
  write("xdg/tern/tern.toml", "yield_rounds = 5\n");
  std::string named = write("named.toml", "hang_report_s = 4\n");
  std::string home = "HOME=" + folder_ + "/home", xdg = "XDG_CONFIG_HOME=" + folder_ + "/xdg",
              config = "TERN_CONFIG=" + named;
  auto values = [&](std::vector<const char*> environment, const std::string& prefix) {
    environment.push_back(nullptr);
    Tunables tunables;
    Configuration found;
    EXPECT_FALSE(read_tunables(environment.data(), prefix, tunables, found));
    EXPECT_TRUE(found.warnings.empty());
    return std::vector<int64_t>{tunables.spin_us, tunables.yield_rounds, tunables.shm_cma, tunables.hang_report_s};
  };
  std::string prefix = folder_ + "/prefix";
  using Values = std::vector<int64_t>;
  EXPECT_EQ(values({}, ""), (Values{10000, 200, 1, 0}));
  EXPECT_EQ(values({}, prefix), (Values{1, 1, 0, 0}));
  EXPECT_EQ(values({home.c_str()}, prefix), (Values{2, 2, 0, 0}));
  EXPECT_EQ(values({home.c_str(), xdg.c_str()}, prefix), (Values{1, 5, 0, 0}));
  EXPECT_EQ(values({home.c_str(), "TERN_SPIN_US=3"}, prefix), (Values{3, 2, 0, 0}));
  EXPECT_EQ(values({home.c_str(), config.c_str()}, prefix), (Values{10000, 200, 1, 4}));
  EXPECT_EQ(values({home.c_str(), "TERN_CONFIG="}, prefix), (Values{10000, 200, 1, 0}));
}

TEST_F(ConfigFile, ANamedFileMustBeThere) {
  const char* environment[] = {"TERN_CONFIG=/nowhere/tern.toml", "TERN_SPIN_US=3", nullptr};
  Error error = read_tunables(environment, "", tunables_, found_);
  EXPECT_NE(error.text().find("/nowhere/tern.toml cannot be read"), std::string_view::npos);
  EXPECT_EQ(tunables_.spin_us, 3);
}

TEST_F(ConfigFile, AnUnknownVariableIsWarnedOfAndTheRestIsRead) {
  const char* environment[] = {"TERN_CONFIG=",  "TERN_HOME=/opt/tern", "TERN_SHM_EAGER=1", "TERN_SPIN_U=1",
                               "TERN_ROUNDS=5", "TERN_HANG_REPROT=1",  "TERN_SPIN_US=3",   nullptr};
  EXPECT_FALSE(read_tunables(environment, "", tunables_, found_));
  EXPECT_EQ(tunables_.spin_us, 3);
  ASSERT_EQ(found_.warnings.size(), 5u);
  const std::string list = ". `tern-info --tunables` lists them all; it is ignored";
  EXPECT_EQ(found_.warnings[0], "there is no tunable TERN_HOME" + list);
  // A name that was left unfinished comes before one that is fewer letters away.
  EXPECT_EQ(found_.warnings[1], "there is no tunable TERN_SHM_EAGER; the nearest name is TERN_SHM_EAGER_BYTES" + list);
  EXPECT_EQ(found_.warnings[2], "there is no tunable TERN_SPIN_U; the nearest name is TERN_SPIN_US" + list);
  EXPECT_EQ(found_.warnings[3], "there is no tunable TERN_ROUNDS" + list);
  EXPECT_EQ(found_.warnings[4], "there is no tunable TERN_HANG_REPROT; the nearest name is TERN_HANG_REPORT" + list);
}

TEST_F(ConfigFile, AWrongValueOfAKnownVariableStaysAnError) {
  const char* environment[] = {"TERN_CONFIG=", "TERN_HOME=/opt/tern", "TERN_SPIN_US=many", nullptr};
  Error error = read_tunables(environment, "", tunables_, found_);
  EXPECT_NE(error.text().find("TERN_SPIN_US is 'many'"), std::string_view::npos);
  EXPECT_EQ(found_.warnings.size(), 1u);
}

}  // namespace
}  // namespace tern
