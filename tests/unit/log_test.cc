#include "base/log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace tern {
namespace {

/// What `speak` writes to the log's descriptor.
template <typename Speak>
std::string heard(LogLevel level, int rank, Speak speak) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  Log log(level, rank, ends[1]);
  speak(log);
  close(ends[1]);
  std::string text;
  char buffer[256];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) text.append(buffer, size_t(n));
  close(ends[0]);
  return text;
}

TEST(Log, SaysWhatTheLevelWants) {
  auto all = [](Log& log) {
    log.error("a");
    log.warn("b");
    log.info("c");
    log.debug("d");
  };
  EXPECT_EQ(heard(LogLevel::error, 3, all), "[tern rank 3] error: a\n");
  EXPECT_EQ(heard(LogLevel::warn, 3, all), "[tern rank 3] error: a\n[tern rank 3] warning: b\n");
  EXPECT_EQ(heard(LogLevel::debug, -1, all), "[tern] error: a\n[tern] warning: b\n[tern] info: c\n[tern] debug: d\n");
}

TEST(Log, LevelsByName) {
  LogLevel level = LogLevel::warn;
  EXPECT_FALSE(parse_log_level("debug", level));
  EXPECT_EQ(level, LogLevel::debug);
  Error error = parse_log_level("loud", level);
  EXPECT_TRUE(error);
  EXPECT_NE(error.text().find("loud"), std::string_view::npos);
  EXPECT_EQ(level, LogLevel::debug);
}

TEST(Log, LevelAndPlaceFromTheTunable) {
  char folder[] = "/tmp/tern-log-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  std::string place = folder;
  {
    Log log;
    ASSERT_FALSE(log.configure("info:" + place + "/%r-100%", 12));
    log.info("one");
    log.debug("no");
    Log moved(std::move(log));
    moved.info("two");
  }
  Log again;
  ASSERT_FALSE(again.configure("debug:" + place + "/%r-100%", 12));
  again.debug("three");
  std::ifstream file(place + "/12-100%");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), "[tern rank 12] info: one\n[tern rank 12] info: two\n[tern rank 12] debug: three\n");
  EXPECT_TRUE(again.configure("loud", 0));
  EXPECT_TRUE(again.configure("info:" + place + "/not/there", 0));
  unlink((place + "/12-100%").c_str());
  rmdir(folder);
}

// A log that nobody reads does not change errno, which its caller may still want to report; and it can be sent
// elsewhere afterwards.
TEST(Log, NobodyListeningIsNoDisaster) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  const auto before = signal(SIGPIPE, SIG_IGN);
  for (const int nobody : {-1, ends[1]}) {
    Log log(LogLevel::error, 0, nobody);
    errno = ENOENT;
    log.error("into the void");
    EXPECT_EQ(errno, ENOENT) << nobody;
    char place[] = "/tmp/tern-log-XXXXXX";
    const int file = mkstemp(place);
    ASSERT_GE(file, 0);
    ASSERT_FALSE(log.configure(std::string("error:") + place, 0));
    log.error("here");
    char text[64] = {};
    EXPECT_GT(read(file, text, sizeof text - 1), 0);
    EXPECT_STREQ(text, "[tern rank 0] error: here\n");
    close(file);
    unlink(place);
  }
  signal(SIGPIPE, before);
  close(ends[1]);
}

}  // namespace
}  // namespace tern
