// The launchers' clients, each made by one function; connect_launcher() in launcher.cc chooses among them.
// All: null exactly when `error` is set. `job_id` texts are cleaned to [A-Za-z0-9._-].
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "process/launcher.h"

namespace tern {

/// PMI-1 over the inherited descriptor PMI_FD, or a connection to PMI_PORT ("host:port") with PMI_ID.
std::unique_ptr<Launcher> connect_pmi1(Error& error);
/// PMIx, through libpmix loaded now.
std::unique_ptr<Launcher> connect_pmix(Error& error);
/// A world of one.
std::unique_ptr<Launcher> make_singleton();

/// The exit status of a process that MPI_Abort ends with `code`: the system keeps 8 bits, and 256 must not read as
/// success.
int exit_status(int code);
/// Where `code` says that another rank has ended: gives the launcher (not ours) time to kill this process for that,
/// whose exit code is of no interest. Else does nothing.
void await_kill(int code);
/// Before a rank ends by _exit: flushes its buffered output, unless another thread is in the middle of writing.
void flush_standard_streams();
/// "message\n" to stderr in one write.
void say_last_words(std::string_view message);
/// Where this library is installed: the folder that contains its lib/ (or lib/x86_64-linux-gnu/). Empty: not known.
std::string own_prefix();
/// Replaces every character that is not allowed in a file name or a PMI line by '-'.
std::string clean_name(std::string_view text);
/// The variable as a decimal number; `otherwise` when it is not set, empty or no number.
long environment_number(const char* name, long otherwise);
/// True when `descriptor` is open and a socket.
bool is_socket(int descriptor);

}  // namespace tern
