// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/random/random_deck.hpp"

namespace shard8::test {
namespace {

constexpr NotDrawn kNotDrawn[] = {
    {"model.init_file", "a file with the weights that a training would draw, in a form that is drawn: WeightFile"},
    {"run.skeleton", "drawn beside the deck: its skeleton is a job of its own"},
    {"run.skeleton_times", "changes no collective: tests of skeletons"},
    {"run.skeleton_load", "changes no collective: tests of skeletons"},
    {"mesh.share_devices", "no effect on hosts: two ranks on one device run the tests of two devices"},
    {"run.time_limit_min", "stops a run by the clock: train.stopping and train.time_left"},
    {"run.margin_s", "stops a run by the clock: train.stopping and train.time_left"},
    {"data.validation_path", "other data in place of a share, which does not change the training: train.validation"},
    {"verify.validation_loss_max", "held against the losses after the run: train.verify"},
    {"run.log_every", "only what is printed: a training does not read it"},
    {"run.timing_skip", "only which steps figures count: a training does not read it"},
    {"run.hang_limit_s", "bounds how long a rank waits for others: comm.environment stops ranks"},
    {"checkpoint.dir", "the name of what a run writes: each training has a folder of its own"},
    {"checkpoint.restart", "chosen by each training: the first part of a stopped one begins, the others go on"},
    {"checkpoint.allow_changes", "set where a change was drawn: Change"},
    {"verify.final_loss_max", "held against the losses after the run: train.verify"},
    {"verify.final_loss_min", "held against the losses after the run: train.verify"},
    {"verify.unigram_ratio_max", "held against the losses after the run: train.verify"},
    {"verify.min_steps", "whether a final loss is judged after the run: train.verify"},
    {"verify.gold", "held against the losses after the run: train.verify"},
    {"verify.tolerance", "held against the losses after the run: train.verify"},
    {"output.dir", "the name of what a run writes"},
    {"output.metrics", "the name of what a run writes"},
    {"output.replace", "each deck has folders of its own; tests/sequences has folders that are used"},
    {"output.timing", "the name of what a run writes"},
    {"output.timing_ranks", "the name of what a run writes"},
    {"output.summary", "the name of what a run writes"},
};

}  // namespace

std::span<const NotDrawn> keys_not_drawn() { return kNotDrawn; }

}  // namespace shard8::test
