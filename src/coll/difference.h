// Words in the text of an error that comes from ranks in different collectives. Thread rule: a constant.
#pragma once

namespace tern {

inline constexpr const char* kDifferentCollectives = "in another collective operation";

}  // namespace tern
