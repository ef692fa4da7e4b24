// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/sequences/rules.hpp"

#include <fmt/format.h>

namespace shard8::test {

namespace {

Outcome refuse(int code, std::string why, std::vector<std::string> says) {
  Outcome outcome;
  outcome.refused = code;
  outcome.why = std::move(why);
  outcome.says = std::move(says);
  return outcome;
}

/// The lineage up to `first`, then another deck.
std::vector<Segment> branch(const std::vector<Segment>& lineage, std::int64_t first, const Deck& deck) {
  std::vector<Segment> segments;
  for (const Segment& one : lineage)
    if (one.first < first) segments.push_back(one);
  if (segments.empty() || segments.back().deck.training_text() != deck.training_text())
    segments.push_back({first, deck});
  return segments;
}

class Rules {
 public:
  Rules(const World& world, const Command& command)
      : world_(world),
        command_(command),
        output_(find(world.outputs, command.output)),
        folder_(find(world.folders, command.checkpoints())),
        restart_(command.restart) {}

  Outcome decide() {
    point_ = named();
    note_later_leg();
    if (later_) {
      restart_ = {};
      point_ = folder_.newest();
      if (point_ == nullptr && folder_.nearly())
        return refuse(4, "a later leg finds no usable checkpoint", {command_.checkpoints()});
      if (point_ == nullptr && from_origin_) return begin_again();
    }
    if (restart_.kind == Restart::Kind::automatic && point_ == nullptr && folder_.nearly())
      return refuse(4, "auto finds no usable checkpoint", {command_.checkpoints()});
    if (restart_.kind == Restart::Kind::path && point_ == nullptr)
      return refuse(4, "the checkpoint that is named cannot be used", {command_.restart.folder});
    return point_ != nullptr ? go_on() : begin_anew();
  }

 private:
  template <class Map>
  static typename Map::mapped_type find(const Map& map, const std::string& name) {
    const auto found = map.find(name);
    return found == map.end() ? typename Map::mapped_type{} : found->second;
  }

  bool same(const Deck& deck) const { return deck.same_model(command_.deck) && deck.same_training(command_.deck); }

  /// The checkpoint that checkpoint.restart means; null if there is none.
  const Checkpoint* named() {
    if (restart_.kind == Restart::Kind::none) return nullptr;
    if (restart_.kind == Restart::Kind::automatic) return folder_.newest();
    point_folder_ = find(world_.folders, restart_.folder);
    if (restart_.step < 0) return point_folder_.newest();
    const auto found = point_folder_.checkpoints.find(restart_.step);
    return found == point_folder_.checkpoints.end() || !found->second.usable() ? nullptr : &found->second;
  }

  void note_later_leg() {
    const Checkpoint* const newest = folder_.newest();
    if (command_.requeue && output_.owner) later_ = true;
    if (restart_.kind == Restart::Kind::path && point_ != nullptr && newest != nullptr) {
      const auto& parent = world_.trainings[static_cast<std::size_t>(newest->training)].parent;
      if (parent && *parent == Parent{point_->training, point_->step} && same(newest->deck)) later_ = true;
    }
    from_origin_ = output_.owner && !output_.finished && !folder_.holds(*output_.owner) &&
                   output_.restart == command_.restart && same(output_.deck);
    later_ = later_ || from_origin_;
  }

  Outcome go_on() {
    const std::string name = step_folder(point_->step);
    if (!point_->deck.same_model(command_.deck)) return refuse(4, "another model", {"model.layers", name});
    const bool changed = !point_->deck.same_training(command_.deck);
    if (changed && !command_.allow_changes)
      return refuse(4, "keys that need allow_changes", {"checkpoint.allow_changes", name});
    const Folder& there = restart_.kind == Restart::Kind::path ? point_folder_ : folder_;
    const Checkpoint* const latest = there.newest(point_->training);
    const bool names_older = restart_.kind == Restart::Kind::path && restart_.step >= 0 && latest != point_;
    Outcome outcome;
    outcome.first = point_->step;
    outcome.point = Parent{point_->training, point_->step};
    outcome.before = point_->mesh;
    outcome.later = later_;
    const Training& owner = world_.trainings[static_cast<std::size_t>(point_->training)];
    if (changed || names_older) {
      outcome.parent = Parent{point_->training, point_->step};
      outcome.lineage = branch(owner.lineage, point_->step, command_.deck);
      outcome.why = changed ? "a child with changed keys" : "a child of an older step";
    } else {
      outcome.training = point_->training;
      outcome.lineage = owner.lineage;
      outcome.why = "goes on";
    }
    return with_folders(outcome);
  }

  Outcome begin_anew() const {
    Outcome outcome;
    outcome.lineage = {{0, command_.deck}};
    outcome.later = later_;
    outcome.why = "a new training";
    return with_folders(outcome);
  }

  /// A leg that was killed before its first checkpoint.
  Outcome begin_again() const {
    Outcome outcome;
    outcome.training = *output_.owner;
    outcome.lineage = world_.trainings[static_cast<std::size_t>(*output_.owner)].lineage;
    outcome.later = true;
    outcome.why = "begins again from its origin";
    if (output_.origin) {
      const Folder from = find(world_.folders, output_.origin->path.folder);
      const Parent& point = output_.origin->point;
      const auto found = from.checkpoints.find(point.step);
      if (found == from.checkpoints.end() || !found->second.usable() || found->second.training != point.training)
        return refuse(4, "the origin is gone", {output_.origin->path.folder});
      outcome.first = point.step;
      outcome.point = point;
      outcome.before = found->second.mesh;
    }
    return with_folders(outcome);
  }

  Outcome with_folders(Outcome outcome) const {
    const bool in_output = output_.owner && *output_.owner != outcome.training;
    const bool in_folder = folder_.holds_other(outcome.training);
    if (!in_output && !in_folder) return outcome;
    if (command_.replace && !later_) {
      outcome.moves_output = in_output;
      outcome.moves_checkpoints = in_folder;
      return outcome;
    }
    auto refused = refuse(2, "the folder is another training's",
                          {"output.dir", "checkpoint.dir", "checkpoint.restart", "output.replace"});
    for (const Training& one : world_.trainings) {
      const auto index = static_cast<int>(&one - world_.trainings.data());
      if ((in_output && *output_.owner == index) || (in_folder && index != outcome.training && folder_.holds(index)))
        refused.says.push_back(one.id);
    }
    return refused;
  }

  const World& world_;
  const Command& command_;
  Output output_;
  Folder folder_, point_folder_;
  Restart restart_;
  const Checkpoint* point_ = nullptr;
  bool later_ = false, from_origin_ = false;
};

}  // namespace

Outcome decide(const World& world, const Command& command) { return Rules(world, command).decide(); }

}  // namespace shard8::test
