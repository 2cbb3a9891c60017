#include "page_assets.h"

// A file as bytes between two names.
#define TERN_FILE(name, file)                                                                            \
  asm(".section .rodata\n.balign 16\n.global tern_page_" #name "\ntern_page_" #name ":\n.incbin \"" file \
      "\"\n.global tern_page_" #name "_end\ntern_page_" #name "_end:\n.byte 0\n.previous\n");            \
  extern "C" const char tern_page_##name[], tern_page_##name##_end[]

TERN_FILE(html, TERN_PAGE_FOLDER "/page.html");
TERN_FILE(style, TERN_PAGE_FOLDER "/page.css");
TERN_FILE(data, TERN_PAGE_FOLDER "/data.js");
TERN_FILE(view, TERN_PAGE_FOLDER "/view.js");
TERN_FILE(panels, TERN_PAGE_FOLDER "/panels.js");
#ifdef TERN_D3_FILE
TERN_FILE(d3, TERN_D3_FILE);
TERN_FILE(licence, TERN_D3_LICENCE);
#endif

namespace tern::mpiexec {

const PageAssets& page_assets() {
#define TERN_TEXT(name) std::string_view(tern_page_##name, size_t(tern_page_##name##_end - tern_page_##name))
  static const PageAssets assets{
      .html = TERN_TEXT(html),
      .style = TERN_TEXT(style),
      .data_script = TERN_TEXT(data),
      .view_script = TERN_TEXT(view),
      .panel_script = TERN_TEXT(panels),
#ifdef TERN_D3_FILE
      .library = TERN_TEXT(d3),
      .library_licence = TERN_TEXT(licence),
#else
      .library = {},
      .library_licence = {},
#endif
  };
  return assets;
}

}  // namespace tern::mpiexec
