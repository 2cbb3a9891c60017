// libtern_dbg.so: the functions that a debugger calls (mqs.h). A debugger stops a rank, asks for its communicators, and
// for each of them for its pending sends, pending receives and unexpected messages. What is read is one snapshot, taken
// when the debugger asks for the list of communicators to be brought up to date.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>

#include "debugger/mqs.h"
#include "debugger/snapshot.h"

using tern::debugger::Communicator;
using tern::debugger::Operation;
using tern::debugger::Snapshot;
using tern::debugger::Target;

struct mqs_image_info {
  const mqs_image_callbacks* calls = nullptr;  ///< the debugger's, which lives longer
};

struct mqs_process_info {
  explicit mqs_process_info(const mqs_process_callbacks& given) : calls(given) {}
  const mqs_process_callbacks& calls;
  bool read = false;
  Snapshot snapshot;
  size_t communicator = 0;  ///< the current one
  size_t operation = 0;     ///< where the next one is looked for
  int queue = 0;
};

namespace {

const mqs_basic_callbacks* debugger = nullptr;
// Errors of this library, which the debugger has put into words by mqs_dll_error_string.
constexpr int kNoQueues = mqs_first_user_code;
constexpr int kFailed = kNoQueues + 1;

char* words(const char* text) { return const_cast<char*>(text); }  // the interface has no const

/// No exception leaves this library: memory may be missing.
template <typename Do>
int guarded(Do&& act) {
  try {
    return act();
  } catch (const std::exception&) {
    return kFailed;
  }
}

/// Null, or why there is nothing to read.
const char* find_view(mqs_process* process, mqs_process_info& info, tern::DebugView& view) {
  mqs_image* const image = info.calls.mqs_get_image_fp(process);
  mqs_image_info* const about = debugger->mqs_get_image_info_fp(image);
  mqs_taddr_t address = 0;
  if (!about || about->calls->mqs_find_symbol_fp(image, words("tern_debug_view"), &address) != mqs_ok)
    return "the program has no MPI library of Tern's";
  return tern::debugger::read_view(Target(process, info.calls), address, view);
}

int read_again(mqs_process* process, mqs_process_info& info) {
  tern::DebugView view;
  info.snapshot = {};
  info.communicator = info.operation = 0;
  if (find_view(process, info, view)) return mqs_no_information;
  info.snapshot = take_snapshot(Target(process, info.calls), view);
  info.read = true;
  return mqs_ok;
}

const Communicator* current(const mqs_process_info& info) {
  const auto& all = info.snapshot.communicators;
  return info.communicator < all.size() ? &all[info.communicator] : nullptr;
}

/// The next one of the current communicator and queue; null: there is none.
const Operation* next_operation(mqs_process_info& info) {
  const Communicator* inside = current(info);
  const auto& all = info.snapshot.operations;
  for (; inside && info.operation < all.size(); ++info.operation) {
    const Operation& each = all[info.operation];
    if (each.queue == info.queue && each.context == inside->context) return &each;
  }
  return nullptr;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

void mqs_setup_basic_callbacks(const mqs_basic_callbacks* callbacks) { debugger = callbacks; }
char* mqs_version_string() { return words("Tern " TERN_VERSION " message queues"); }
int mqs_version_compatibility() { return kMqsCompatibility; }
int mqs_dll_taddr_width() { return int(sizeof(mqs_taddr_t)); }
char* mqs_dll_error_string(int code) {
  switch (code) {
    case mqs_ok: return words("no error");
    case mqs_no_information: return words("there is nothing to read");
    case mqs_end_of_list: return words("the list ends");
    case kNoQueues: return words("the program has no MPI library of Tern's");
    default: return words("the rank's message queues could not be read");
  }
}

// --- An executable.
int mqs_setup_image(mqs_image* image, const mqs_image_callbacks* callbacks) {
  return guarded([&] {
    debugger->mqs_put_image_info_fp(image, new mqs_image_info{callbacks});
    return int(mqs_ok);
  });
}
int mqs_image_has_queues(mqs_image* image, char** message) {
  mqs_taddr_t address = 0;
  mqs_image_info* const info = debugger->mqs_get_image_info_fp(image);
  *message = nullptr;
  if (info && info->calls->mqs_find_symbol_fp(image, words("tern_debug_view"), &address) == mqs_ok) return mqs_ok;
  *message = words("%s has no MPI library of Tern's: its message queues cannot be shown");
  return kNoQueues;
}
void mqs_destroy_image_info(mqs_image_info* info) { delete info; }

// --- A process.
int mqs_setup_process(mqs_process* process, const mqs_process_callbacks* callbacks) {
  return guarded([&] {
    debugger->mqs_put_process_info_fp(process, new mqs_process_info(*callbacks));
    return int(mqs_ok);
  });
}
void mqs_destroy_process_info(mqs_process_info* info) { delete info; }
int mqs_process_has_queues(mqs_process* process, char** message) {
  mqs_process_info* const info = debugger->mqs_get_process_info_fp(process);
  tern::DebugView view;
  *message = info ? words(find_view(process, *info, view)) : words("mqs_setup_process has not been called");
  return *message ? mqs_no_information : mqs_ok;
}

// --- Communicators.
int mqs_update_communicator_list(mqs_process* process) {
  mqs_process_info* const info = debugger->mqs_get_process_info_fp(process);
  return info ? guarded([&] { return read_again(process, *info); }) : kFailed;
}
int mqs_setup_communicator_iterator(mqs_process* process) {
  mqs_process_info* const info = debugger->mqs_get_process_info_fp(process);
  if (!info) return kFailed;
  if (!info->read) {
    if (const int code = guarded([&] { return read_again(process, *info); }); code != mqs_ok) return code;
  }
  info->communicator = info->operation = 0;
  return current(*info) ? mqs_ok : mqs_end_of_list;
}
int mqs_get_communicator(mqs_process* process, mqs_communicator* communicator) {
  mqs_process_info* const info = debugger->mqs_get_process_info_fp(process);
  const Communicator* const found = info ? current(*info) : nullptr;
  if (!found) return mqs_no_information;
  *communicator = {mqs_taddr_t(found->context), found->rank, found->size, {}};
  std::snprintf(communicator->name, sizeof communicator->name, "%s", found->name.c_str());
  return mqs_ok;
}
int mqs_get_comm_group(mqs_process* process, int* ranks) {
  mqs_process_info* const info = debugger->mqs_get_process_info_fp(process);
  const Communicator* const found = info ? current(*info) : nullptr;
  if (!found) return mqs_no_information;
  std::copy(found->group.begin(), found->group.end(), ranks);
  return mqs_ok;
}
int mqs_next_communicator(mqs_process* process) {
  mqs_process_info* const info = debugger->mqs_get_process_info_fp(process);
  if (!info || !current(*info)) return mqs_end_of_list;
  ++info->communicator;
  return current(*info) ? mqs_ok : mqs_end_of_list;
}

// --- The operations of the current communicator.
int mqs_setup_operation_iterator(mqs_process* process, int queue) {
  mqs_process_info* const info = debugger->mqs_get_process_info_fp(process);
  if (!info || queue < mqs_pending_sends || queue > mqs_unexpected_messages) return mqs_no_information;
  info->queue = queue;
  info->operation = 0;
  return next_operation(*info) ? mqs_ok : mqs_end_of_list;
}
int mqs_next_operation(mqs_process* process, mqs_pending_operation* operation) {
  mqs_process_info* const info = debugger->mqs_get_process_info_fp(process);
  const Operation* const found = info ? next_operation(*info) : nullptr;
  if (!found) return mqs_end_of_list;
  *operation = found->shown;
  ++info->operation;
  return mqs_ok;
}
}
#pragma GCC visibility pop
