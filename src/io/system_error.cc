#include "io/system_error.h"

#include <cerrno>
#include <cstring>
#include <string>

#include "base/system_names.h"

namespace tern::io {

namespace {

const char* remedy_for(ErrorClass error_class, int number) {
  switch (error_class) {
    case ErrorClass::no_such_file:
      return ". Look at the path; on several hosts, at whether all of them share that file system";
    case ErrorClass::access: return ". Look at the permissions of the file and of its folders";
    case ErrorClass::no_space:
      return number == EFBIG ? ". The file system or a limit (ulimit -f) forbids files of that size"
                             : ". Remove something, or write elsewhere";
    case ErrorClass::quota: return ". Remove something, or ask for more";
    case ErrorClass::no_mem: return "";
    default: break;
  }
  if (number == EMFILE || number == ENFILE) return ". Close files, or raise the limit (ulimit -n)";
  if (number == ENOLCK || number == ENOTSUP || number == ENOSYS) return ". The file system does not offer this";
  return "";
}

}  // namespace

ErrorClass class_of(int number) {
  switch (number) {
    case ENOENT: return ErrorClass::no_such_file;
    case EEXIST: return ErrorClass::file_exists;
    case EACCES:
    case EPERM: return ErrorClass::access;
    case EROFS: return ErrorClass::read_only;
    case ENOSPC:
    case EFBIG: return ErrorClass::no_space;
    case EDQUOT: return ErrorClass::quota;
    case ENAMETOOLONG:
    case ELOOP:
    case EISDIR:
    case ENOTDIR: return ErrorClass::bad_file;
    case ETXTBSY:
    case EBUSY: return ErrorClass::file_in_use;
    case ENOMEM: return ErrorClass::no_mem;
    case ENOLCK:
    case ENOSYS:
    case ENOTSUP:
    case ESPIPE: return ErrorClass::unsupported_operation;
    default: return ErrorClass::io;
  }
}

Error system_error(std::string_view operation, std::string_view path, int number) {
  const ErrorClass error_class = class_of(number);
  char text[128] = "";
  const char* reason = strerror_r(number, text, sizeof text);
  const char* name = error_name(number);
  std::string sentence(operation);
  sentence += " of '" + std::string(path) + "' failed: " + reason;
  if (name) sentence += " (" + std::string(name) + ")";
  return Error(error_class, sentence + remedy_for(error_class, number));
}

}  // namespace tern::io
