// The screen of mpiexec --top, by ncurses.
#include <curses.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "top.h"

namespace tern::top {
namespace {

constexpr double kSecond = 1.0;  // between two looks: what a person reads

const char* order_name(TopOrder order) {
  switch (order) {
    case TopOrder::rank: return "rank";
    case TopOrder::in_mpi: return "time in MPI";
    case TopOrder::messages: return "messages";
    case TopOrder::bytes: return "bytes";
    case TopOrder::memory: return "memory";
  }
  return "";
}

/// The terminal, until it ends.
class Screen {
 public:
  Screen() {
    initscr();
    cbreak();
    noecho();
    curs_set(0);
    keypad(stdscr, true);
    nodelay(stdscr, true);
  }
  ~Screen() { endwin(); }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  void show(const std::string& head, const std::vector<std::string>& lines) {
    const int most = std::max(0, LINES - 3);
    first_ = std::clamp(first_, 0, std::max(0, int(lines.size()) - 1 - most));
    erase();
    mvaddnstr(0, 0, head.c_str(), COLS);
    attron(A_REVERSE);
    mvaddnstr(1, 0, fmt::format("{:<{}}", lines[0], COLS).c_str(), COLS);
    attroff(A_REVERSE);
    for (int i = 0; i < most && size_t(first_ + i) + 1 < lines.size(); ++i)
      mvaddnstr(2 + i, 0, lines[size_t(first_ + i) + 1].c_str(), COLS);
    mvaddnstr(LINES - 1, 0, "q quit   s sort   h page of what all wait for (mpiexec prints it)   arrows scroll", COLS);
    refresh();
  }
  void move_by(int lines) { first_ += lines; }

 private:
  int first_ = 0;
};

std::string head_of(const Top& top, const std::vector<TopRank>& ranks, TopOrder order, const std::string& note) {
  double in = 0, bytes = 0, messages = 0;
  int known = 0;
  for (const TopRank& rank : ranks) {
    if (rank.in_mpi >= 0) in += rank.in_mpi, ++known;
    bytes += rank.bytes_s;
    messages += rank.messages_s;
  }
  return fmt::format("mpiexec {}: {} ranks here, {:.0f} % in MPI, {} messages/s, {} bytes/s; by {}  {}", top.job(),
                     ranks.size(), known == 0 ? 0 : 100 * in / known, scaled(messages), scaled(bytes),
                     order_name(order), note);
}

int run_on_terminal(Top& top) {
  TopOrder order = TopOrder::rank;
  std::string note;
  std::vector<TopRank> ranks = top.look(kSecond);
  Screen screen;
  while (!ranks.empty()) {
    screen.show(head_of(top, ranks, order, note), top_lines(ranks, order));
    bool over = false;
    for (int key; (key = getch()) != ERR;) {
      switch (key) {
        case 'q': over = true; break;
        case 's': order = TopOrder((int(order) + 1) % 5); break;
        case 'h':
          top.ask_for_page();
          note = "(asked for the page)";
          break;
        case KEY_DOWN: screen.move_by(1); break;
        case KEY_UP: screen.move_by(-1); break;
        case KEY_NPAGE: screen.move_by(LINES - 3); break;
        case KEY_PPAGE: screen.move_by(3 - LINES); break;
        default: break;
      }
    }
    if (over) return 0;
    ranks = top.look(kSecond);
  }
  return 0;
}

}  // namespace

int show(Top& top) {
  if (isatty(STDOUT_FILENO)) return run_on_terminal(top);
  top.look(kSecond / 4);  // rates need two looks
  const std::vector<TopRank> ranks = top.look(kSecond);
  if (ranks.empty()) {
    fmt::print(stderr,
               "mpiexec: {} has no ranks of this Tern here (or they are recorded: --trace, --summary, --explain)\n",
               top.job());
    return 1;
  }
  std::puts(head_of(top, ranks, TopOrder::rank, "").c_str());
  for (const std::string& line : top_lines(ranks, TopOrder::rank)) std::puts(line.c_str());
  return 0;
}

}  // namespace tern::top
