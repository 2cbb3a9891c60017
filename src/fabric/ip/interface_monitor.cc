#include "fabric/ip/interface_monitor.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

namespace tern {

Descriptor InterfaceMonitor::open() {
  Descriptor fd(socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE));
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_LINK;
  if (fd && bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) fd.reset();
  return fd;
}

void InterfaceMonitor::read(int fd, std::vector<uint32_t>& down) {
  alignas(nlmsghdr) char buffer[16 * 1024];
  for (;;) {
    const ssize_t got = recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (got <= 0) return;  // nothing more; or too much at a time (ENOBUFS), then silence shows the loss
    auto left = unsigned(got);
    for (auto* message = reinterpret_cast<nlmsghdr*>(buffer); NLMSG_OK(message, left);
         message = NLMSG_NEXT(message, left)) {
      if (message->nlmsg_type != RTM_NEWLINK && message->nlmsg_type != RTM_DELLINK) continue;
      auto* link = static_cast<ifinfomsg*>(NLMSG_DATA(message));
      const bool works =
          message->nlmsg_type == RTM_NEWLINK && (link->ifi_flags & IFF_UP) && (link->ifi_flags & IFF_RUNNING);
      if (!works) down.push_back(uint32_t(link->ifi_index));
    }
  }
}

}  // namespace tern
