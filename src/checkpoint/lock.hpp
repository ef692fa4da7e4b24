// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace shard8::checkpoint {

/// What DIR/lock says of the process that writes to DIR.
struct LockHolder {
  std::string host;           ///< the name of the host, for messages
  std::string boot;           ///< id of the boot of its kernel
  std::string pid_namespace;  ///< in which `pid` counts; a container may have its own
  std::int64_t pid = 0;
  std::int64_t start = 0;  ///< clock ticks from boot to the start of the process: another process has another one
  std::string run;
  std::uint64_t beats = 0;  ///< counts while the process lives

  bool operator==(const LockHolder&) const = default;
};

/// Clock ticks from boot to the start of a process of this machine; nothing if no such process lives. Linux's /proc.
std::optional<std::int64_t> start_of_process(std::int64_t pid);

/// What a lock says of the calling process.
LockHolder this_process(std::string run);

/// The text of a lock, always of the same length; and what such a text says, nothing if it is malformed.
std::string lock_text(const LockHolder& holder);
std::optional<LockHolder> parse_lock(std::string_view text);

/// Who holds the lock of a folder, by its file; none if there is no file or it cannot be read.
std::optional<LockHolder> lock_holder(const std::string& folder);

/// The message with which Lock refuses a folder whose holder lives on this machine; empty if there is none, or if it
/// cannot be examined from here. `key` as in LockOptions. Changes nothing.
std::string why_locked(const std::string& folder, const std::string& key);

/// Throws, with the same words, what Lock would throw at once: Error(checkpoint) for why_locked(), Error(environment)
/// if the lock is no regular file, cannot be written, or cannot be made. The folder need not exist. Changes nothing.
void require_lockable(const std::string& folder, const std::string& key);

struct LockOptions {
  std::string key = "checkpoint.dir";  ///< of the deck, which names the folder in messages
  std::string what = "checkpoints";    ///< what the holder writes there, for messages
  /// A holder that cannot be examined from here is dead if it does not beat for so long. Chosen: six beats of ten
  /// seconds, so that a stall of a file system does not look like a death.
  double limit_s = 60;
  double poll_s = 0.5;  ///< how often the lock is read meanwhile
  /// Called with the reason why the constructor waits.
  std::function<void(const std::string&)> say = {};
};

/// The right to write to a folder: checkpoint.dir or output.dir. One process holds it until the object is destroyed or
/// the process dies.
///
/// The lock is the file DIR/lock, which names its holder. A lock whose holder is dead is taken over. If the holder ran
/// on this machine (the same boot and the same process ids), its process id and start time tell at once whether it
/// lives. The holder on another machine counts a heartbeat in the file: it is dead if the count does not change for
/// limit_s, and no clocks are compared. The file is also locked with flock(), where the file system has that. Several
/// processes may find the same dead holder; the first one to make the file DIR/lock.claim-HASH, HASH being that of the
/// dead holder's text, takes the lock over and then removes that file. If it dies before it could, the next holder
/// does.
class Lock {
 public:
  /// Takes the lock of a folder that exists. Error(checkpoint) names the holder if it lives; Error(environment) if the
  /// file cannot be written. Waits up to limit_s where a heartbeat must be watched.
  Lock(const std::string& folder, const std::string& run, LockOptions options = {});
  /// Removes the file if it is still this process's.
  ~Lock();
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  /// Error(checkpoint) if the lock is lost: the file is gone or another process's, because this process did not beat
  /// for limit_s or somebody removed it. Then this process must not write to the folder.
  void require_held() const;

  /// Counts the heartbeat. Call it every limit_s / 6 or so, and before a commit. Errors of require_held();
  /// Error(environment) if the file cannot be written.
  void beat();

 private:
  bool create();
  bool take_over();
  void watch(const std::string& found, const std::string& who);
  void write();
  bool is_ours() const;
  void close() noexcept;

  std::string path_;
  LockOptions options_;
  LockHolder self_;
  std::string text_;  // of the lock file, as this process wrote it last
  int descriptor_ = -1;
  bool has_flock_ = false;
};

}  // namespace shard8::checkpoint
