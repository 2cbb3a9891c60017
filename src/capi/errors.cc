// Error handlers, classes, codes and strings. Source: MPI 5.0 sections 9.3 to 9.5.
#include <cstring>

#include "capi/comm_common.h"
#include "fmt/format.h"
#include "impl.gen.h"

namespace tern::capi {

namespace {

using Kind = ErrorHandler::Kind;

Error check_fit(const ErrorHandler& handler, Kind kind, const char* what) {
  if (handler.fits(kind)) return {};
  return Error(ErrorClass::errhandler, fmt::format("argument 'errhandler' was not created for {}. Create it "
                                                   "with MPI_{}_create_errhandler.",
                                                   what,
                                                   kind == Kind::communicator ? "Comm"
                                                   : kind == Kind::session    ? "Session"
                                                   : kind == Kind::window     ? "Win"
                                                                              : "File"));
}

/// For a new handle: predefined handlers' handles are not counted.
ErrorHandler* for_user(ErrorHandler& handler) {
  if (!handler.predefined()) handler.add_ref();
  return &handler;
}

Error check_code(Call& call, int code, int& error_class) {
  if (call.world().errors.class_of(code, error_class)) return {};
  return Error(ErrorClass::arg, fmt::format("argument 'errorcode' is {}, which is no error code", code));
}

/// The text that MPI_X_call_errhandler gives the handler.
std::string called_text(Call& call, int code) {
  std::string text;
  call.world().errors.text_of(code, text);
  return fmt::format("{}: error code {} ({})", call.name(), code, text);
}

Error called(Call& call, int code, Communicator* comm, Session* session) {
  int error_class = 0;
  if (Error error = check_code(call, code, error_class)) return error;
  call.world().raise(code, called_text(call, code), comm, session);
  return {};
}

}  // namespace

namespace body {

Error Comm_create_errhandler(Call& call, MPI_Comm_errhandler_function* comm_errhandler_fn, ErrorHandler*& errhandler) {
  errhandler = new ErrorHandler(comm_errhandler_fn);
  return {};
}
Error Session_create_errhandler(Call& call, MPI_Session_errhandler_function* session_errhandler_fn,
                                ErrorHandler*& errhandler) {
  errhandler = new ErrorHandler(session_errhandler_fn);
  return {};
}
Error Win_create_errhandler(Call& call, MPI_Win_errhandler_function* win_errhandler_fn, ErrorHandler*& errhandler) {
  errhandler = new ErrorHandler(win_errhandler_fn);
  return {};
}
Error File_create_errhandler(Call& call, MPI_File_errhandler_function* file_errhandler_fn, ErrorHandler*& errhandler) {
  errhandler = new ErrorHandler(file_errhandler_fn);
  return {};
}

Error Comm_set_errhandler(Call& call, Communicator& comm, ErrorHandler& errhandler) {
  if (Error error = check_fit(errhandler, Kind::communicator, "communicators")) return error;
  set_error_handler(comm, &errhandler);
  return {};
}
Error Comm_get_errhandler(Call& call, Communicator& comm, ErrorHandler*& errhandler) {
  errhandler = for_user(call.world().handler_of(comm));
  return {};
}
Error Session_set_errhandler(Call& call, Session& session, ErrorHandler& errhandler) {
  if (Error error = check_fit(errhandler, Kind::session, "sessions")) return error;
  session.error_handler = Ref<ErrorHandler>::share(&errhandler);
  return {};
}
Error Session_get_errhandler(Call& call, Session& session, ErrorHandler*& errhandler) {
  errhandler = for_user(*session.error_handler);
  return {};
}
Error File_set_errhandler(Call& call, File* file, ErrorHandler& errhandler) {
  if (Error error = check_fit(errhandler, Kind::file, "files")) return error;
  (file ? file->error_handler : call.world().handlers.of_files) = Ref<ErrorHandler>::share(&errhandler);
  return {};
}
Error File_get_errhandler(Call& call, File* file, ErrorHandler*& errhandler) {
  errhandler = for_user(file ? *file->error_handler : *call.world().handlers.of_files);
  return {};
}

Error Win_set_errhandler(Call& call, Window& win, ErrorHandler& errhandler) {
  if (Error error = check_fit(errhandler, Kind::window, "windows")) return error;
  win.error_handler = Ref<ErrorHandler>::share(&errhandler);
  return {};
}
Error Win_get_errhandler(Call& call, Window& win, ErrorHandler*& errhandler) {
  errhandler = for_user(*win.error_handler);
  return {};
}

Error Comm_call_errhandler(Call& call, Communicator& comm, int errorcode) {
  return called(call, errorcode, &comm, nullptr);
}
Error Session_call_errhandler(Call& call, Session& session, int errorcode) {
  return called(call, errorcode, nullptr, &session);
}
Error File_call_errhandler(Call& call, File* file, int errorcode) {
  int error_class = 0;
  if (Error error = check_code(call, errorcode, error_class)) return error;
  call.world().raise(errorcode, called_text(call, errorcode), file);
  return {};
}

Error Win_call_errhandler(Call& call, Window& win, int errorcode) {
  int error_class = 0;
  if (Error error = check_code(call, errorcode, error_class)) return error;
  call.world().raise(errorcode, called_text(call, errorcode), win);
  return {};
}

Error Errhandler_free(Call& call, ErrorHandler*& errhandler) {
  if (!errhandler->predefined()) Ref<ErrorHandler>::adopt(errhandler);
  errhandler = nullptr;
  return {};
}

Error Error_class(Call& call, int errorcode, int& errorclass) { return check_code(call, errorcode, errorclass); }

Error Error_string(Call& call, int errorcode, char* string, int& resultlen) {
  std::string text;
  if (!call.world().errors.text_of(errorcode, text)) {
    int error_class = 0;
    return check_code(call, errorcode, error_class);
  }
  if (text.size() > MPI_MAX_ERROR_STRING - 1) text.resize(MPI_MAX_ERROR_STRING - 1);
  std::memcpy(string, text.c_str(), text.size() + 1);
  resultlen = static_cast<int>(text.size());
  return {};
}

Error Add_error_class(Call& call, int& errorclass) {
  errorclass = call.world().errors.add_class();
  return {};
}
Error Add_error_code(Call& call, int errorclass, int& errorcode) {
  return call.world().errors.add_code(errorclass, errorcode);
}
Error Add_error_string(Call& call, int errorcode, const char* string) {
  if (size_t length = std::strlen(string); length > MPI_MAX_ERROR_STRING) {
    return Error(ErrorClass::arg, fmt::format("argument 'string' has {} characters. At most {} are allowed "
                                              "(MPI_MAX_ERROR_STRING).",
                                              length, MPI_MAX_ERROR_STRING));
  }
  return call.world().errors.set_text(errorcode, string);
}
Error Remove_error_class(Call& call, int errorclass) { return call.world().errors.remove_class(errorclass); }
Error Remove_error_code(Call& call, int errorcode) { return call.world().errors.remove_code(errorcode); }
Error Remove_error_string(Call& call, int errorcode) { return call.world().errors.remove_text(errorcode); }

}  // namespace body
}  // namespace tern::capi
