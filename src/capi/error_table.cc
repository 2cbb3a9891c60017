// The texts of the standard's error classes, and the user's additions.
#include "capi/error_table.h"

#include <algorithm>

namespace tern::capi {

namespace {

struct Row {
  int error_class;
  const char* name;
  const char* text;
};

constexpr Row kRows[] = {
    {0, "MPI_SUCCESS", "no error"},
    {1, "MPI_ERR_BUFFER", "invalid buffer pointer"},
    {2, "MPI_ERR_COUNT", "invalid count argument"},
    {3, "MPI_ERR_TYPE", "invalid datatype argument"},
    {4, "MPI_ERR_TAG", "invalid tag argument"},
    {5, "MPI_ERR_COMM", "invalid communicator"},
    {6, "MPI_ERR_RANK", "invalid rank"},
    {7, "MPI_ERR_REQUEST", "invalid request"},
    {8, "MPI_ERR_ROOT", "invalid root"},
    {9, "MPI_ERR_GROUP", "invalid group"},
    {10, "MPI_ERR_OP", "invalid reduction operator"},
    {11, "MPI_ERR_TOPOLOGY", "invalid topology"},
    {12, "MPI_ERR_DIMS", "invalid dimension argument"},
    {13, "MPI_ERR_ARG", "invalid argument"},
    {14, "MPI_ERR_UNKNOWN", "unknown error"},
    {15, "MPI_ERR_TRUNCATE", "message longer than the receive buffer"},
    {16, "MPI_ERR_OTHER", "other known error"},
    {17, "MPI_ERR_INTERN", "internal error of the library"},
    {18, "MPI_ERR_PENDING", "pending request"},
    {19, "MPI_ERR_IN_STATUS", "the error codes are in the statuses"},
    {20, "MPI_ERR_ACCESS", "permission denied"},
    {21, "MPI_ERR_AMODE", "invalid access mode of a file"},
    {22, "MPI_ERR_ASSERT", "invalid assertion argument"},
    {23, "MPI_ERR_BAD_FILE", "invalid file name"},
    {24, "MPI_ERR_BASE", "memory that MPI_Alloc_mem did not give"},
    {25, "MPI_ERR_CONVERSION", "error in a user's data conversion function"},
    {26, "MPI_ERR_DISP", "invalid displacement"},
    {27, "MPI_ERR_DUP_DATAREP", "data representation already defined"},
    {28, "MPI_ERR_FILE_EXISTS", "file exists"},
    {29, "MPI_ERR_FILE_IN_USE", "file in use"},
    {30, "MPI_ERR_FILE", "invalid file handle"},
    {31, "MPI_ERR_INFO_KEY", "info key longer than MPI_MAX_INFO_KEY"},
    {32, "MPI_ERR_INFO_NOKEY", "no such info key"},
    {33, "MPI_ERR_INFO_VALUE", "info value longer than MPI_MAX_INFO_VAL"},
    {34, "MPI_ERR_INFO", "invalid info object"},
    {35, "MPI_ERR_IO", "input or output error"},
    {36, "MPI_ERR_KEYVAL", "invalid attribute key"},
    {37, "MPI_ERR_LOCKTYPE", "invalid lock type"},
    {38, "MPI_ERR_NAME", "service name not published"},
    {39, "MPI_ERR_NO_MEM", "out of memory"},
    {40, "MPI_ERR_NOT_SAME", "argument not the same on all ranks"},
    {41, "MPI_ERR_NO_SPACE", "not enough space"},
    {42, "MPI_ERR_NO_SUCH_FILE", "no such file"},
    {43, "MPI_ERR_PORT", "invalid port name"},
    {44, "MPI_ERR_QUOTA", "quota exceeded"},
    {45, "MPI_ERR_READ_ONLY", "read-only file or file system"},
    {46, "MPI_ERR_RMA_ATTACH", "memory cannot be attached to the window"},
    {47, "MPI_ERR_RMA_CONFLICT", "conflicting accesses to a window"},
    {48, "MPI_ERR_RMA_RANGE", "target memory is not part of the window"},
    {49, "MPI_ERR_RMA_SHARED", "memory cannot be shared"},
    {50, "MPI_ERR_RMA_SYNC", "wrong synchronisation of one-sided calls"},
    {51, "MPI_ERR_SERVICE", "invalid service name"},
    {52, "MPI_ERR_SIZE", "invalid size"},
    {53, "MPI_ERR_SPAWN", "processes could not be spawned"},
    {54, "MPI_ERR_UNSUPPORTED_DATAREP", "unsupported data representation"},
    {55, "MPI_ERR_UNSUPPORTED_OPERATION", "operation not supported"},
    {56, "MPI_ERR_WIN", "invalid window"},
    {57, "MPI_ERR_RMA_FLAVOR", "the window has the wrong flavour for this call"},
    {58, "MPI_ERR_PROC_ABORTED", "a peer rank has aborted"},
    {59, "MPI_ERR_VALUE_TOO_LARGE", "value too large for its variable"},
    {60, "MPI_ERR_SESSION", "invalid session"},
    {61, "MPI_ERR_ERRHANDLER", "invalid error handler"},
    {62, "MPI_ERR_ABI", "the ABI's Fortran properties are set already"},
    {1001, "MPI_T_ERR_CANNOT_INIT", "the tools interface cannot be initialised"},
    {1002, "MPI_T_ERR_NOT_ACCESSIBLE", "the function is not accessible now"},
    {1003, "MPI_T_ERR_NOT_INITIALIZED", "the tools interface is not initialised"},
    {1004, "MPI_T_ERR_NOT_SUPPORTED", "not supported"},
    {1005, "MPI_T_ERR_MEMORY", "out of memory"},
    {1006, "MPI_T_ERR_INVALID", "invalid use of the interface or bad value"},
    {1007, "MPI_T_ERR_INVALID_INDEX", "invalid index"},
    {1008, "MPI_T_ERR_INVALID_ITEM", "invalid item index"},
    {1009, "MPI_T_ERR_INVALID_SESSION", "invalid session"},
    {1010, "MPI_T_ERR_INVALID_HANDLE", "invalid handle"},
    {1011, "MPI_T_ERR_INVALID_NAME", "invalid name"},
    {1012, "MPI_T_ERR_OUT_OF_HANDLES", "no more handles"},
    {1013, "MPI_T_ERR_OUT_OF_SESSIONS", "no more sessions"},
    {1014, "MPI_T_ERR_CVAR_SET_NOT_NOW", "the variable cannot be set now"},
    {1015, "MPI_T_ERR_CVAR_SET_NEVER", "the variable cannot be set any more"},
    {1016, "MPI_T_ERR_PVAR_NO_WRITE", "the variable cannot be written"},
    {1017, "MPI_T_ERR_PVAR_NO_STARTSTOP", "the variable cannot be started or stopped"},
    {1018, "MPI_T_ERR_PVAR_NO_ATOMIC", "the variable cannot be read and reset at once"},
    {ErrorTable::kLastCode, "MPI_ERR_LASTCODE", "the last error code of the standard"},
};

const Row* row_of(int error_class) {
  auto row = std::lower_bound(std::begin(kRows), std::end(kRows), error_class,
                              [](const Row& a, int b) { return a.error_class < b; });
  return row != std::end(kRows) && row->error_class == error_class ? row : nullptr;
}

Error unknown(const char* what, int number) {
  return Error(ErrorClass::arg,
               "argument '" + std::string(what) + "' is " + std::to_string(number) +
                   ", which was not added by the program. Only what was added can be changed or removed.");
}

}  // namespace

const char* error_class_name(int error_class) {
  const Row* row = row_of(error_class);
  return row ? row->name : nullptr;
}

bool ErrorTable::class_of(int code, int& error_class) const {
  if (auto user = user_.find(code); user != user_.end()) {
    error_class = user->second.error_class;
    return true;
  }
  error_class = code;
  return row_of(code) != nullptr;
}

bool ErrorTable::text_of(int code, std::string& text) const {
  if (auto user = user_.find(code); user != user_.end()) {
    text = user->second.text;
    return true;
  }
  const Row* row = row_of(code);
  if (!row) return false;
  text = std::string(row->name) + ": " + row->text;
  if (auto last = last_.find(code); last != last_.end()) text += "; last: " + last->second;
  return true;
}

int ErrorTable::next_number() const { return user_.empty() ? kLastCode + 1 : user_.rbegin()->first + 1; }

int ErrorTable::last_used() const { return user_.empty() ? kLastCode : user_.rbegin()->first; }

int ErrorTable::add_class() {
  int number = next_number();
  user_[number] = {.error_class = number, .text = {}};
  return number;
}

Error ErrorTable::add_code(int error_class, int& code) {
  int real = 0;
  if (!class_of(error_class, real) || real != error_class) {
    return Error(ErrorClass::arg,
                 "argument 'errorclass' is " + std::to_string(error_class) +
                     ", which is no error class. Pass a class of the standard or of MPI_Add_error_class.");
  }
  code = next_number();
  user_[code] = {.error_class = error_class, .text = {}};
  return {};
}

Error ErrorTable::set_text(int code, std::string text) {
  auto user = user_.find(code);
  if (user == user_.end()) return unknown("errorcode", code);
  user->second.text = std::move(text);
  user->second.has_text = true;
  return {};
}

Error ErrorTable::remove_class(int error_class) {
  auto user = user_.find(error_class);
  if (user == user_.end() || user->second.error_class != error_class) return unknown("errorclass", error_class);
  for (auto& [code, entry] : user_) {
    if (entry.error_class == error_class && code != error_class) {
      return Error(ErrorClass::arg, "class " + std::to_string(error_class) + " still has the code " +
                                        std::to_string(code) + ". Remove its codes first.");
    }
  }
  if (user->second.has_text) {
    return Error(ErrorClass::arg,
                 "class " + std::to_string(error_class) + " still has a string. Remove its string first.");
  }
  user_.erase(user);
  return {};
}

Error ErrorTable::remove_code(int code) {
  auto user = user_.find(code);
  if (user == user_.end() || user->second.error_class == code) return unknown("errorcode", code);
  if (user->second.has_text) {
    return Error(ErrorClass::arg, "code " + std::to_string(code) + " still has a string. Remove its string first.");
  }
  user_.erase(user);
  return {};
}

Error ErrorTable::remove_text(int code) {
  auto user = user_.find(code);
  if (user == user_.end()) return unknown("errorcode", code);
  if (!user->second.has_text) {
    return Error(ErrorClass::arg, "code " + std::to_string(code) + " has no string to remove.");
  }
  user->second.text.clear();
  user->second.has_text = false;
  return {};
}

}  // namespace tern::capi
