// Checks: TERN_CHECK=1 at the C API. Joins the rooms of src/check/ with handles, threads and the program's places, and
// owns what is known of this rank. One per World, made when MPI starts; null: nothing is checked. Entry points and
// bodies reach it through Call::checks alone, which is null then: a call pays one test of a register for it.
//
// What is found is printed as a line on standard error and the program goes on, except where it cannot: a collective
// that does not match is an error of the call. TERN_CHECK=2: the first finding ends the job.
//
// Thread rule: under the rank's lock, except `enter` and `leave`, which find out whether there should be one.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "capi/checked_threads.h"
#include "capi/checked_uses.h"
#include "check/collectives.h"
#include "check/findings.h"
#include "check/messages.h"
#include "check/probes.h"
#include "coll/collectives.h"
#include "p2p/core/message_handler.h"

namespace tern::capi {

struct World;

class Checks final : public MessageHandler {
 public:
  /// `fatal`: a finding ends the job.
  Checks(World& world, bool fatal);
  Checks(const Checks&) = delete;
  Checks& operator=(const Checks&) = delete;

  // --- Every call.
  /// `any_time`: a function that may be called at any time from any thread.
  void enter(const char* call, bool any_time);
  void leave();
  /// A group argument of the current call: the session that it comes from (0: none, of the World Model), and that of
  /// the communicator argument; null: there is none.
  void use_session(const int32_t* of_communicator, int32_t session);

  // --- Point-to-point: instead of the functions of the same names of PointToPoint. `count`, `type`: what the program
  // sends, if the arguments say a packed copy.
  Error send(const SendArguments& arguments, Count count, const Datatype& type);
  Request* isend(const SendArguments& arguments);
  Error receive(const ReceiveArguments& arguments, Status& status);
  Request* ireceive(const ReceiveArguments& arguments);
  /// What MPI_Probe and MPI_Iprobe have found; null: nothing.
  void probed(const Communicator& comm, const Status* found);
  /// A receive that was begun, of a request that the program does not get; `place`: of its call.
  void watch(Request& receive);
  /// A persistent request's buffer, before the request gets its handle.
  void prepare(const void* buffer, Count count, const Datatype& type, bool writes);
  Error start(Request& request);

  // --- Collectives, before they begin. Error: the ranks' calls do not match.
  Error collective(Communicator& comm, Operation operation, const Operands& operands, Mode mode);
  /// A reduction of elements of that type is about to be computed.
  void reduction(const Op& op, const Datatype& type);
  /// One that moves no data of the program's.
  Error collective(Communicator& comm);

  // --- Handles. `table`: of the handle's kind.
  void given(const void* table, uintptr_t handle);
  void bind(const Request& request);
  /// The program asks for the completion of the request.
  void completing(const Request& request);
  /// A continuation has taken it over, and it is complete.
  void taken(const Request& request);
  /// The program frees a request that may be active.
  void freeing(const Request& request);
  /// This call frees or changes the object, or the communicator: no other thread may use it meanwhile.
  void uses_alone(const void* object);
  void uses_alone(const Communicator& comm);
  /// MPI_Finalize, first of all: all ranks are there; what is left over is reported.
  Error finalize();

  void report(const std::string& text);
  std::string place() const;

  // --- MessageHandler.
  void on_message(Endpoint& from, const wire::Header& header, const std::byte* payload, size_t bytes) override;
  Landing on_header(Endpoint& from, const wire::Header& header, size_t bytes) override;
  void on_landed(Endpoint& from, const wire::Header& header, Landing& landing, size_t bytes, Error error) override;
  void on_peer_lost(Endpoint& peer, const Error& error) override { collectives_.on_peer_lost(); }

 private:
  Error begin(Communicator& comm, wire::CheckedCollective call);
  std::vector<Frame> frames() const;
  bool may_be_of_session(uint64_t context) const;
  void report_unreceived();
  template <typename Table, typename Wanted>
  void report_left(const Table& table, const char* one, const char* many, const char* what, Wanted wanted);
  Request* find_request(int32_t handle) const;

  World& world_;
  const bool fatal_;
  check::Findings findings_;
  CheckedThreads threads_;
  CheckedUses uses_;
  check::Messages messages_;
  check::Collectives collectives_;
  check::Probes probes_;
  std::set<std::string> told_;  ///< each finding once
  static constexpr size_t kMaxTold = 100;

  std::map<std::pair<const void*, uintptr_t>, std::string> creators_;
  std::map<const Request*, std::string> receives_;  ///< where those that are watched were posted

  mutable std::mutex places_mutex_;
  mutable std::map<uintptr_t, std::string> places_;       ///< names of addresses; guarded by places_mutex_
  std::optional<int32_t> session_;                        ///< of the first group argument of the current call
  std::map<const Request*, std::thread::id> completing_;  ///< who waits for which
};

}  // namespace tern::capi
