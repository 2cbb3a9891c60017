#include "process/cards.h"

namespace tern {
namespace {

std::string joined(const std::vector<std::string>& paths) {
  std::string list;
  for (const std::string& path : paths) list += (list.empty() ? "" : ",") + path;
  return list;
}

}  // namespace

std::string published(const std::vector<std::string>& network, std::string_view card) {
  return joined(network) + '/' + std::string(card);
}

std::function<Error(PeerId, std::string&)> card_finder(Launcher& launcher, std::string_view key, const char* path,
                                                       const std::vector<std::string>& network) {
  return [&launcher, key = std::string(key), path, own = joined(network)](PeerId peer, std::string& card) {
    std::string value;
    if (Error error = launcher.get(int(peer), key, value)) {
      return Error(error.error_class(),
                   std::string(error.text()) + " (does TERN_PATH name " + path + " at that rank, too?)");
    }
    const size_t end = value.find('/');
    if (end == std::string::npos) return Error(ErrorClass::intern, std::string("its ") + path + " card is cut short");
    const std::string its = value.substr(0, end);
    card = value.substr(end + 1);
    if (its == own) return Error();
    return Error(ErrorClass::arg, "TERN_PATH names the network's paths '" + its + "' there and '" + own +
                                      "' here. Give all ranks the same ones in the same order");
  };
}

}  // namespace tern
