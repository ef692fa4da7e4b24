// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/model/reference/reference.hpp"

#include <algorithm>
#include <cmath>

namespace shard8::tests::reference {

namespace {

/// Where one head of one sequence lies in qkv and in the output.
struct Head {
  std::int64_t first_token, query, key, value, out;  ///< columns
};

std::vector<Head> all_heads(const Heads& h, std::int64_t tokens) {
  std::vector<Head> all;
  for (std::int64_t first = 0; first < tokens; first += h.seq)
    for (std::int64_t q = 0; q < h.queries; ++q) {
      const std::int64_t k = q / (h.queries / h.keys);
      all.push_back({first, q * h.dim, (h.queries + k) * h.dim, (h.queries + h.keys + k) * h.dim, q * h.dim});
    }
  return all;
}

/// Softmax of the scores of query i over keys 0 … i.
std::vector<double> probabilities(const Matrix& qkv, const Heads& h, const Head& head, std::int64_t i) {
  std::vector<double> p(static_cast<std::size_t>(i + 1));
  for (std::int64_t j = 0; j <= i; ++j) {
    double dot = 0;
    for (std::int64_t d = 0; d < h.dim; ++d)
      dot += qkv(head.first_token + i, head.query + d) * qkv(head.first_token + j, head.key + d);
    p[static_cast<std::size_t>(j)] = dot / std::sqrt(static_cast<double>(h.dim));
  }
  const double most = *std::max_element(p.begin(), p.end());
  double sum = 0;
  for (double& x : p) sum += x = std::exp(x - most);
  for (double& x : p) x /= sum;
  return p;
}

}  // namespace

Var attention(Graph& graph, Var qkv, const Heads& h) {
  const auto heads = all_heads(h, qkv->value.rows);
  Matrix y(qkv->value.rows, h.queries * h.dim);
  for (const Head& head : heads)
    for (std::int64_t i = 0; i < h.seq; ++i) {
      const auto p = probabilities(qkv->value, h, head, i);
      for (std::int64_t j = 0; j <= i; ++j)
        for (std::int64_t d = 0; d < h.dim; ++d)
          y(head.first_token + i, head.out + d) +=
              p[static_cast<std::size_t>(j)] * qkv->value(head.first_token + j, head.value + d);
    }
  const Var node = graph.leaf(std::move(y));
  node->backward = [=] {
    const double scale = 1 / std::sqrt(static_cast<double>(h.dim));
    for (const Head& head : heads)
      for (std::int64_t i = 0; i < h.seq; ++i) {
        const auto p = probabilities(qkv->value, h, head, i);
        std::vector<double> dp(p.size());
        double mean = 0;
        for (std::int64_t j = 0; j <= i; ++j) {
          for (std::int64_t d = 0; d < h.dim; ++d) {
            const double dy = node->gradient(head.first_token + i, head.out + d);
            dp[static_cast<std::size_t>(j)] += dy * qkv->value(head.first_token + j, head.value + d);
            qkv->gradient(head.first_token + j, head.value + d) += dy * p[static_cast<std::size_t>(j)];
          }
          mean += p[static_cast<std::size_t>(j)] * dp[static_cast<std::size_t>(j)];
        }
        for (std::int64_t j = 0; j <= i; ++j) {
          const double ds = scale * p[static_cast<std::size_t>(j)] * (dp[static_cast<std::size_t>(j)] - mean);
          for (std::int64_t d = 0; d < h.dim; ++d) {
            qkv->gradient(head.first_token + i, head.query + d) += ds * qkv->value(head.first_token + j, head.key + d);
            qkv->gradient(head.first_token + j, head.key + d) += ds * qkv->value(head.first_token + i, head.query + d);
          }
        }
      }
  };
  return node;
}

namespace {

/// The logits of one token, and the logarithm of the sum of their exponentials.
double log_sum(std::vector<double>& logits, const Matrix& x, const Matrix& head, std::int64_t t) {
  double most = -HUGE_VAL, sum = 0;
  for (std::int64_t v = 0; v < head.rows; ++v) {
    double dot = 0;
    for (std::int64_t k = 0; k < x.cols; ++k) dot += x(t, k) * head(v, k);
    logits[static_cast<std::size_t>(v)] = dot;
    most = std::max(most, dot);
  }
  for (const double logit : logits) sum += std::exp(logit - most);
  return most + std::log(sum);
}

}  // namespace

Var head_loss(Graph& graph, Var x, Var head, const std::vector<std::int32_t>& targets,
              const std::vector<double>& weights) {
  const std::int64_t vocab = head->value.rows;
  std::vector<double> logits(static_cast<std::size_t>(vocab));
  Matrix loss(1, 1);
  for (std::int64_t t = 0; t < x->value.rows; ++t) {
    const auto i = static_cast<std::size_t>(t);
    const double log_z = log_sum(logits, x->value, head->value, t);
    loss(0, 0) += weights[i] * (log_z - logits[static_cast<std::size_t>(targets[i])]);
  }
  const Var node = graph.leaf(std::move(loss));
  node->backward = [=]() mutable {
    for (std::int64_t t = 0; t < x->value.rows; ++t) {
      const auto i = static_cast<std::size_t>(t);
      const double log_z = log_sum(logits, x->value, head->value, t);
      for (std::int64_t v = 0; v < vocab; ++v) {
        const double p = std::exp(logits[static_cast<std::size_t>(v)] - log_z);
        const double d = node->gradient(0, 0) * weights[i] * (p - (v == targets[i] ? 1 : 0));
        for (std::int64_t k = 0; k < x->value.cols; ++k) {
          x->gradient(t, k) += d * head->value(v, k);
          head->gradient(v, k) += d * x->value(t, k);
        }
      }
    }
  };
  return node;
}

Layer Layer::bind(const deck::ModelConfig& model, const std::vector<Var>& v) {
  if (model.qk_norm)
    return {{v.at(0), nullptr},
            {v.at(1), nullptr},
            {v.at(4), nullptr},
            {v.at(5), nullptr},
            {v.at(6), nullptr},
            {v.at(7), nullptr},
            v.at(2),
            v.at(3)};
  if (model.arch == deck::Arch::llama)
    return {{v.at(0), nullptr}, {v.at(1), nullptr}, {v.at(2), nullptr},
            {v.at(3), nullptr}, {v.at(4), nullptr}, {v.at(5), nullptr}};
  return {{v.at(0), v.at(1)}, {v.at(2), v.at(3)}, {v.at(4), v.at(5)},
          {v.at(6), v.at(7)}, {v.at(8), v.at(9)}, {v.at(10), v.at(11)}};
}

Var norm(Graph& graph, const deck::ModelConfig& model, Var x, const Affine& w) {
  if (model.arch == deck::Arch::llama) return rmsnorm(graph, x, w.weight, model.norm_eps);
  return layernorm(graph, x, w.weight, w.bias, model.norm_eps);
}

Var plain_linear(Graph& graph, Var x, const Affine& w, fp8::Linear) { return linear(graph, x, w.weight, w.bias); }

Var layernorm_linear(Graph& graph, const deck::ModelConfig& model, Var x, const Affine& norm_w, const Affine& linear_w,
                     fp8::Linear which, const LinearOperation& linear) {
  return linear(graph, norm(graph, model, x, norm_w), linear_w, which);
}

Var multihead_attention(Graph& graph, const deck::ModelConfig& model, Var x, const Layer& w,
                        const LinearOperation& linear) {
  const std::int64_t dim = model.head_width();
  Var qkv = layernorm_linear(graph, model, x, w.norm1, w.qkv, fp8::Linear::qkv, linear);
  if (w.q_norm != nullptr) qkv = head_norm(graph, qkv, w.q_norm, {0, model.heads, dim}, model.norm_eps);
  if (w.k_norm != nullptr) qkv = head_norm(graph, qkv, w.k_norm, {model.heads, model.kv_heads, dim}, model.norm_eps);
  if (model.arch == deck::Arch::llama)
    qkv = rope(graph, qkv, model.heads + model.kv_heads, dim, model.seq, model.rope_theta);
  const Var heads = attention(graph, qkv, {model.heads, model.kv_heads, dim, model.seq});
  return add(graph, x, linear(graph, heads, w.proj, fp8::Linear::proj));
}

Var layernorm_mlp(Graph& graph, const deck::ModelConfig& model, Var x, const Layer& w, const LinearOperation& linear) {
  const Var inside = layernorm_linear(graph, model, x, w.norm2, w.fc1, fp8::Linear::fc1, linear);
  const Var active = model.arch == deck::Arch::llama ? swiglu(graph, inside) : gelu(graph, inside);
  return add(graph, x, linear(graph, active, w.fc2, fp8::Linear::fc2));
}

}  // namespace shard8::tests::reference
