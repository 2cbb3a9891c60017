// What no other user is needed for; tests/launch/users_test.py has the others.
#include "base/owned_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

namespace tern {
namespace {

class OwnedFile : public testing::Test {
 protected:
  OwnedFile() {
    char name[] = "/tmp/tern-owned-XXXXXX";
    folder_ = mkdtemp(name);
    path_ = folder_ + "/file";
  }
  ~OwnedFile() override {
    const std::string command = "rm -rf " + folder_;
    EXPECT_EQ(std::system(command.c_str()), 0);
  }
  void make(const std::string& text, mode_t mode) {
    std::ofstream(path_) << text;
    EXPECT_EQ(chmod(path_.c_str(), mode), 0);
  }
  std::string text() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  bool write(int flags) {
    why_.clear();
    const Descriptor file = open_own_file(path_, flags, why_);
    return file && ::write(file.get(), "new", 3) == 3;
  }
  bool read() {
    why_.clear();
    text_.clear();
    return read_trusted_file(path_, 0, text_, why_);
  }

  std::string folder_, path_, text_, why_;
};

TEST_F(OwnedFile, IsMadeForThisUserAlone) {
  const mode_t before = umask(0);
  EXPECT_TRUE(write(O_TRUNC));
  umask(before);
  struct stat status {};
  ASSERT_EQ(stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, mode_t{0600});
}

TEST_F(OwnedFile, OneThatIsThereIsEmptiedOrGoesOn) {
  make("old", 0644);
  std::string why;
  EXPECT_TRUE(could_be_own_file(path_, why)) << why;
  EXPECT_TRUE(write(O_APPEND));
  EXPECT_EQ(text(), "oldnew");
  EXPECT_TRUE(write(O_TRUNC));
  EXPECT_EQ(text(), "new");
}

TEST_F(OwnedFile, LinksAreNotFollowed) {
  const std::string other = folder_ + "/other";
  std::ofstream(other) << "precious";
  ASSERT_EQ(symlink(other.c_str(), path_.c_str()), 0);
  EXPECT_FALSE(write(O_TRUNC));
  EXPECT_NE(why_.find("symbolic link"), std::string::npos) << why_;
  std::string why;
  EXPECT_FALSE(could_be_own_file(path_, why));
  EXPECT_EQ(text(), "precious");
  unlink(path_.c_str());
  ASSERT_EQ(link(other.c_str(), path_.c_str()), 0);
  EXPECT_FALSE(write(O_TRUNC));
  EXPECT_NE(why_.find("hard link"), std::string::npos) << why_;
  EXPECT_EQ(text(), "precious");
}

TEST_F(OwnedFile, OddPlaces) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_FALSE(write(O_APPEND));  // nobody reads; it does not wait
  EXPECT_FALSE(read());
  EXPECT_NE(why_.find("no ordinary file"), std::string::npos) << why_;
  path_ = folder_;
  EXPECT_FALSE(write(O_APPEND));
  EXPECT_FALSE(read());
  path_ = folder_ + "/none/file";
  EXPECT_FALSE(write(O_APPEND));
  EXPECT_FALSE(read());
  EXPECT_EQ(errno, ENOENT);
  path_ = "/dev/null";
  EXPECT_TRUE(write(O_APPEND));
  EXPECT_TRUE(read());
  path_ = "/dev/zero";
  EXPECT_FALSE(read());
}

TEST_F(OwnedFile, OneThatEverybodyMayChangeIsNotRead) {
  make("text", 0644);
  EXPECT_TRUE(read()) << why_;
  EXPECT_EQ(text_, "text");
  make("text", 0646);
  EXPECT_FALSE(read());
  EXPECT_NE(why_.find("everybody may change it"), std::string::npos) << why_;
}

}  // namespace
}  // namespace tern
