// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "app/checkpoint_room.hpp"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "app/process.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "tensor/exec.hpp"
#include "train/plan/plan.hpp"

namespace shard8::app {

namespace {

namespace fs = std::filesystem;

std::string gb(std::uint64_t bytes) { return fmt::format("{:.3g} GB", 1e-9 * static_cast<double>(bytes)); }

/// The folder, or the nearest above it that exists.
std::string existing(const std::string& folder) {
  std::error_code ignored;
  fs::path path = fs::absolute(folder, ignored);
  while (!fs::is_directory(path, ignored) && path != path.parent_path()) path = path.parent_path();
  return path.string();
}

}  // namespace

CheckpointRoom checkpoint_room(const deck::Config& config) {
  const train::Setup setup = train::Setup::make(config, 0, std::max(1, threads_from_environment()));
  train::State state(setup, tensor::ArenaSet::measure());
  const auto bytes = train::checkpoint_bytes(setup, state);
  CheckpointRoom room;
  room.bytes = bytes.state;
  room.kept = config.checkpoint.keep + 1;  // the oldest is removed when the newest is complete
  room.copies = bytes.copies;
  room.file_system = existing(config.checkpoint.dir);
  struct statvfs found {};
  if (::statvfs(room.file_system.c_str(), &found) == 0)
    room.free = static_cast<std::uint64_t>(found.f_bavail) * found.f_frsize;
  return room;
}

void print_checkpoint_room(const deck::Config& config) {
  const deck::CheckpointConfig& c = config.checkpoint;
  if (c.dir.empty()) return;
  const CheckpointRoom room = checkpoint_room(config);
  fmt::print("room       {} a checkpoint, {} at once ({} kept, one written): {}; free in {}: {}\n", gb(room.bytes),
             room.kept, c.keep, gb(room.needed()), room.file_system, room.free ? gb(*room.free) : "not known");
  fmt::print("           copies of the state: {} of {} a rank\n", (tensor::kDevice ? "" : "at most ") + gb(room.copies),
             tensor::kDevice ? "pinned host memory" : "host memory");
  if (room.short_of_room())
    base::print_coloured(
        fmt::format("warning: the {} of checkpoint.keep and one that is written take {} bytes, and the file system of "
                    "{} has {} free: make room, keep fewer, or set checkpoint.dir to another file system\n",
                    base::count(c.keep, "checkpoint", "checkpoints"), room.needed(), room.file_system, *room.free),
        stderr);
}

}  // namespace shard8::app
