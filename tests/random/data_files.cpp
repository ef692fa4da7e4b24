// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <system_error>

#include "base/arithmetic.hpp"
#include "data/dataset.hpp"
#include "tests/io/h5_writer.hpp"
#include "tests/random/random_deck.hpp"

namespace shard8::test {

namespace {

namespace fs = std::filesystem;

/// Lets `write` write a file or folder under another name, and renames it when it is complete, so that several ranks
/// may do this at the same time.
template <class Write>
void provide(const fs::path& path, Write&& write) {
  if (fs::exists(path)) return;
  const fs::path draft = path.string() + "." + std::to_string(getpid());
  write(draft);
  std::error_code error;
  fs::rename(draft, path, error);
  if (error) fs::remove_all(draft);  // another rank's folder has been renamed before
}

void write_text(const fs::path& path, std::int64_t bytes, std::uint64_t seed) {
  std::ofstream file(path, std::ios::binary);
  for (std::int64_t i = 0; i < bytes; ++i)
    file.put(static_cast<char>(base::mix64(seed ^ static_cast<std::uint64_t>(i)) & 0xff));
}

void write_tokens(const fs::path& path, const std::vector<hsize_t>& shape, std::int64_t vocab) {
  std::int64_t count = 1;
  for (const hsize_t extent : shape) count *= static_cast<std::int64_t>(extent);
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < count; ++i)
    tokens.push_back(
        static_cast<std::int32_t>(base::mix64(static_cast<std::uint64_t>(i)) % static_cast<std::uint64_t>(vocab)));
  H5Writer file(path.string());
  file.dataset("tokens", H5T_STD_I32LE, shape, tokens);
  file.close();
}

}  // namespace

void provide_data(RandomDeck& deck, const fs::path& folder) {
  const deck::ModelConfig& m = deck.config.model;
  deck::DataConfig& data = deck.config.data;
  const std::int64_t length = deck.source.samples * m.seq + 1;
  using Form = DataSource::Form;
  switch (deck.source.form) {
    case Form::none:
      data.kind = deck::DataKind::synthetic;
      data.path.clear();
      return;
    case Form::text_file:
      data.kind = deck::DataKind::bytes;
      data.path = folder / fmt::format("text_{}.txt", length);
      provide(data.path, [&](const fs::path& path) { write_text(path, length, 1); });
      return;
    case Form::text_folder:
      data.kind = deck::DataKind::bytes;
      data.path = folder / fmt::format("texts_{}", length);
      provide(data.path, [&](const fs::path& path) {
        fs::create_directory(path);
        write_text(path / "a.txt", length / 3, 2);
        write_text(path / "b.txt", length - length / 3, 3);
      });
      return;
    case Form::token_stream: {
      data.kind = deck::DataKind::tokens;
      const fs::path file = folder / fmt::format("stream_{}_below_{}.h5", length, m.vocab);
      provide(file, [&](const fs::path& path) { write_tokens(path, {static_cast<hsize_t>(length)}, m.vocab); });
      data.path = file.string() + ":/tokens";
      return;
    }
    case Form::token_slabs: {
      data.kind = deck::DataKind::tokens;
      std::int64_t slabs = deck.config.run.steps;
      while (data::divide(slabs, data.validation).training < deck.config.run.steps) ++slabs;
      const fs::path file = folder / fmt::format("slabs_{}_{}_{}_below_{}.h5", slabs, data.batch, m.seq + 1, m.vocab);
      const std::vector<hsize_t> shape = {static_cast<hsize_t>(slabs), static_cast<hsize_t>(data.batch),
                                          static_cast<hsize_t>(m.seq + 1)};
      provide(file, [&](const fs::path& path) { write_tokens(path, shape, m.vocab); });
      data.path = file.string() + ":/tokens";
      return;
    }
  }
}

}  // namespace shard8::test
