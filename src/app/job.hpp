// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "app/commands.hpp"
#include "comm/communicator.hpp"
#include "comm/environment.hpp"
#include "comm/node.hpp"
#include "deck/load.hpp"
#include "profile/collective_log.hpp"
#include "tensor/runtime.hpp"

namespace shard8::app {

/// What a rank has once ranks, deck and devices are checked and Kokkos runs. Each rank has a device of its own where
/// the program was built for devices.
struct Job {
  comm::Node node;
  const deck::LoadResult& deck;
  profile::CollectiveLog& log;
  comm::Communicator world;
  const tensor::Runtime& runtime;
};

/// Starts MPI, reads the deck on rank 0, and checks the deck, the number of ranks and the devices on every rank.
/// Returns what `body` returns, or the exit code of an error (comm::run_guarded).
int run_job(int argc, char** argv, const DeckArguments& arguments, const std::function<int(Job&)>& body);

}  // namespace shard8::app
