// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/sequences/settle.hpp"

#include <algorithm>

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
    if (names_nothing()) {
      // Code 4 where the folder of that name holds what is left of a checkpoint.
      auto refused = refuse(2, "checkpoint.restart names a folder that is not there", {command_.restart.folder});
      refused.or_refused = {4};
      return refused;
    }
    point_folder_ = command_.checkpoints();
    point_ = named();
    note_later_leg();
    if (later_) {
      restart_ = {};
      point_folder_ = command_.checkpoints();
      point_ = folder_.newest();
    }
    const bool automatic = restart_.kind == Restart::Kind::automatic;
    if (automatic && point_ == nullptr && folder_.nearly())
      return refuse(4, "auto finds no usable checkpoint", {command_.checkpoints()});
    if (point_ == nullptr && from_origin_) return begin_again();
    if (point_ == nullptr && restart_.kind == Restart::Kind::path) {
      auto refused = refuse(4, "the checkpoint that is named cannot be used", {command_.restart.folder});
      refused.or_refused = {2};  // the folder is gone
      return refused;
    }
    return point_ != nullptr ? go_on() : begin_anew();
  }

 private:
  template <class Map>
  static typename Map::mapped_type find(const Map& map, const std::string& name) {
    const auto found = map.find(name);
    return found == map.end() ? typename Map::mapped_type{} : found->second;
  }

  const Training& training(int index) const { return world_.trainings[static_cast<std::size_t>(index)]; }

  /// Whether checkpoint.restart names a checkpoint that does not exist, and with which no leg in output.dir began: then
  /// it is a mistake of the deck, also in a requeued job.
  bool names_nothing() const {
    if (restart_.kind != Restart::Kind::path || restart_.step < 0) return false;
    if (find(world_.folders, restart_.folder).checkpoints.contains(restart_.step)) return false;
    return std::find(output_.restarts.begin(), output_.restarts.end(), restart_) == output_.restarts.end();
  }

  /// The content of the data does not belong to a deck's keys.
  bool same_keys(Deck deck) const {
    deck.content = command_.deck.content;
    return deck.same_model(command_.deck) && deck.same_training(command_.deck);
  }

  /// The checkpoint that checkpoint.restart means; null if there is none.
  const Checkpoint* named() {
    if (restart_.kind == Restart::Kind::none) return nullptr;
    if (restart_.kind == Restart::Kind::automatic) return folder_.newest();
    point_folder_ = restart_.folder;
    beside_ = find(world_.folders, restart_.folder);
    if (restart_.step < 0) return beside_.newest();
    const auto found = beside_.checkpoints.find(restart_.step);
    return found == beside_.checkpoints.end() || !found->second.usable() ? nullptr : &found->second;
  }

  void note_later_leg() {
    const Checkpoint* const newest = folder_.newest();
    const bool requeued = command_.requeue && output_.owner;
    const bool same_restart = output_.owner && (output_.restart == command_.restart || requeued);
    from_origin_ = same_restart && !output_.finished && !output_.has_told_checkpoint && same_keys(output_.deck) &&
                   output_.deck.content == command_.deck.content && folder_.newest(*output_.owner) == nullptr;
    later_ = requeued || from_origin_;
    if (restart_.kind == Restart::Kind::path && newest != nullptr && same_keys(newest->deck)) {
      const auto& parent = training(newest->training).parent;
      const bool from_named = point_ != nullptr && parent == Parent{point_->training, point_->step};
      later_ = later_ || from_named || (same_restart && output_.owner == newest->training);
    }
  }

  /// Whether the training has a usable checkpoint behind the one that the command names, beside it or in the run's own
  /// folder.
  bool names_older() const {
    if (restart_.kind != Restart::Kind::path || restart_.step < 0) return false;
    const auto is_newer = [&](const auto& one) {
      return one.second.usable() && one.second.training == point_->training && one.second.step > point_->step;
    };
    return std::any_of(beside_.checkpoints.begin(), beside_.checkpoints.end(), is_newer) ||
           std::any_of(folder_.checkpoints.begin(), folder_.checkpoints.end(), is_newer);
  }

  Outcome go_on() {
    const std::string name = step_folder(point_->step);
    if (!point_->deck.same_model(command_.deck)) return refuse(4, "another model", {"model.layers", name});
    const bool changed = !point_->deck.same_training(command_.deck);
    if (changed && !command_.allow_changes)
      return refuse(4, "keys that need allow_changes", {"checkpoint.allow_changes", name});
    Outcome outcome;
    outcome.first = point_->step;
    outcome.point = Origin{point_folder_, {point_->training, point_->step}, point_->deck, point_->mesh};
    outcome.later = later_;
    const Training& owner = training(point_->training);
    if (changed || names_older()) {
      outcome.parent = Parent{point_->training, point_->step};
      outcome.lineage = branch(owner.lineage, point_->step, command_.deck);
      outcome.why = changed ? "a child with changed keys" : "a child of an older step";
    } else {
      outcome.training = point_->training;
      outcome.lineage = owner.lineage;
      outcome.why = "goes on";
    }
    if (restart_.kind != Restart::Kind::path || restart_.step < 0) note_warnings(outcome);
    return with_folders(std::move(outcome));
  }

  /// Going back behind what `latest` names, or past checkpoints that are damaged.
  void note_warnings(Outcome& outcome) const {
    const Folder& there = restart_.kind == Restart::Kind::path ? beside_ : folder_;
    for (const auto& [step, one] : there.checkpoints)
      if (!one.usable() && one.serial > point_->serial) outcome.says.push_back(step_folder(step));
    const auto is_latest = [&](const auto& one) { return step_folder(one.first) == there.latest; };
    const auto found = std::find_if(there.checkpoints.begin(), there.checkpoints.end(), is_latest);
    if (!there.latest.empty() && (found == there.checkpoints.end() || !found->second.usable()))
      outcome.says.push_back(there.latest);
  }

  Outcome begin_anew() const {
    Outcome outcome;
    outcome.lineage = {{0, command_.deck}};
    outcome.later = later_;
    outcome.why = "a new training";
    return with_folders(std::move(outcome));
  }

  /// A leg that was killed before its first checkpoint.
  Outcome begin_again() const {
    Outcome outcome;
    outcome.training = *output_.owner;
    outcome.lineage = {{0, command_.deck}};
    outcome.later = true;
    outcome.why = "begins again from its origin";
    outcome.point = output_.origin;
    if (output_.origin) {
      const Parent& point = output_.origin->point;
      outcome.first = point.step;
      outcome.lineage = branch(training(point.training).lineage, point.step, command_.deck);
      const Folder from = find(world_.folders, output_.origin->folder);
      const auto found = from.checkpoints.find(point.step);
      const bool there =
          found != from.checkpoints.end() && found->second.usable() && found->second.training == point.training;
      if (!there && !output_.origin->moved) return refuse(4, "the origin is gone", {output_.origin->folder});
      if (!output_.origin->deck.same_training(command_.deck) && !command_.allow_changes)
        return refuse(4, "keys that need allow_changes", {"checkpoint.allow_changes", step_folder(point.step)});
    }
    return with_folders(std::move(outcome));
  }

  Outcome with_folders(Outcome outcome) const {
    const bool in_output = output_.owner && *output_.owner != outcome.training;
    // What is left of checkpoints does not say whose it is: whether a run that goes on minds is left open.
    const bool is_new = outcome.training < 0;
    const bool unknown = folder_.holds_unknown(outcome.training) || (is_new && !folder_.latest.empty());
    const bool in_folder = folder_.holds_other(outcome.training) || (unknown && is_new && command_.replace);
    if (unknown) outcome.or_refused = {2};
    if (!in_output && !in_folder) return outcome;
    if (command_.replace && !later_) {
      if (outcome.first >= command_.deck.steps) return outcome;  // it writes nothing
      outcome.moves_output = in_output;
      outcome.moves_checkpoints = in_folder;
      return outcome;
    }
    auto refused = refuse(2, "the folder is another training's", {"output.replace"});
    if (in_output) refused.says.insert(refused.says.end(), {"output.dir", training(*output_.owner).id});
    if (in_folder) refused.says.emplace_back("checkpoint.dir");
    for (const auto& [step, one] : folder_.checkpoints)
      if (one.usable() && one.training != outcome.training) refused.says.push_back(training(one.training).id);
    return refused;
  }

  const World& world_;
  const Command& command_;
  Output output_;
  Folder folder_, beside_;
  Restart restart_;
  std::string point_folder_;
  const Checkpoint* point_ = nullptr;
  bool later_ = false, from_origin_ = false;
};

}  // namespace

Outcome decide(const World& world, const Command& command) { return Rules(world, command).decide(); }

}  // namespace shard8::test
