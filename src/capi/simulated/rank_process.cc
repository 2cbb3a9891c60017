#include "capi/simulated/rank_process.h"

#include <stdio_ext.h>
#include <unistd.h>

#include <cstring>

#include "base/assert.h"
#include "sim/threads.h"

namespace tern::sim {
namespace {

// The C library's functions, which the program calls, have no argument that names a rank.
RankProcess* current_process = nullptr;

ssize_t write_out(void* process, const char* text, size_t bytes) {
  static_cast<RankProcess*>(process)->host().write(1, {text, bytes});
  return ssize_t(bytes);
}

ssize_t write_err(void*, const char* text, size_t bytes) {
  RankProcess::here().host().write(2, {text, bytes});
  return ssize_t(bytes);
}

// Streams that all ranks share, since they keep nothing.
FILE* common_err() {
  static FILE* err = [] {
    FILE* stream = fopencookie(nullptr, "w", {nullptr, write_err, nullptr, nullptr});
    std::setvbuf(stream, nullptr, _IONBF, 0);
    return stream;
  }();
  return err;
}

FILE* empty_input() {
  static FILE* in = std::fopen("/dev/null", "re");
  return in;
}

// The streams of the simulator itself, while a rank's are in their place.
struct Streams {
  FILE *out = stdout, *err = stderr, *in = stdin;
} own_streams;

}  // namespace

RankProcess::~RankProcess() {
  if (!out_) return;
  __fpurge(out_);
  std::fclose(out_);
}

RankProcess* RankProcess::current() { return current_process; }

void RankProcess::switch_in() {
  current_process = this;
  if (!out_) return;
  stdout = out_;
  stderr = common_err();
  stdin = rank_ == 0 ? own_streams.in : empty_input();
  if (const uint64_t bytes = copies_.program().exchanged_bytes()) {
    std::memcpy(ProgramTemplate::thread_pointer_if_free() - bytes, block_ + copies_.program().exchanged_at(), bytes);
  }
}

void RankProcess::switch_out() {
  current_process = nullptr;
  stdout = own_streams.out;
  stderr = own_streams.err;
  stdin = own_streams.in;
  if (!out_) return;
  if (const uint64_t bytes = copies_.program().exchanged_bytes()) {
    std::memcpy(block_ + copies_.program().exchanged_at(), ProgramTemplate::thread_pointer_if_free() - bytes, bytes);
  }
}

// Where thread-local variables are while a thread runs; the program's own are below the thread pointer.
template <typename Use>
void RankProcess::for_thread_data(Use&& use) {
  const ProgramTemplate& program = copies_.program();
  for (const ProgramTemplate::Part& part : program.parts()) {
    const bool exchanged = &part == &program.parts().front() && program.exchanged_bytes() != 0;
    if (exchanged)
      use(ProgramTemplate::thread_pointer_if_free() - program.exchanged_bytes(), program.exchanged_bytes());
    else use(block_ + part.thread_data_at, part.image->thread_data().bytes);
  }
}

void RankProcess::switch_thread(size_t from, size_t to) {
  std::vector<std::byte>& kept = thread_data_[from];
  kept.clear();
  for_thread_data([&](std::byte* data, uint64_t bytes) { kept.insert(kept.end(), data, data + bytes); });
  const auto found = thread_data_.find(to);
  const std::byte* next = found == thread_data_.end() ? first_thread_data_.data() : found->second.data();
  for_thread_data([&](std::byte* data, uint64_t bytes) {
    if (bytes != 0) std::memcpy(data, next, bytes);
    next += bytes;
  });
}

void RankProcess::open_streams() {
  out_ = fopencookie(this, "w", {nullptr, write_out, nullptr, nullptr});
  TERN_ASSERT(out_);
  // Locks are for threads.
  __fsetlocking(out_, FSETLOCKING_BYCALLER);
  if (isatty(1)) std::setvbuf(out_, nullptr, _IOLBF, 0);
  host_variable<FILE*>(kStdout) = out_;
  host_variable<FILE*>(kStderr) = common_err();
  host_variable<FILE*>(kStdin) = rank_ == 0 ? own_streams.in : empty_input();
}

Error RankProcess::prepare(const std::vector<std::string>& command) {
  if (Error error = copies_.make(place_, block_)) return error;
  arguments_ = command;
  start_.push_back(nullptr);
  for (std::string& argument : arguments_) start_.push_back(argument.data());
  start_.push_back(nullptr);
  for (char** each = environ; *each; ++each) start_.push_back(*each);
  start_.insert(start_.end(), {nullptr, nullptr, nullptr});  // the end of the environment, an empty auxiliary vector
  open_streams();
  switch_in();
  for_thread_data([this](std::byte* data, uint64_t bytes) {
    first_thread_data_.insert(first_thread_data_.end(), data, data + bytes);
  });
  return {};
}

RankProcess::Exit RankProcess::run() {
  if (_setjmp(end_) == 0) enter();
  return exit_;
}

void RankProcess::enter() {
  const auto base = reinterpret_cast<uint64_t>(block_);
  const ProgramTemplate& program = copies_.program();
  for (const auto& resolved : program.resolved()) {
    auto* place = reinterpret_cast<uint64_t*>(block_ + resolved.at);
    *place = reinterpret_cast<uint64_t (*)()>(base + resolved.function)();
  }
  const int argc = int(arguments_.size());
  char** const argv = start_.data() + 1;
  // A library before those that need it: they come later in the list.
  for (size_t i = program.parts().size(); i-- > 1;) initialise_part(program.parts()[i], argc, argv);
  if (!program.has_entry()) {
    start_main(reinterpret_cast<int (*)(int, char**, char**)>(base + program.main_at()), argc, argv);
  }
#if defined(__x86_64__)
  // Source: System V ABI for x86-64, 3.4.1: the stack of a new process. It is copied, since _start goes on below it.
  const size_t words = start_.size() + (start_.size() & 1);
  auto* stack = static_cast<char**>(__builtin_alloca_with_align(words * sizeof(char*), 128));
  std::memcpy(stack, start_.data(), start_.size() * sizeof(char*));
  stack[0] = reinterpret_cast<char*>(intptr_t{argc});
  asm volatile(
      "mov %0, %%rsp\n"
      "xor %%edx, %%edx\n"
      "xor %%ebp, %%ebp\n"
      "jmp *%1\n"
      :
      : "r"(stack), "r"(base + program.parts()[0].image->entry())
      : "memory", "rdx");
#endif
  __builtin_unreachable();
}

void RankProcess::initialise_part(const ProgramTemplate::Part& part, int argc, char** argv) {
  using Function = void (*)(int, char**, char**);
  std::byte* const image = block_ + part.at;
  if (const uint64_t init = part.image->init()) reinterpret_cast<Function>(image + init)(argc, argv, environ);
  for (uint64_t place : part.image->init_places()) {
    const auto function = *reinterpret_cast<Function*>(image + place);
    if (function) function(argc, argv, environ);
  }
}

void RankProcess::start_main(int (*main)(int, char**, char**), int argc, char** argv) {
  initialise_part(copies_.program().parts()[0], argc, argv);
  this->exit(main(argc, argv, argv + argc + 1));
}

void RankProcess::call_exit_functions() {
  while (!at_exit_.empty()) {
    const AtExit last = at_exit_.back();
    at_exit_.pop_back();
    last.function(last.argument);
  }
}

void RankProcess::call_places(const ProgramTemplate::Part& part) {
  std::byte* const image = block_ + part.at;
  for (uint64_t place : part.image->fini_places()) {
    auto& function = *reinterpret_cast<void (**)()>(image + place);
    if (function) function();
  }
  if (const uint64_t fini = part.image->fini()) reinterpret_cast<void (*)()>(image + fini)();
}

// A function that is called here may call exit, too: what is left goes on from there.
void RankProcess::exit(int code) {
  call_exit_functions();
  while (finished_parts_ < copies_.program().parts().size()) call_places(copies_.program().parts()[finished_parts_++]);
  std::fflush(out_);
  end_now({code & 0xff, 0});
}

void RankProcess::end_now(Exit how) {
  exit_ = how;
  if (Threads* threads = Threads::running()) threads->leave_by([this] { _longjmp(end_, 1); });
  _longjmp(end_, 1);
}

RankRandom& RankProcess::random() {
  if (!random_) {
    random_ = std::make_unique<RankRandom>();
    initstate_r(1, random_->state, sizeof random_->state, &random_->data);  // as if srandom(1) had been called
    unsigned short first[] = {0x330e, 0xabcd, 0x1234};                      // of drand48(3)
    seed48_r(first, &random_->data48);
  }
  return *random_;
}

}  // namespace tern::sim
