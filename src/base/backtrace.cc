#include "base/backtrace.h"

#include <dlfcn.h>
#include <link.h>
#include <unwind.h>

#include <algorithm>
#include <cstring>

#include "base/signal_text.h"
#ifdef TERN_HAVE_BACKTRACE
#include <backtrace.h>
#endif
#ifdef TERN_HAVE_DEMANGLER
#define HAVE_DECL_BASENAME 1  // its header declares it differently from the C library
#include <libiberty/demangle.h>
#endif

namespace tern {
namespace {

_Unwind_Reason_Code add_frame(_Unwind_Context* context, void* to) {
  auto& stack = *static_cast<CallStack*>(to);
  if (stack.depth == CallStack::kMaxFrames) return _URC_END_OF_STACK;
  const uintptr_t address = _Unwind_GetIP(context);
  if (address == 0) return _URC_END_OF_STACK;
  stack.frames[stack.depth++] = address;
  return _URC_NO_REASON;
}

struct FrameRoom {
  Frame* frames;
  size_t room, depth;
};

// The number of the frame pointer's register in DWARF: AArch64's x29, else x86-64's rbp.
#if defined(__aarch64__)
constexpr int kFramePointer = 29;  // DWARF for the Arm 64-bit architecture, 4.1
#else
constexpr int kFramePointer = 6;  // System V ABI, AMD64 supplement, figure 3.36
#endif

// While a frame is visited, the unwinder's canonical frame address is still that of the frame below: the stack pointer
// here.
_Unwind_Reason_Code add_whole_frame(_Unwind_Context* context, void* to) {
  auto& all = *static_cast<FrameRoom*>(to);
  if (all.depth == all.room) return _URC_END_OF_STACK;
  const uintptr_t pc = _Unwind_GetIP(context);
  if (pc == 0) return _URC_END_OF_STACK;
  all.frames[all.depth++] = {pc, _Unwind_GetCFA(context), _Unwind_GetGR(context, kFramePointer)};
  return _URC_NO_REASON;
}

const char* file_name(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/// What the debug information says of one address. Inlined functions are reported first: the innermost is the place.
struct Place {
  char function[1024] = "";  ///< as the linker knows it: names of templates are long, and mean nothing when cut
  char file[128] = "";
  int line = 0;
};

template <size_t kRoom>
void keep(char (&to)[kRoom], const char* from) {
  if (!from || to[0] != '\0') return;
  std::strncpy(to, from, kRoom - 1);
}

// The name as the source has it, without parameters. This demangler allocates nothing, unlike the C++ library's own.
void add_name(SignalText& text, const char* name) {
#ifdef TERN_HAVE_DEMANGLER
  const auto add = [](const char* piece, size_t, void* to) { static_cast<SignalText*>(to)->add(piece); };
  if (name[0] == '_' && name[1] == 'Z' && cplus_demangle_v3_callback(name, DMGL_NO_OPTS, add, &text) != 0) return;
#endif
  text.add(name);
}

#ifdef TERN_HAVE_BACKTRACE
int on_line(void* to, uintptr_t, const char* file, int line, const char* function) {
  auto& place = *static_cast<Place*>(to);
  if (file && place.file[0] == '\0') {
    keep(place.file, file_name(file));
    place.line = line;
  }
  keep(place.function, function);
  return 0;
}

void on_symbol(void* to, uintptr_t, const char* name, uintptr_t, uintptr_t) {
  keep(static_cast<Place*>(to)->function, name);
}

void on_error(void*, const char*, int) {}  // less is known, which is no reason to say nothing

void look_up(std::atomic<void*>& symbols, uintptr_t address, Place& place) {
  void* state = symbols.load(std::memory_order_acquire);
  if (!state) {
    state = backtrace_create_state(nullptr, 1, on_error, nullptr);
    symbols.store(state, std::memory_order_release);  // of two threads that come first, one wastes some memory
  }
  if (!state) return;
  auto* table = static_cast<backtrace_state*>(state);
  backtrace_pcinfo(table, address, on_line, on_error, &place);
  if (place.function[0] == '\0') backtrace_syminfo(table, address, on_symbol, on_error, &place);
}
#else
void look_up(std::atomic<void*>&, uintptr_t, Place&) {}
#endif

}  // namespace

CallStack walk_stack(uintptr_t from) {
  CallStack stack;
  _Unwind_Backtrace(add_frame, &stack);
  uintptr_t* const end = stack.frames + stack.depth;
  uintptr_t* first = std::find(stack.frames, end, from);
  if (first == end) first = stack.frames + std::min<size_t>(1, stack.depth);  // without this function's own
  stack.depth = size_t(std::copy(first, end, stack.frames) - stack.frames);
  return stack;
}

size_t walk_frames(Frame* frames, size_t room) {
  FrameRoom all{frames, room, 0};
  _Unwind_Backtrace(add_whole_frame, &all);
  return all.depth;
}

bool SymbolTable::describe(uintptr_t address, bool exact, char* out, size_t room) {
  SignalText text(out, room);
  if (!exact) --address;  // into the call, which may be the last instruction of its line
  Place place;
  look_up(symbols_, address, place);
  Dl_info info{};
  const bool known = dladdr(reinterpret_cast<void*>(address), &info) != 0 && info.dli_fname;
  if (place.function[0] == '\0' && known) keep(place.function, info.dli_sname);
  add_name(text, place.function[0] != '\0' ? place.function : "?");
  if (place.file[0] != '\0') {
    text.add(" (").add(place.file).add(":").add_number(uint64_t(place.line)).add(")");
  } else if (known) {
    text.add(" (").add(file_name(info.dli_fname)).add("+0x");
    text.add_hex(address - reinterpret_cast<uintptr_t>(info.dli_fbase)).add(")");
  } else {
    text.add(" (at 0x").add_hex(address).add(")");
  }
  return place.file[0] != '\0';
}

namespace {

struct RangeQuestion {
  uintptr_t address;
  CodeRange range;
};

int on_file(dl_phdr_info* file, size_t, void* to) {
  auto& question = *static_cast<RangeQuestion*>(to);
  for (int i = 0; i < file->dlpi_phnum; ++i) {
    const auto& segment = file->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
    const CodeRange range{file->dlpi_addr + segment.p_vaddr, file->dlpi_addr + segment.p_vaddr + segment.p_memsz};
    if (range.contains(question.address)) question.range = range;
  }
  return question.range.end != 0;
}

}  // namespace

CodeRange code_range_of(uintptr_t address) {
  RangeQuestion question{address, {}};
  dl_iterate_phdr(on_file, &question);
  return question.range;
}

}  // namespace tern
