// Jobs that ranks spawn (MPI_Comm_spawn): each has an mpiexec of its own, which this one starts, waits for, and ends
// with the rest. And the other side of it: what an mpiexec of a spawned job says to the one around it.
#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "job.h"
#include "process/launch/spawn_command.h"
#include "rank_setup.h"

namespace tern::mpiexec {

// The socket of the new mpiexec is in `answer`; 0, or the errno.
int Job::start_child_job(int number, SpawnRequest request, int& answer) {
  // Programs that name no host run on those of this job.
  for (SpawnProgram& program : request.programs) {
    if (hosts_ && program.host.empty()) program.host = host_list();
  }
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return errno;
  char self[4096];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof self);
  ChildSpec spec;
  spec.file.assign(self, length > 0 ? size_t(length) : 0);
  const int expected = plan_.universe_size != 0 ? plan_.universe_size : cores_.all;
  spec.arguments = spawn_command(request, universe_of_spawned(request, int(ranks_.size()), expected));
  if (plan_.label) spec.arguments.insert(spec.arguments.begin() + 1, "-l");
  spec.environment = base_environment(plan_.apps.front());
  spec.keep = ends[1];
  spec.keep_as = kept_descriptor(descriptor_limit_);
  spec.environment.push_back(fmt::format("{}={}", kSpawnAnswerVariable, spec.keep_as));
  spec.environment.push_back(fmt::format("{}={}", kParentPortVariable, request.parent_port));
  spec.descriptors = descriptor_limit_;
  spec.standard[0] = null_;
  int why = 0;
  for (int stream = 1; stream <= 2 && why == 0; ++stream) {
    spec.standard[stream] = stream;
    if (!passes_through()) continue;
    pipes_.emplace_back(plan_.label ? fmt::format("[job {}] ", number + 1) : "", stream == 1 ? &out_ : &err_, -1);
    spec.standard[stream] = pipes_.back().open();
    if (spec.standard[stream] < 0) why = errno;
    else watch(pipes_.back().descriptor(), Source::pipe, int(pipes_.size()) - 1, EPOLLIN);
  }
  if (why == 0 && !keeper_.start_child(int(ranks_.size()) + number, spec)) why = errno;
  for (int descriptor : {ends[1], spec.standard[1], spec.standard[2]}) {
    if (descriptor > 2) close(descriptor);
  }
  if (why != 0) close(ends[0]);
  else answer = ends[0];
  return why;
}

void Job::start_spawned(int parent, const SpawnRequest& request) {
  const int number = int(spawned_.size());
  SpawnedJob job{.parent = parent};
  const int why = ending_ ? ECANCELED : start_child_job(number, request, job.answer);
  if (why != 0) return answer_spawn(parent, fmt::format("mpiexec cannot start another job: {}", strerror(why)));
  spawned_.push_back(std::move(job));
  ++live_;
  watch(spawned_.back().answer, Source::spawned, number, EPOLLIN);
}

void Job::on_spawned(int number) {
  SpawnedJob& job = spawned_[size_t(number)];
  char buffer[4096];
  const ssize_t n = recv(job.answer, buffer, sizeof buffer, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) {  // its end is reported by the keeper
    unwatch(job.answer);
    close(std::exchange(job.answer, -1));
    return;
  }
  job.said.append(buffer, size_t(n));
  for (size_t end; (end = job.said.find('\n')) != std::string::npos; job.said.erase(0, end + 1)) {
    const std::string_view line = std::string_view(job.said).substr(0, end);
    if (line == kSpawnBroken) {
      keeper_.sync();  // a rank that died earlier is the reason
      reap();
      fail(1, "a job that was spawned has failed; ending the others");
    } else if (!std::exchange(job.answered, true)) {
      job.refused = line.starts_with(kSpawnFailed);
      answer_spawn(job.parent, job.refused ? line.substr(kSpawnFailed.size()) : "");
    }
  }
}

void Job::on_spawned_ended(int number, int status) {
  SpawnedJob& job = spawned_[size_t(number)];
  while (job.answer >= 0) {  // its last words
    pollfd ready{job.answer, POLLIN, 0};
    if (poll(&ready, 1, 0) <= 0) break;
    on_spawned(number);
  }
  --live_;
  if (!std::exchange(job.answered, true)) answer_spawn(job.parent, "mpiexec of the new job has ended");
  const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  // Who asked for it knows already that nothing was started.
  if (code != 0 && !job.refused && !exit_code_) exit_code_ = code;
}

// --- As a spawned job.

void Job::tell_parents(std::string_view word) {
  if (parents_ < 0) return;
  std::string line(word.substr(0, word.find('\n')));
  line += '\n';
  // Who does not listen any more is gone, and needs no answer.
  (void)!send(parents_, line.data(), line.size(), MSG_NOSIGNAL);
}

void Job::answer_parents() {
  if (parents_ < 0 || parents_answered_ || !server_->all_were_inside()) return;
  parents_answered_ = true;
  tell_parents(kSpawnStarted);
}

// The job cannot be begun: who wants it is told, and says it to its user.
int Job::refuse(int code, const std::string& why) {
  if (parents_ < 0) {
    say(why);
  } else if (!std::exchange(parents_answered_, true)) {
    tell_parents(std::string(kSpawnFailed) + why);
  }
  return code;
}

}  // namespace tern::mpiexec
