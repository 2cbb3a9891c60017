// main() of every GoogleTest executable: with --file=NAME it runs the tests that are written in that source file. A
// file without tests is a mistake and fails.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <string_view>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    std::string_view argument(argv[i]);
    if (!argument.starts_with("--file=")) continue;
    std::string wanted = "/" + std::string(argument.substr(7));
    std::string filter;
    const auto& all = *testing::UnitTest::GetInstance();
    for (int s = 0; s < all.total_test_suite_count(); ++s) {
      const auto& suite = *all.GetTestSuite(s);
      for (int t = 0; t < suite.total_test_count(); ++t) {
        const auto& test = *suite.GetTestInfo(t);
        if (!("/" + std::string(test.file())).ends_with(wanted)) continue;
        filter += std::string(suite.name()) + "." + test.name() + ":";
      }
    }
    if (filter.empty()) {
      std::fprintf(stderr, "there is no test in a file called %s\n", wanted.c_str() + 1);
      return 1;
    }
    testing::GTEST_FLAG(filter) = filter;
  }
  return RUN_ALL_TESTS();
}
