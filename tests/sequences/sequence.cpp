// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/sequences/sequence.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <utility>

namespace shard8::test {

namespace {

BaseDeck base_of(std::uint64_t seed, std::int64_t number) {
  Draw draw(seed, number, 0, "base deck");
  return draw_base_deck(draw);
}

constexpr Mesh kMeshes[] = {{1, 1, 1}, {1, 2, 1}, {2, 1, 1}, {1, 1, 2}, {1, 3, 1}};

}  // namespace

Sequence::Sequence(std::filesystem::path folder, References& references, std::uint64_t seed, std::int64_t number,
                   const Drawn& drawn, std::vector<std::size_t> chosen)
    : seed_(seed),
      number_(number),
      drawn_(drawn),
      chosen_(std::move(chosen)),
      site_(std::move(folder), base_of(seed, number), references) {
  Draw draw(seed, number, 0, "deck");
  Deck& deck = current_.deck;
  deck.layers = static_cast<int>(draw.between(1, 2));
  deck.mesh = draw.one_of(kMeshes);
  deck.steps = draw.between(8, 16);
  deck.every = draw.between(1, 4);
  deck.keep = draw.between(1, 3);
  deck.async = draw.chance(0.5);
}

void Sequence::run() {
  site_.write_text(current_.deck.data_path, {});
  for (const std::size_t index : chosen_) {
    at_ = index;
    Draw draw(seed_, number_, static_cast<std::int64_t>(index), "operation");
    perform(drawn_.operations[index], draw);
  }
}

Outcome Sequence::give(Command command) {
  ++runs_;
  last_ = command;
  return site_.run(std::move(command));
}

void Sequence::perform(Operation operation, Draw& draw) {
  switch (operation) {
    case Operation::run:
      if (draw.chance(0.6)) make_room(draw.between(2, 6));
      give(current_);
      return;
    case Operation::stop: {
      make_room(draw.between(4, 7));
      Command command = current_;
      command.stop_after = draw.between(1, 5);
      give(command);
      return;
    }
    case Operation::signal:
      return interrupt(draw, draw.chance(0.5) ? SIGTERM : SIGUSR1);
    case Operation::kill:
      return interrupt(draw, SIGKILL);
    case Operation::again:
      give(last_.value_or(current_));
      return;
    case Operation::requeue: {
      Command command = last_.value_or(current_);
      command.requeue = true;
      give(command);
      last_->requeue = false;
      return;
    }
    case Operation::fork:
      return fork(draw, false);
    case Operation::fork_changed:
      return fork(draw, true);
    case Operation::edit:
      return edit(draw);
    case Operation::edit_refused:
      return edit_refused(draw);
    case Operation::append:
      return change_data(draw, true);
    case Operation::other_data:
      return change_data(draw, false);
    case Operation::move:
      return move_data(draw);
    case Operation::mesh:
      return other_mesh(draw);
    case Operation::folder:
      return other_folder(draw);
    case Operation::two_output:
      return two(draw, true);
    case Operation::two_ckpt:
      return two(draw, false);
    case Operation::prune:
      return spoil(draw, true);
    case Operation::damage:
      return spoil(draw, false);
    case Operation::verify:
      return verify(draw);
    case Operation::none:
      return none(draw);
    case Operation::replace:
      return replace(draw);
  }
}

void Sequence::make_room(std::int64_t steps) {
  const Outcome outcome = site_.expect(current_);
  if (outcome.refused != 0) return;
  current_.deck.steps = std::min(kMostSteps, std::max(current_.deck.steps, outcome.first + steps));
}

std::string Sequence::new_name(const std::string& begin) { return fmt::format("{}{}", begin, ++names_); }
std::string Sequence::new_output() { return new_name("o"); }

/// A usable checkpoint; `older`: if there is one, not the newest of its folder.
std::optional<Sequence::Chosen> Sequence::choose_checkpoint(Draw& draw, bool older) const {
  std::vector<Chosen> all, old;
  for (const auto& [name, folder] : const_cast<Site&>(site_).world().folders) {
    const Checkpoint* const newest = folder.newest();
    for (const auto& [step, one] : folder.checkpoints) {
      if (!one.usable() || one.uncertain) continue;
      all.push_back({name, step});
      if (&one != newest) old.push_back({name, step});
    }
  }
  const auto& from = older && !old.empty() ? old : all;
  if (from.empty()) return std::nullopt;
  return draw.one_of(std::span<const Chosen>(from));
}

void Sequence::use_keys_of(const Checkpoint& checkpoint, Deck& deck) const {
  deck.layers = checkpoint.deck.layers;
  deck.lr = checkpoint.deck.lr;
  deck.clip = checkpoint.deck.clip;
  deck.seed = checkpoint.deck.seed;
  for (const auto& [file, content] : const_cast<Site&>(site_).world().files)
    if (content == checkpoint.deck.content) deck.data_path = file;
}

void Sequence::interrupt(Draw& draw, int signal) {
  constexpr double kStart_s = 0.35;  // measured: from the start to the last step
  make_room(draw.between(5, 10));
  Blow blow;
  blow.signal = signal;
  blow.when = draw.one_of({Blow::When::time, Blow::When::lock, Blow::When::write, Blow::When::line, Blow::When::line});
  blow.delay_s = blow.when == Blow::When::time   ? draw.real(0, kStart_s)
                 : blow.when == Blow::When::lock ? draw.real(0, 0.02)
                                                 : draw.real(0, 0.01);
  blow.all = draw.chance(0.5);
  blow.which = draw.bits();
  Command command = current_;
  if (draw.chance(0.3)) {  // the first leg of a new training, or of a child
    command.output = new_output();
    command.folder = "";
    command.restart = {Restart::Kind::none, "", -1};
    if (const auto from = choose_checkpoint(draw, true); from && draw.chance(0.6)) {
      use_keys_of(site_.world().folders.at(from->folder).checkpoints.at(from->step), command.deck);
      command.restart = {Restart::Kind::path, from->folder, from->step};
      command.deck.steps = std::max(command.deck.steps, std::min(kMostSteps, from->step + draw.between(3, 8)));
    }
  }
  ++runs_;
  last_ = command;
  if (site_.interrupt(command, blow).refused != 0) return;
  if (command.output != current_.output && draw.chance(0.6)) give(command);
  current_ = command;
  current_.restart = {};
}

void Sequence::fork(Draw& draw, bool changed) {
  Command command = current_;
  const auto from = choose_checkpoint(draw, !changed || draw.chance(0.3));
  const bool same_folder = draw.chance(0.15), same_output = draw.chance(0.15);
  if (from) {
    const Checkpoint& point = site_.world().folders.at(from->folder).checkpoints.at(from->step);
    use_keys_of(point, command.deck);
    command.restart = {Restart::Kind::path, from->folder, from->step};
    command.deck.steps = std::max(command.deck.steps, std::min(kMostSteps, from->step + draw.between(3, 8)));
  } else {
    command.restart = {Restart::Kind::path, command.checkpoints(), 77};
  }
  if (changed) {
    if (draw.chance(0.3)) command.restart = {};
    command.allow_changes = true;
    const auto key = draw.between(0, 2);
    if (key == 0) command.deck.lr = command.deck.lr == "0.003" ? "0.002" : "0.003";
    if (key == 1) command.deck.clip = command.deck.clip == "1" ? "0.5" : "1";
    if (key == 2) command.deck.seed = command.deck.seed == 1 ? 2 : 1;
  }
  if (!same_output) command.output = new_output();
  if (same_folder)
    command.folder = current_.checkpoints();
  else if (!command.folder.empty())
    command.folder = draw.chance(0.5) ? "" : new_name("c");
  if (command.restart.kind == Restart::Kind::automatic && !same_output && command.folder.empty())
    command.folder = current_.checkpoints();
  if (draw.chance(0.4)) command.stop_after = draw.between(1, 4);
  const Outcome outcome = give(command);
  if (outcome.refused != 0) return;
  current_ = command;
  current_.restart = {};
  current_.allow_changes = false;
  current_.stop_after = 0;
}

void Sequence::edit(Draw& draw) {
  Deck& deck = current_.deck;
  switch (draw.between(0, 5)) {
    case 0:
      deck.keep = draw.between(1, 3);
      break;
    case 1:
      deck.every = draw.between(1, 4);
      break;
    case 2:
      deck.async = !deck.async;
      break;
    case 3:
      deck.prefetch = 1 - deck.prefetch;
      break;
    case 4:
      deck.log_every = deck.log_every == 1 ? 1000 : 1;
      break;
    default:
      deck.steps = draw.between(6, 24);
  }
  if (draw.chance(0.5)) make_room(draw.between(2, 5));
  give(current_);
}

void Sequence::edit_refused(Draw& draw) {
  Command command = current_;
  const auto key = draw.between(0, 3);
  if (key == 0) command.deck.lr = command.deck.lr == "0.003" ? "0.004" : "0.003";
  if (key == 1) command.deck.clip = "2";
  if (key == 2) command.deck.seed += 2;
  if (key == 3) {
    command.deck.layers = 3 - command.deck.layers;
    command.allow_changes = draw.chance(0.5);
  }
  if (draw.chance(0.3))
    if (const auto from = choose_checkpoint(draw, false)) {
      command.restart = {Restart::Kind::path, from->folder, from->step};
      command.output = new_output();
    }
  const Outcome outcome = give(command);
  if (outcome.refused != 0) return;
  current_ = command;
  current_.restart = {};
  current_.allow_changes = false;
}

void Sequence::change_data(Draw& draw, bool append) {
  const Content before = site_.world().files.contains(current_.deck.data_path)
                             ? site_.world().files.at(current_.deck.data_path)
                             : Content{};
  Content after = before;
  if (append)
    ++after.appended;
  else
    after.alphabet = (before.alphabet + static_cast<int>(draw.between(1, kAlphabets - 1))) % kAlphabets;
  const std::string file = current_.deck.data_path;
  if (append && site_.world().files.contains(file))
    site_.append_text(file);
  else if (!append && draw.chance(0.3))
    site_.write_text(current_.deck.data_path = new_name("text") + ".txt", after);
  else
    site_.write_text(file, after);
  if (draw.chance(0.5)) make_room(4);
  const Outcome refused = give(current_);
  if (refused.refused == 0) return;
  if (draw.chance(0.5)) {  // a child with the new data
    Command child = current_;
    if (const auto from = choose_checkpoint(draw, false)) {
      use_keys_of(site_.world().folders.at(from->folder).checkpoints.at(from->step), child.deck);
      child.deck.data_path = current_.deck.data_path;
      child.restart = {Restart::Kind::path, from->folder, from->step};
      child.deck.steps = std::max(child.deck.steps, std::min(kMostSteps, from->step + 3));
    }
    child.allow_changes = true;
    child.output = new_output();
    child.folder = "";
    if (give(child).refused == 0) {
      current_ = child;
      current_.restart = {};
      current_.allow_changes = false;
      return;
    }
  }
  current_.deck.data_path = file;
  site_.write_text(file, before);
}

void Sequence::move_data(Draw& draw) {
  const std::string file = current_.deck.data_path;
  if (site_.world().files.contains(file)) {
    current_.deck.data_path = new_name("text") + ".txt";
    site_.copy_text(file, current_.deck.data_path);
    if (draw.chance(0.5)) site_.remove_text(file);
  }
  if (draw.chance(0.5)) make_room(draw.between(2, 5));
  give(current_);
}

void Sequence::other_mesh(Draw& draw) {
  if (site_.base().fp32()) {
    const Mesh before = current_.deck.mesh;
    while (current_.deck.mesh == before) current_.deck.mesh = draw.one_of(kMeshes);
  }
  Command command = current_;
  if (draw.chance(0.7)) {
    make_room(draw.between(3, 6));
    command = current_;
    if (draw.chance(0.5)) command.stop_after = draw.between(1, 4);
  }
  give(command);
}

void Sequence::other_folder(Draw& draw) {
  Command command = current_;
  switch (draw.between(0, 3)) {
    case 0:  // all of a new one
      command.output = new_output();
      command.folder = "";
      break;
    case 1:  // the same checkpoints
      command.folder = current_.checkpoints();
      command.output = new_output();
      break;
    case 2:  // other checkpoints
      command.folder = new_name("c");
      break;
    default: {  // one that was used before
      std::vector<std::string> names;
      for (const auto& [name, output] : site_.world().outputs) names.push_back(name);
      if (!names.empty()) command.output = draw.one_of(std::span<const std::string>(names));
      command.folder = "";
    }
  }
  if (draw.chance(0.5)) command.stop_after = draw.between(2, 5);
  if (give(command).refused != 0) return;
  current_ = command;
  current_.stop_after = 0;
}

void Sequence::two(Draw& draw, bool same_output) {
  make_room(draw.between(2, 6));
  Command first = current_;
  if (draw.chance(0.4)) first.stop_after = draw.between(1, 3);
  Command second = first;
  if (same_output) {
    if (draw.chance(0.5)) second.folder = new_name("c");
  } else {
    second.output = new_output();
    second.folder = first.checkpoints();
  }
  if (draw.chance(0.3)) second.restart = {Restart::Kind::none, "", -1};
  if (draw.chance(0.3)) second.replace = true;
  ++runs_;
  last_ = first;
  site_.run_two(first, second);
}

void Sequence::spoil(Draw& draw, bool remove) {
  const std::string folder = current_.checkpoints();
  std::vector<std::int64_t> steps;
  if (const auto found = site_.world().folders.find(folder); found != site_.world().folders.end())
    for (const auto& [step, one] : found->second.checkpoints)
      if (!one.uncertain && one.state == Checkpoint::State::good) steps.push_back(step);
  if (steps.empty()) {
    give(current_);
    return;
  }
  const std::int64_t step = draw.chance(0.6) ? steps.back() : draw.one_of(std::span<const std::int64_t>(steps));
  if (remove)
    site_.remove_checkpoint(folder, step);
  else if (draw.chance(0.5))
    site_.cut_shard(folder, step);
  else
    site_.remove_manifest(folder, step);
}

void Sequence::verify(Draw& draw) {
  if (draw.chance(0.4)) make_room(draw.between(2, 5));
  Command command = current_;
  const bool fails = draw.chance(0.5);
  const Outcome outcome = site_.expect(command);
  if (draw.chance(0.5) || outcome.first > command.deck.steps) {
    command.final_loss_max = fails ? 0.001 : 1000;
  } else {
    // A wrong loss must be found in steps of which a line is there.
    std::int64_t wrong = -1;
    if (fails) {
      wrong = command.deck.steps - 1;
      if (const auto found = site_.world().outputs.find(command.output);
          found != site_.world().outputs.end() && !found->second.lines.empty() && draw.chance(0.7))
        wrong = std::min(wrong, found->second.lines.begin()->first);
    }
    site_.write_gold(command, wrong);
  }
  give(command);
}

void Sequence::none(Draw& draw) {
  Command command = current_;
  command.restart = {Restart::Kind::none, "", -1};
  if (draw.chance(0.4)) {
    command.output = new_output();
    command.folder = "";
  }
  if (draw.chance(0.5)) command.stop_after = draw.between(2, 6);
  if (give(command).refused != 0) return;
  current_ = command;
  current_.restart = {};
  current_.stop_after = 0;
}

void Sequence::replace(Draw& draw) {
  Command command = current_;
  command.replace = true;
  const auto kind = draw.between(0, 3);
  if (kind <= 1) command.restart = {Restart::Kind::none, "", -1};
  if (kind == 2) {
    if (const auto from = choose_checkpoint(draw, true); from && from->folder != command.checkpoints()) {
      use_keys_of(site_.world().folders.at(from->folder).checkpoints.at(from->step), command.deck);
      command.restart = {Restart::Kind::path, from->folder, from->step};
    }
  }
  if (draw.chance(0.4)) command.stop_after = draw.between(2, 5);
  if (draw.chance(0.4)) {  // a move is cut
    ++runs_;
    last_ = command;
    Blow blow{.when = draw.one_of({Blow::When::lock, Blow::When::owner}),
              .delay_s = draw.real(0, 0.05),
              .signal = SIGKILL,
              .all = draw.chance(0.5),
              .which = draw.bits()};
    site_.interrupt(command, blow);
    if (site_.has_pending_move()) give(command);
    return;
  }
  if (give(command).refused == 0) current_.deck = command.deck;
}

}  // namespace shard8::test
