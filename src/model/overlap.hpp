// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/parts.hpp"
#include "deck/config.hpp"
#include "profile/exchange.hpp"

namespace shard8::model {

/// How an exchange of the tensor group overlaps with matrix products.
enum class ExchangeMethod : std::uint8_t {
  off,       ///< it runs alone
  bulk,      ///< the whole exchange runs beside a whole product that does not need it
  direct,    ///< a gather: the product of each rank's rows runs as soon as they are there, own rows first
  pipeline,  ///< a reduce-scatter: the rows for each rank are sent as soon as their product is done, own rows last
  ring       ///< as direct or pipeline, but rows or sums of rows travel from neighbour to neighbour; on hosts
};

/// One exchange of the tensor group.
struct TensorExchange {
  profile::Exchange name;
  ExchangeMethod method = ExchangeMethod::off;
  int splits = 0;  ///< direct: see for_each_arrival; 0 on hosts, whose products are of one rank
  int chunks = 1;  ///< pipeline: see for_each_chunk_of_rank; 1 on hosts

  bool hidden() const { return method != ExchangeMethod::off; }
  /// How its rows travel if it goes part by part.
  comm::Route route() const { return method == ExchangeMethod::ring ? comm::Route::ring : comm::Route::direct; }
  /// Whether it goes part by part through memory that the ranks share, if they can.
  bool shares_memory() const { return hidden() && route() == comm::Route::direct; }
};

/// The exchanges of a column-parallel linear.
struct ColumnExchanges {
  TensorExchange forward;  ///< gather of the input
  TensorExchange gather;   ///< gather of the input in backward, for wgrad; bulk: beside dgrad
  TensorExchange scatter;  ///< reduce-scatter of dgrad's result; bulk: beside wgrad

  bool bulk() const { return gather.hidden() || scatter.hidden(); }
};

/// The exchanges of a row-parallel linear.
struct RowExchanges {
  TensorExchange forward;       ///< reduce-scatter of the output
  TensorExchange gather;        ///< gather of dy, the output's gradient; bulk: beside the wgrad of the linear before
  bool wgrad_deferred = false;  ///< this linear's wgrad waits until the next such gather has begun
};

/// How the exchanges of the tensor group overlap with matrix products. Results do not depend on it: the same products
/// and sums are computed, in another order. Only the reduce-scatters of a ring add the ranks' summands in another
/// order.
///
/// The backward of a model meets row-parallel linears in the order fc2, proj of the last layer, fc2, proj of the layer
/// below, and so on. A gather of dy for one of them has no product of its own linear to run beside, because all of them
/// read dy. So the wgrad of the linear before is deferred: proj's gather runs beside fc2's wgrad, and fc2's gather
/// beside the wgrad of proj in the layer above.
struct Overlap {
  using Name = profile::Exchange;
  ColumnExchanges qkv{{Name::qkv_fprop}, {Name::qkv_dgrad}, {Name::qkv_wgrad}};
  ColumnExchanges fc1{{Name::fc1_fprop}, {Name::fc1_dgrad}, {Name::fc1_wgrad}};
  RowExchanges proj{{Name::proj_fprop}, {Name::proj_dgrad}};
  RowExchanges fc2{{Name::fc2_fprop}, {Name::fc2_dgrad}};
  TensorExchange head_gather{Name::head_fprop};   ///< direct: see HeadInput
  TensorExchange head_scatter{Name::head_dgrad};  ///< bulk: beside the head's last wgrad

  /// As the deck says for its tensor group; nothing overlaps in a group of one.
  static Overlap make(const deck::Config& deck);

  /// Whether an exchange runs beside a whole product.
  bool bulk() const {
    return qkv.bulk() || fc1.bulk() || proj.gather.hidden() || fc2.gather.hidden() || head_scatter.hidden();
  }
  /// Whether a gather goes part by part.
  bool gathers_by_parts() const { return qkv.forward.hidden() || fc1.forward.hidden() || head_gather.hidden(); }
  /// Whether an exchange goes part by part.
  bool by_parts() const { return gathers_by_parts() || proj.forward.hidden() || fc2.forward.hidden(); }
  bool any() const { return bulk() || by_parts(); }
  /// Whether the matrices that two linears gather must lie in the tensor group's memory at the same time.
  bool two_gathered() const { return proj.gather.hidden() || fc2.gather.hidden(); }
  /// The method of each exchange, by name.
  profile::ExchangeMethods methods() const;
};

}  // namespace shard8::model
