// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// usage: fuzz.TARGET [--runs N] [--seed S] [--first I] [--output FOLDER]
//        fuzz.TARGET --input FILE...      feeds these files to the target, to reproduce a failure
//
// Input I of seed S is the same on every machine, so a long campaign can be cut into runs: --first 0 --runs 1000,
// then --first 1000 --runs 1000. The inputs run in a child process. When it fails, its input is written to
// FOLDER/fuzz.TARGET-S-I.input and the exit code is 1.
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz.hpp"

/// The entry point that libFuzzer calls, for a target that is built with libFuzzer in place of this driver.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  shard8::fuzz::fuzz_one(data, size);
  return 0;
}

namespace shard8::fuzz {

std::uint64_t Random::next() {
  std::uint64_t z = state_ += 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

void require(bool holds, const std::string& what) {
  if (!holds) throw Violation(what);
}

std::vector<std::string> json_words(std::vector<std::string> more) {
  std::vector<std::string> words = {"{",       "}",       "[",    "]",    ",", ":",  "\"", "\\",
                                    "\\u0000", "\\ud83d", "null", "true", "-", "e9", ".5"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

void require_good_error(const base::Error& error, const std::vector<std::string>& names,
                        const std::vector<base::ExitCode>& codes) {
  const std::string message = error.what();
  const std::string shown = "; the message: " + message.substr(0, 1000);
  require(std::find(codes.begin(), codes.end(), error.code()) != codes.end(),
          "exit code " + std::to_string(base::to_int(error.code())) + shown);
  bool named = false;
  for (const auto& name : names) named = named || message.find(name) != std::string::npos;
  require(named, "a message names no file" + shown);
  require(message.size() <= 100'000, "a message of " + std::to_string(message.size()) + " bytes" + shown);
  for (const char c : message) {
    const auto byte = static_cast<unsigned char>(c);
    require((byte >= 0x20 && byte != 0x7f) || c == '\n' || c == '\t', "a control character in a message" + shown);
  }
}

Folder::Folder() {
  const bool shm = std::filesystem::is_directory("/dev/shm");
  path_ = (shm ? "/dev/shm" : std::filesystem::temp_directory_path().string()) + "/shard8_fuzz_XXXXXX";
  require(::mkdtemp(path_.data()) != nullptr, "cannot make the folder " + path_);
}

Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  require(file.good(), "cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_file(const std::string& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  require(file.good(), "cannot write " + path);
}

namespace {

constexpr std::size_t kMostBytes = 1 << 22;
constexpr int kMostSeconds = 10;  // processor time for one input; the limit on real time is six times as large; chosen

struct Options {
  std::uint64_t runs = 10'000;
  std::uint64_t seed = 1;
  std::uint64_t first = 0;
  std::string output = ".";
  std::vector<std::string> inputs;
};

/// The memory that parent and child share: the number and the bytes of the input that runs.
struct Current {
  std::uint64_t index;
  std::size_t size;
  char bytes[kMostBytes];
};

void limit_time() {
  const itimerval processor = {{0, 0}, {kMostSeconds, 0}};
  ::setitimer(ITIMER_PROF, &processor, nullptr);
  ::alarm(6 * kMostSeconds);
}

/// Runs one input in the child. Ends the process if the input breaks a promise.
void run(Current& current, std::uint64_t index, const std::string& input) {
  current.index = index;
  current.size = std::min(input.size(), kMostBytes);
  std::memcpy(current.bytes, input.data(), current.size);
  limit_time();
  // A copy of the exact size, so that AddressSanitizer sees a read beyond its end.
  const std::vector<std::uint8_t> bytes(input.begin(), input.begin() + static_cast<std::ptrdiff_t>(current.size));
  try {
    fuzz_one(bytes.data(), bytes.size());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "input %llu: %s\n", static_cast<unsigned long long>(index), error.what());
    std::fflush(stderr);
    ::_exit(1);
  }
}

void run_all(Current& current, const Options& options) {
  const auto begin = std::chrono::steady_clock::now();
  std::uint64_t done = 0;
  if (!options.inputs.empty()) {
    for (const auto& path : options.inputs) run(current, done++, read_file(path));
  } else {
    const auto seeds = corpus();
    const auto words = dictionary();
    const Mutator mutator(seeds, words);
    for (std::uint64_t i = options.first; i < options.first + options.runs; ++i, ++done) {
      if (i < seeds.size()) {  // the seeds run first, unchanged
        run(current, i, seeds[i]);
        continue;
      }
      Random random(Random(options.seed ^ (i * 0x9e3779b97f4a7c15ull)).next());
      run(current, i, random.one_in(4) ? generate(random) : mutator.make(random));
    }
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::printf("%llu inputs, %.1f s, no failure\n", static_cast<unsigned long long>(done), seconds.count());
}

std::uint64_t number(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(status == std::errc() && end == text.data() + text.size(), "not a number: '" + text + "'");
  return value;
}

Options options_of(const std::vector<std::string>& arguments) {
  Options options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = arguments[i];
    require(i + 1 < arguments.size(), "'" + name + "' needs a value");
    if (name == "--input") {
      for (++i; i < arguments.size(); ++i) options.inputs.push_back(std::filesystem::absolute(arguments[i]).string());
      break;
    }
    const std::string& value = arguments[++i];
    if (name == "--runs") {
      options.runs = number(value);
    } else if (name == "--seed") {
      options.seed = number(value);
    } else if (name == "--first") {
      options.first = number(value);
    } else if (name == "--output") {
      options.output = value;
    } else {
      require(false, "unknown option '" + name + "'; known are --runs, --seed, --first, --output and --input");
    }
  }
  return options;
}

std::string reason(int status) {
  if (WIFEXITED(status)) return "exit code " + std::to_string(WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  if (signal == SIGPROF || signal == SIGALRM) return "more than " + std::to_string(kMostSeconds) + " s of work";
  return "signal " + std::to_string(signal);
}

int main_of(const std::string& program, const Options& options) {
  void* const memory = ::mmap(nullptr, sizeof(Current), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  require(memory != MAP_FAILED, "mmap failed");
  auto& current = *static_cast<Current*>(memory);
  const pid_t child = ::fork();
  require(child >= 0, "fork failed");
  if (child == 0) {
    run_all(current, options);
    std::exit(0);
  }
  int status = 0;
  require(::waitpid(child, &status, 0) == child, "waitpid failed");
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return 0;

  const std::string name = std::filesystem::path(program).filename().string();
  std::string file =
      options.output + "/" + name + "-" + std::to_string(options.seed) + "-" + std::to_string(current.index) + ".input";
  if (options.inputs.empty()) {
    write_file(file, {current.bytes, current.size});
  } else {
    file = options.inputs[current.index];
  }
  std::fprintf(stderr, "%s: input %llu failed: %s\n  the input is in %s\n  reproduce with: %s --input %s\n",
               name.c_str(), static_cast<unsigned long long>(current.index), reason(status).c_str(), file.c_str(),
               program.c_str(), file.c_str());
  return 1;
}

}  // namespace
}  // namespace shard8::fuzz

int main(int argc, char** argv) {
  try {
    return shard8::fuzz::main_of(argv[0], shard8::fuzz::options_of({argv + 1, argv + argc}));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 2;
  }
}
