// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// Names in HDF5 files, and the names that decks ask for. An input is a list of lines. Each line is one letter and
// names, separated by '|': what to create in a new file (with HDF5's own calls, which may refuse it), or what to ask
// it for afterwards:
//
//     g|/a            a group                     s|/a/b|/target       a soft link
//     f|/a/w|3|2      a float dataset, 3 x 2      x|/a/b|file.h5|/t    an external link
//     i|/t|9          an integer dataset          h|/a/b|/target       a hard link
//     t|/a/T          a named type                n|/a/z               a dataset of no elements
//     v|/v|9|w.h5|/t  a virtual dataset of 9 elements, those from the first on of a source
//     q|/a            open file.h5:/a as tensors and as tokens
//
// Each request must either be refused with a message that names the file, or lead to something that can be listed and
// read.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include <sys/stat.h>

#include "base/text.hpp"
#include "io/hdf5.hpp"
#include "io/tensor_file.hpp"
#include "io/token_file.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace shard8::fuzz {
namespace {

constexpr std::int64_t kMostElements = 1 << 12;  // larger datasets are not read; chosen

std::vector<std::string> split(std::string_view text, char by) {
  std::vector<std::string> parts;
  for (bool more = true; more;) {
    const auto end = text.find(by);
    parts.emplace_back(text.substr(0, end));
    more = end != std::string_view::npos;
    if (more) text.remove_prefix(end + 1);
  }
  return parts;
}

/// The extents of a dataset, from the third part of the line on. create_dataset() makes a dataset with an extent above
/// 64 chunked and writes nothing to it; of others HDF5 writes the fill value.
std::vector<hsize_t> extents_of(const std::vector<std::string>& parts) {
  std::vector<hsize_t> extents;
  for (std::size_t i = 2; i < std::min<std::size_t>(parts.size(), 6); ++i) {
    extents.push_back(std::strtoull(parts[i].c_str(), nullptr, 10));
  }
  return extents;
}

herr_t refuse(const char*, const char*, const char*, const char*, unsigned*, hid_t, void*) { return -1; }

void require_closed(const char* when) {
  const auto open = H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL);
  require(open == 0, fmt::format("{} files and objects are still open after {}", open, when));
}

class Files {
 public:
  Files() {
    ::mkfifo((folder_ / "pipe").c_str(), 0600);
    write_file(folder_ / "text.h5", "no HDF5 file");
    io_.call([this] {
      const io::H5Handle file(H5Fcreate((folder_ / "other.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT),
                              H5Fclose);
      create_dataset(file.id(), "/w", H5T_IEEE_F32LE, {2});
      H5Lcreate_external("w.h5", "/a", file.id(), "/back", H5P_DEFAULT, H5P_DEFAULT);
    });
  }

  void run(const std::vector<std::string>& lines) {
    io_.call([&] {
      create(lines);
      require_closed("writing");
    });
    for (const auto& line : lines) {
      if (line.starts_with("q|")) ask(line.substr(2));
    }
    io_.call([] { require_closed("reading"); });
  }

 private:
  // Statuses are ignored: an object that HDF5 refuses is not in the file.
  void create(const std::vector<std::string>& lines) {
    const io::H5Handle file(H5Fcreate(path_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), H5Fclose);
    require(file.id() >= 0, "cannot create " + path_);
    // External links come last, and nothing is created behind one: HDF5 1.10.8 keeps what it opened there when it
    // fails.
    for (const bool external : {false, true}) {
      for (const auto& line : lines) {
        const auto parts = split(line, '|');
        if (parts.size() < 2 || parts[0].size() != 1 || (parts[0] == "x") != external) continue;
        create(file.id(), parts);
      }
    }
    H5Eclear2(H5E_DEFAULT);
  }

  void create(hid_t file, const std::vector<std::string>& parts) {
    const char* const name = parts[1].c_str();
    const char* const target = parts.size() > 2 ? parts[2].c_str() : "";
    const io::H5Handle plan(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
    H5Pset_create_intermediate_group(plan.id(), 1);
    switch (parts[0][0]) {
      case 'g':
        io::H5Handle(H5Gcreate2(file, name, plan.id(), H5P_DEFAULT, H5P_DEFAULT), H5Gclose);
        return;
      case 'f':
        return create_dataset(file, name, H5T_IEEE_F32LE, extents_of(parts));
      case 'i':
        return create_dataset(file, name, H5T_STD_U16LE, extents_of(parts));
      case 't': {
        const io::H5Handle type(H5Tcopy(H5T_STD_I32LE), H5Tclose);
        H5Tcommit2(file, name, type.id(), plan.id(), H5P_DEFAULT, H5P_DEFAULT);
        return;
      }
      case 'n': {
        const io::H5Handle space(H5Screate(H5S_NULL), H5Sclose);
        io::H5Handle(H5Dcreate2(file, name, H5T_STD_I32LE, space.id(), plan.id(), H5P_DEFAULT, H5P_DEFAULT), H5Dclose);
        return;
      }
      case 's':
        H5Lcreate_soft(target, file, name, plan.id(), H5P_DEFAULT);
        return;
      case 'h':
        H5Lcreate_hard(file, target, file, name, plan.id(), H5P_DEFAULT);
        return;
      case 'x': {
        const io::H5Handle access(H5Pcreate(H5P_LINK_ACCESS), H5Pclose);
        H5Pset_elink_cb(access.id(), refuse, nullptr);
        H5Lcreate_external(target, parts.size() > 3 ? parts[3].c_str() : "/", file, name, plan.id(), access.id());
        return;
      }
      case 'v':
        return create_virtual(file, name, parts);
      default:
        return;
    }
  }

  static void create_virtual(hid_t file, const char* name, const std::vector<std::string>& parts) {
    if (parts.size() < 5) return;
    const hsize_t count = std::strtoull(parts[2].c_str(), nullptr, 10);
    const io::H5Handle space(H5Screate_simple(1, &count, nullptr), H5Sclose);
    const io::H5Handle plan(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
    H5Pset_virtual(plan.id(), space.id(), parts[3].c_str(), parts[4].c_str(), space.id());
    io::H5Handle(H5Dcreate2(file, name, H5T_STD_I32LE, space.id(), H5P_DEFAULT, plan.id(), H5P_DEFAULT), H5Dclose);
  }

  static void create_dataset(hid_t file, const char* name, hid_t type, const std::vector<hsize_t>& extents) {
    const io::H5Handle space(extents.empty()
                                 ? H5Screate(H5S_SCALAR)
                                 : H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr),
                             H5Sclose);
    const io::H5Handle plan(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
    if (std::any_of(extents.begin(), extents.end(), [](hsize_t n) { return n > 64; })) {
      const std::vector<hsize_t> chunk(extents.size(), 1);
      H5Pset_chunk(plan.id(), static_cast<int>(chunk.size()), chunk.data());
    } else {
      H5Pset_alloc_time(plan.id(), H5D_ALLOC_TIME_EARLY);
    }
    io::H5Handle(H5Dcreate2(file, name, type, space.id(), H5P_DEFAULT, plan.id(), H5P_DEFAULT), H5Dclose);
  }

  void ask(const std::string& object) {
    if (base::printable(object) != object) return;  // a deck with such a name is refused before
    const std::string spec = path_ + ":" + object;
    try {
      const auto tensors = io::open_tensor_file(io_, spec);
      for (const auto& name : tensors->names()) read(*tensors, name);
      require(!tensors->contains("not there"), "a tensor that nobody made");
    } catch (const base::Error& error) {
      require_good_error(error, {folder_.path()});
    }
    try {
      const io::TokenFile tokens(io_, spec);
      const std::int64_t elements = tokens.elements();
      require(elements >= 0, "a negative number of tokens");
      if (elements > kMostElements || tokens.shape().empty()) return;
      std::vector<std::int32_t> all(static_cast<std::size_t>(elements));
      tokens.read_flat(all, 0);
    } catch (const base::Error& error) {
      require_good_error(error, {folder_.path()});
    }
  }

  void read(const io::TensorFile& file, const std::string& name) {
    const auto& shape = file.shape(name);
    std::int64_t elements = 1;
    for (const auto size : shape) {
      require(size >= 0 && (size == 0 || elements <= INT64_MAX / size), "a shape overflows: " + name);
      elements *= size;
    }
    if (shape.size() > 2 || elements > kMostElements) return;
    const std::int64_t rows = shape.empty() ? 1 : shape[0], cols = shape.size() < 2 ? 1 : shape[1];
    std::vector<float> values(static_cast<std::size_t>(elements));
    if (!file.unreadable(name).empty()) return;  // integers
    file.read_box(name, {0, rows, 0, cols}, values.data(), cols);
  }

  Folder folder_;
  std::string path_ = folder_ / "w.h5";
  io::IoThread io_;
};

std::string name_of(Random& random) {
  static const std::vector<std::string> parts = {"a",    "b",   "w",    "t",  "init",     ".",
                                                 "..",   "...", "",     " ",  "\x1b[31m", "\xc3\xa9",
                                                 "\xff", ":",   "w.h5", "a:", "*",        "%s%n"};
  if (random.one_in(60)) return "/" + std::string(random.below(6000), random.one_in(2) ? 'n' : '/');
  std::string name;
  for (std::size_t n = 1 + random.below(4); n > 0; --n)
    name += "/" + (random.one_in(3) ? random.of(parts) : parts[random.below(4)]);
  if (random.one_in(40)) {
    const std::string once = name;
    for (std::size_t i = random.below(400); i > 0; --i) name += once;
  }
  return name;
}

std::string extents(Random& random) {
  static const std::vector<std::string> odd = {"0", "1099511627776", "9223372036854775807", "18446744073709551615",
                                               "4294967296"};
  std::string text;
  for (std::size_t n = random.below(4); n > 0; --n)
    text += "|" + (random.one_in(12) ? random.of(odd) : std::to_string(random.below(5)));
  return text;
}

}  // namespace

void fuzz_one(const std::uint8_t* data, std::size_t size) {
  static Files files;
  auto lines = split({reinterpret_cast<const char*>(data), size}, '\n');
  if (lines.size() > 64) lines.resize(64);
  files.run(lines);
}

std::vector<std::string> corpus() {
  std::vector<std::string> inputs = {
      "g|/init\nf|/init/model.norm.weight|4\nf|/init/lm_head.weight|3|2\nq|/init\nq|/\nq|",
      "i|/tokens|20|8|3\ni|/stream|40\nq|/tokens\nq|/stream\nq|/none",
      "g|/a\nh|/a/up|/\ns|/a/here|/a\nf|/a/w|3\nq|/a/up/a/here/up/a\nq|/a",
      "g|/g\ns|/g/d|/none\ns|/g/c|/g/c\nx|/g/x|none.h5|/w\nx|/g/p|pipe|/w\nx|/g/o|other.h5|/w\nx|/g/t|text.h5|/w\nq|/"
      "g\nq|/g/d\nq|/g/c\nq|/g/x/w\nq|/g/p",
      "x|/a|other.h5|/back\nq|/a\nq|/a/a\nq|/",
      "x|/a|w.h5|/a\ns|/b|/a\nq|/a\nq|/b/b",
      "t|/T\nn|/z\ni|/s\nf|/f|1099511627776|1099511627776\nq|/T\nq|/z\nq|/s\nq|/f\nq|/",
      "i|/t|9\nv|/v|9|.|/t\nv|/x|9|.|/x\nv|/w|2|other.h5|/w\nv|/p|9|pipe|/t\nq|/v\nq|/x\nq|/w\nq|/p\nq|/",
      "g|/a/b/c/d\nf|/a/b/c/d/w|1\nq|//a//b/./c/d/\nq|/a/b/c/d/w/\nq|/a/.."};
  Random random(0);
  for (int i = 0; i < 20; ++i) inputs.push_back(generate(random));
  return inputs;
}

std::vector<std::string> dictionary() {
  return {"|",
          "\n",
          "/",
          "//",
          "/.",
          "/..",
          ":",
          ":/",
          "\ng|/a",
          "\ns|/a|/b",
          "\nh|/a/b|/",
          "\nx|/a|other.h5|/w",
          "\nx|/a|w.h5|/",
          "\nq|/a",
          "\nq|/",
          "\nt|/a",
          "\nn|/a",
          "\nf|/w|2",
          "\ni|/t|9",
          "\nv|/v|9|.|/t",
          "|0",
          "|18446744073709551615",
          "\x1b",
          "\xff",
          std::string(1, '\0'),
          "pipe",
          "/dev/zero",
          "/dev/stdin",
          "/"};
}

std::string generate(Random& random) {
  static const std::vector<std::string> files = {"w.h5",    "other.h5", "none.h5", "pipe",
                                                 "text.h5", ".",        "",        "/dev/zero"};
  std::string text;
  std::vector<std::string> names = {"/"};
  for (std::size_t n = 1 + random.below(10); n > 0; --n) {
    const std::string name = random.one_in(3) ? names[random.below(names.size())] + name_of(random) : name_of(random);
    const std::string target = random.one_in(2) ? random.of(names) : name_of(random);
    switch (random.below(9)) {
      case 8:
        text += "v|" + name + "|" + std::to_string(random.below(6)) + "|" + random.of(files) + "|" + target;
        break;
      case 0:
      case 1:
        text += "g|" + name;
        break;
      case 2:
        text += "f|" + name + extents(random);
        break;
      case 3:
        text += "i|" + name + extents(random);
        break;
      case 4:
        text += "s|" + name + "|" + target;
        break;
      case 5:
        text += "h|" + name + "|" + target;
        break;
      case 6:
        text += "x|" + name + "|" + random.of(files) + "|" + target;
        break;
      default:
        text += (random.one_in(2) ? "t|" : "n|") + name;
    }
    text += "\n";
    names.push_back(name);
  }
  for (std::size_t n = 1 + random.below(3); n > 0; --n) {
    text += "q|" + (random.one_in(4) ? name_of(random) : random.of(names) + (random.one_in(3) ? name_of(random) : "")) +
            "\n";
  }
  return text;
}

}  // namespace shard8::fuzz
