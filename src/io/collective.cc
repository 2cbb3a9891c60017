// Collective accesses: what the ranks tell each other first, which method they use, and the error that all of them get.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "io/accesses.h"
#include "io/two_phase.h"

namespace tern::io {

namespace {

// A longer pattern is not sent to all ranks: 4 KiB for each rank at each rank.
constexpr size_t kMaxWords = 512;
// Pieces of all ranks' filetypes together that are compared to find out whether they overlap.
constexpr size_t kMaxCompared = 1 << 16;

/// Displacement, extent, layout; empty: too long.
std::vector<uint64_t> words_of(const Pattern& pattern) {
  std::vector<uint64_t> words{uint64_t(pattern.displacement()), uint64_t(pattern.type().extent())};
  if (!write_words(pattern.type().layout(), kMaxWords - words.size(), words)) words.clear();
  return words;
}

std::unique_ptr<Pattern> pattern_from(std::span<const uint64_t> words) {
  const auto displacement = int64_t(words[0]), extent = int64_t(words[1]);
  Layout layout;
  words = words.subspan(2);
  if (!read_words(words, layout)) return nullptr;
  return std::make_unique<Pattern>(displacement, extent, layout);
}

using Spans = std::vector<std::pair<int64_t, int64_t>>;

bool no_overlap(Spans& spans) {
  std::sort(spans.begin(), spans.end());
  for (size_t i = 1; i < spans.size(); ++i) {
    if (spans[i].first < spans[i - 1].second) return false;
  }
  return true;
}

/// Finds out whether a byte of the file is in two ranks' patterns, if that is easy.
///
///   filetypes     rank 0 |aa..aa|        their extents end with their data, so that the second copies overlap;
///   of a vector   rank 1   |bb..bb|      the first ones do not
void compare(KnownPatterns& patterns) {
  patterns.disjoint = patterns.first_disjoint = false;
  Spans first, repeated;  // of the first filetypes, and what is left of them modulo their extent
  int64_t extent = 0;
  bool repeats = true;
  for (const auto& pattern : patterns.of) {
    if (!pattern) return;
    if (pattern->tile_bytes() == 0) continue;
    const int64_t mine = pattern->type().extent();
    repeats = repeats && mine > 0 && (extent == 0 || mine == extent);
    extent = mine;
    if (size_t(pattern->type().segments()) > kMaxCompared - first.size()) return;
    Cursor cursor = pattern->cursor(nullptr, 0, pattern->tile_bytes());
    iovec pieces[64];
    while (cursor.remaining() > 0) {
      size_t length = 0;
      const size_t n = cursor.segments(pieces, SIZE_MAX, length);
      for (size_t i = 0; i < n; ++i) {
        const auto begin = int64_t(reinterpret_cast<intptr_t>(pieces[i].iov_base));
        first.emplace_back(begin, begin + int64_t(pieces[i].iov_len));
      }
    }
  }
  if (repeats) repeated.reserve(first.size() + 1);
  for (size_t i = 0; repeats && i < first.size(); ++i) {
    const int64_t begin = first[i].first % extent, end = begin + first[i].second - first[i].first;
    repeated.emplace_back(begin, std::min(end, extent));
    if (end > extent) repeated.emplace_back(0, end - extent);
  }
  patterns.first_disjoint = no_overlap(first);
  patterns.disjoint = repeats && patterns.first_disjoint && no_overlap(repeated);
}

bool members_disjoint(const std::vector<Member>& members) {
  Spans spans;
  for (const Member& member : members) {
    if (member.bytes == 0) continue;
    if (member.form != Member::contiguous) return false;
    spans.emplace_back(member.begin, member.end);
  }
  return no_overlap(spans);
}

/// Whether nobody reaches beyond its first filetype.
bool within_first(const std::vector<Member>& members, const KnownPatterns& patterns) {
  for (size_t rank = 0; rank < members.size(); ++rank) {
    const Member& member = members[rank];
    if (member.bytes != 0 && member.position + member.bytes > patterns.of[rank]->tile_bytes()) return false;
  }
  return true;
}

/// Whether the first byte of the access must come from a device. (Of a file that cannot be read nobody knows.)
bool is_cold(const Access& access) {
  const OpenFile& file = access.at.file;
  if (!file.facts.regular || file.facts.remote || !file.readable) return false;
  std::byte first{};
  iovec piece{&first, 1};
  return access.at.environment.files().read_cached(file.descriptor, &piece, 1, access.begin()) == -EAGAIN;
}

Member describe(const Access& access, bool known, size_t words) {
  Member member;
  const Pattern& pattern = access.pattern();
  if (pattern.contiguous() || pattern.tile_bytes() == 0) {
    member.form = Member::contiguous;
    member.origin = pattern.tile_bytes() == 0 ? 0 : pattern.begin();
  } else if (pattern.course() != Course::forward) {
    member.form = Member::alone;
  } else if (known) {
    member.form = words != 0 ? Member::known : Member::listed;
  } else {
    member.form = words != 0 ? Member::told : Member::listed;
    member.words = uint32_t(words);
  }
  member.position = access.position;
  member.bytes = access.bytes;
  if (access.bytes == 0) return member;
  member.begin = access.begin();
  member.end = access.end();
  member.pieces = uint64_t(pattern.pieces_in(access.bytes));
  member.cold = is_cold(access);
  return member;
}

}  // namespace

/// The patterns of the ranks that have announced one.
Flow Accesses::tell_patterns(Exchange exchange, const std::vector<Member>& members, const std::vector<uint64_t>& mine,
                             KnownPatterns& patterns) {
  uint32_t most = 0;
  for (const Member& member : members) most = std::max(most, member.words);
  create::Words all, padded(mine);
  padded.resize(most);
  Error error;
  if (most != 0) error = co_await exchange.gather(std::span<const uint64_t>(padded), all);
  if (error) co_return std::move(error);
  patterns.of.clear();
  patterns.of.resize(members.size());
  for (size_t rank = 0; rank < members.size(); ++rank) {
    const Member& member = members[rank];
    if (member.form == Member::told) {
      patterns.of[rank] = pattern_from(std::span<const uint64_t>(all).subspan(rank * most, member.words));
      if (!patterns.of[rank])
        co_return Error(ErrorClass::intern, "rank " + std::to_string(rank) + " has told a view that is none");
    } else if (member.form == Member::contiguous) {
      patterns.of[rank] =
          std::make_unique<Pattern>(member.origin, Ref<Datatype>::share(&at_.environment.types().get(type_id::kByte)));
    }
  }
  compare(patterns);
  patterns.told = true;
  co_return Error();
}

Flow Accesses::move_together(Access& access, int sequence, Error wrong) {
  KnownPatterns& kept = known_[access.write];
  KnownPatterns own;
  const bool known = kept.told;
  const bool prepared = !wrong || !access.view->prepare();
  std::vector<uint64_t> mine;
  bool short_enough = known && kept.of[size_t(comm_.rank())] != nullptr;
  if (!known && prepared && !access.pattern().contiguous()) {
    mine = words_of(access.pattern());
    short_enough = !mine.empty();
  }
  if (!prepared) access.forget();
  const Member member = prepared ? describe(access, known, known ? size_t(short_enough) : mine.size()) : Member();
  create::Words all;
  const auto* member_words = reinterpret_cast<const uint64_t*>(&member);
  const Exchange exchange{at_.environment, comm_, access.blocking, sequence};
  Error error = co_await exchange.gather(std::span(member_words, sizeof member / sizeof(uint64_t)), all);
  std::vector<Member> members(size_t(comm_.size()));
  if (!error) std::memcpy(static_cast<void*>(members.data()), all.data(), members.size() * sizeof(Member));
  const bool together = !error && !atomic_ && TwoPhase::pays(at_, team_, access.write, members);
  // A blocking access drops the patterns: it is over at all ranks in the same order.
  KnownPatterns& patterns = known || access.blocking ? kept : own;
  if (together && !known) error = co_await tell_patterns(exchange, members, mine, patterns);
  if (!error && together) {
    ++at_.environment.counters().io_together;
    const bool disjoint =
        patterns.disjoint || (patterns.first_disjoint && within_first(members, patterns)) || members_disjoint(members);
    TwoPhase phases(comm_, team_, access, sequence, members, patterns, disjoint);
    if (access.write) error = co_await phases.write();
    else error = co_await phases.read();
    dirty_ = dirty_ || phases.wrote();
    if (!error && member.form == Member::alone) error = co_await move(access);
  } else if (!error) {
    access.crowded = std::count_if(members.begin(), members.end(), [](const Member& m) { return m.bytes != 0; }) > 1;
    error = co_await move(access);
  }
  if (!wrong) wrong = std::move(error);
  co_return co_await exchange.share_error(std::move(wrong));
}

}  // namespace tern::io
