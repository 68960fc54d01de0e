#include "entrain/models/ncf.h"

namespace entrain::models {
namespace {

namespace nn = torch::nn;

class Ncf : public Model {
 public:
  explicit Ncf(const NcfOptions& options) : options_(options) {
    const int64_t half = options.layers.front() / 2;
    mf_user_ = table("mf_user", options.users, options.factors);
    mf_item_ = table("mf_item", options.items, options.factors);
    mlp_user_ = table("mlp_user", options.users, half);
    mlp_item_ = table("mlp_item", options.items, half);
    for (size_t i = 1; i < options.layers.size(); ++i) {
      mlp_->push_back(nn::Linear(options.layers[i - 1], options.layers[i]));
      mlp_->push_back(nn::ReLU());
    }
    register_module("mlp", mlp_);
    output_ = register_module("output", nn::Linear(options.factors + options.layers.back(), 1));
  }

  torch::Tensor loss(const Batch& batch) override {
    const auto user = batch.input.select(1, 0), item = batch.input.select(1, 1);
    const auto factors = mf_user_(user);  // apart: the order of use is part of G
    const auto product = factors * mf_item_(item);
    const auto deep = mlp_->forward(torch::cat({mlp_user_(user), mlp_item_(item)}, 1));
    const auto score = output_(torch::cat({product, deep}, 1)).squeeze(1);
    return torch::binary_cross_entropy_with_logits(score, batch.target);
  }

  // The ids flow through the tables, each a layer of its own, to where the deep tower begins; what the tables
  // give beside it skips to where it is used.
  layers::Sequence sequence() override {
    layers::Sequence sequence;
    const auto looked_up = [](nn::Embedding table, int64_t column, const torch::Tensor& ids) {
      return table(ids.select(1, column));
    };
    sequence.layers.push_back({"mf_user",
                               mf_user_.ptr(),
                               [=, table = mf_user_](const torch::Tensor& ids, layers::Skips& skips) {
                                 skips.stash("factors", looked_up(table, 0, ids));
                                 return ids;
                               },
                               {"factors"}});
    sequence.layers.push_back({"mf_item",
                               mf_item_.ptr(),
                               [=, table = mf_item_](const torch::Tensor& ids, layers::Skips& skips) {
                                 skips.stash("product", skips.pop("factors") * looked_up(table, 1, ids));
                                 return ids;
                               },
                               {"product"},
                               {"factors"}});
    sequence.layers.push_back({"mlp_user",
                               mlp_user_.ptr(),
                               [=, table = mlp_user_](const torch::Tensor& ids, layers::Skips& skips) {
                                 skips.stash("user", looked_up(table, 0, ids));
                                 return ids;
                               },
                               {"user"}});
    sequence.layers.push_back({"mlp_item",
                               mlp_item_.ptr(),
                               [=, table = mlp_item_](const torch::Tensor& ids, layers::Skips& skips) {
                                 return torch::cat({skips.pop("user"), looked_up(table, 1, ids)}, 1);
                               },
                               {},
                               {"user"}});
    for (size_t i = 0; i + 1 < mlp_->size(); i += 2) {
      nn::Linear linear(mlp_->ptr<nn::LinearImpl>(i));
      sequence.layers.push_back(
          {"mlp." + std::to_string(i), linear.ptr(),
           [linear](const torch::Tensor& x, layers::Skips&) mutable { return torch::relu(linear(x)); }});
    }
    sequence.layers.push_back({"output",
                               output_.ptr(),
                               [output = output_](const torch::Tensor& deep, layers::Skips& skips) mutable {
                                 return output(torch::cat({skips.pop("product"), deep}, 1)).squeeze(1);
                               },
                               {},
                               {"product"}});
    sequence.loss = [](const torch::Tensor& score, const torch::Tensor& target) {
      return torch::binary_cross_entropy_with_logits(score, target);
    };
    return sequence;
  }

  // A user likes an item when its number is not below the user's, modulo 7.
  Batch synthetic(int64_t batch_size, torch::Generator& generator) const override {
    const auto user = torch::randint(options_.users, {batch_size}, generator, torch::kInt64);
    const auto item = torch::randint(options_.items, {batch_size}, generator, torch::kInt64);
    return {torch::stack({user, item}, 1), (item.remainder(7) >= user.remainder(7)).to(torch::kFloat32)};
  }

 private:
  // Deviation 0.01 as published; drawn here since the default would first fill the table with another normal.
  nn::Embedding table(const std::string& name, int64_t rows, int64_t width) {
    auto weight = torch::empty({rows, width}).normal_(0, 0.01);
    return register_module(
        name, nn::Embedding(nn::EmbeddingOptions(rows, width).sparse(options_.sparse)._weight(weight)));
  }

  NcfOptions options_;
  nn::Embedding mf_user_{nullptr}, mf_item_{nullptr}, mlp_user_{nullptr}, mlp_item_{nullptr};
  nn::Sequential mlp_;
  nn::Linear output_{nullptr};
};

}  // namespace

std::shared_ptr<Model> make_ncf(const NcfOptions& options) { return std::make_shared<Ncf>(options); }

}  // namespace entrain::models
