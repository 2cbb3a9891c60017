#include "line_editor.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace tern::debug {
namespace {

// What the library has called `took_line` with. It has room for one line, and no place for ours.
bool whole = false, at_end = false;
std::string read_line;

void took_line(char* line) {
  whole = true;
  at_end = line == nullptr;
  read_line = line ? line : "";
  std::free(line);
}

}  // namespace

// The interface of readline that libedit has, too (<editline/readline.h>).
struct LineEditor::Library {
  void* file = nullptr;
  void (*install)(const char*, void (*)(char*)) = nullptr;
  void (*remove)() = nullptr;
  void (*read_key)() = nullptr;
  int (*add_history)(const char*) = nullptr;
  int (*show_again)() = nullptr;

  template <typename Function>
  bool find(const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(file, name));
    return function != nullptr;
  }
};

std::unique_ptr<LineEditor> LineEditor::load() {
  if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) return nullptr;
  auto library = std::make_unique<Library>();
  for (const char* name : {"libedit.so.2", "libedit.so.0"}) {  // Debian's, and others'
    if (!library->file) library->file = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  if (!library->file) return nullptr;
  const bool all = library->find("rl_callback_handler_install", library->install) &&
                   library->find("rl_callback_handler_remove", library->remove) &&
                   library->find("rl_callback_read_char", library->read_key) &&
                   library->find("add_history", library->add_history) &&
                   library->find("rl_forced_update_display", library->show_again);
  if (!all) return nullptr;  // it stays loaded: no harm
  return std::unique_ptr<LineEditor>(new LineEditor(std::move(library)));
}

LineEditor::LineEditor(std::unique_ptr<Library> library) : library_(std::move(library)) {}
LineEditor::~LineEditor() { end(); }

void LineEditor::begin(const std::string& prompt) {
  whole = false;
  open_ = true;
  library_->install(prompt.c_str(), took_line);
}

// Gives the terminal back: Ctrl-C and the program's own input are as usual while a command runs.
void LineEditor::end() {
  if (open_) library_->remove();
  open_ = false;
}

LineEditor::Taken LineEditor::take(std::string& line) {
  library_->read_key();
  if (!whole) return Taken::part;
  end();
  if (at_end) return Taken::ended;
  line = read_line;
  if (!line.empty()) library_->add_history(line.c_str());
  return Taken::line;
}

void LineEditor::print_above(const std::string& text) {
  std::fputs("\r\n", stdout);
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
  library_->show_again();
}

}  // namespace tern::debug
