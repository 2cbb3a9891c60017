// Starting processes. Source: MPI 5.0, section 11.8. The new processes are a job of their own, started by the launcher;
// they find the port of their parents in their initialisation (meet_parents) and connect to it.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

#include "capi/comm_common.h"
#include "capi/jobs.h"
#include "impl.gen.h"
#include "process/jobs/ports.h"
#include "process/launch/spawn_command.h"

namespace tern::capi {

namespace {

/// The reserved info keys of 11.8.4 that mean something here, and `env`: "NAME=VALUE", one a line.
void take_info(const Info* info, SpawnProgram& program) {
  auto text = [info](const char* key) {
    const std::string* value = info ? info->find(key) : nullptr;
    return value ? *value : std::string();
  };
  program.directory = text("wdir");
  program.search_path = text("path");
  program.host = text("host");
  if (program.directory.empty()) {
    char here[PATH_MAX];
    if (getcwd(here, sizeof here)) program.directory = here;
  }
  const std::string environment = text("env");
  for (size_t at = 0; at < environment.size();) {
    const size_t end = std::min(environment.find('\n', at), environment.size());
    if (end > at) program.environment.push_back(environment.substr(at, end - at));
    at = end + 1;
  }
}

Error check(const SpawnProgram& program, const char* argument) {
  if (program.ranks < 1) {
    return Error(ErrorClass::arg,
                 fmt::format("argument '{}' is {} for '{}'. Pass 1 or more", argument, program.ranks, program.command));
  }
  if (program.command.empty()) return Error(ErrorClass::spawn, "a command is empty");
  auto lines = [](const std::string& text) { return text.find('\n') != std::string::npos; };
  if (lines(program.command) || std::any_of(program.arguments.begin(), program.arguments.end(), lines))
    return Error(ErrorClass::spawn,
                 fmt::format("'{}', or an argument of it, has a line break, which no launcher passes "
                             "on",
                             program.command));
  return {};
}

SpawnProgram program_of(const char* command, char** arguments, int ranks, const Info* info) {
  SpawnProgram program;
  program.command = command ? command : "";
  for (; arguments && *arguments; ++arguments) program.arguments.emplace_back(*arguments);
  program.ranks = ranks;
  take_info(info, program);
  return program;
}

Error check_number(const SpawnRequest& request) {
  int64_t ranks = 0;
  for (const SpawnProgram& program : request.programs) ranks += program.ranks;
  if (ranks <= kMaxJobRanks) return {};
  return Error(ErrorClass::spawn, fmt::format("{} processes are more than a job can have ({})", ranks, kMaxJobRanks));
}

/// At the root: has them started, and waits for their call.
std::unique_ptr<PortLink> start(Call& call, SpawnRequest& request, uint64_t deadline_ns, Error& trouble) {
  Ports& ports = call.process().ports();
  trouble = ports.open(true, request.parent_port);
  if (trouble) return nullptr;
  uint64_t port = 0;
  trouble = ports.find(request.parent_port, port);
  if (!trouble) trouble = call.process().spawn(request);
  std::unique_ptr<PortLink> link;
  if (!trouble) {
    link = await_caller(call, port, deadline_ns, trouble);
    if (!link) {
      trouble = Error(ErrorClass::spawn,
                      fmt::format("the new processes have not called MPI_Init within {} s (TERN_PORT_TIMEOUT_S, or the "
                                  "info key timeout). Are they programs of Tern?",
                                  call.process().tunables().port_timeout_s));
    }
  }
  static_cast<void>(ports.close(request.parent_port));
  return link;
}

/// `wrong` and `request` are looked at at the root.
Error spawn(Call& call, SpawnRequest& request, Error wrong, const Info* info, int root, Communicator& comm,
            Communicator*& intercomm, int* codes) {
  if (Error error = intra_only(comm)) return error;
  if (Error error = can_meet_jobs(call)) return error;
  const uint64_t deadline = port_deadline_ns(call, info);
  std::unique_ptr<PortLink> link;
  Error trouble = std::move(wrong);
  if (comm.rank() == root && !trouble) trouble = check_number(request);
  if (comm.rank() == root && !trouble) link = start(call, request, deadline, trouble);
  Ref<Communicator> fresh;
  Error error =
      meet_job(call, {comm, root, true, port_deadline_ns(call, info)}, std::move(link), std::move(trouble), fresh);
  int started = error ? 0 : fresh->remote_size();
  if (comm.rank() == root && error) {
    for (const SpawnProgram& program : request.programs) started += program.ranks;
  }
  if (codes) std::fill_n(codes, started, error ? MPI_ERR_SPAWN : MPI_SUCCESS);
  if (error) return error;
  intercomm = hand_out(comm, fresh);
  return {};
}

}  // namespace

Error meet_parents(Call& call) {
  Process& process = call.process();
  const std::string port = process.launcher().parent_port();
  if (port.empty()) return {};
  std::unique_ptr<PortLink> link;
  Error trouble;
  Communicator& comm = process.world();
  if (comm.rank() == 0) trouble = process.ports().connect(port, link);
  Ref<Communicator> fresh;
  if (Error error =
          meet_job(call, {comm, 0, false, port_deadline_ns(call, nullptr)}, std::move(link), std::move(trouble), fresh))
    return std::move(error).context("the job that has spawned this one cannot be reached");
  fresh->name = "MPI_COMM_PARENT";
  call.world().parent = hand_out(comm, fresh);
  return {};
}

namespace body {

Error Comm_spawn(Call& call, const char* command, char* argv[], int maxprocs, Info* info, int root, Communicator& comm,
                 Communicator*& intercomm, int* array_of_errcodes) {
  SpawnRequest request;
  Error wrong;
  if (comm.rank() == root) {
    request.programs.push_back(program_of(command, argv, maxprocs, info));
    wrong = check(request.programs[0], "maxprocs");
  }
  return spawn(call, request, std::move(wrong), info, root, comm, intercomm, array_of_errcodes);
}

Error Comm_spawn_multiple(Call& call, int count, char* array_of_commands[], char** array_of_argv[],
                          const int* array_of_maxprocs, const MPI_Info* array_of_info, int root, Communicator& comm,
                          Communicator*& intercomm, int* array_of_errcodes) {
  SpawnRequest request;
  Error wrong;
  const Info* first = nullptr;
  if (comm.rank() == root) {
    if (count < 1 || !array_of_commands || !array_of_maxprocs || !array_of_info)
      wrong = Error(ErrorClass::arg, "argument 'count' is less than 1, or an array is null");
    for (int i = 0; i < count && !wrong; ++i) {
      const Info* info = call.world().infos.find(value_of(array_of_info[i]));
      if (i == 0) first = info;
      request.programs.push_back(
          program_of(array_of_commands[i], array_of_argv ? array_of_argv[i] : nullptr, array_of_maxprocs[i], info));
      wrong = check(request.programs.back(), "array_of_maxprocs");
    }
  }
  return spawn(call, request, std::move(wrong), first, root, comm, intercomm, array_of_errcodes);
}

Error Comm_get_parent(Call& call, Communicator*& parent) {
  parent = call.world().parent;
  return {};
}

}  // namespace body
}  // namespace tern::capi
