// Starting processes. Source: MPI 5.0, section 11.8. The new processes are a job of their own, started by the launcher;
// they find the port of their parents in their initialisation (meet_parents) and connect to it.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <numeric>

#include "capi/comm_common.h"
#include "capi/jobs.h"
#include "impl.gen.h"
#include "process/jobs/ports.h"
#include "process/launch/spawn_command.h"
#include "process/launch/start_info.h"

namespace tern::capi {

namespace {

/// What MPI_INFO_ENV of the new processes says, and how many there will be.
Error take_start_info(const Info* info, SpawnProgram& program) {
  StartInfo start{{"maxprocs", std::to_string(program.ranks)}};
  auto take = [&](const char* key, auto&& check) -> Error {
    const std::string* value = info ? info->find(key) : nullptr;
    if (!value) return {};
    if (const std::string wrong = check(*value); !wrong.empty())
      return Error(ErrorClass::info_value, fmt::format("the value of the info key {} {}", key, wrong));
    start.emplace_back(key, *value);
    return {};
  };
  auto check_soft = [](const std::string& text) -> std::string {
    if (soft_number(text, kMaxJobRanks)) return {};
    return fmt::format("is a list of numbers and triplets first:last[:step], not '{}'", text);
  };
  if (Error error = take("soft", check_soft)) return error;
  if (Error error = take("mpi_initial_errhandler", check_initial_errhandler)) return error;
  if (Error error = take("mpi_memory_alloc_kinds", check_memory_kinds)) return error;
  if (const std::string* soft = find_key(start, "soft")) {
    const int most = program.ranks;
    program.ranks = *soft_number(*soft, most);
    if (most > 0 && program.ranks == 0)
      return Error(ErrorClass::spawn,
                   fmt::format("the info key soft ({}) allows no number of processes from 1 to {}", *soft, most));
  }
  program.environment.push_back(fmt::format("{}={}", kStartInfoVariable, text_of(start)));
  return {};
}

/// The reserved info keys of 11.8.4 that mean something here, and `env`: "NAME=VALUE", one a line.
Error take_info(const Info* info, SpawnProgram& program) {
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
  return take_start_info(info, program);
}

Error check(const SpawnProgram& program, const char* argument) {
  if (program.ranks < 1) {
    return Error(ErrorClass::arg,
                 fmt::format("argument '{}' is {} for '{}'. Pass 1 or more", argument, program.ranks, program.command));
  }
  if (program.command.empty()) return Error(ErrorClass::spawn, "a command is empty");
  return {};
}

/// `argument`: of the function, the number of processes.
Error add_program(const char* command, char** arguments, int ranks, const Info* info, const char* argument,
                  std::vector<SpawnProgram>& programs) {
  SpawnProgram& program = programs.emplace_back();
  program.command = command ? command : "";
  for (; arguments && *arguments; ++arguments) program.arguments.emplace_back(*arguments);
  program.ranks = ranks;
  if (Error error = check(program, argument)) return error;
  return take_info(info, program);
}

Error check_number(const SpawnRequest& request) {
  int64_t ranks = 0;
  for (const SpawnProgram& program : request.programs) ranks += program.ranks;
  if (ranks <= kMaxJobRanks) return {};
  return Error(ErrorClass::spawn, fmt::format("{} processes are more than a job can have ({})", ranks, kMaxJobRanks));
}

/// At the root: has them started, and waits for their call.
std::unique_ptr<PortLink> start(Call& call, SpawnRequest& request, uint64_t deadline_ns, Error& trouble) {
  Ports& ports = call.process().jobs().ports();
  trouble = ports.open(true, request.parent_port);
  if (trouble) return nullptr;
  uint64_t port = 0;
  trouble = ports.find(request.parent_port, port);
  if (!trouble) trouble = call.process().jobs().spawn(request);
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

/// How many processes of each program the root was asked for, and how many it has started: at every rank, since all
/// have an array of error codes. One round more if the info key `soft` made them differ.
Error share_numbers(Call& call, Communicator& comm, int root, create::Words requested, const SpawnRequest& request,
                    create::Words& numbers) {
  const bool is_root = comm.rank() == root;
  bool differ = false;
  for (size_t i = 0; is_root && i < requested.size(); ++i)
    differ |= requested[i] != uint64_t(request.programs[i].ranks);
  create::Words all;
  if (Error error = create::allgather(maker_of(call), comm, create::Words{differ ? requested.size() : 0}, all))
    return error;
  const size_t programs = all[size_t(root)];
  if (programs == 0) return {};
  create::Words mine(2 * programs);
  for (size_t i = 0; is_root && i < programs; ++i) {
    mine[2 * i] = requested[i];
    mine[2 * i + 1] = uint64_t(request.programs[i].ranks);
  }
  if (Error error = create::allgather(maker_of(call), comm, mine, all)) return error;
  const auto roots = all.begin() + ptrdiff_t(2 * programs * size_t(root));
  numbers.assign(roots, roots + ptrdiff_t(2 * programs));
  return {};
}

/// `wrong`, `request` and `requested` (processes of each program) are looked at at the root.
Error spawn(Call& call, SpawnRequest& request, create::Words requested, Error wrong, const Info* info, int root,
            Communicator& comm, Communicator*& intercomm, int* codes) {
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
  if (error) {
    if (comm.rank() == root && codes)
      std::fill_n(codes, std::accumulate(requested.begin(), requested.end(), uint64_t{0}), MPI_ERR_SPAWN);
    return error;
  }
  create::Words numbers;
  if (Error lost = share_numbers(call, comm, root, std::move(requested), request, numbers)) return lost;
  if (codes && numbers.empty()) std::fill_n(codes, fresh->remote_size(), MPI_SUCCESS);
  for (size_t i = 0; codes && i < numbers.size(); i += 2) {
    codes = std::fill_n(codes, numbers[i + 1], MPI_SUCCESS);
    codes = std::fill_n(codes, numbers[i] - numbers[i + 1], MPI_ERR_SPAWN);
  }
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
  if (comm.rank() == 0) trouble = process.jobs().ports().connect(port, link);
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
  create::Words requested;
  Error wrong;
  if (comm.rank() == root) {
    wrong = add_program(command, argv, maxprocs, info, "maxprocs", request.programs);
    requested = {uint64_t(std::max(maxprocs, 0))};
  }
  return spawn(call, request, std::move(requested), std::move(wrong), info, root, comm, intercomm, array_of_errcodes);
}

Error Comm_spawn_multiple(Call& call, int count, char* array_of_commands[], char** array_of_argv[],
                          const int* array_of_maxprocs, const MPI_Info* array_of_info, int root, Communicator& comm,
                          Communicator*& intercomm, int* array_of_errcodes) {
  SpawnRequest request;
  create::Words requested;
  Error wrong;
  const Info* first = nullptr;
  if (comm.rank() == root) {
    if (count < 1 || !array_of_commands || !array_of_maxprocs || !array_of_info)
      wrong = Error(ErrorClass::arg, "argument 'count' is less than 1, or an array is null");
    for (int i = 0; i < count && !wrong; ++i) {
      const Info* info = call.world().handles.infos.find(value_of(array_of_info[i]));
      if (i == 0) first = info;
      requested.push_back(uint64_t(std::max(array_of_maxprocs[i], 0)));
      wrong = add_program(array_of_commands[i], array_of_argv ? array_of_argv[i] : nullptr, array_of_maxprocs[i], info,
                          "array_of_maxprocs", request.programs);
    }
  }
  return spawn(call, request, std::move(requested), std::move(wrong), first, root, comm, intercomm, array_of_errcodes);
}

Error Comm_get_parent(Call& call, Communicator*& parent) {
  parent = call.world().parent;
  return {};
}

}  // namespace body
}  // namespace tern::capi
