// Runs a fuzz target over its corpus and random mutations of it, without libFuzzer: bits, bytes, cuts,
// splices, numbers at their edges. The seed is fixed, so that the ctest run cannot flake; `TARGET SEED COUNT`
// runs others. On a failure the input is left in fuzz-failure.bin.
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "base/rng.h"
#include "fuzz.h"

namespace {

std::string current;  // global for the signal handler only

void keep_input(int signal) {
  if (FILE* file = std::fopen("fuzz-failure.bin", "wb")) {
    std::fwrite(current.data(), 1, current.size(), file);
    std::fclose(file);
  }
  std::signal(signal, SIG_DFL);
  raise(signal);
}

std::string mutate(std::string input, const std::vector<std::string>& corpus, tern::Rng& rng) {
  for (uint64_t n = 1 + rng.below(5); n > 0; --n) {
    size_t size = input.size();
    switch (size == 0 ? 4 : rng.below(7)) {
      case 0: input[rng.below(size)] ^= char(1 << rng.below(8)); break;
      case 1: input[rng.below(size)] = char(rng.next()); break;
      case 2: input.resize(rng.below(size + 1)); break;
      case 3: input.erase(rng.below(size), 1 + rng.below(16)); break;
      case 4: input.insert(rng.below(size + 1), std::string(1 + rng.below(40), char(rng.next()))); break;
      case 5: {
        const std::string& other = corpus[rng.below(corpus.size())];
        size_t from = rng.below(other.size() + 1);
        input.insert(rng.below(size + 1), other.substr(from, rng.below(200)));
        break;
      }
      case 6: {
        static const uint64_t kEdges[] = {0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0xffffffff, ~uint64_t{0}};
        uint64_t edge = kEdges[rng.below(10)];
        size_t width = size_t{1} << rng.below(4), at = rng.below(size);
        std::memcpy(input.data() + at, &edge, std::min(width, size - at));
        break;
      }
    }
  }
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGABRT, keep_input);
  std::signal(SIGSEGV, keep_input);
  uint64_t seed = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
  uint64_t count = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 20'000;
  std::vector<std::string> corpus = fuzz_corpus();
  tern::Rng rng(seed);
  auto run = [](std::string input) {
    current = std::move(input);
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(current.data()), current.size());
  };
  for (const std::string& input : corpus) run(input);
  for (uint64_t i = 0; i < count; ++i) run(mutate(corpus[rng.below(corpus.size())], corpus, rng));
  std::printf("%zu inputs and %llu mutations, seed %llu: ok\n", corpus.size(), static_cast<unsigned long long>(count),
              static_cast<unsigned long long>(seed));
  return 0;
}
