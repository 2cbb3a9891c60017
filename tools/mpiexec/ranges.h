// Numbers as people write them.
#pragma once

#include <string>
#include <vector>

namespace tern::mpiexec {

/// Of ascending numbers: "0-3,8".
inline std::string ranges(const std::vector<int>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const size_t first = i;
    while (i + 1 < numbers.size() && numbers[i + 1] == numbers[i] + 1) ++i;
    text += (text.empty() ? "" : ",") + std::to_string(numbers[first]);
    if (i > first) text += "-" + std::to_string(numbers[i]);
  }
  return text;
}

}  // namespace tern::mpiexec
