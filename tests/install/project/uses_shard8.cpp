// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// Reads a deck of the installed tree, and writes and reads a tensor.

#include <array>
#include <cstdio>
#include <span>
#include <string>

#include "base/version.hpp"
#include "deck/layout.hpp"
#include "deck/load.hpp"
#include "io/io_thread.hpp"
#include "io/tensor_file.hpp"
#include "io/tensor_formats.hpp"

int main() {
  const auto deck = shard8::deck::load(std::string(DECKS) + "/quickstart.yaml");
  const auto layout = shard8::deck::lay_out(deck.config);
  std::printf("shard8 %s: quickstart.yaml needs %lld ranks and has %lld micro-batch a step\n",
              std::string(shard8::base::version().number).c_str(), static_cast<long long>(layout.ranks),
              static_cast<long long>(layout.micro_batches));

  const std::array<float, 6> values = {1, 2, 3, 4, 5, 6};
  shard8::io::SafetensorsWriter writer("weights.safetensors", {{"matrix", "F32", {2, 3}, sizeof(values)}});
  writer.write(std::as_bytes(std::span(values)));
  writer.finish();
  writer.commit();

  shard8::io::IoThread io;
  const auto file = shard8::io::open_tensor_file(io, "weights.safetensors");
  const auto& shape = file->shape("matrix");
  std::array<float, 6> read = {};
  file->read_box("matrix", {.row0 = 0, .rows = shape[0], .col0 = 0, .cols = shape[1]}, read.data(), shape[1]);
  std::printf("weights.safetensors: %lld x %lld, last value %g\n", static_cast<long long>(shape[0]),
              static_cast<long long>(shape[1]), static_cast<double>(read.back()));
  return read == values ? 0 : 1;
}
