#include "fabric/ip/host_question.h"

#include <poll.h>

#include <cerrno>

namespace tern {
namespace {

// tcpmux: nobody offers it any more. Should somebody, the connection stands, which is an answer, too.
constexpr uint16_t kClosedPort = 1;

}  // namespace

void HostQuestion::ask(const SocketAddress& address) {
  SocketAddress target = address;
  target.set_port(kClosedPort);
  const int result = begin_connect(target, call_);
  refused_ = result == ECONNREFUSED;
  if (result != 0 && result != EINPROGRESS) call_.reset();
}

bool HostQuestion::answered() {
  if (refused_) {
    refused_ = false;
    return true;
  }
  if (!call_) return false;
  pollfd wait{call_.get(), POLLOUT, 0};
  if (::poll(&wait, 1, 0) <= 0) return false;
  int error = 0;
  socklen_t bytes = sizeof error;
  (void)getsockopt(call_.get(), SOL_SOCKET, SO_ERROR, &error, &bytes);
  call_.reset();
  return error == 0 || error == ECONNREFUSED || error == ECONNRESET;
}

}  // namespace tern
