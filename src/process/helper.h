// Helper: the thread that polls for a rank while the program computes: whether one is wanted (TERN_PROGRESS), and what
// it has to do. Thread rule: under the rank's lock.
#pragma once

#include <functional>
#include <memory>

#include "base/log.h"
#include "base/tunables.h"
#include "p2p/engines.h"
#include "p2p/point_to_point.h"
#include "partitioned/environment.h"
#include "process/node_ranks.h"
#include "process/paths.h"
#include "progress/engine.h"
#include "progress/event_handler.h"
#include "rma/environment.h"

namespace tern {

class Helper {
 public:
  /// Null: a thread of the operating system. May throw std::system_error.
  using MakePort = std::function<std::unique_ptr<EventPort>(ProgressEngine&)>;
  /// What it helps. Not owned.
  struct Rank {
    const Tunables& tunables;
    const Log& log;
    Driving& driving;
    ProgressEngine& progress;
    PointToPoint& p2p;
    const std::unique_ptr<Engines>& engines;  ///< null: none, as long as it helps
    partitioned::Environment& partitioned;
    const std::unique_ptr<rma::Environment>& windows;  ///< null until there are any
    const PeerTable& peers;
    const NodeRanks& node;
    Paths& paths;
  };

  Helper(const Rank& rank, MakePort make_port) : rank_(rank), make_port_(std::move(make_port)) {}
  /// Begins if a helper is wanted and others can reach this rank. After Process::start; again after `end` only.
  void begin();
  void end();
  bool is_there() const { return handler_ != nullptr; }

 private:
  bool some_peer_needs_it() const;
  void set_helped(bool helped);
  Need needed(bool always, bool windows_only) const;

  const Rank rank_;
  const MakePort make_port_;
  std::unique_ptr<EventPort> port_;
  std::unique_ptr<EventHandler> handler_;
};

}  // namespace tern
