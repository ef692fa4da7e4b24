// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// The libraries that this build was linked with live together in one process.
#include <cblas.h>
#include <gtest/gtest.h>
#include <hdf5.h>
#include <mpi.h>

#include <Kokkos_Core.hpp>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "base/version.hpp"

namespace {

// Files of that name mapped into this process.
std::set<std::string> mapped(const std::string& name) {
  std::set<std::string> files;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const auto path = line.find('/');
    if (path != std::string::npos && line.find("/" + name) != std::string::npos) files.insert(line.substr(path));
  }
  return files;
}

TEST(Version, SaysWhatWasBuilt) {
  const auto version = shard8::base::version();
  EXPECT_EQ(version.number.find("0."), 0U);
  EXPECT_FALSE(version.build_type.empty());
  EXPECT_FALSE(version.compiler.empty());
  const auto digits = version.git_hash.find_first_not_of("0123456789abcdef");
  EXPECT_TRUE(version.git_hash == "unknown" || digits == 40 ||
              (digits == std::string::npos && version.git_hash.size() == 40))
      << version.git_hash;
}

TEST(OneProcess, HoldsOneOpenMpAndOneCLibrary) {
  EXPECT_EQ(mapped("libgomp.so").size(), 1U);
  EXPECT_EQ(mapped("libc.so.6").size(), 1U);
  EXPECT_EQ(mapped("libstdc++.so").size(), 1U);
}

TEST(OneProcess, MultipliesAndReduces) {
  const int n = 64;
  std::vector<float> a(n * n, 0.5F);
  std::vector<float> b(n * n, 2.0F);
  std::vector<float> c(n * n, 0.0F);
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1.0F, a.data(), n, b.data(), n, 0.0F, c.data(), n);
  float sum = 0.0F;
  const Kokkos::DefaultHostExecutionSpace exec;
  const float* data = c.data();
  Kokkos::parallel_reduce(
      "shard8::tests::sum", Kokkos::RangePolicy(exec, 0, n * n), [data](int i, float& partial) { partial += data[i]; },
      sum);
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  float total = 0.0F;
  MPI_Allreduce(&sum, &total, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_EQ(total, static_cast<float>(ranks * n * n * n));
}

TEST(OneProcess, HasAParallelHdf5) {
  hbool_t threadsafe = 0;
  EXPECT_GE(H5is_library_threadsafe(&threadsafe), 0);
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  EXPECT_GE(H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL), 0);
  EXPECT_GE(H5Pclose(access), 0);
}

}  // namespace
