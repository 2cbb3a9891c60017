#include "options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <vector>

#include "page.h"
#include "process/launch/spawn_command.h"

namespace tern::mpiexec {
namespace {

// Larger numbers are typing mistakes; in milliseconds kMaxSeconds still fits into 64 bits.
constexpr int kMaxRanks = kMaxJobRanks;
constexpr int kMaxSeconds = 1 << 30;

std::string number(const std::string& name, const std::string& text, int least, int most, int& value) {
  int read = 0;
  auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), read);
  if (failure != std::errc() || end != text.data() + text.size() || read < least || read > most) {
    return fmt::format("option {} takes a whole number from {} to {}, not '{}'", name, least, most, text);
  }
  value = read;
  return {};
}

void add_list(std::vector<std::string>& list, const std::string& text) {
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    if (comma > at) list.push_back(text.substr(at, comma - at));
    at = comma + 1;
  }
}
// "NAME" means "with the value it has here"; a name that has none is left out.
void add_exported(std::vector<std::string>& environment, const std::string& name) {
  if (name.find('=') != std::string::npos) {
    environment.push_back(name);
  } else if (const char* value = getenv(name.c_str())) {
    environment.push_back(name + "=" + value);
  }
}

void inherit_only(Inheritance& inheritance, const std::string& names) {
  inheritance.all = false;
  add_list(inheritance.names, names);
}

void simulate_option(Plan& plan, const char* name, const std::string& value) {
  plan.simulate_options.insert(plan.simulate_options.end(), {name, value});
}

using Text = const std::string&;
#define TERN_OPTION(...) [](Plan & plan, App & app, Text name, Text value) -> std::string __VA_ARGS__

constexpr Option kOptions[] = {
    {"n,np,c", "N", "number of ranks (default: those of the allocation, else 1)",
     TERN_OPTION({ return number(name, value, 1, kMaxRanks, app.ranks); })},
    {"env", "NAME VALUE", "set in the environment of this program's ranks; also NAME=VALUE", TERN_OPTION({
       app.environment.push_back(value);
       return {};
     })},
    {"envall", "", "this program's ranks get the whole environment", TERN_OPTION({
       app.own_inheritance = true;
       app.inheritance = {};
       return {};
     })},
    {"envnone", "", "they get nothing of the environment", TERN_OPTION({
       app.own_inheritance = true;
       app.inheritance = {false, {}};
       return {};
     })},
    {"envlist", "NAME,...", "they get these variables only", TERN_OPTION({
       app.own_inheritance = true;
       inherit_only(app.inheritance, value);
       return {};
     })},
    {"wdir,wd", "FOLDER", "working directory of this program's ranks", TERN_OPTION({
       app.directory = value;
       return {};
     })},
    {"path", "FOLDERS", "where to look for the program, instead of PATH", TERN_OPTION({
       app.search_path = value;
       return {};
     })},
    {"soft", "NUMBERS", "numbers of ranks that will do, as 1,2,4 or 2:10:2; the largest up to -n is started",
     TERN_OPTION({
       app.soft = value;
       return soft_number(value, kMaxRanks)
                  ? ""
                  : fmt::format("option {} takes numbers and triplets FIRST:LAST[:STEP], not '{}'", name, value);
     })},
    {"initial-errhandler", "HANDLER",
     "error handler before and in MPI_Init, and of MPI_COMM_WORLD: mpi_errors_are_fatal (default), mpi_errors_abort, "
     "mpi_errors_return",
     TERN_OPTION({
       app.start_info.emplace_back("mpi_initial_errhandler", value);
       const std::string wrong = check_initial_errhandler(value);
       return wrong.empty() ? "" : fmt::format("the value of option {} {}", name, wrong);
     })},
    {"memory-alloc-kinds", "KINDS", "kinds of memory that the program asks for, as system,mpi:alloc_mem", TERN_OPTION({
       app.start_info.emplace_back("mpi_memory_alloc_kinds", value);
       const std::string wrong = check_memory_kinds(value);
       return wrong.empty() ? "" : fmt::format("the value of option {} {}", name, wrong);
     })},
    {"genv", "NAME VALUE", "set in the environment of all ranks; also NAME=VALUE", TERN_OPTION({
       plan.environment.push_back(value);
       return {};
     })},
    {"x", "NAME[=VALUE]", "pass on to, or set for, all ranks", TERN_OPTION({
       add_exported(plan.environment, value);
       return {};
     })},
    {"genvall", "", "pass on the whole environment (the default)", TERN_OPTION({
       plan.inheritance = {};
       return {};
     })},
    {"genvnone", "", "pass on nothing of the environment", TERN_OPTION({
       plan.inheritance = {false, {}};
       return {};
     })},
    {"genvlist", "NAME,...", "pass on these variables only", TERN_OPTION({
       inherit_only(plan.inheritance, value);
       return {};
     })},
    {"l,prepend-rank,tag-output", "", "begin each line of output with its rank", TERN_OPTION({
       plan.label = true;
       return {};
     })},
    {"outfile-pattern", "FILE", "standard output of each rank to a file; %r in the name is the rank, %h the host",
     TERN_OPTION({
       plan.files.out_pattern = value;
       return {};
     })},
    {"errfile-pattern", "FILE", "the same for standard error", TERN_OPTION({
       plan.files.err_pattern = value;
       return {};
     })},
    {"output-filename", "FOLDER", "output also to FOLDER/1/rank.N/stdout and stderr; FOLDER:nocopy: only there",
     TERN_OPTION({
       constexpr std::string_view kOnly = ":nocopy";
       plan.files.copy = !value.ends_with(kOnly);
       plan.files.folder = plan.files.copy ? value : value.substr(0, value.size() - kOnly.size());
       return {};
     })},
    {"bind-to", "PART",
     "auto (default: each rank to its share of the cores when there are enough cores, else none), none, core[:N], "
     "hwthread, l3cache, numa, socket, node",
     TERN_OPTION({
       plan.placement.bind_text = value;
       return read_bind(value, plan.placement)
                  ? ""
                  : fmt::format(
                        "option {} takes auto, none, core[:N], hwthread[:N], l3cache, numa, socket or node, not '{}'",
                        name, value);
     })},
    {"map-by", "PART[:pe=N]",
     "consecutive ranks go to consecutive parts: slot, hwthread, core, l3cache, numa, socket, node; N cores for each "
     "rank; ppr:M:PART: M ranks on each part",
     TERN_OPTION({
       plan.placement.map_text = value;
       return read_map(value, plan.placement)
                  ? ""
                  : fmt::format(
                        "option {} takes slot, hwthread, core, l3cache, numa, socket or node, also as ppr:M:PART, "
                        "with :pe=N behind, not '{}'",
                        name, value);
     })},
    {"report-bindings", "", "print which cores each rank is bound to", TERN_OPTION({
       plan.placement.report = true;
       return {};
     })},
    {"usize", "N", "MPI_UNIVERSE_SIZE; also SYSTEM (the processors), INFINITE", TERN_OPTION({
       if (value == "SYSTEM" || value == "INFINITE") {
         plan.universe_size = value == "SYSTEM" ? 0 : -1;
         return {};
       }
       return number(name, value, 1, kMaxRanks, plan.universe_size);
     })},
    {"stdin", "RANK", "which rank gets the standard input (default 0); also none", TERN_OPTION({
       if (value == "none") {
         plan.input_rank = -1;
         return {};
       }
       return number(name, value, 0, kMaxRanks - 1, plan.input_rank);
     })},
    {"timeout", "S", "seconds after which the job is killed (also: MPIEXEC_TIMEOUT)",
     TERN_OPTION({ return number(name, value, 1, kMaxSeconds, plan.timeout_s); })},
    {"print-all-exitcodes", "", "print the exit codes of all ranks at the end", TERN_OPTION({
       plan.print_exit_codes = true;
       return {};
     })},
    {"host,hosts,H", "HOST,...",
     "where to run: HOST, HOST:RANKS; other hosts than this one are reached by ssh, or by the launcher that is there",
     TERN_OPTION({
       std::vector<std::string> names;
       add_list(names, value);
       for (const std::string& one : names) app.hosts.push_back(parse_host(one));
       return {};
     })},
    {"f,hostfile,machinefile", "FILE", "file with one host per line, as HOST, HOST:RANKS or HOST slots=RANKS",
     TERN_OPTION({
       plan.host_file = value;
       return {};
     })},
    {"ppn,npernode,perhost,N", "N", "ranks per host, with several hosts",
     TERN_OPTION({ return number(name, value, 1, kMaxRanks, plan.ranks_per_host); })},
    {"here", "", "on this machine, also in an allocation of several", TERN_OPTION({
       plan.here = true;
       return {};
     })},
    {"configfile", "FILE",
     "read the command from a file: options and program, one program on each line; alone on the line",
     TERN_OPTION({ return fmt::format("option {} stands alone on the command line, with its file", name); })},
    {"top", "",
     "show what the ranks of a running job do now; alone on the line, or with the process number of its mpiexec",
     TERN_OPTION({ return fmt::format("option {} stands first on the command line", name); })},
    {"gdb", "", "run each rank under gdb, all of them at one prompt", TERN_OPTION({
       plan.gdb = true;
       return {};
     })},
    {"summary", "", "print at the end where the time went", TERN_OPTION({
       plan.summary = true;
       return {};
     })},
    {"explain", "",
     "print at the end which places in the program cost most, what they wait for, and what to do about it",
     TERN_OPTION({
       plan.explain = true;
       return {};
     })},
    {"trace", "FILE", "write a time line of all ranks: FILE.html is a page for a browser, other names are for Perfetto",
     TERN_OPTION({
       plan.trace_file = value;
       if (is_page(value) && !has_page_library())
         return "a page as the trace needs an mpiexec that was built with d3 (Debian: node-d3); name it otherwise";
       return {};
     })},
    {"trace-size", "MIB", "MiB that each rank's part of the trace may take (default 256)",
     TERN_OPTION({ return number(name, value, 3, kMaxRanks, plan.trace_mib); })},
    {"simulate", "MACHINE", "run on a simulated machine: one of the shipped files, or a path (docs/simulate.md)",
     TERN_OPTION({
       plan.simulated_machine = value;
       return {};
     })},
    {"compute", "KIND",
     "simulated: how long the program computes: measured (default), measured:FILE (and recorded), recorded:FILE, "
     "constant:TIME, none",
     TERN_OPTION({
       simulate_option(plan, "--compute", value);
       return {};
     })},
    {"compute-factor", "F", "simulated: time that computing takes there / time here", TERN_OPTION({
       simulate_option(plan, "--compute-factor", value);
       return {};
     })},
    {"set", "NAME=VALUE,...", "simulated: a tunable; with several values a table of what each would bring",
     TERN_OPTION({
       simulate_option(plan, "--set", value);
       return {};
     })},
    {"seed", "N", "simulated: what is drawn is drawn from it (default 1)", TERN_OPTION({
       simulate_option(plan, "--seed", value);
       return {};
     })},
    {"cores", "N", "simulated: cores of a node (default: the machine's)", TERN_OPTION({
       simulate_option(plan, "--cores", value);
       return {};
     })},
    {"stack", "KIB", "simulated: stack of a rank (default: ulimit -s)", TERN_OPTION({
       simulate_option(plan, "--stack", value);
       return {};
     })},
    {"max-time", "S", "simulated: seconds of virtual time after which the simulation ends (default: none)",
     TERN_OPTION({
       simulate_option(plan, "--max-time", value);
       return {};
     })},
    {"max-events", "N", "simulated: events after which it ends (default: none)", TERN_OPTION({
       simulate_option(plan, "--max-events", value);
       return {};
     })},
    {"no-report", "", "simulated: only the program's output", TERN_OPTION({
       plan.simulate_options.push_back("--quiet");
       return {};
     })},
    {"print-hash", "", "simulated: print a number that is the same exactly when all events were", TERN_OPTION({
       plan.simulate_options.push_back("--print-hash");
       return {};
     })},
    {"v,verbose", "", "say what is started where", TERN_OPTION({
       plan.verbose = true;
       return {};
     })},
    {"oversubscribe,allow-run-as-root,q,quiet", "", "accepted; the first two are always allowed",
     TERN_OPTION({ return {}; })},
    {"h,help", "", "print this and end", nullptr},
    {"V,version", "", "print the version and end", nullptr},
};

#undef TERN_OPTION

/// Options of other launchers that scripts pass, and what there is instead.
struct Foreign {
  const char* names;
  const char* advice;
};
constexpr Foreign kForeign[] = {
    {"mca,gmca,pmixmca,prtemca,am,tune",
     "sets parameters of Open MPI; Tern's are TERN_ variables (tern-info --tunables)"},
    {"tv,debug,xterm",
     "starts a debugger; use mpiexec -gdb, or mpiexec -n 2 xterm -e gdb PROGRAM for a window each, or give TotalView "
     "or "
     "DDT the mpiexec command"},
    {"cpus-per-proc,cpus-per-rank,cpus-per-task", "is -map-by slot:pe=N here"},
    {"npersocket", "is -map-by ppr:N:socket here"},
    {"bynode,byslot,bycore,bysocket,map-by-node,rank-by", "is -map-by node, slot, core or socket here"},
    {"bind-to-core,bind-to-socket,bind-to-none", "is -bind-to core, socket or none here"},
    {"display-map,display-allocation,display,print-rank-map", "is -v or -report-bindings here"},
    {"launcher,launcher-exec,bootstrap,bootstrap-exec,rmk,rsh,demux,topolib,pmi-port,localhost,iface,if",
     "belongs to Hydra; which engine reaches other hosts is said in launchers.md, networks are chosen with "
     "TERN_TCP_INTERFACES"},
    {"prefix", "is not needed: programs find their library by themselves"},
    {"s", "is -stdin RANK here"},
    {"merge-stderr-to-stdout", "is 2>&1 here"},
    {"timestamp-output,xml,prepend-pattern", "is not there; -l labels lines with their rank"},
    {"nolocal,nooversubscribe,use-hwthread-cpus,membind,order-nodes,skip-launch-node,gpus-per-proc",
     "is not there; leave it out"},
    {"genvexcl,genvuser", "is not there; -genvlist names what is passed on"},
    {"info", "is tern-info here"},
    {"disable-auto-cleanup,enable-recovery,continuous,max-restarts",
     "is not there: a job ends when one of its ranks fails"},
};

template <typename Visit>
void each_name(const char* names, Visit visit) {
  for (std::string_view rest(names); !rest.empty();) {
    const size_t comma = std::min(rest.find(','), rest.size());
    visit(rest.substr(0, comma));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
}

bool has_name(const char* names, std::string_view name) {
  bool found = false;
  each_name(names, [&](std::string_view one) { found |= one == name; });
  return found;
}

// Letters to change, to add or to leave out.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

std::string nearest(std::string_view name) {
  std::string near;
  size_t least = std::min<size_t>(3, name.size() / 2 + 1);  // more different letters are another name
  for (const Option& option : kOptions) {
    each_name(option.names, [&](std::string_view one) {
      if (const size_t letters = distance(name, one); letters < least) {
        least = letters;
        near = one;
      }
    });
  }
  return near;
}

// "  -n,-np N    number of ranks ...", the text in its column.
std::string help_line(const Option& option) {
  constexpr size_t kColumn = 36, kWidth = 118;  // of the text; the longest option is shorter
  std::string line = "  ";
  each_name(option.names, [&](std::string_view one) { line += fmt::format("{}-{}", line.size() > 2 ? "," : "", one); });
  if (*option.value) line += fmt::format(" {}", option.value);
  size_t at = line.size();
  for (std::string_view rest(option.help); !rest.empty();) {
    const size_t blank = std::min(rest.find(' '), rest.size());
    const bool first = at == line.size() && rest.data() == option.help;
    if ((first && at >= kColumn) || (!first && at + 1 + blank > kWidth)) {
      line += '\n';
      at = 0;
    }
    if (first || at == 0) {
      line.append(kColumn - at, ' ');
      at = kColumn;
    } else {
      line += ' ';
      ++at;
    }
    line += rest.substr(0, blank);
    at += blank;
    rest.remove_prefix(std::min(blank + 1, rest.size()));
  }
  return line + '\n';
}

}  // namespace

std::span<const Option> all_options() { return kOptions; }

const Option* find_option(std::string_view name) {
  for (const Option& option : kOptions) {
    if (has_name(option.names, name)) return &option;
  }
  return nullptr;
}

std::string about_unknown(const std::string& word, std::string_view name) {
  for (const Foreign& foreign : kForeign) {
    if (has_name(foreign.names, name)) return fmt::format("option '{}' {}", word, foreign.advice);
  }
  const std::string near = nearest(name);
  return fmt::format("unknown option '{}'{}; mpiexec --help lists the options", word,
                     near.empty() ? "" : fmt::format(" (did you mean -{}?)", near));
}

std::string usage_line() { return "mpiexec [options] program arguments [: [options] program arguments]..."; }

std::string help_text() {
  std::string text =
      "usage: " + usage_line() +
      "\n\n"
      "Starts the ranks of an MPI program on this machine, and on others.\n"
      "Options may be written with one dash or two. -n, -env, -envall, -envnone, -envlist, -wdir, -path, -host,\n"
      "-soft, -initial-errhandler and -memory-alloc-kinds hold for one program, the others for the whole job. The exit "
      "code is that of the first rank that fails "
      "(128 + n for\n"
      "signal n), 127 when the program is not found, 124 after a timeout.\n\n"
      "Options:\n";
  for (const Option& option : kOptions) text += help_line(option);
  return text;
}

}  // namespace tern::mpiexec
