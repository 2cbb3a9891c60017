#include "base/system_names.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <cstring>

namespace tern {
namespace {

TEST(SystemNames, AreThoseOfTheCLibrary) {
#ifdef __GLIBC__
#if __GLIBC_PREREQ(2, 32)
  for (int signal = 0; signal < 70; ++signal) {
    EXPECT_STREQ(signal_name(signal), sigabbrev_np(signal)) << signal;
    EXPECT_STREQ(signal_meaning(signal), sigdescr_np(signal)) << signal;
  }
  EXPECT_STREQ(error_name(0), nullptr);
  for (int number = 1; number < 200; ++number) EXPECT_STREQ(error_name(number), strerrorname_np(number)) << number;
#endif
#endif
  EXPECT_STREQ(signal_name(SIGSEGV), "SEGV");
  EXPECT_STREQ(signal_meaning(SIGKILL), "Killed");
  EXPECT_EQ(signal_name(-1), nullptr);
  EXPECT_STREQ(error_name(ENOENT), "ENOENT");
  EXPECT_EQ(error_name(-3), nullptr);
}

}  // namespace
}  // namespace tern
