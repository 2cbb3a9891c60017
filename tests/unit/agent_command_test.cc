// How agents are started on other hosts, and what is said when that fails (tools/mpiexec/agent_command.h). For real:
// tests/net/by_ssh.
#include "tools/mpiexec/agent_command.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

namespace tern::mpiexec {
namespace {

using Map = std::map<std::string, std::string>;

AgentCommand command_of(const Map& variables, std::string* mistake = nullptr) {
  std::string wrong;
  const AgentCommand command = agent_command(
      [&variables](const char* name) {
        auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
      },
      "/opt/tern/bin/mpiexec", wrong);
  if (mistake) *mistake = wrong;
  else EXPECT_EQ(wrong, "");
  return command;
}

std::string words_of(const Map& variables) {
  return fmt::format("{}", fmt::join(command_for(command_of(variables), "node7"), " "));
}

TEST(AgentCommand, Ssh) {
  EXPECT_EQ(words_of({}), "ssh -x -T -o BatchMode=yes -o ConnectTimeout=8 node7 /opt/tern/bin/mpiexec --tern-agent");
  EXPECT_EQ(words_of({{"TERN_AGENT", "/usr/bin/ssh -p 2222"}}),
            "/usr/bin/ssh -p 2222 -x -T -o BatchMode=yes -o ConnectTimeout=8 node7 /opt/tern/bin/mpiexec --tern-agent");
}

TEST(AgentCommand, OthersInItsPlace) {
  EXPECT_EQ(words_of({{"TERN_AGENT", "kubectl exec -i %h --"}}),
            "kubectl exec -i node7 -- /opt/tern/bin/mpiexec --tern-agent");
  EXPECT_EQ(words_of({{"TERN_AGENT", "docker exec -i"}, {"HYDRA_LAUNCHER_EXEC", "no"}}),
            "docker exec -i node7 /opt/tern/bin/mpiexec --tern-agent");
  EXPECT_EQ(words_of({{"HYDRA_LAUNCHER_EXEC", "/etc/mpi/kubexec.sh"}}),
            "/etc/mpi/kubexec.sh node7 /opt/tern/bin/mpiexec --tern-agent");
  EXPECT_EQ(words_of({{"OMPI_MCA_plm_rsh_agent", "rsh -x : ssh"}, {"OMPI_MCA_plm_rsh_args", "-q"}}),
            "rsh -x -q node7 /opt/tern/bin/mpiexec --tern-agent");
}

TEST(AgentCommand, PathsThere) {
  EXPECT_EQ(command_for(command_of({{"TERN_AGENT_MPIEXEC", "/my programs/mpiexec"}}), "h").end()[-2],
            "'/my programs/mpiexec'");
  EXPECT_EQ(
      command_for(command_of({{"TERN_AGENT_MPIEXEC", "/my programs/mpiexec"}, {"TERN_AGENT", "podman exec -i"}}), "h")
          .end()[-2],
      "/my programs/mpiexec");
}

TEST(AgentCommand, Mistakes) {
  std::string mistake;
  command_of({{"TERN_AGENT", "  "}}, &mistake);
  EXPECT_EQ(mistake, "TERN_AGENT names no program");
  command_of({{"TERN_AGENT_WIDTH", "0"}}, &mistake);
  EXPECT_EQ(mistake, "TERN_AGENT_WIDTH is '0', but takes a number of hosts from 1 on");
  EXPECT_EQ(command_of({{"TERN_AGENT_WIDTH", "7"}}).width, 7U);
}

std::string why(AgentEnd end) {
  end.host = "node7";
  const std::string text = why_lost(end, command_of({}), "0.1.0");
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  return text;
}

AgentEnd said(std::string text, int code = 255) {
  AgentEnd end;
  end.said = std::move(text);
  end.status = code << 8;
  return end;
}

TEST(AgentCommand, WhyItFailed) {
  EXPECT_NE(why(said("ssh: Could not resolve hostname node7: Name or service not known\r\n")).find("is not known here"),
            std::string::npos);
  EXPECT_NE(why(said("ssh: connect to host node7 port 22: Connection refused")).find("Start sshd"), std::string::npos);
  EXPECT_NE(why(said("@@@@@@@\n@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nIt is also possible\nHost key "
                     "verification failed.\n"))
                .find("ssh-keygen -R node7"),
            std::string::npos);
  EXPECT_NE(why(said("Host key verification failed.\n")).find("ssh-keyscan node7"), std::string::npos);
  EXPECT_NE(why(said("root@node7: Permission denied (publickey).\n")).find("ssh-copy-id node7"), std::string::npos);
  EXPECT_NE(why(said("sh: 1: /opt/tern/bin/mpiexec: not found\n", 127)).find("there is no /opt/tern/bin/mpiexec"),
            std::string::npos);
  EXPECT_NE(why(said("mpiexec: unknown option '--tern-agent'; mpiexec --help lists the options\n", 2))
                .find("another release"),
            std::string::npos);
  EXPECT_NE(why(said("a reason\nthat nobody knows\n", 3)).find("exit code 3 (that nobody knows). Try by hand: ssh"),
            std::string::npos);
}

TEST(AgentCommand, OtherEnds) {
  AgentEnd end;
  end.error = ENOENT;
  EXPECT_NE(why(end).find("ssh cannot be started: No such file or directory"), std::string::npos);
  end = {};
  end.other = "0.0.9";
  EXPECT_NE(why(end).find("is of Tern 0.0.9, this one of 0.1.0"), std::string::npos);
  end = {};
  end.silent = true;
  EXPECT_NE(why(end).find("within the time"), std::string::npos);
  end.greeted = true;
  EXPECT_NE(why(end).find("is lost: its agent does not answer"), std::string::npos);
  end = said("Connection to node7 closed by remote host.\n");
  end.greeted = true;
  EXPECT_NE(why(end).find("exit code 255 (Connection to node7 closed by remote host.)"), std::string::npos);
}

}  // namespace
}  // namespace tern::mpiexec
