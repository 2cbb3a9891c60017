// Cards: how a path reaches a rank, as the rank publishes it through the launcher before the fence of the start, and as
// others find it when they first speak to that rank. Thread rule: under the rank's lock.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/types.h"
#include "process/launcher.h"

namespace tern {

inline constexpr std::string_view kTcpCardKey = "tcp-card", kUdpCardKey = "udp-card", kRdmaCardKey = "rdma-card",
                                  kOfiCardKey = "ofi-card";

/// What is published of a path: the paths of a network that this rank uses, in their order, and the card. Both sides
/// must take the same ones in the same order: the scheduler of one sends what only a scheduler understands.
std::string published(const std::vector<std::string>& network, std::string_view card);

/// Finds the card of a rank of this job under that key. `path`: its name, for errors. `network`: as published by this
/// rank. The launcher outlives it.
std::function<Error(PeerId, std::string&)> card_finder(Launcher& launcher, std::string_view key, const char* path,
                                                       const std::vector<std::string>& network);

}  // namespace tern
