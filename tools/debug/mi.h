// What gdb says on its machine interface (MI), line by line. Source: Debugging with GDB, chapter "The GDB/MI
// Interface".
#pragma once

#include <string>
#include <string_view>

namespace tern::debug {

struct MiLine {
  enum class Kind {
    text,     ///< for the user: `text`
    done,     ///< the command is carried out
    error,    ///< it is not: `text` says why
    running,  ///< the program goes on; with a command's number: that was the command
    stopped,  ///< it has stopped, or ended
    prompt,   ///< gdb waits for a command
    other,
  };
  Kind kind = Kind::other;
  long command = 0;  ///< the number of the command that this answers; 0: none
  std::string text;
};

MiLine parse_mi(std::string_view line);
/// The command line that has gdb carry out what a user would type.
std::string mi_command(long number, std::string_view typed);

}  // namespace tern::debug
