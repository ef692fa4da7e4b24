// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.hpp"
#include "io/file.hpp"
#include "io/token_file.hpp"

namespace shard8::data {

/// A pseudo-random permutation of [0, size) that needs no memory: a Feistel network on b bits, with the least b for
/// which 2^b >= size. A result outside [0, size) is put through the network once more, until one lies inside, on
/// average fewer than two passes in all. The permutation computes with integers alone, so it is the same on every
/// machine. Source: Black and Rogaway, 2002.
class Permutation {
 public:
  /// A permutation for each (seed, epoch). Error(failed) unless size >= 1.
  Permutation(std::int64_t size, std::uint64_t seed, std::uint64_t epoch);

  /// The image of i. Error(failed) unless i is in [0, size).
  std::int64_t operator()(std::int64_t i) const;

 private:
  std::uint64_t shuffle(std::uint64_t x) const;

  static constexpr int kRounds = 8;

  std::uint64_t size_;
  int low_bits_ = 0;
  std::uint64_t low_mask_ = 0;
  std::uint64_t high_mask_ = 0;
  std::array<std::uint64_t, kRounds> keys_ = {};
};

/// The key that names the data of this part.
std::string_view path_key(const deck::DataConfig& config, Part part);
/// What a description says of the other part, behind the number of this part's samples or slabs.
std::string validation_text(const Division& division, Part part);
/// divide() by config.validation. Error(deck), with the arithmetic, if nothing is left for training. `name`: the path
/// in the message; `noun`: samples or slabs.
Division divide_for_training(std::int64_t total, const deck::DataConfig& config, std::string_view name,
                             std::string_view noun);

/// A stream of L tokens cut into floor((L-1)/seq) samples, of which divide() keeps the last ones for validation. Sample
/// i is tokens i·seq to i·seq + seq, both included: seq inputs and the token after each. With N samples for training,
/// sequence g of the training, in epoch e = floor(g / N), is sample permutation_e(g mod N); each epoch has a
/// permutation of its own (Permutation). Sequence g of the validation is sample N + g.
class StreamDataset : public Dataset {
 public:
  std::optional<std::int64_t> sequences() const final;
  /// The tokens that are counted are the first ones of the stream.
  std::int64_t countable() const final;
  void read(std::span<std::int32_t> out, std::int64_t first_sequence, const SequenceNumbers& numbers) const final;

 protected:
  /// `length`: L. Error(deck) when the stream is too short for one sample, or data.validation leaves none to train.
  StreamDataset(const deck::DataConfig& config, std::int64_t seq, std::int64_t vocab, Part part, std::int64_t length);

  std::int64_t length() const { return length_; }
  /// The samples of both parts, training and validation.
  std::int64_t samples() const { return samples_; }

  /// "N samples of S tokens".
  std::string samples_text() const;

 private:
  /// Reads tokens [first, first + out.size()) of the stream. Error(failed) if one is outside the vocabulary.
  virtual void read_tokens(std::span<std::int32_t> out, std::int64_t first) const = 0;

  std::int64_t sample_of(std::int64_t number) const;

  Part part_;
  std::uint64_t seed_;
  std::int64_t length_;
  std::int64_t samples_;
  Division division_;
};

/// Text, one token a byte: a file, or the files of a folder, joined in the bytewise order of their names. Names that
/// begin with a dot are left out. The files must not change after opening.
class BytesDataset final : public StreamDataset {
 public:
  /// Error(deck) when vocab < 256, config.path does not exist, the folder holds anything but regular files, or the text
  /// is too short. Error(failed) when a file or the folder cannot be read. With `listing`, what listing() gave on
  /// another rank, the constructor looks at no file: a rank opens those that it reads.
  BytesDataset(const deck::DataConfig& config, std::int64_t seq, std::int64_t vocab, Part part,
               const std::string& listing = {});
  /// The names and sizes of the files, as text.
  std::string listing() const override;

  std::string description() const override;
  /// The digest is that of the joined bytes.
  Inspection inspect() const override;
  std::vector<std::uint64_t> histogram(const GoesOn& goes_on) const override;

 private:
  struct File {
    std::string path;
    std::int64_t first = 0;  ///< position in the stream of the file's first byte
    std::int64_t size = 0;
  };
  struct Parts {
    std::vector<File> list;  ///< none is empty
    std::int64_t length = 0;
    std::int64_t empty = 0;  ///< files without a byte, which are not in the list
  };
  static Parts find_parts(const std::string& path, std::string_view key);
  static Parts parts_of(const std::string& listing);

  BytesDataset(const deck::DataConfig& config, std::int64_t seq, std::int64_t vocab, Part part, Parts parts);

  void read_tokens(std::span<std::int32_t> out, std::int64_t first) const override;
  void read_bytes(std::span<std::byte> out, std::int64_t first) const;

  void read_part(std::size_t part, std::span<std::byte> out, std::int64_t offset) const;

  std::string path_;
  std::string_view key_;  ///< of the deck, which names the path
  std::vector<File> parts_;
  std::int64_t empty_;  ///< files that are not among the parts
  mutable std::mutex mutex_;
  mutable std::map<std::size_t, io::InputFile> open_;  ///< by part, those that were read and stay open
};

/// Opens an HDF5 dataset of one dimension (a stream) or of three (slabs). Error(deck) for any other number.
std::unique_ptr<Dataset> open_token_dataset(const deck::DataConfig& config, std::int64_t seq, std::int64_t vocab,
                                            Part part, io::IoThread& io);

/// An HDF5 dataset (L) as one stream.
class TokenStream final : public StreamDataset {
 public:
  TokenStream(const deck::DataConfig& config, std::int64_t seq, std::int64_t vocab, Part part,
              std::unique_ptr<io::TokenFile> file);

  std::string description() const override;
  Inspection inspect() const override;
  std::vector<std::uint64_t> histogram(const GoesOn& goes_on) const override;

 private:
  void read_tokens(std::span<std::int32_t> out, std::int64_t first) const override;

  std::unique_ptr<io::TokenFile> file_;
};

/// An HDF5 dataset (steps, batch, seq+1), whose last slabs divide() keeps for validation. Sequence g of the training is
/// sequence g mod batch of slab floor(g / batch); slabs of the validation are counted from its first one. read() reads
/// from one slab.
class TokenSlabs final : public Dataset {
 public:
  /// Error(deck) unless the slabs are (config.batch, seq+1) and there is one for training.
  TokenSlabs(const deck::DataConfig& config, std::int64_t seq, std::int64_t vocab, Part part,
             std::unique_ptr<io::TokenFile> file);

  std::optional<std::int64_t> sequences() const override { return own() * batch(); }
  std::int64_t countable() const override {
    return (part_ == Part::training ? own() : steps()) * batch() * (seq() + 1);
  }
  std::string description() const override;
  void read(std::span<std::int32_t> out, std::int64_t first_sequence, const SequenceNumbers& numbers) const override;
  /// The digest is that of the slabs' tokens in the order of the file; a slab has batch samples.
  Inspection inspect() const override;
  std::vector<std::uint64_t> histogram(const GoesOn& goes_on) const override;

 private:
  std::string position_of(std::int64_t index) const;
  std::int64_t steps() const { return file_->shape()[0]; }
  /// Slabs of this part.
  std::int64_t own() const { return part_ == Part::validation ? division_.validation : division_.training; }

  Part part_;
  std::unique_ptr<io::TokenFile> file_;
  Division division_;
};

/// Tokens drawn uniformly from the vocabulary by a counter-based generator: token t of sequence g of the training is a
/// function of (seed, g, t) alone, and of the validation of (seed, 2⁶³ + g, t). The dataset reads no file and never
/// ends. The lowest loss on it is ln(vocab).
class SyntheticDataset final : public Dataset {
 public:
  SyntheticDataset(const deck::DataConfig& config, std::int64_t seq, std::int64_t vocab, Part part);

  std::string description() const override;
  void read(std::span<std::int32_t> out, std::int64_t first_sequence, const SequenceNumbers& numbers) const override;
  std::int64_t countable() const override { return vocab(); }
  std::vector<std::uint64_t> histogram(const GoesOn& goes_on) const override;

 private:
  std::uint64_t seed_;
  std::uint64_t first_;  ///< counter of the part's first sequence
};

}  // namespace shard8::data
