// libfabric's providers on this machine, as Port. libfabric is loaded at run time (once, for good), so that Tern runs
// where it is not installed. Nothing here needs its headers; a build without them has no provider, and says so.
//
// Thread rule: as Port.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/tunables.h"
#include "fabric/ofi/ofi_port.h"

namespace tern::ofi {

/// One way out: a provider on one of its devices or interfaces.
struct Choice {
  Capabilities capabilities;
  std::string why_not;   ///< it cannot be used; empty: it can
  std::string why_last;  ///< it is used only when TERN_OFI_PROVIDER names it; empty: it is used by default
  std::string pci;       ///< of its adapter, "0000:3b:00.0"; empty: not known, or none
  bool near = false;     ///< the adapter is beside cores that this process may use
};

/// All of them, the best first. `why_none` says why the list is empty.
std::vector<Choice> find_choices(const Tunables& tunables, std::string& why_none);

/// Whether that provider has a thread in each process that polls while data moves, and so needs a core as a rank does.
inline bool has_polling_thread(std::string_view provider) { return provider == "sockets"; }

/// Whether that provider's hardware or driver moves messages faster than Tern's own TCP.
bool is_fast(std::string_view provider);

/// Whether a fast provider may be here, by a look at the devices; libfabric is not loaded for that.
bool may_have_fast_provider();

/// Which providers may be taken if TERN_OFI_PROVIDER names none.
enum class Wanted : uint8_t {
  any,  ///< a fast one; else the error says which others could be named
  fast,
  fast_without_verbs,
};

/// What a provider is to know of the job. libfabric reads it from the environment, where variables that are set stay.
struct Surroundings {
  int local_rank = 0;         ///< ranks of a node are distributed over several adapters, those near their cores first
  uint32_t ranks = 1;         ///< of the job; providers size their queues by it (FI_UNIVERSE_SIZE)
  bool cores_shared = false;  ///< a provider's thread must not poll (FI_SOCKETS_PE_WAITTIME): a rank needs the core
};

/// Opens what TERN_OFI_PROVIDER and TERN_OFI_DOMAIN say, else the best. Error: the reason, with a remedy.
Error open_port(const Surroundings& surroundings, Wanted wanted, const Tunables& tunables,
                std::unique_ptr<Port>& result);

}  // namespace tern::ofi
