// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

/// A fuzz target is one program: the driver (driver.cpp) and one source that defines the functions declared
/// below under "target".

namespace shard8::fuzz {

/// Numbers that depend on the seed alone, on every machine: splitmix64 (Steele, Lea and Flood, 2014).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next();
  /// From 0 to n - 1; n > 0.
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(next() % n); }
  bool one_in(std::size_t n) { return below(n) == 0; }
  template <class T>
  const T& of(const std::vector<T>& choices) {
    return choices[below(choices.size())];
  }

 private:
  std::uint64_t state_;
};

/// Thrown when an input breaks a promise of the tested code.
class Violation : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Throws Violation(what) unless `holds`.
void require(bool holds, const std::string& what);

/// Throws Violation unless a user can act on the error: one of the codes, and a message that contains one of `names`,
/// has at most 100,000 bytes, and no control characters other than line ends and tabs.
void require_good_error(const base::Error& error, const std::vector<std::string>& names,
                        const std::vector<base::ExitCode>& codes = {base::ExitCode::deck, base::ExitCode::failed});

/// A folder for the files of this process, in a file system in memory if there is one. It is removed at the end of the
/// scope.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string read_file(const std::string& path);
void write_file(const std::string& path, std::string_view bytes);

/// Words of JSON, then `more`: for dictionary().
std::vector<std::string> json_words(std::vector<std::string> more);

// The target: every target defines these functions.

/// Feeds one input to the tested code. Throws Violation if a promise is broken. Any other exception, a signal, a report
/// of a sanitizer and more than ten seconds of processor time also count as broken promises.
void fuzz_one(const std::uint8_t* data, std::size_t size);

/// Inputs that the driver mutates.
std::vector<std::string> corpus();

/// Words that the driver puts into inputs.
std::vector<std::string> dictionary();

/// An input made from nothing.
std::string generate(Random& random);

/// Changes inputs. It flips bits, changes bytes, inserts words of the dictionary and stretches of other inputs,
/// deletes, duplicates and moves stretches, repeats one stretch many times (for depth), and sets numbers to their
/// limits.
class Mutator {
 public:
  Mutator(const std::vector<std::string>& corpus, const std::vector<std::string>& words)
      : corpus_(corpus), words_(words) {}

  /// An input of the corpus after one to eight changes; at most 64 KiB.
  std::string make(Random& random) const;

 private:
  void change(Random& random, std::string& text) const;

  const std::vector<std::string>& corpus_;
  const std::vector<std::string>& words_;
};

}  // namespace shard8::fuzz
