// mpiexec --trace x.html: the time line of a job as one page that needs nothing else: no network, no server, no other
// program than a browser. Everything is inside: the data compressed (page_data.h), the program that shows them
// (page/*.js), and the library that it draws with (d3, with its licence).
//
// What it shows: the calls of each rank with their arguments and places, waits by cause, messages; who sent how much to
// whom by which path, the protocols, memory; the costliest places with advice (explain.h).
#pragma once

#include <string>

#include "explain.h"
#include "timeline.h"
#include "trace.h"

namespace tern::mpiexec {

/// Whether this mpiexec has the library that pages draw with.
bool has_page_library();
/// Whether a trace of that name is a page, not JSON.
bool is_page(const std::string& path);
/// Writes the file. `title`: of the page, the command.
TraceResult write_page(const Timeline& timeline, const Explanation& explanation, const std::string& path,
                       const std::string& title);

}  // namespace tern::mpiexec
