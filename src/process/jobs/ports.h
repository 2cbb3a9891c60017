// Ports: what this rank listens on for other jobs, and the conversations with them (MPI 5.0, 11.9). Callers that prove
// a port's secret wait in its queue until MPI_Comm_accept takes them.
//
// Thread rule: under the rank's lock; poll as any Pollable.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/tunables.h"
#include "fabric/pollable.h"
#include "process/jobs/name_folder.h"
#include "process/jobs/port_link.h"
#include "process/jobs/port_name.h"

namespace tern {

class Ports final : public Pollable {
 public:
  Ports(const Tunables& tunables, Clock& clock);
  /// Closes what is open; removes its secrets and the names that it has published.
  ~Ports() override;

  /// Listens. `private_name`: the name contains the secret, for the processes that get it.
  Error open(bool private_name, std::string& name);
  /// Callers in its queue are rejected. MPI_ERR_PORT: it is not open here.
  Error close(std::string_view name);
  /// MPI_ERR_PORT: it is not open here.
  Error find(std::string_view name, uint64_t& port) const;

  /// Begins to call. The link is in `link` also when it fails later.
  Error connect(std::string_view name, std::unique_ptr<PortLink>& link);
  /// The first waiting caller; null: none.
  std::unique_ptr<PortLink> next_caller(uint64_t port);
  bool has_caller(uint64_t port) const;

  /// A thread in MPI_Comm_accept, MPI_Comm_connect or MPI_Comm_spawn waits. Meanwhile its link (not owned; null: it has
  /// none yet) is polled, and who sleeps wakes at its deadline (~0: none). Of several threads each has one.
  class Waiting {
   public:
    Waiting(Ports& ports, PortLink* link, uint64_t deadline_ns);
    ~Waiting();
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    friend class Ports;
    Ports& ports_;
    PortLink* const link_;
    const uint64_t deadline_ns_;
  };

  Error publish(std::string_view service, std::string_view port_name);
  Error unpublish(std::string_view service);
  Error look_up(std::string_view service, std::string& port_name) const { return folder_.look_up(service, port_name); }

  int poll() override;
  const PollHints& hints() const override { return hints_; }
  int wait_fd() const override { return epoll_.get(); }
  bool arm() override;
  void disarm() override { armed_ = false; }
  uint64_t next_deadline_ns() const override;

 private:
  /// A caller, from its first byte until it is accepted.
  struct Caller {
    std::unique_ptr<PortLink> link;
    uint64_t deadline_ns;  ///< by which it must be proven
  };
  struct Port {
    uint64_t number;
    TcpKey secret;
    bool in_folder;
    std::vector<Descriptor> listeners;
    std::vector<Caller> callers;  ///< oldest first
  };
  void accept(Port& port, uint64_t now_ns);
  void watch(int descriptor, bool writing);
  void watch_links();
  void update_hints();

  const Tunables& tunables_;
  Clock& clock_;
  NameFolder folder_;
  PollHints hints_{.dormant = true};
  Descriptor epoll_;
  std::vector<Port> ports_;
  std::vector<const Waiting*> waiting_;
  bool armed_ = false;  ///< a thread sleeps on epoll_: what comes and goes meanwhile is watched at once
  std::vector<std::string> published_;
};

}  // namespace tern
