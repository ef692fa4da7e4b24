// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// Files that try to overflow the stack, the memory or an index of the reader.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>

#include "io/tensor_file.hpp"
#include "io/token_file.hpp"
#include "tests/io/files.hpp"
#include "tests/io/h5_writer.hpp"
#include "tests/io/safetensors_bytes.hpp"

using namespace shard8;

namespace {

constexpr std::size_t kDeep = 300'000;

std::string repeated(std::string_view text, std::size_t times) {
  std::string out;
  for (std::size_t i = 0; i < times; ++i) out += text;
  return out;
}

std::string lists(std::size_t depth) { return repeated("[", depth) + repeated("]", depth); }

void soft_link(const test::H5Writer& writer, const std::string& name, const std::string& target) {
  SHARD8_H5(name, H5Lcreate_soft(target.c_str(), writer.id(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT));
}

void external_link(const test::H5Writer& writer, const std::string& name, const std::string& file,
                   const std::string& target) {
  SHARD8_H5(name,
            H5Lcreate_external(file.c_str(), target.c_str(), writer.id(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT));
}

}  // namespace

// Deep nesting in every place of a header: in values that are read, printed or skipped.
TEST(HostileSafetensors, DeepNestingIsRefused) {
  const test::TempFolder folder;
  io::IoThread io;
  const std::string data = "12345678";
  const std::string entry = "\"dtype\":\"F32\",\"data_offsets\":[0,8]";
  const std::vector<std::string> headers = {
      lists(kDeep),
      repeated("{\"a\":", kDeep) + "1" + repeated("}", kDeep),
      "{\"a\":" + lists(kDeep) + "}",
      "{\"a\":{" + entry + ",\"shape\":" + lists(kDeep) + "}}",
      "{\"a\":{" + entry + ",\"shape\":[2," + lists(kDeep) + "]}}",
      "{\"a\":{" + entry + ",\"shape\":[" + repeated("{\"b\":", kDeep) + "1" + repeated("}", kDeep) + "]}}",
      "{\"a\":{" + entry + ",\"shape\":[2],\"other\":" + lists(kDeep) + "}}",
      "{\"__metadata__\":" + lists(kDeep) + ",\"a\":{" + entry + ",\"shape\":[2]}}"};
  for (const auto& header : headers) {
    SCOPED_TRACE(header.substr(0, 60));
    test::write_bytes(folder / "w.safetensors", test::safetensors(header, data));
    test::expect_error([&] { io::open_tensor_file(io, folder / "w.safetensors"); }, base::ExitCode::failed,
                       {"w.safetensors': not a valid .safetensors file"});
  }
  const auto index = folder / "w.safetensors.index.json";
  test::write_bytes(index, "{\"weight_map\":{\"a\":" + lists(kDeep) + "}}");
  test::expect_error([&] { io::open_tensor_file(io, index); }, base::ExitCode::failed,
                     {"index.json': not an index", "nested more than 16 deep"});
}

TEST(HostileSafetensors, WhatAHeaderMayAskForIsBounded) {
  const test::TempFolder folder;
  io::IoThread io;
  const std::string data = "12345678";
  const std::string good = "\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]";
  struct Case {
    std::string header;
    std::string part;
  };
  const std::vector<Case> table = {
      {"{\"a\":{" + good + ",\"shape\":[2]}}", "tensor 'a' has 'shape' twice"},
      {"{\"a\":{" + good + ",\"data_offsets\":[0,8]}}", "tensor 'a' has 'data_offsets' twice"},
      {"{\"a\":{" + good + ",\"dtype\":\"F32\"}}", "tensor 'a' has 'dtype' twice"},
      {"{\"__metadata__\":{},\"__metadata__\":{}}", "'__metadata__' is there twice"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[" + repeated("1,", 64) + "2],\"data_offsets\":[0,8]}}",
       "'shape' holds more than 64 numbers"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[" + repeated("4294967296,", 2) + "1],\"data_offsets\":[0,8]}}",
       "more than 2^63 bytes"},
      {"{\"a\":{\"dtype\":\"X\",\"shape\":[9223372036854775807,2],\"data_offsets\":[0,8]}}", "more than 2^63 bytes"},
      {"{\"a\":{\"dtype\":\"X\",\"shape\":[2],\"data_offsets\":[0,9223372036854775807]}}", "data_offsets [0, 9223372"},
      {"{\"a\":{\"dtype\":\"X\",\"shape\":[2],\"data_offsets\":[9223372036854775807,0]}}", "data_offsets [922337203"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,1e999]}}", "not JSON"},
      {"{\"a\":{" + good + "}}{}", "not JSON"}};
  for (const auto& [header, part] : table) {
    test::write_bytes(folder / "w.safetensors", test::safetensors(header, data));
    test::expect_error([&] { io::open_tensor_file(io, folder / "w.safetensors"); }, base::ExitCode::failed, {part});
  }
  const auto index = folder / "w.safetensors.index.json";
  for (const auto* file : {"..", ".", "", "w.safetensors\\u0000x", "a\\u001bb"}) {
    test::write_bytes(index, fmt::format(R"({{"weight_map":{{"w":"{}"}}}})", file));
    test::expect_error([&] { io::open_tensor_file(io, index); }, base::ExitCode::failed, {"'w' is said to be in '"});
  }
  test::write_bytes(index, R"({"weight_map":{"w":"a","w":"b"}})");
  test::expect_error([&] { io::open_tensor_file(io, index); }, base::ExitCode::failed, {"'w' is there twice"});
  test::write_bytes(index, R"({"weight_map":{"w":"a"},"weight_map":{}})");
  test::expect_error([&] { io::open_tensor_file(io, index); }, base::ExitCode::failed, {"'weight_map' is there twice"});
}

// A message shows names from the file shortened and without control characters.
TEST(HostileSafetensors, MessagesStayShortAndPrintable) {
  const test::TempFolder folder;
  io::IoThread io;
  for (const std::string& name : {std::string(1'000'000, 'a'), std::string("\\u001b[31m\\u0007")}) {
    for (const std::string& header :
         {"{\"" + name, "{\"" + name + "\":3}", "{\"" + name + "\":{},\"" + name + "\":{}}",
          "{" + test::entry(name, "F32", "3", 0, 8) + "}", "{" + test::entry("a", name, "2", 4, 8) + "}"}) {
      test::write_bytes(folder / "w.safetensors", test::safetensors(header, "12345678"));
      try {
        io::open_tensor_file(io, folder / "w.safetensors");
        ADD_FAILURE() << header.substr(0, 60);
      } catch (const base::Error& error) {
        const std::string message = error.what();
        EXPECT_LT(message.size(), 2000u) << message.substr(0, 300);
        EXPECT_TRUE(std::none_of(message.begin(), message.end(), [](char c) { return c > 0 && c < ' '; })) << message;
      }
    }
  }
}

// Names are followed link by link. Groups may be linked in a circle; the length of a name bounds the number of links.
TEST(HostileHdf5, DeepAndCircularGroups) {
  const test::TempFolder folder;
  io::IoThread io;
  {
    test::H5Writer writer(folder / "w.h5");
    writer.group("/a");
    writer.dataset<double>("/a/w", H5T_IEEE_F32LE, {3}, {1, 2, 3});
    SHARD8_H5("loop", H5Lcreate_hard(writer.id(), "/", writer.id(), "/a/up", H5P_DEFAULT, H5P_DEFAULT));
    soft_link(writer, "/a/here", "/a");
    writer.close();
  }
  const auto names = [&](const std::string& group) {
    return io::open_tensor_file(io, folder / "w.h5:" + group)->names();
  };
  const std::vector<std::string> expected = {"w"};
  EXPECT_EQ(names("/a"), expected);
  EXPECT_EQ(names("/a/up/a"), expected);
  EXPECT_EQ(names("/a/here/up/a"), expected);
  EXPECT_EQ(names("/" + repeated("a/up/", 500) + "a"), expected);
  EXPECT_EQ(names("/" + repeated("a/here/up/", 300) + "a/"), expected);
  const auto begin = std::chrono::steady_clock::now();
  test::expect_error([&] { names("/" + repeated("a/up/", 60'000) + "a"); }, base::ExitCode::deck,
                     {"w.h5': the name '/a/up/", "has 300002 bytes; at most 4096"});
  test::expect_error([&] { io::TokenFile(io, folder / "w.h5:/" + repeated("a/up/", 60'000) + "a"); },
                     base::ExitCode::deck, {"at most 4096"});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

TEST(HostileHdf5, LinksThatLeadNowhere) {
  const test::TempFolder folder;
  io::IoThread io;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  test::write_bytes(folder / "text.h5", "no HDF5 file");
  {
    test::H5Writer writer(folder / "w.h5");
    writer.group("/g");
    writer.dataset<double>("/g/w", H5T_IEEE_F32LE, {3}, {1, 2, 3});
    soft_link(writer, "/g/dangling", "/none/at/all");
    soft_link(writer, "/g/circle", "/g/circle");
    soft_link(writer, "/g/empty_target", "/");
    external_link(writer, "/g/no_file", "none.h5", "/w");
    external_link(writer, "/g/no_object", "w.h5", "/none");
    external_link(writer, "/g/no_hdf5", "text.h5", "/w");
    external_link(writer, "/g/pipe", "pipe", "/w");
    external_link(writer, "/g/folder", ".", "/w");
    external_link(writer, "/g/good", "w.h5", "/g/w");
    writer.close();
  }
  const auto file = io::open_tensor_file(io, folder / "w.h5:/g");
  EXPECT_EQ(file->names(), (std::vector<std::string>{"good", "w"}));
  for (const auto* name : {"dangling", "circle", "no_file", "no_object", "no_hdf5", "pipe", "folder"}) {
    for (const auto* below : {"", "/w"}) {
      const auto object = fmt::format("/g/{}{}", name, below);
      test::expect_error([&] { io::open_tensor_file(io, folder / "w.h5:" + object); }, base::ExitCode::deck,
                         {"w.h5': the link '" + std::string(name) + "' in '" + object + "' leads to no object"});
      test::expect_error([&] { io::TokenFile(io, folder / "w.h5:" + object); }, base::ExitCode::deck,
                         {"leads to no object"});
    }
  }
}

TEST(HostileHdf5, OddNames) {
  const test::TempFolder folder;
  io::IoThread io;
  const std::string escape = "\x1b[31m\x07";
  const std::string wide(5000, 'n');
  {
    test::H5Writer writer(folder / "w.h5");
    for (const std::string& name : {escape, wide, std::string("..."), std::string(" "), std::string("\xff\xfe")}) {
      writer.group("/" + name);
      writer.dataset<double>("/" + name + "/" + name, H5T_IEEE_F32LE, {1}, {1});
    }
    for (int i = 0; i < 100; ++i) writer.group(fmt::format("/group{}", i));
    writer.close();
  }
  const auto names = [&](const std::string& group) {
    return io::open_tensor_file(io, folder / "w.h5:" + group)->names();
  };
  for (const std::string& name : {escape, std::string("..."), std::string(" "), std::string("\xff\xfe")}) {
    EXPECT_EQ(names("/" + name), std::vector<std::string>{name});
  }
  EXPECT_EQ(names("//.//...//./"), std::vector<std::string>{"..."});
  EXPECT_TRUE(names("/.").empty());  // the root, as for HDF5
  for (const std::string name : {"/..", "/../...", "/group1/group2", "/group1/", "/ /.. "}) {
    if (name == "/group1/") {
      EXPECT_TRUE(names(name).empty());
      continue;
    }
    try {
      names(name);
      ADD_FAILURE() << name;
    } catch (const base::Error& error) {
      const std::string message = error.what();
      EXPECT_EQ(base::to_int(error.code()), 2) << message;
      EXPECT_NE(message.find("has no group '" + name + "'"), std::string::npos) << message;
      EXPECT_NE(message.find(" more"), std::string::npos) << message;  // not all 105 names
      EXPECT_LT(message.size(), 1500u) << message;
      EXPECT_TRUE(std::none_of(message.begin(), message.end(), [](char c) { return c > 0 && c < ' '; })) << message;
    }
  }
}

TEST(HostileHdf5, ShapesThatOverflow) {
  const test::TempFolder folder;
  io::IoThread io;
  {
    test::H5Writer writer(folder / "w.h5");
    writer.group("/g");
    const std::vector<hsize_t> shape = {hsize_t{1} << 40, hsize_t{1} << 40};
    const std::vector<hsize_t> chunk = {16, 16};
    const io::H5Handle space(SHARD8_H5("w", H5Screate_simple(2, shape.data(), nullptr)), H5Sclose);
    const io::H5Handle plan(SHARD8_H5("w", H5Pcreate(H5P_DATASET_CREATE)), H5Pclose);
    SHARD8_H5("w", H5Pset_chunk(plan.id(), 2, chunk.data()));  // nothing is written, so the file stays small
    const io::H5Handle data(
        SHARD8_H5("w", H5Dcreate2(writer.id(), "/g/w", H5T_STD_I32LE, space.id(), H5P_DEFAULT, plan.id(), H5P_DEFAULT)),
        H5Dclose);
  }
  const std::vector<std::string> parts = {"w.h5:/g", "(1099511627776, 1099511627776) has more than 2^63 - 1 elements"};
  test::expect_error([&] { io::open_tensor_file(io, folder / "w.h5:/g"); }, base::ExitCode::failed, parts);
  test::expect_error([&] { io::TokenFile(io, folder / "w.h5:/g/w"); }, base::ExitCode::failed, parts);
}
