// What a user has asked of the start of a program besides its ranks (MPI 5.0, 10.2, 11.5, 11.8.4): mpiexec leaves it to
// the ranks in a variable, from which come MPI_INFO_ENV, the initial error handler and the kinds of memory. The keys
// are those of the standard: maxprocs, soft, mpi_initial_errhandler, mpi_memory_alloc_kinds. Thread rule: pure
// functions, but for start_info(), which reads the environment.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tern {

/// "key=value;key=value". Values have no semicolon.
inline constexpr const char kStartInfoVariable[] = "TERN_START_INFO";
using StartInfo = std::vector<std::pair<std::string, std::string>>;

std::string text_of(const StartInfo& info);
StartInfo parse_start_info(std::string_view text);
/// Of this process.
StartInfo start_info();
/// Null: there is no such key.
const std::string* find_key(const StartInfo& info, std::string_view key);

/// What is wrong with a value of mpi_initial_errhandler; empty: nothing. Any case of letters will do.
std::string check_initial_errhandler(std::string_view value);
/// What is wrong with a value of mpi_memory_alloc_kinds.
std::string check_memory_kinds(std::string_view value);

/// The most processes that `soft` allows, at most `most` (11.8.4: triplets, "1,2:10:2"); none: 0. Nothing: the text is
/// no list of triplets.
std::optional<int> soft_number(std::string_view soft, int most);

}  // namespace tern
