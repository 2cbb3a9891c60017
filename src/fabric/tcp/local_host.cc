#include "fabric/tcp/local_host.h"

#include <algorithm>
#include <cerrno>

#include "base/limits.h"

namespace tern::tcp {
namespace {

constexpr uint16_t kPortsTried = 1024;  // from TERN_TCP_PORT_FIRST on: more than the ranks of a host, twice

}  // namespace

Error LocalHost::listen(std::vector<LocalAddress> addresses, bool this_host_only, bool needed, WatchSet& watched) {
  // Reports an unknown name now, not at the first connection.
  if (!congestion_.empty()) {
    if (Error error = port_.check_congestion(congestion_)) return error;
  }
  host_ = port_.host();
  addresses_ = std::move(addresses);
  if (addresses_.empty()) {
    if (Error error = port_.addresses(interfaces_, addresses_)) return error;
  }
  if (this_host_only) std::erase_if(addresses_, [](const LocalAddress& local) { return !local.address.loopback(); });
  wire::Card card;
  card.host = host_;
  std::string trouble = "this host has no address to listen on";
  for (const LocalAddress& local : addresses_) {
    wire::CardAddress address = local.address;
    Error error = listen_on(local, address.port, watched);
    if (error) {
      trouble = error.text();  // for example an IPv6 address that is still being checked for duplicates
    } else if (address.port != 0) {
      card.addresses.push_back(address);
      listening_ += (listening_.empty() ? "" : " ") + wire::to_text(address);
    }
  }
  if (card.addresses.empty() && needed) return Error(ErrorClass::other, "TCP path: " + trouble);
  card_ = wire::build_card(card);
  if (!several_networks()) return {};
  auto interfaces = std::make_unique<Interfaces>();
  interfaces->handle = StreamHandle(port_, port_.watch_interfaces());
  if (interfaces->handle) watched.watch(watched.adopt(std::move(interfaces)), kReadable);
  return {};
}

Error LocalHost::listen_on(const LocalAddress& local, uint16_t& port, WatchSet& watched) {
  wire::CardAddress address = local.address;
  int handle = -EADDRINUSE;
  for (uint32_t i = 0; i < kPortsTried; ++i) {
    if (first_port_ + i > 65535) break;
    address.port = uint16_t(first_port_ + i);
    handle = port_.listen(SocketAddress(address, address.link_local() ? local.index : 0), congestion_);
    if (handle != -EADDRINUSE || first_port_ == 0) break;
  }
  if (handle < 0)
    return Error(ErrorClass::other, "cannot listen on " + wire::to_text(address) + ": " + errno_text(-handle));
  port = port_.local_address(handle).port();
  auto listener = std::make_unique<Listener>();
  listener->handle = StreamHandle(port_, handle);
  watched.watch(watched.adopt(std::move(listener)), kReadable);
  return {};
}

Error LocalHost::ways_to(const std::string& text, std::vector<TcpCandidate>& ways) {
  wire::Card card;
  if (Error error = wire::parse_card(text, card)) return std::move(error).context("its address is not known");
  ways = rank_candidates(addresses_, host_, card);
  int shortage = 0;
  std::erase_if(ways, [&](const TcpCandidate& candidate) {
    const int error = port_.find_route(SocketAddress(candidate.address, candidate.scope));
    if (is_shortage(error)) shortage = error;
    return error != 0;
  });
  if (!ways.empty()) return {};
  if (shortage != 0) return Error(ErrorClass::other, "no way to it can be looked for: " + errno_text(shortage));
  std::string theirs, ours;
  for (const wire::CardAddress& address : card.addresses) theirs += " " + wire::to_text(address);
  for (const LocalAddress& local : addresses_) ours += " " + local.interface;
  return Error(ErrorClass::other, "no network leads from here (interfaces" + ours + ") to any of its addresses (" +
                                      (theirs.empty() ? "none" : theirs.substr(1)) +
                                      "). TERN_TCP_INTERFACES chooses which networks are used");
}

std::string LocalHost::interface_name(uint32_t network) const {
  for (const LocalAddress& local : addresses_) {
    if (network != 0 && local.index == network) return local.interface;
  }
  return {};
}

bool LocalHost::several_networks() const {
  return std::any_of(addresses_.begin(), addresses_.end(), [&](const LocalAddress& local) {
    return !local.address.loopback() && local.index != addresses_.back().index;
  });
}

}  // namespace tern::tcp
