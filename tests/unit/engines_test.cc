// How other launchers are told what mpiexec was told (tools/mpiexec/engines.h). Real ones: tests/net/handing_over,
// tests/launch/slurm_test.py.
#include "tools/mpiexec/engines.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tern::mpiexec {
namespace {

App app(int ranks, std::vector<std::string> command, std::vector<Host> hosts = {}) {
  App made;
  made.ranks = ranks;
  made.command = std::move(command);
  made.hosts = std::move(hosts);
  return made;
}

std::string words_for(const Plan& plan, Dialect dialect, const char* program) {
  return fmt::format("{}",
                     fmt::join(translate(plan, {program, dialect}, "here", {"HOME", "SECRET"}, false).words, " "));
}

std::string to_hydra(const Plan& plan) { return words_for(plan, Dialect::hydra, "hydra"); }
std::string to_open_mpi(const Plan& plan) { return words_for(plan, Dialect::open_mpi, "mpirun"); }
std::string to_slurm(const Plan& plan) { return words_for(plan, Dialect::slurm, "srun"); }
std::string to_flux(const Plan& plan) { return words_for(plan, Dialect::flux, "flux"); }

TEST(Engines, HostsOfAFile) {
  Plan plan;
  plan.apps = {app(5, {"prog", "x"})};
  plan.host_file = "hosts";
  plan.hosts = {{"a", 2}, {"b", 2}};
  plan.label = true;
  EXPECT_EQ(to_hydra(plan), "hydra -l -hosts a:3,b:2 -n 5 /usr/bin/env prog x");
  EXPECT_EQ(
      to_open_mpi(plan),
      "mpirun --oversubscribe --tag-output --map-by slot -x HOME -x SECRET -n 5 --host a:3,b:2 /usr/bin/env prog x");
  EXPECT_EQ(
      to_slurm(plan),
      "srun --mpi=pmi2 --kill-on-bad-exit=1 --label -n 5 --distribution=arbitrary -w a,a,a,b,b /usr/bin/env prog x");
  plan.ranks_per_host = 1;
  EXPECT_EQ(to_hydra(plan), "hydra -l -hosts a:3,b:2 -n 5 /usr/bin/env prog x");
  plan.apps[0].ranks = 2;
  EXPECT_EQ(to_hydra(plan), "hydra -l -hosts a:1,b:1 -n 2 /usr/bin/env prog x");
}

TEST(Engines, SlurmDistributesItsOwnAllocation) {
  Plan plan;
  plan.apps = {app(4, {"prog"})};
  plan.hosts = {{"a", 2}, {"b", 2}};
  plan.batch_system = "Slurm";
  EXPECT_EQ(to_slurm(plan), "srun --mpi=pmi2 --kill-on-bad-exit=1 -n 4 /usr/bin/env prog");
  plan.ranks_per_host = 2;
  EXPECT_EQ(to_slurm(plan), "srun --mpi=pmi2 --kill-on-bad-exit=1 -n 4 --ntasks-per-node 2 /usr/bin/env prog");
}

TEST(Engines, Flux) {
  Plan plan;
  plan.apps = {app(4, {"prog", "x"})};
  plan.hosts = {{"a", 2}, {"b", 2}};
  plan.batch_system = "Flux";
  EXPECT_EQ(to_flux(plan), "flux run -o exit-on-error --input=0 -n 4 /usr/bin/env prog x");
  plan.ranks_per_host = 2;
  plan.label = true;
  plan.apps[0].directory = "/tmp";
  EXPECT_EQ(
      to_flux(plan),
      "flux run -o exit-on-error --input=0 --label-io --nodes=2 --tasks-per-node=2 --cwd=/tmp /usr/bin/env prog x");
  plan.ranks_per_host = 0;
  plan.batch_system = {};
  plan.host_file = "hosts";
  plan.label = false;
  plan.input_rank = -1;
  plan.placement.bind_text = "core";
  EXPECT_EQ(to_flux(plan),
            "flux run -o exit-on-error --input=/dev/null -o cpu-affinity=per-task --nodes=2 --tasks-per-node=2 "
            "--requires=hosts:a,b --cwd=/tmp /usr/bin/env prog x");
  plan.hosts = {{"a", 3}, {"b", 1}};
  EXPECT_EQ(translate(plan, {"flux", Dialect::flux}, "here", {}, false).ignored,
            std::vector<std::string>{"other numbers of ranks on some hosts than on others"});
  plan.apps = {app(1, {"./a"}), app(3, {"./b"})};
  plan.hosts = {{"a", 4}};
  plan.placement.bind_text = "socket";
  EXPECT_EQ(to_flux(plan),
            "flux run -o exit-on-error --input=/dev/null --nodes=1 --tasks-per-node=4 --requires=hosts:a /bin/sh -c "
            "if [ \"$FLUX_TASK_RANK\" -lt 1 ]; then exec /usr/bin/env ./a; else exec /usr/bin/env ./b; fi");
  EXPECT_EQ(translate(plan, {"flux", Dialect::flux}, "here", {}, false).ignored,
            std::vector<std::string>{"-bind-to socket"});
  EXPECT_EQ(with_our_label(Dialect::flux, "12: x"), "[12] x");
}

TEST(Engines, SeveralProgramsShareTheHosts) {
  Plan plan;
  plan.apps = {app(1, {"./a"}), app(3, {"./b", "two words"})};
  plan.apps[0].directory = "/tmp";
  plan.apps[1].environment = {"N=1 2"};
  plan.hosts = {{"h1", 2}, {"h2", 2}};
  plan.host_file = "hosts";
  EXPECT_EQ(to_hydra(plan),
            "hydra -hosts h1:2,h2:2 -n 1 -wdir /tmp /usr/bin/env ./a : -n 3 /usr/bin/env N=1 2 ./b two words");
  EXPECT_EQ(to_open_mpi(plan),
            "mpirun --oversubscribe --map-by slot -x HOME -x SECRET -n 1 --host h1:1 --wdir /tmp /usr/bin/env ./a : "
            "-n 3 --host h1:1,h2:2 /usr/bin/env N=1 2 ./b two words");
  EXPECT_EQ(to_slurm(plan),
            "srun --mpi=pmi2 --kill-on-bad-exit=1 -n 4 --distribution=arbitrary -w h1,h1,h2,h2 /bin/sh -c "
            "if [ \"$SLURM_PROCID\" -lt 1 ]; then cd /tmp && exec /usr/bin/env ./a; "
            "else exec /usr/bin/env 'N=1 2' ./b 'two words'; fi");
}

TEST(Engines, ProgramsWithHostsOfTheirOwn) {
  Plan plan;
  plan.apps = {app(1, {"./a"}), app(2, {"./b"}, {{"far", 0}})};
  EXPECT_EQ(to_hydra(plan), "hydra -hosts here:1,far:2 -n 1 /usr/bin/env ./a : -n 2 /usr/bin/env ./b");
}

TEST(Engines, EnvironmentIsPassedOnOrNot) {
  Plan plan;
  plan.apps = {app(1, {"prog"}, {{"far", 0}})};
  plan.environment = {"A=x"};
  plan.inheritance = {false, {"HOME"}};
  EXPECT_EQ(to_hydra(plan), "hydra -hosts far:1 -genv A x -n 1 -envlist HOME /usr/bin/env -u SECRET prog");
  EXPECT_EQ(to_open_mpi(plan),
            "mpirun --oversubscribe --map-by slot -x HOME -x A=x -n 1 --host far:1 /usr/bin/env -u SECRET prog");
  EXPECT_EQ(to_slurm(plan),
            "srun --mpi=pmi2 --kill-on-bad-exit=1 -n 1 --distribution=arbitrary -w far /usr/bin/env -u SECRET prog");
  EXPECT_EQ(translate(plan, {"srun", Dialect::slurm}, "here", {}, false).environment,
            std::vector<std::string>({"A=x"}));
}

// env(1) takes the first word without '=' for the program.
TEST(Engines, AProgramWithAnEqualSign) {
  Plan plan;
  plan.apps = {app(1, {"a=b"}, {{"far", 0}})};
  EXPECT_EQ(to_hydra(plan), "hydra -hosts far:1 -n 1 a=b");
}

TEST(Engines, WhatAnEngineDoesNotOfferIsNamed) {
  Plan plan;
  plan.apps = {app(1, {"prog"}, {{"far", 0}})};
  plan.files.out_pattern = "o.%r.%h.%%";
  plan.files.folder = "f";
  plan.print_exit_codes = true;
  plan.universe_size = 4;
  plan.placement.map_text = "socket";
  plan.placement.bind_text = "l3cache";
  plan.placement.report = true;
  using Words = std::vector<std::string>;
  EXPECT_EQ(
      translate(plan, {"srun", Dialect::slurm}, "here", {}, false).ignored,
      Words({"-bind-to l3cache", "-output-filename", "-print-all-exitcodes", "-usize", "-map-by", "-report-bindings"}));
  EXPECT_EQ(translate(plan, {"mpirun", Dialect::open_mpi}, "here", {}, false).ignored,
            Words({"-outfile-pattern", "-print-all-exitcodes", "-usize"}));
  EXPECT_EQ(translate(plan, {"hydra", Dialect::hydra}, "here", {}, false).ignored,
            Words({"-output-filename", "-report-bindings"}));
  EXPECT_NE(to_slurm(plan).find("--output=o.%t.%N.%%"), std::string::npos);
}

TEST(Engines, Labels) {
  EXPECT_EQ(with_our_label(Dialect::open_mpi, "[1,12]<stderr>: a: b"), "[12]  a: b");
  EXPECT_EQ(with_our_label(Dialect::open_mpi, "[1,0]<stdout>:"), "[0] ");
  EXPECT_EQ(with_our_label(Dialect::slurm, "007: x"), "[7] x");
  EXPECT_EQ(with_our_label(Dialect::slurm, "00: x"), "[0] x");
  for (const char* other :
       {"", "[", "[1", "[1,", "[1,2]", "[,2]<stdout>:", "[1,]<stdout>:", "[1,2]<stdlog>:x", "12", ": x"}) {
    EXPECT_EQ(with_our_label(Dialect::open_mpi, other), other);
    EXPECT_EQ(with_our_label(Dialect::slurm, other), other);
  }
}

TEST(Engines, FailuresToldBySlurm) {
  EXPECT_EQ(failure_told_by_slurm("srun: error: node1: task 3: Exited with exit code 7"), 7);
  EXPECT_EQ(failure_told_by_slurm("srun: error: node1: tasks 0-1: Segmentation fault (core dumped)"), 139);
  EXPECT_EQ(failure_told_by_slurm("srun: error: node1: task 3: Killed"), 137);
  for (const char* other :
       {"", "srun: error: ", "node1: task 3: Killed", "srun: error: node1: task 3", "srun: error: a: task"})
    EXPECT_EQ(failure_told_by_slurm(other), 0) << other;
}

TEST(Engines, WordsOfAShell) {
  EXPECT_EQ(shell_word("plain-1.2/x=y"), "plain-1.2/x=y");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("it's $HOME"), "'it'\\''s $HOME'");
}

}  // namespace
}  // namespace tern::mpiexec
