// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <string>

#include "checkpoint/directory.hpp"
#include "checkpoint/manifest.hpp"
#include "io/digest.hpp"
#include "tests/io/files.hpp"

namespace shard8::test {

/// A small manifest with every kind of value in it.
inline checkpoint::Manifest small_manifest() {
  checkpoint::Manifest m;
  m.program = "0.1.0";
  m.git_hash = "0123456789abcdef0123456789abcdef01234567+dirty";
  m.run = "2026-01-02T03:04:05-node17-4242";
  m.serial = 3;
  m.step = 1200;
  m.mesh = {2, 4, 2};
  m.parent = checkpoint::Parent{"2026-01-01T00:00:00-node17-1", 800};
  m.sequences = 9600;
  m.data_seed = 18446744073709551615ULL;
  m.data = checkpoint::ManifestInput{"text of \xc3\xa9", 4000, 249, "0123456789abcdef0123456789abcdef"};
  m.weights = checkpoint::ManifestInput{"w.h5:/init", 81920, 12, "00"};
  m.loss = 2.5000000000000004;
  m.init_seed = 7;
  m.plan = "gemm 1 2 3\n\"quoted\" \\ \t\xc3\xa9\n";
  m.deck = {{"model.hidden", "256", "deck"}, {"output.dir", "", "default"}, {"run.steps", "20", "command line"}};
  m.tensors = {{"model.norm.weight", "master", tensor::DType::fp32, {256}},
               {"model.norm.weight", "exp_avg", tensor::DType::bf16, {256}},
               {"lm_head.weight", "fp8_rowwise", tensor::DType::e4m3, {1000, 256}}};
  m.files = {{"shard_r0000.h5", 9223372036854775807ULL, 4096, 512, "0123456789abcdef0123456789abcdef", "ff"},
             {"shard_r0001.h5", 1024, 1024, 0, "00", "00000000000000000000000000000000"}};
  return m;
}

/// The text with a digest at its end that matches.
inline std::string with_digest(std::string_view text) {
  const auto at = text.rfind("\"digest\": \"");
  const std::string body(text.substr(0, at == std::string_view::npos ? text.size() : at));
  return body + fmt::format("\"digest\": \"{}\"\n}}\n", io::digest128(body));
}

/// Fills a folder as a run does before a commit: one file with `content`, and the manifest.
inline void fill_step(const std::string& folder, std::int64_t step, std::int64_t serial, const std::string& content,
                      const std::string& run = "run 1") {
  auto manifest = small_manifest();
  manifest.step = step;
  manifest.serial = serial;
  manifest.run = run;
  manifest.files = {{checkpoint::rank_file(0), content.size(), 0, 0, "00", "00"}};
  write_bytes(folder + "/" + checkpoint::rank_file(0), content);
  checkpoint::write_manifest(folder, manifest);
}

/// Writes a whole checkpoint.
inline void save_step(const checkpoint::Directory& directory, std::int64_t step, const std::string& content = "data",
                      const std::string& run = "run 1") {
  const std::int64_t serial = directory.next_serial();
  fill_step(directory.begin(step), step, serial, content, run);
  directory.commit(step);
}

}  // namespace shard8::test
