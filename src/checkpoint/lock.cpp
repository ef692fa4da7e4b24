// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "checkpoint/directory.hpp"
#include "io/digest.hpp"

namespace shard8::checkpoint {

namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kLockFile = "/lock";
constexpr std::string_view kClaim = ".claim-";

/// A lock's file, and the key of the deck that names its folder.
struct Place {
  const std::string& path;
  const std::string& key;
};

[[noreturn]] void cannot(const Place& place, const char* operation, int error) {
  base::fail(base::ExitCode::environment, "'{}': cannot {}: {}; set {} to a folder that can be written to and has room",
             place.path, operation, std::generic_category().message(error), place.key);
}

[[noreturn]] void is_no_lock(const Place& place, const char* what) {
  base::fail(base::ExitCode::environment,
             "'{}': cannot be a lock, since it is {}; remove it, or set {} to another folder", place.path, what,
             place.key);
}

/// Up to 1024 bytes of what is at a path now. The file is opened anew each time, because network file systems then
/// query the server.
std::optional<std::string> text_at(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return std::nullopt;
  std::array<char, 1024> bytes = {};
  const auto got = ::pread(descriptor, bytes.data(), bytes.size(), 0);
  ::close(descriptor);
  if (got < 0) return std::nullopt;
  return std::string(bytes.data(), static_cast<std::size_t>(got));
}

std::string describe(const std::optional<LockHolder>& holder) {
  if (!holder) return "a process that did not say who it is";
  return fmt::format("process {} on host {} (run {})", holder->pid, base::quotable(holder->host),
                     base::quotable(holder->run));
}

std::string refusal(const Place& place, const std::string& who, const char* why) {
  return fmt::format("'{}': {} is in use by {}, {}; wait for its end, or set {} to another folder", place.path,
                     place.key, who, why, place.key);
}

[[noreturn]] void refuse(const Place& place, const std::string& who, const char* why) {
  throw base::Error(base::ExitCode::checkpoint, refusal(place, who, why));
}

enum class State { alive, dead, unknown };

/// Whether a holder lives, as far as this machine can tell.
State state_of(const std::optional<LockHolder>& holder, const LockHolder& self) {
  if (!holder || holder->boot != self.boot || holder->pid_namespace != self.pid_namespace || self.start == 0) {
    return State::unknown;
  }
  return start_of_process(holder->pid) == holder->start ? State::alive : State::dead;
}

/// Writes all of `text` to the beginning of a file and makes it durable, so that other hosts see it.
void put(int descriptor, const std::string& text, const Place& place) {
  std::size_t done = 0;
  while (done < text.size()) {
    const auto written = ::pwrite(descriptor, text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) cannot(place, "write", written < 0 ? errno : EIO);
    done += static_cast<std::size_t>(written);
  }
  if (::fsync(descriptor) != 0) cannot(place, "fsync", errno);
}

/// What is at the path of a lock, opened to be read and written; -1 if nothing is there. Refuses what is no lock.
int open_there(const Place& place) {
  // O_NONBLOCK: opening a FIFO would wait.
  const int descriptor = ::open(place.path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    if (errno != ENOENT) cannot(place, "open", errno);
    struct stat link = {};
    if (::lstat(place.path.c_str(), &link) != 0 || !S_ISLNK(link.st_mode)) return -1;
    is_no_lock(place, "a link to nothing");
  }
  struct stat opened = {};
  if (::fstat(descriptor, &opened) == 0 && S_ISREG(opened.st_mode)) return descriptor;
  ::close(descriptor);
  is_no_lock(place, "no regular file");
}

/// Refuses a file that make_file() could not make or write, and makes none. For a folder that is to be made, the folder
/// in which it will be is examined.
void require_can_make(const Place& place, const std::string& text) {
  std::filesystem::path folder = std::filesystem::path(place.path).parent_path();
  struct stat there = {};
  while (!folder.empty() && ::stat(folder.c_str(), &there) != 0 && errno == ENOENT) folder = folder.parent_path();
  if (folder.empty()) folder = ".";
  const int descriptor = ::open(folder.c_str(), O_RDWR | O_TMPFILE | O_CLOEXEC, 0666);
  if (descriptor >= 0) {
    try {
      put(descriptor, text, place);
    } catch (const base::Error&) {
      ::close(descriptor);
      throw;
    }
    ::close(descriptor);
    return;
  }
  if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL) cannot(place, "create", errno);
  if (::access(folder.c_str(), W_OK | X_OK) != 0) cannot(place, "create", errno);
  struct statvfs system = {};
  if (::statvfs(folder.c_str(), &system) == 0 && system.f_blocks > 0 && system.f_bavail == 0)
    cannot(place, "write", ENOSPC);
}

/// Makes a file with flock() and `text` and returns its descriptor, or -1 if something is at `path` already. The text
/// is written before the file gets its name (Linux's O_TMPFILE), so a process that is killed here leaves no empty file,
/// which would not say who made it. On a file system without O_TMPFILE, such as NFS, the file is empty for a moment.
int make_file(const Place& place, const std::string& text, bool& has_flock) {
  const std::string& path = place.path;
  const std::string folder = path.substr(0, path.rfind('/'));
  int descriptor = ::open(folder.c_str(), O_RDWR | O_TMPFILE | O_CLOEXEC, 0666);
  if (descriptor >= 0) {
    has_flock = ::flock(descriptor, LOCK_EX | LOCK_NB) == 0;
    try {
      put(descriptor, text, place);
    } catch (const base::Error&) {
      ::close(descriptor);
      throw;
    }
    const std::string opened = fmt::format("/proc/self/fd/{}", descriptor);
    if (::linkat(AT_FDCWD, opened.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) == 0) return descriptor;
    const int error = errno;
    ::close(descriptor);
    if (error == EEXIST) return -1;
  }
  descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0) {
    if (errno == EEXIST) return -1;
    cannot(place, "create", errno);
  }
  // If another process has locked it, that one saw the file while it was empty, and gives way when it is not.
  has_flock = ::flock(descriptor, LOCK_EX | LOCK_NB) == 0;
  try {
    put(descriptor, text, place);
  } catch (const base::Error&) {
    ::close(descriptor);
    ::unlink(path.c_str());
    throw;
  }
  return descriptor;
}

/// The right to take a lock over from a dead holder. One of several processes that found the same holder dead has the
/// right: the one that makes the file LOCK.claim-HASH, where HASH is that of the lock's text. No text of a lock comes
/// twice, since it holds the process, its start and its beats. So a process that was stopped for a long time between
/// reading the lock and claiming it may get the claim too, but it then finds another text in the lock and gives up.
class Claim {
 public:
  Claim(const Place& lock, const std::string& found)
      : path_(fmt::format("{}{}{:016x}", lock.path, kClaim, io::digest64(std::as_bytes(std::span(found))))),
        key_(lock.key) {}
  ~Claim() {
    if (is_ours_) ::unlink(path_.c_str());
  }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;

  const std::string& path() const { return path_; }
  /// Makes the file in the name of `self`, which has the right until the object is destroyed. False if another process
  /// has the right.
  bool make(const LockHolder& self) {
    bool has_flock = false;
    const int descriptor = make_file({path_, key_}, lock_text(self), has_flock);
    if (descriptor < 0) return false;
    ::close(descriptor);
    is_ours_ = true;
    return true;
  }
  /// The text of the file, whoever made it; nothing if there is none.
  std::optional<std::string> text() const { return text_at(path_); }
  /// Removes the file of another process, which died before it could.
  void remove() const { ::unlink(path_.c_str()); }

 private:
  std::string path_;
  const std::string& key_;
  bool is_ours_ = false;
};

/// Removes the claims that were left by processes which died before they could. The caller has just taken the lock: a
/// claim counts for one text of the lock, that text is gone, and it never comes back. What cannot be removed stays.
void remove_claims(const std::string& folder) {
  const std::string begin = std::string(kLockFile + 1) + std::string(kClaim);
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  try {
    for (const std::string& name : names_in(folder)) {
      const std::string hash = name.starts_with(begin) ? name.substr(begin.size()) : "";
      const std::string path = folder + "/" + name;
      if (hash.size() == 16 && std::all_of(hash.begin(), hash.end(), is_digit) && kind_of(path, false) == Kind::other)
        ::unlink(path.c_str());
    }
  } catch (const base::Error&) {
    return;
  }
}

}  // namespace

std::optional<LockHolder> lock_holder(const std::string& folder) {
  const auto text = text_at(folder + kLockFile);
  return text ? parse_lock(*text) : std::nullopt;
}

std::string why_locked(const std::string& folder, const std::string& key) {
  const std::string path = folder + kLockFile;
  const auto text = text_at(path);
  if (!text) return {};
  const auto holder = parse_lock(*text);
  if (state_of(holder, this_process("")) != State::alive) return {};
  return refusal({path, key}, describe(holder), "which is alive");
}

void require_lockable(const std::string& folder, const std::string& key) {
  if (const std::string why = why_locked(folder, key); !why.empty()) throw base::Error(base::ExitCode::checkpoint, why);
  const std::string path = folder + kLockFile;
  const Place place{path, key};
  const std::string text = lock_text(this_process(""));
  const int descriptor = open_there(place);
  if (descriptor < 0) return require_can_make(place, text);
  ::close(descriptor);
  const Claim claim(place, text_at(path).value_or(""));
  require_can_make({claim.path(), key}, text);
}

Lock::Lock(const std::string& folder, const std::string& run, LockOptions options)
    : path_(folder + kLockFile), options_(std::move(options)), self_(this_process(base::printable(run))) {
  constexpr int kAttempts = 100;  // chosen; each one more means that a lock came and went meanwhile
  try {
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      if (create() || take_over()) {
        remove_claims(folder);
        return;
      }
      close();
    }
    refuse({path_, options_.key}, "several processes", "which take and release it all the time");
  } catch (...) {
    close();
    throw;
  }
}

Lock::~Lock() {
  // A child of fork() has a copy of this object, and not the lock.
  if (::getpid() == self_.pid && is_ours()) ::unlink(path_.c_str());
  close();
}

void Lock::require_held() const {
  if (is_ours()) return;
  const auto now = text_at(path_);
  base::fail(
      base::ExitCode::checkpoint,
      "'{}': the lock is lost: {}; this run writes no more {} there: end one of the two runs, or restart this one "
      "with another {}",
      path_, now ? "it is now that of " + describe(parse_lock(*now)) : "the file is gone", options_.what, options_.key);
}

void Lock::beat() {
  require_held();
  ++self_.beats;
  write();
  if (!has_flock_) has_flock_ = ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0;  // create() may have missed it
}

/// Makes the file; false if there is one.
bool Lock::create() {
  const std::string text = lock_text(self_);
  descriptor_ = make_file({path_, options_.key}, text, has_flock_);
  if (descriptor_ < 0) return false;
  text_ = text;
  return true;
}

/// Takes the file of a dead holder; false if it vanished meanwhile.
bool Lock::take_over() {
  descriptor_ = open_there({path_, options_.key});
  if (descriptor_ < 0) return false;
  struct stat opened = {}, there = {};
  if (::fstat(descriptor_, &opened) != 0) cannot({path_, options_.key}, "examine", errno);
  const std::string found = text_at(path_).value_or("");
  const auto holder = parse_lock(found);
  const std::string who = describe(holder);
  has_flock_ = ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0;
  // For a holder on this machine a flock() that fails proves that the lock is held. A file server may keep the flock()
  // of a node that died, for minutes or for ever.
  if (!has_flock_ && errno == EWOULDBLOCK && holder && holder->boot == self_.boot)
    refuse({path_, options_.key}, who, state_of(holder, self_) == State::alive ? "which is alive" : "which holds it");
  switch (state_of(holder, self_)) {
    case State::alive:
      refuse({path_, options_.key}, who, "which is alive");
    case State::unknown:
      watch(found, who);
      break;
    case State::dead:
      break;
  }
  Claim claim({path_, options_.key}, found);
  if (!claim.make(self_)) {
    const auto claimer = claim.text();
    if (!claimer) return false;  // the other claim is over
    const auto taker = parse_lock(*claimer);
    if (state_of(taker, self_) == State::alive)
      refuse({path_, options_.key}, describe(taker), "which takes it over at this moment");
    if (state_of(taker, self_) == State::unknown) watch(found, describe(taker));
    if (claim.text() == claimer) claim.remove();
    return false;
  }
  if (::stat(path_.c_str(), &there) != 0 || opened.st_ino != there.st_ino || opened.st_dev != there.st_dev ||
      text_at(path_) != found) {
    return false;
  }
  write();
  if (::ftruncate(descriptor_, static_cast<off_t>(text_.size())) != 0) cannot({path_, options_.key}, "truncate", errno);
  return true;
}

/// Returns when the lock did not change for limit_s; refuses when it did.
void Lock::watch(const std::string& found, const std::string& who) {
  if (options_.say) {
    options_.say(fmt::format("'{}' is of {}, which cannot be examined from here: watching its heartbeat for {:.0f} s",
                             path_, who, options_.limit_s));
  }
  const auto end = Clock::now() + std::chrono::duration<double>(options_.limit_s);
  while (Clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::duration<double>(options_.poll_s));
    const auto now = text_at(path_);
    if (!now) return;  // released: the caller sees it, too
    if (*now != found) refuse({path_, options_.key}, describe(parse_lock(*now)), "which is alive");
  }
}

void Lock::write() {
  const std::string text = lock_text(self_);
  put(descriptor_, text, {path_, options_.key});
  text_ = text;
}

bool Lock::is_ours() const {
  struct stat opened = {}, there = {};
  return descriptor_ >= 0 && ::fstat(descriptor_, &opened) == 0 && ::stat(path_.c_str(), &there) == 0 &&
         opened.st_ino == there.st_ino && opened.st_dev == there.st_dev && text_at(path_) == text_;
}

void Lock::close() noexcept {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));  // closing ends flock(), too
}

}  // namespace shard8::checkpoint
