// The table of error classes and codes, and the odds and ends of the C API that need no running rank.
#include <gtest/gtest.h>

#include <cstring>

#include "capi/arrays.h"
#include "capi/call.h"
#include "capi/error_table.h"
#include "names.gen.h"

namespace tern::capi {
namespace {

TEST(ErrorTable, EveryClassOfTheStandardHasATextAndIsItsOwnClass) {
  ErrorTable table;
  for (int error_class = MPI_SUCCESS; error_class <= MPI_ERR_ABI; ++error_class) {
    int found = -1;
    std::string text;
    EXPECT_TRUE(table.class_of(error_class, found)) << error_class;
    EXPECT_EQ(found, error_class);
    EXPECT_TRUE(table.text_of(error_class, text));
    EXPECT_EQ(text.rfind("MPI_", 0), 0u) << text;
    EXPECT_LT(text.size(), size_t{MPI_MAX_ERROR_STRING});
  }
  int found = 0;
  EXPECT_FALSE(table.class_of(63, found));
  EXPECT_FALSE(table.class_of(-1, found));
  EXPECT_FALSE(table.class_of(MPI_ERR_LASTCODE + 1, found));
}

TEST(ErrorTable, TheTextEndsWithTheLastErrorOfItsClass) {
  ErrorTable table;
  table.remember(MPI_ERR_RANK, "MPI_Send: no such rank");
  std::string text;
  ASSERT_TRUE(table.text_of(MPI_ERR_RANK, text));
  EXPECT_NE(text.find("MPI_Send: no such rank"), std::string::npos);
  ASSERT_TRUE(table.text_of(MPI_ERR_TAG, text));
  EXPECT_EQ(text.find("MPI_Send"), std::string::npos);
}

TEST(ErrorTable, UserClassesAndCodesComeAndGo) {
  ErrorTable table;
  EXPECT_EQ(table.last_used(), MPI_ERR_LASTCODE);
  int user = table.add_class(), code = 0, found = 0;
  EXPECT_GT(user, MPI_ERR_LASTCODE);
  EXPECT_FALSE(table.add_code(user, code));
  EXPECT_TRUE(table.class_of(code, found));
  EXPECT_EQ(found, user);
  EXPECT_EQ(table.last_used(), code);
  std::string text = "x";
  EXPECT_TRUE(table.text_of(code, text));
  EXPECT_EQ(text, "");
  EXPECT_FALSE(table.set_text(code, "ouch"));
  EXPECT_TRUE(table.text_of(code, text));
  EXPECT_EQ(text, "ouch");

  // What is in use cannot be removed (9.5.1): first the string, then the code, then the class.
  EXPECT_TRUE(table.remove_class(user));
  EXPECT_TRUE(table.remove_code(code));
  EXPECT_FALSE(table.remove_text(code));
  EXPECT_TRUE(table.remove_text(code));
  EXPECT_FALSE(table.remove_code(code));
  EXPECT_TRUE(table.remove_code(code));
  EXPECT_FALSE(table.remove_class(user));
  EXPECT_EQ(table.last_used(), MPI_ERR_LASTCODE);
  EXPECT_FALSE(table.class_of(user, found));
}

TEST(ErrorTable, WhatTheStandardDefinesCannotBeChanged) {
  ErrorTable table;
  int code = 0;
  EXPECT_EQ(table.set_text(MPI_ERR_ARG, "x").error_class(), MPI_ERR_ARG);
  EXPECT_EQ(table.remove_class(MPI_ERR_ARG).error_class(), MPI_ERR_ARG);
  EXPECT_EQ(table.remove_code(MPI_ERR_ARG).error_class(), MPI_ERR_ARG);
  EXPECT_FALSE(table.add_code(MPI_ERR_ARG, code));  // a code of a standard class is allowed
  EXPECT_TRUE(table.add_code(code, code));          // a code is no class
}

TEST(Narrowed, TooLargeIsUndefined) {
  EXPECT_EQ(narrowed<int>(5), 5);
  EXPECT_EQ(narrowed<int>(Count{INT32_MAX}), INT32_MAX);
  EXPECT_EQ(narrowed<int>(Count{INT32_MAX} + 1), MPI_UNDEFINED);
  EXPECT_EQ(narrowed<MPI_Count>(Count{1} << 40), Count{1} << 40);
}

TEST(IntArray, ReadsBothWidths) {
  int small[] = {1, -2, 3};
  int64_t large[] = {1, -2, int64_t{1} << 40};
  EXPECT_EQ(IntArray(small)[1], -2);
  EXPECT_EQ(IntArray(large)[2], int64_t{1} << 40);
  EXPECT_EQ(IntArray(small).copy(3), (std::vector<Count>{1, -2, 3}));
  EXPECT_TRUE(IntArray(static_cast<const int*>(nullptr)).null());
}

TEST(Status, FieldsSurviveTheWayThroughMpiStatus) {
  MPI_Status status;
  std::memset(&status, 0xab, sizeof status);
  put_status(&status, {3, 77, Count{1} << 41, true});
  EXPECT_EQ(status.MPI_SOURCE, 3);
  EXPECT_EQ(status.MPI_TAG, 77);
  EXPECT_EQ(status.MPI_ERROR, static_cast<int>(0xabababab));  // single completions leave it alone (3.2.5)
  Status back = get_status(status);
  EXPECT_EQ(back.source, 3);
  EXPECT_EQ(back.tag, 77);
  EXPECT_EQ(back.bytes, Count{1} << 41);
  EXPECT_TRUE(back.cancelled);
  put_status(MPI_STATUS_IGNORE, {3, 77, 5, true});
}

TEST(Names, PredefinedHandlesAreNamed) {
  EXPECT_STREQ(handle_name(0x101), "MPI_COMM_WORLD");
  EXPECT_STREQ(handle_name(0x209), "MPI_INT");
  EXPECT_STREQ(handle_name(0x184), nullptr);
}

}  // namespace
}  // namespace tern::capi
