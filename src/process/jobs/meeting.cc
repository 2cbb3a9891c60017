#include "process/jobs/meeting.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "coll/create/inter.h"

namespace tern {
namespace {

using create::Channel;
using create::Words;

constexpr std::string_view kReady = "ready";

Words packed(std::string_view text) {
  Words words(1 + (text.size() + 7) / 8);
  words[0] = text.size();
  if (!text.empty()) std::memcpy(words.data() + 1, text.data(), text.size());
  return words;
}

std::string unpacked(std::span<const uint64_t> words) {
  std::string text(words[0], '\0');
  if (!text.empty()) std::memcpy(text.data(), words.data() + 1, text.size());
  return text;
}

/// The ranks of a communicator who tell each other about themselves and agree. Every step is collective; an error of
/// any rank becomes the error of all.
class Assembly {
 public:
  Assembly(const create::Maker& maker, OtherJobs& jobs, Communicator& comm, int root)
      : maker_(maker), jobs_(jobs), comm_(comm), root_(root) {}

 protected:
  bool at_root() const { return comm_.rank() == root_; }
  Error gather(std::vector<wire::Member>& members, Error trouble);
  Error broadcast(Error error, std::string& text);
  Error agree(Error mine);
  Error run_flow(create::Flow flow) { return create::run(maker_.environment.p2p, std::move(flow)); }

  const create::Maker& maker_;
  OtherJobs& jobs_;
  Communicator& comm_;
  const int root_;
};

/// One side of a meeting in progress. An error of the root's link is the error of all, too.
class Side : Assembly {
 public:
  Side(const Meeting& meeting, std::unique_ptr<PortLink> link)
      : Assembly(meeting.maker, meeting.jobs, meeting.comm, meeting.root), meeting_(meeting), link_(std::move(link)) {
    if (link_) waiting_.emplace(meeting.ports, link_.get(), meeting.deadline_ns);
  }

  Error run(Error trouble, Ref<Communicator>& result);

 private:
  Error exchange(std::vector<wire::Member>& mine, wire::MeetingSide& theirs);
  Error await_message(std::string& text);

  const Meeting& meeting_;
  std::unique_ptr<PortLink> link_;         ///< the root's
  std::optional<Ports::Waiting> waiting_;  ///< for it
};

/// One side of an introduction. Roots are the leaders.
class Introduction : Assembly {
 public:
  explicit Introduction(const Strangers& strangers)
      : Assembly(strangers.maker, strangers.jobs, strangers.comm, strangers.leader), strangers_(strangers) {}

  Error run();

 private:
  Error exchange(const std::vector<wire::Member>& mine, wire::MeetingSide& theirs);

  const Strangers& strangers_;
};

// Every rank's description, by rank, at all ranks. They are padded to equal length.
Error Assembly::gather(std::vector<wire::Member>& members, Error trouble) {
  wire::Member me;
  Error failure = jobs_.describe(me);
  if (!trouble) trouble = std::move(failure);
  Words mine = packed(wire::build_meeting({0, {me}}));
  Words status{mine.size()}, all;
  if (Error error = agree(std::move(trouble))) return error;
  if (Error error = create::allgather(maker_, comm_, status, all)) return error;
  const size_t longest = size_t(*std::max_element(all.begin(), all.end()));
  mine.resize(longest);
  if (Error error = create::allgather(maker_, comm_, mine, all)) return error;
  for (int rank = 0; rank < comm_.size(); ++rank) {
    wire::MeetingSide one;
    if (!wire::parse_meeting(unpacked(std::span<const uint64_t>(all).subspan(size_t(rank) * longest, longest)), one))
      return Error(ErrorClass::intern, "a description of a rank was lost");
    members.push_back(std::move(one.members[0]));
  }
  return {};
}

Error Side::await_message(std::string& text) {
  PortLink& link = *link_;
  const uint64_t deadline = meeting_.deadline_ns;
  ProgressEngine& progress = meeting_.maker.environment.p2p.progress();
  progress.wait_until([&] { return link.has_message() || link.ended() || meeting_.clock.now_ns() >= deadline; });
  if (link.has_message()) {
    text = link.take_message();
    return {};
  }
  if (link.ended()) return Error(link.error().error_class(), std::string(link.error().text()));
  return Error(ErrorClass::port, link.proven() ? "the other job has not answered in time (TERN_PORT_TIMEOUT_S, or the "
                                                 "info key timeout)"
                                               : "nobody serves the port (TERN_PORT_TIMEOUT_S, or the info key "
                                                 "timeout, says how long to try)");
}

// The root's part: the other side's description of itself, and the context of both.
Error Side::exchange(std::vector<wire::Member>& mine, wire::MeetingSide& theirs) {
  PortLink& link = *link_;
  std::string text;
  std::vector<PeerId> ids;
  if (!meeting_.accepts) {
    meeting_.maker.environment.p2p.progress().wait_until(
        [&] { return link.proven() || link.ended() || meeting_.clock.now_ns() >= meeting_.deadline_ns; });
    if (link.proven()) link.send(wire::build_meeting({0, mine}));
  }
  if (Error error = await_message(text)) return error;
  if (!wire::parse_meeting(text, theirs)) return Error(ErrorClass::port, "the other job speaks another language");
  if (Error error = meeting_.jobs.meet(theirs.members, ids)) return error;
  if (!meeting_.accepts) return {};
  // Made only now: an id among jobs looks different (comm/context.h).
  theirs.context = meeting_.maker.new_context();
  link.send(wire::build_meeting({theirs.context, mine}));
  return {};
}

// Distributes the root's error, or its text, to all.
Error Assembly::broadcast(Error error, std::string& text) {
  Words words{0};
  if (at_root()) {
    words = packed(error ? error.text() : std::string_view(text));
    words.push_back(uint64_t(error.error_class()));
  }
  if (Error failed = run_flow(Channel::of(maker_, comm_).broadcast(root_, words))) return failed;
  text = unpacked(words);
  if (words.back() != 0) return Error(int(words.back()), std::move(text));
  return {};
}

// Distributes the error of the first rank that has one.
Error Assembly::agree(Error mine) {
  Words all;
  const uint64_t code = uint64_t(mine.error_class());
  if (Error error = create::allgather(maker_, comm_, std::span<const uint64_t>(&code, 1), all)) return error;
  const auto first = std::find_if(all.begin(), all.end(), [](uint64_t c) { return c != 0; });
  if (first == all.end()) return {};
  const int culprit = int(first - all.begin());
  std::string text(mine.text());
  Words words{0};
  if (comm_.rank() == culprit) words = packed(text);
  if (Error error = run_flow(Channel::of(maker_, comm_).broadcast(culprit, words))) return error;
  return Error(int(*first), unpacked(words));
}

Error Side::run(Error trouble, Ref<Communicator>& result) {
  const create::Maker& maker = meeting_.maker;
  Communicator& comm = meeting_.comm;
  std::vector<wire::Member> mine;
  if (Error error = gather(mine, std::move(trouble))) return error;

  wire::MeetingSide theirs;
  Error exchanged;
  if (at_root()) exchanged = exchange(mine, theirs);
  std::string text = at_root() && !exchanged ? wire::build_meeting(theirs) : "";
  if (Error error = broadcast(std::move(exchanged), text)) return error;
  if (!at_root() && !wire::parse_meeting(text, theirs)) return Error(ErrorClass::intern, "a description was lost");

  std::vector<PeerId> members;
  Error met = meeting_.jobs.meet(theirs.members, members);
  for (PeerId member : members) {
    if (!met && comm.group().contains(member))
      met = Error(ErrorClass::comm, "the two groups have a process in common; they must be disjoint");
  }
  if (Error error = agree(std::move(met))) return error;

  Error ready;
  if (at_root()) {
    link_->send(kReady);
    text.clear();
    ready = await_message(text);
    text = std::to_string(maker.new_context());
  }
  if (Error error = broadcast(std::move(ready), text)) return error;
  const uint64_t local_context = std::stoull(text);
  result = create::make_inter(maker, theirs.context, local_context, Ref<Group>::share(&comm.group()),
                              Group::of(maker.peers.me(), std::move(members)), meeting_.accepts);
  return {};
}

// The leader's part. The secrets of jobs are sealed with a key that only jobs which know both leaders' secrets have.
Error Introduction::exchange(const std::vector<wire::Member>& mine, wire::MeetingSide& theirs) {
  Words said, heard;
  const Error unknown = strangers_.jobs.seal(strangers_.far, wire::build_meeting({0, mine}), said);
  // Also if this side has nothing to say: the other one waits.
  if (Error error = run_flow(strangers_.bridge->exchange(strangers_.far_leader, said, heard))) return error;
  if (unknown) return Error(unknown.error_class(), std::string(unknown.text()));
  std::string text;
  if (!strangers_.jobs.open(strangers_.far, heard, text) || !wire::parse_meeting(text, theirs))
    return Error(ErrorClass::other, "the leader of the other group could not describe its ranks");
  return {};
}

Error Introduction::run() {
  std::vector<wire::Member> mine;
  Error trouble = gather(mine, {});
  wire::MeetingSide theirs;
  Error exchanged;
  if (at_root()) {
    exchanged = exchange(mine, theirs);
    if (trouble) exchanged = std::move(trouble);
  }
  std::string text = at_root() && !exchanged ? wire::build_meeting(theirs) : "";
  if (Error error = broadcast(std::move(exchanged), text)) return error;
  if (!at_root() && !wire::parse_meeting(text, theirs)) return Error(ErrorClass::intern, "a description was lost");
  std::vector<PeerId> members;
  return agree(jobs_.meet(theirs.members, members));
}

}  // namespace

Error introduce(const Strangers& strangers) { return Introduction(strangers).run(); }

Error meet(const Meeting& meeting, std::unique_ptr<PortLink> link, Error trouble, Ref<Communicator>& result) {
  return Side(meeting, std::move(link)).run(std::move(trouble), result);
}

}  // namespace tern
