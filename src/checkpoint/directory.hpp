// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/manifest.hpp"

namespace shard8::checkpoint {

/// "step_00001200": the name of the folder of a checkpoint.
std::string step_name(std::int64_t step);

/// The step of such a name; nothing for any other name ("step_12", "step_00001200.tmp").
std::optional<std::int64_t> step_of(std::string_view name);

/// "shard_r0003.h5": the name of a rank's file, and "node_n0001.h5": of a node's.
std::string rank_file(std::int64_t rank);
std::string node_file(std::int64_t node);

/// The checkpoints of checkpoint.dir. Plain files, no HDF5, no MPI: one rank calls this. The names that belong to
/// shard8 are
///
///     step_00001200       a checkpoint, if its manifest verifies and its files have the lengths that it says
///     step_00001200.tmp   one that is being written
///     step_00001200.old   one that is being removed, or replaced by another of the same step
///     latest              the name of the last one that was written, a text
///     latest.tmp          `latest` while it is being replaced
///     lock, lock.claim-*  who writes here (lock.hpp)
///
/// Nothing else is ever changed, and in a checkpoint's folder only the manifest and shard files are.
///
/// Functions that read throw Error(checkpoint), functions that write Error(environment). The process that calls a
/// function that writes holds the lock.
class Directory {
 public:
  explicit Directory(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string folder_of(std::int64_t step) const { return path_ + "/" + step_name(step); }

  /// The steps of all folders that have a checkpoint's name, ascending, whatever is in them. Empty if there is no
  /// directory.
  std::vector<std::int64_t> steps() const;

  /// The step that `latest` names; nothing if there is no such file or it names no checkpoint.
  std::optional<std::int64_t> latest() const;
  /// Whether the folder of a step is there. A run may remove one at any time: first it gives it another name.
  bool has(std::int64_t step) const;

  /// The manifest of a checkpoint. Error unless it verifies, is of this step, and each of its files has its length.
  Manifest open(std::int64_t step) const;

  struct Usable {
    std::int64_t step = 0;
    std::int64_t serial = 0;
    std::string run;
    std::optional<Parent> parent;
  };
  struct Unusable {
    std::int64_t step = 0;
    std::string why;
  };
  struct Scan {
    std::vector<Usable> usable;      ///< checkpoints that open() accepts, the last written (Manifest::serial) first
    std::vector<Unusable> unusable;  ///< the others, highest step first
    bool empty() const { return usable.empty() && unusable.empty(); }
  };
  /// Opens every checkpoint.
  Scan scan() const;

  /// Names in the directory that checkpoints leave and that are none: `latest`, names that begin with "step_" or look
  /// like a shard file, manifest.json. Folders .tmp and .old, which a killed run leaves, and folders with a
  /// checkpoint's name are not among them. Where there are such names and no checkpoint, one was probably lost.
  std::vector<std::string> remains() const;

  /// Moves checkpoints to the folder `to` in this directory, and makes that folder. `whether` decides which: it is
  /// called for each folder with a checkpoint's name and gets the id of its training, an empty id if the manifest
  /// cannot be read. The checkpoint that was written last is moved last. `latest` is moved, too, if it names a
  /// checkpoint that is moved, or if no checkpoint stays. Returns the names that were moved.
  std::vector<std::string> move_aside(const std::string& to,
                                      const std::function<bool(std::string_view)>& whether) const;

  /// 1 + the largest serial of the checkpoints whose manifest verifies.
  std::int64_t next_serial() const;

  /// What a function did in addition to its work.
  struct Done {
    std::vector<std::string> removed;  ///< names
    std::vector<std::string> renamed;  ///< "FROM to TO"
    std::vector<std::string> trouble;  ///< what could not be removed and why, for warnings
  };

  /// Makes the folder and those above it, where they are missing.
  void make() const;

  /// Puts the directory in order after a run that was killed. A checkpoint that was moved aside and not yet replaced
  /// is replaced if the new one is complete, else moved back. With `removes`, what is left of others is removed: .tmp,
  /// .old and latest.tmp.
  Done recover(bool removes = true) const;

  /// Makes an empty folder for a checkpoint and returns its path, DIR/step_N.tmp. One of that name is removed first.
  /// Error also if a name of this step is taken by something that is no folder.
  std::string begin(std::int64_t step) const;

  /// Error(environment) "checkpoint.dir is not shared" unless the file of this name, which some rank has written, is in
  /// DIR/step_N.tmp, with `length` bytes if it is given. To be called before commit().
  void require_file(std::int64_t step, const std::string& name, std::optional<std::uint64_t> length) const;

  /// Makes DIR/step_N.tmp the checkpoint of this step. All shard files and the manifest must be in it and fsynced. An
  /// older checkpoint of the step is moved aside first and removed afterwards. If it cannot be removed, or `latest`
  /// cannot be written, the result says why. After a crash at any moment and recover(), the checkpoint of this step is
  /// the old or the new one.
  Done commit(std::int64_t step) const;

  /// Has the file `latest` name this checkpoint. Error(failed) when it cannot be written.
  void set_latest(std::int64_t step) const;

  /// Removes DIR/step_N.tmp, after begin() in place of commit(). What cannot be removed stays.
  void abandon(std::int64_t step) const noexcept;

  /// Removes checkpoints of this run but for the `keep` >= 1 that were written last and the one that `latest` names. A
  /// checkpoint that open() refuses is neither counted nor removed. A checkpoint that cannot be removed is no error.
  Done retain(std::int64_t keep, std::string_view run) const;

 private:
  std::string path_;
};

/// A checkpoint in its folder.
struct Checkpoint {
  std::string folder;
  Manifest manifest;
};

/// Whether the path itself is a checkpoint, usable or not: a folder with a manifest or with the name of a checkpoint.
bool is_checkpoint(const std::string& path);

/// Whether a path names a checkpoint or checkpoints as open_checkpoint() looks for them, usable or not.
bool names_checkpoints(const std::string& path);

/// The folder of checkpoints that a path names: the path itself if there are checkpoints in it, or else the folder
/// `checkpoints` in it. Error(checkpoint) if there are none in either.
Directory directory_at(const std::string& path);

/// Directory::scan(). `say` is told of the checkpoints that are not usable.
Directory::Scan scan_and_say(const Directory& directory, const std::function<void(const std::string&)>& say);

/// The checkpoint that a path names: the path itself, or else of directory_at() the last written that is usable. `say`
/// is told of those that are not usable. Error(checkpoint) if there is none. The manifest of the checkpoint verifies
/// and its files have their lengths; the bytes of the files are not checked.
Checkpoint open_checkpoint(const std::string& path, const std::function<void(const std::string&)>& say);

enum class Kind { none, folder, other };
/// What is at a path. With `follow` a link counts as what it leads to, otherwise as `other`. Error(checkpoint) if the
/// path cannot be examined.
Kind kind_of(const std::string& path, bool follow);

/// The names in a folder, in bytewise order; none if there is no folder. Error(checkpoint) if it cannot be listed.
std::vector<std::string> names_in(const std::string& folder);

/// True for the names that shard8 gives to files in a checkpoint's folder: manifest.json, manifest.json.tmp,
/// shard_rN.h5, node_nN.h5.
bool is_file_of_checkpoint(const std::string& name);

/// mkdir, rename, unlink with Error(environment).
void make_folder(const std::string& path);
void rename_to(const std::string& from, const std::string& to);
void remove_file(const std::string& path);

/// Removes the files of a checkpoint, the manifest first, then the folder. Error(environment) if the folder holds
/// anything else, which stays, or if something cannot be removed.
void remove_step_folder(const std::string& path);

}  // namespace shard8::checkpoint
