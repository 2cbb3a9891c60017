// NameFolder: where jobs of one user find each other's ports: a folder that only that user may read. For each open port
// a file with its secret, for each published name (MPI 5.0, 11.9.4) a file with the name of its port:
//
//   port-<number>     the secret, 64 hexadecimal digits
//   name-<service>    "<host> <process> <start of the process>\n<port name>", the service in hexadecimal digits
//
// So a port's name alone, which other users may see in lists of processes, is not enough to connect. The files of a
// process that has ended without removing them are replaced.
//
// Thread rule: the path is the only state; files are written as a whole (link, rename).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/tunables.h"
#include "fabric/tcp/cipher.h"

namespace tern {

class NameFolder {
 public:
  explicit NameFolder(const Tunables& tunables);

  Error keep_secret(uint64_t port, const TcpKey& secret);
  void drop_secret(uint64_t port);
  /// Error (MPI_ERR_PORT): this user has no such port, or not where this process looks.
  Error find_secret(uint64_t port, TcpKey& secret) const;

  /// MPI_ERR_SERVICE: a living process has published the name.
  Error publish(std::string_view service, std::string_view port_name);
  /// MPI_ERR_SERVICE: it is not published, or was published by another process.
  Error unpublish(std::string_view service);
  /// MPI_ERR_NAME: it is not published.
  Error look_up(std::string_view service, std::string& port_name) const;

 private:
  Error prepare();
  std::string path(std::string_view kind, std::string_view name) const;
  Error write(const std::string& file, std::string_view text, bool replace);

  std::string folder_;
};

}  // namespace tern
