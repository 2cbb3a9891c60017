// Jobs that meet: ports, names, join. Source: MPI 5.0, sections 11.9 and 11.10.
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "base/limits.h"
#include "capi/comm_common.h"
#include "capi/jobs.h"
#include "impl.gen.h"
#include "process/jobs/meeting.h"

namespace tern::capi {

namespace {

/// The message of both sides of MPI_Comm_join: the one that drew the smaller number accepts.
struct JoinGreeting {
  char magic[8];
  uint64_t draw;
  char port[MPI_MAX_PORT_NAME];
};
constexpr char kJoinMagic[8] = {'T', 'e', 'r', 'n', 'j', 'o', 'i', 'n'};
constexpr int kJoinTimeout_ms = 60'000;  // as TERN_PORT_TIMEOUT_S

Error transfer_all(int fd, void* data, size_t bytes, bool out) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    pollfd ready{fd, short(out ? POLLOUT : POLLIN), 0};
    const int events = ::poll(&ready, 1, kJoinTimeout_ms);
    if (events < 0 && errno == EINTR) continue;
    if (events == 0)
      return Error(ErrorClass::other, fmt::format("the other process says nothing on descriptor {}", fd));
    const ssize_t n = out ? ::send(fd, at, bytes, MSG_NOSIGNAL) : ::recv(fd, at, bytes, 0);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0)
      return Error(ErrorClass::arg, fmt::format("argument 'fd' is {}, over which nothing can be exchanged: {}. Pass a "
                                                "socket that is connected with the other process",
                                                fd, n == 0 ? "the other side has closed it" : errno_text(errno)));
    at += n;
    bytes -= size_t(n);
  }
  return {};
}

/// The root's part of MPI_Comm_connect.
Error call_port(Call& call, const char* port_name, std::unique_ptr<PortLink>& link) {
  return call.process().jobs().ports().connect(port_name, link);
}

}  // namespace

Error can_meet_jobs(Call& call) {
  if (call.process().jobs().others()) return {};
  return Error(ErrorClass::unsupported_operation, "a simulated world is the only job that there is");
}

uint64_t port_deadline_ns(Call& call, const Info* info) {
  uint64_t seconds = uint64_t(call.process().tunables().port_timeout_s);
  if (const std::string* text = info ? info->find("timeout") : nullptr)
    seconds = std::strtoull(text->c_str(), nullptr, 10);
  return call.process().clock().now_ns() + seconds * kSecond_ns;
}

Error meet_job(Call& call, const JobMeeting& side, std::unique_ptr<PortLink> link, Error trouble,
               Ref<Communicator>& result) {
  Process& process = call.process();
  const create::Maker maker = maker_of(call);
  const Meeting meeting{
      maker,        *process.jobs().others(), process.jobs().ports(), process.clock(), side.comm, side.root,
      side.accepts, side.deadline_ns};
  if (Error error = meet(meeting, std::move(link), std::move(trouble), result)) return error;
  call.help();  // the new peers may need this rank while it computes
  return {};
}

Error introduce_jobs(Call& call, Communicator& local, int leader, Communicator* peer_comm, int remote_leader, int tag) {
  if (Error error = can_meet_jobs(call)) return error;
  const create::Maker maker = maker_of(call);
  Strangers strangers{maker, *call.process().jobs().others(), local, leader, nullptr, remote_leader, kNoPeer};
  std::optional<create::Channel> bridge;
  if (local.rank() == leader) {
    bridge = create::bridge_between(maker, *peer_comm, tag);
    strangers.bridge = &*bridge;
    strangers.far = peer_comm->peer_group().peer(remote_leader);
  }
  if (Error error = introduce(strangers)) return error;
  call.help();  // the new peers may need this rank while it computes
  return {};
}

std::unique_ptr<PortLink> await_caller(Call& call, uint64_t port, uint64_t deadline_ns, Error& trouble) {
  Process& process = call.process();
  Ports& ports = process.jobs().ports();
  Clock& clock = process.clock();
  {
    const Ports::Waiting waiting(ports, nullptr, deadline_ns);
    process.progress().wait_until([&] { return ports.has_caller(port) || clock.now_ns() >= deadline_ns; });
  }
  std::unique_ptr<PortLink> link = ports.next_caller(port);
  if (!link) trouble = Error(ErrorClass::port, "nobody has connected in time (the info key timeout)");
  return link;
}

namespace body {

Error Open_port(Call& call, Info*, char* port_name) {
  if (Error error = can_meet_jobs(call)) return error;
  std::string name;
  if (Error error = call.process().jobs().ports().open(false, name)) return error;
  static_assert(kMaxPortName < MPI_MAX_PORT_NAME);
  std::memcpy(port_name, name.c_str(), name.size() + 1);
  return {};
}

Error Close_port(Call& call, const char* port_name) { return call.process().jobs().ports().close(port_name); }

Error Comm_accept(Call& call, const char* port_name, Info* info, int root, Communicator& comm, Communicator*& newcomm) {
  if (Error error = intra_only(comm)) return error;
  if (Error error = can_meet_jobs(call)) return error;
  std::unique_ptr<PortLink> link;
  Error trouble;
  if (comm.rank() == root) {
    uint64_t port = 0;
    trouble = call.process().jobs().ports().find(port_name, port);
    // Without the key there is no timeout.
    const uint64_t deadline = info && info->find("timeout") ? port_deadline_ns(call, info) : ~uint64_t{0};
    if (!trouble) link = await_caller(call, port, deadline, trouble);
  }
  Ref<Communicator> fresh;
  if (Error error =
          meet_job(call, {comm, root, true, port_deadline_ns(call, info)}, std::move(link), std::move(trouble), fresh))
    return error;
  newcomm = hand_out(comm, fresh);
  return {};
}

Error Comm_connect(Call& call, const char* port_name, Info* info, int root, Communicator& comm,
                   Communicator*& newcomm) {
  if (Error error = intra_only(comm)) return error;
  if (Error error = can_meet_jobs(call)) return error;
  std::unique_ptr<PortLink> link;
  Error trouble;
  if (comm.rank() == root) trouble = call_port(call, port_name, link);
  Ref<Communicator> fresh;
  if (Error error =
          meet_job(call, {comm, root, false, port_deadline_ns(call, info)}, std::move(link), std::move(trouble), fresh))
    return error;
  newcomm = hand_out(comm, fresh);
  return {};
}

Error Comm_join(Call& call, int fd, Communicator*& intercomm) {
  if (Error error = can_meet_jobs(call)) return error;
  Process& process = call.process();
  Ports& ports = process.jobs().ports();
  std::string name;
  if (Error error = ports.open(true, name)) return error;
  struct Closer {
    Ports& ports;
    const std::string& name;
    ~Closer() { static_cast<void>(ports.close(name)); }
  } closer{ports, name};
  JoinGreeting mine{}, theirs{};
  std::memcpy(mine.magic, kJoinMagic, sizeof kJoinMagic);
  std::memcpy(mine.port, name.data(), name.size());
  mine.draw = hash_of(process.peers().my_name(), process.new_context());
  if (Error error = transfer_all(fd, &mine, sizeof mine, true)) return error;
  if (Error error = transfer_all(fd, &theirs, sizeof theirs, false)) return error;
  theirs.port[sizeof theirs.port - 1] = '\0';
  if (std::memcmp(theirs.magic, kJoinMagic, sizeof kJoinMagic) != 0 || theirs.draw == mine.draw)
    return Error(ErrorClass::other, fmt::format("the process behind descriptor {} does not call MPI_Comm_join", fd));
  const bool accepts = mine.draw < theirs.draw;
  const uint64_t deadline = port_deadline_ns(call, nullptr);
  std::unique_ptr<PortLink> link;
  Error trouble;
  uint64_t port = 0;
  if (accepts) {
    trouble = ports.find(name, port);
    if (!trouble) link = await_caller(call, port, deadline, trouble);
  } else {
    trouble = call_port(call, theirs.port, link);
  }
  Ref<Communicator> fresh;
  if (Error error = meet_job(call, {process.self(), 0, accepts, deadline}, std::move(link), std::move(trouble), fresh))
    return error;
  intercomm = hand_out(process.self(), fresh);
  return {};
}

Error Publish_name(Call& call, const char* service_name, Info*, const char* port_name) {
  // Any text: programs also publish what is not a port's name (MPICH's tests do). MPI_Comm_connect checks it.
  if (std::strlen(port_name) > kMaxPortName) {
    return Error(ErrorClass::port, fmt::format("a port's name has at most {} characters, this one {}", kMaxPortName,
                                               std::strlen(port_name)));
  }
  return call.process().jobs().ports().publish(service_name, port_name);
}

Error Unpublish_name(Call& call, const char* service_name, Info*, const char*) {
  return call.process().jobs().ports().unpublish(service_name);
}

Error Lookup_name(Call& call, const char* service_name, Info*, char* port_name) {
  std::string name;
  if (Error error = call.process().jobs().ports().look_up(service_name, name)) return error;
  if (name.size() > kMaxPortName) {
    return Error(ErrorClass::name,
                 fmt::format("what was published for '{}' is too long for a port's name", service_name));
  }
  std::memcpy(port_name, name.c_str(), name.size() + 1);
  return {};
}

}  // namespace body
}  // namespace tern::capi
