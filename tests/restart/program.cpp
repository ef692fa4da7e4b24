// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/restart/program.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "checkpoint/directory.hpp"
#include "io/digest.hpp"

namespace shard8::test {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr) throw std::runtime_error(std::string(name) + " is not set");
  return value;
}

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A file of a process; empty if the process has ended, which a read may meet at any moment.
std::string of_process(const fs::path& process, const char* file) {
  try {
    return contents(process / file);
  } catch (const std::ios_base::failure&) {
    return {};
  }
}

/// The arguments of a process; empty for a zombie and for one that has ended.
std::vector<std::string> arguments_of(const fs::path& process) {
  std::vector<std::string> arguments;
  std::istringstream in(of_process(process, "cmdline"));
  for (std::string one; std::getline(in, one, '\0');) arguments.push_back(one);
  return arguments;
}

struct Thread {
  std::string name_and_state;  ///< number (name) state, the state as one letter
  std::string waits_in;        ///< the function of the kernel
};
/// The threads of a process; none if it has ended.
std::vector<Thread> threads_of(pid_t process) {
  std::vector<Thread> threads;
  std::error_code error;
  const std::string folder = fmt::format("/proc/{}/task", process);
  for (auto it = fs::directory_iterator(folder, error); !error && it != fs::end(it); it.increment(error)) {
    const std::string stat = of_process(it->path(), "stat");  // number (name) state ...
    const auto name_end = stat.rfind(')');
    if (name_end == std::string::npos) continue;  // it has just ended
    threads.push_back({stat.substr(0, name_end + 3), of_process(it->path(), "wchan")});
  }
  return threads;
}

/// Whether no thread of a process runs: each is stopped, or has ended.
bool is_stopped(pid_t process) {
  static constexpr std::string_view kStoppedOrEnded = "TtZX";
  return std::ranges::all_of(threads_of(process), [](const Thread& thread) {
    return kStoppedOrEnded.find(thread.name_and_state.back()) != std::string_view::npos;
  });
}

}  // namespace

ProgramRun::ProgramRun(ProgramOptions options)
    : options_(std::move(options)), deck_(fs::canonical(options_.folder) / options_.deck) {
  std::vector<std::string> command;
  if (options_.ranks > 0) {
    command = words(variable("SHARD8_MPIEXEC"));
    command.insert(command.end(), {"-n", std::to_string(options_.ranks)});
  }
  command.insert(command.end(), options_.before.begin(), options_.before.end());
  command.insert(command.end(), {variable("SHARD8_PROGRAM"), options_.command, deck_.string()});
  command.insert(command.end(), options_.arguments.begin(), options_.arguments.end());
  std::vector<char*> arguments;
  for (std::string& one : command) arguments.push_back(one.data());
  arguments.push_back(nullptr);
  launcher_ = ::fork();
  if (launcher_ != 0) return;
  ::setpgid(0, 0);
  const int output = ::open((options_.folder / "output").c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_APPEND, 0644);
  const int input = ::open("/dev/null", O_RDONLY);
  if (output < 0 || input < 0 || ::dup2(input, 0) < 0 || ::dup2(output, 1) < 0 || ::dup2(output, 2) < 0 ||
      ::chdir(options_.folder.c_str()) != 0)
    ::_exit(127);
  if (options_.prepare) options_.prepare();
  ::execvp(arguments[0], arguments.data());
  ::_exit(127);
}

ProgramRun::~ProgramRun() {
  if (!ended()) {
    ::kill(-launcher_, SIGKILL);
    ::waitpid(launcher_, nullptr, 0);
  }
  for (const pid_t rank : ranks()) ::kill(rank, SIGKILL);
}

std::vector<pid_t> ProgramRun::ranks() const {
  const std::string program = variable("SHARD8_PROGRAM");
  std::vector<pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error != std::errc() || end != name.data() + name.size()) continue;
    const auto arguments = arguments_of(entry.path());
    if (arguments.size() > 2 && arguments[0] == program && arguments[2] == deck_) found.push_back(pid);
  }
  std::sort(found.begin(), found.end());
  return found;
}

void ProgramRun::stop_ranks(const std::vector<pid_t>& ranks) const {
  for (const pid_t rank : ranks) ::kill(rank, SIGSTOP);
  for (const pid_t rank : ranks)
    while (!is_stopped(rank)) std::this_thread::sleep_for(std::chrono::microseconds(300));
}

/// For each thread of the launcher and of the ranks: its name, its state, and where it waits in the kernel.
std::string ProgramRun::what_processes_do() const {
  std::vector<pid_t> processes = ranks();
  const auto count = processes.size();
  processes.insert(processes.begin(), launcher_);
  std::string text = fmt::format(" ({} ranks live", count);
  for (const pid_t process : processes) {
    for (const Thread& thread : threads_of(process))
      text += fmt::format("; {}: {} in {}", process, thread.name_and_state, thread.waits_in);
  }
  return text + ")";
}

bool ProgramRun::ended() {
  int status = 0;
  if (ended_ || ::waitpid(launcher_, &status, WNOHANG) != launcher_) return ended_;
  ended_ = true;
  code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return true;
}

ProgramEnd ProgramRun::wait(std::chrono::seconds limit) {
  const auto end = Clock::now() + limit;
  while (!ended() || !ranks().empty()) {
    if (Clock::now() > end) {
      std::string what = ended_ ? "ranks live after the launcher has ended" : "it has not ended";
      what += what_processes_do();
      ::kill(-launcher_, SIGKILL);
      throw std::runtime_error(fmt::format("after {} s {}: {}\n{}", limit.count(), what, deck_.string(), output()));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return {code_, output()};
}

std::string ProgramRun::output() const { return contents(options_.folder / "output"); }

ProgramEnd run_program(ProgramOptions options) { return ProgramRun(std::move(options)).wait(); }

std::vector<std::string> metrics_of(const fs::path& file) {
  std::vector<std::string> lines;
  std::istringstream in(contents(file));
  for (std::string line; std::getline(in, line);) {
    const auto times = line.find(",\"step_s\"");
    if (in.eof() || times == std::string::npos) break;
    const auto norms = line.find(",\"unit_norms\"");  // at the end
    lines.push_back(line.substr(0, times) + (norms == std::string::npos ? "" : line.substr(norms)));
  }
  return lines;
}

std::string difference_of_lines(const std::vector<std::string>& got, const std::vector<std::string>& wanted) {
  for (std::size_t i = 0; i < std::max(got.size(), wanted.size()); ++i) {
    const std::string a = i < got.size() ? got[i] : "no line", b = i < wanted.size() ? wanted[i] : "no line";
    if (a != b) return fmt::format("line {} of metrics.jsonl: {}\n  wanted: {}", i + 1, a, b);
  }
  return "";
}

std::vector<std::byte> bytes_of(checkpoint::Reader& reader, const checkpoint::ManifestTensor& tensor) {
  const io::Box whole{0, tensor.shape[0], 0, tensor.shape.size() == 1 ? 1 : tensor.shape[1]};
  const auto row = whole.cols * static_cast<std::int64_t>(tensor::size_of(tensor.dtype));
  std::vector<std::byte> bytes(static_cast<std::size_t>(whole.rows * row));
  reader.read(tensor, whole, bytes.data(), row);
  return bytes;
}

std::map<std::string, std::string> tensors_of(const fs::path& checkpoint) {
  checkpoint::Reader reader(checkpoint.string(), checkpoint::read_manifest(checkpoint.string()));
  for (std::size_t f = 0; f < reader.files(); ++f) reader.file(f).verify_all();
  std::map<std::string, std::string> found;
  for (const checkpoint::ManifestTensor& t : reader.manifest().tensors)
    found[t.name + ", " + t.content] = fmt::format("{} ({}) {}", tensor::name_of(t.dtype), fmt::join(t.shape, ", "),
                                                   io::digest128(bytes_of(reader, t)));
  return found;
}

std::string difference_of_tensors(const std::map<std::string, std::string>& got,
                                  const std::map<std::string, std::string>& wanted) {
  for (const auto& [name, value] : wanted) {
    const auto found = got.find(name);
    if (found == got.end()) return name + " is missing";
    if (found->second != value) return fmt::format("{}: {}, wanted {}", name, found->second, value);
  }
  for (const auto& [name, value] : got)
    if (!wanted.contains(name)) return name + " is not expected";
  return "";
}

std::string newest_checkpoint(const fs::path& folder) {
  const checkpoint::Directory directory(folder.string());
  std::string newest;
  std::int64_t largest = 0;
  for (const std::int64_t step : directory.steps()) {
    const std::int64_t serial = directory.open(step).serial;
    if (serial <= largest) continue;
    largest = serial;
    newest = directory.folder_of(step);
  }
  if (!newest.empty()) tensors_of(newest);
  return newest;
}

std::string restarted_from(const std::string& output) {
  constexpr std::string_view kLine = "\nrestart    from ";
  const auto at = output.find(kLine);
  if (at == std::string::npos) return "";
  const auto begin = at + kLine.size();
  return output.substr(begin, output.find(", step ", begin) - begin);
}

std::map<std::string, std::string> digests_of(const fs::path& folder) {
  std::map<std::string, std::string> digests;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) digests[entry.path().string()] = io::digest128(contents(entry.path()));
  return digests;
}

}  // namespace shard8::test
