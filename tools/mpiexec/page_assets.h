// The fixed parts of a page, as they stand in the files of page/; the library is d3 as the build machine has it.
#pragma once

#include <string_view>

namespace tern::mpiexec {

struct PageAssets {
  std::string_view html, style, data_script, view_script, panel_script;
  std::string_view library, library_licence;  ///< empty: this mpiexec was built without
};
const PageAssets& page_assets();

}  // namespace tern::mpiexec
