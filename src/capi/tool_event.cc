// Events of the tools interface. Tern has no event types and no sources yet (both may be none): every index and every
// handle is refused as the standard says. Source: MPI 5.0 section 15.3.8.
#include "fmt/format.h"
#include "impl.gen.h"

namespace tern::capi::body {

static Error no_event(int index) {
  return Error(MPI_T_ERR_INVALID_INDEX,
               fmt::format("argument 'event_index' is {}, but there are no event types", index));
}
static Error no_source(int index) {
  return Error(MPI_T_ERR_INVALID_INDEX,
               fmt::format("argument 'source_index' is {}, but there are no event sources", index));
}
static Error no_registration() {
  return Error(MPI_T_ERR_INVALID_HANDLE, "argument 'event_registration' is no handle: there are no event types");
}
static Error no_instance() {
  return Error(MPI_T_ERR_INVALID_HANDLE, "argument 'event_instance' is no handle: there are no event types");
}

Error T_event_get_num(Call& call, int& num_events) {
  num_events = 0;
  return {};
}

Error T_event_get_info(Call& call, int event_index, char* name, int* name_len, int* verbosity,
                       MPI_Datatype* array_of_datatypes, Aint* array_of_displacements, int* num_elements,
                       MPI_T_enum* enumtype, MPI_Info* info, char* desc, int* desc_len, int* bind) {
  return no_event(event_index);
}

Error T_event_get_index(Call& call, const char* name, int& event_index) {
  return Error(MPI_T_ERR_INVALID_NAME, fmt::format("there is no event type '{}'", name));
}

Error T_event_handle_alloc(Call& call, int event_index, void* obj_handle, Info* info,
                           MPI_T_event_registration* event_registration) {
  return no_event(event_index);
}

Error T_event_handle_set_info(Call& call, MPI_T_event_registration event_registration, Info* info) {
  return no_registration();
}

Error T_event_handle_get_info(Call& call, MPI_T_event_registration event_registration, Info*& info_used) {
  return no_registration();
}

Error T_event_register_callback(Call& call, MPI_T_event_registration event_registration, MPI_T_cb_safety cb_safety,
                                Info* info, void* user_data, MPI_T_event_cb_function* event_cb_function) {
  return no_registration();
}

Error T_event_callback_set_info(Call& call, MPI_T_event_registration event_registration, MPI_T_cb_safety cb_safety,
                                Info* info) {
  return no_registration();
}

Error T_event_callback_get_info(Call& call, MPI_T_event_registration event_registration, MPI_T_cb_safety cb_safety,
                                Info*& info_used) {
  return no_registration();
}

Error T_event_handle_free(Call& call, MPI_T_event_registration event_registration, void* user_data,
                          MPI_T_event_free_cb_function* free_cb_function) {
  return no_registration();
}

Error T_event_set_dropped_handler(Call& call, MPI_T_event_registration event_registration,
                                  MPI_T_event_dropped_cb_function* dropped_cb_function) {
  return no_registration();
}

Error T_event_read(Call& call, MPI_T_event_instance event_instance, int element_index, void* buffer) {
  return no_instance();
}
Error T_event_copy(Call& call, MPI_T_event_instance event_instance, void* buffer) { return no_instance(); }
Error T_event_get_timestamp(Call& call, MPI_T_event_instance event_instance, Count& event_timestamp) {
  return no_instance();
}
Error T_event_get_source(Call& call, MPI_T_event_instance event_instance, int& source_index) { return no_instance(); }

Error T_source_get_num(Call& call, int& num_sources) {
  num_sources = 0;
  return {};
}

Error T_source_get_info(Call& call, int source_index, char* name, int* name_len, char* desc, int* desc_len,
                        MPI_T_source_order* ordering, MPI_Count* ticks_per_second, MPI_Count* max_ticks,
                        MPI_Info* info) {
  return no_source(source_index);
}

Error T_source_get_timestamp(Call& call, int source_index, Count& timestamp) { return no_source(source_index); }

}  // namespace tern::capi::body
