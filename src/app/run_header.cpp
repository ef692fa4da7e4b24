// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "app/run_header.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/text.hpp"
#include "base/version.hpp"
#include "comm/device.hpp"
#include "data/dataset.hpp"
#include "deck/layout.hpp"
#include "profile/figures.hpp"
#include "tensor/exec.hpp"

namespace shard8::app {

namespace {

/// The text without its last end of line.
std::string chomped(std::string text) {
  text.pop_back();
  return text;
}

/// The weights with which the run begins.
std::string weights_text(const RunHeader& header) {
  const deck::ModelConfig& model = header.assembly.setup().config.model;
  if (header.point)
    return fmt::format("weights of the checkpoint{}", model.init_file.empty() ? "" : "; model.init_file is not read");
  if (model.init_file.empty()) return fmt::format("random weights, model.init_seed {}", model.init_seed);
  const auto& weights = header.run.inputs.weights;  // rank 0, which prints, has them
  return weights ? fmt::format("weights of {}, digest {}", weights->path, weights->digest) : model.init_file;
}

std::string restart_text(const train::RestartPoint& point, std::int64_t steps) {
  const checkpoint::Manifest& m = point.manifest;
  const std::string of = m.step > steps ? fmt::format(", beyond run.steps = {}", steps) : fmt::format(" of {}", steps);
  return fmt::format("from {}, step {}{}, written on the mesh {}", point.folder, m.step, of, text_of(m.mesh));
}

}  // namespace

void print_header(const base::Logger& logger, const RunHeader& header) {
  const base::Version v = base::version();
  const train::Assembly& assembly = header.assembly;
  const train::Setup& setup = assembly.setup();
  const comm::Node& node = header.node;
  logger.info("shard8 {} ({}, {})", v.number, v.git_hash, v.build_type);
  logger.info("{}", chomped(deck::describe(setup.config)));
  logger.info("ranks      {} on {}, {} each, waiting by {}", header.world.size(), node.host,
              base::count(setup.threads, "thread", "threads"), comm::name_of(header.world.waiting()));
  const int threads = node.ranks * setup.threads;
  if (!tensor::kDevice && threads > node.cores && logger.speaks())
    logger.warn(
        "{} of {} share {} of {}: a rank that waits for a core looks like exposed communication; for figures start at "
        "most {} here, or change the mesh",
        base::count(threads, "thread", "threads"), base::count(node.ranks, "rank", "ranks"),
        base::count(node.cores, "core", "cores"), node.host,
        base::count(std::max(1, node.cores / setup.threads), "rank", "ranks"));
  if (const auto* device = header.world.device())
    for (const std::string& line : device->describe()) logger.info("device     {}", line);
  if (!assembly.parts_problem().empty())
    logger.info("overlap    direct and pipeline go by messages: {}", assembly.parts_problem());
  for (const std::string& remark : assembly.remarks()) logger.info("{}", remark);
  for (const std::string& remark : header.overlap.remarks) logger.info("overlap    {}", remark);
  if (!header.overlap.choice.rows.empty()) logger.info("{}", chomped(profile::to_text(header.overlap.choice)));
  logger.info("found      {}", assembly.loader().dataset().description());
  if (header.entropy) logger.info("unigram entropy of the data: {:.6f} nats", *header.entropy);
  logger.info("init       {}", weights_text(header));
  if (header.point) logger.info("restart    {}", restart_text(*header.point, header.steps));
  logger.info("identity   {}", train::text_of(header.run.identity));
  if (header.point)
    for (const std::string& remark : header.point->remarks) logger.info("{}", remark);
}

}  // namespace shard8::app
