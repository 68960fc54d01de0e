#include "entrain/sync/sparse_rows.h"

#include <torch/torch.h>

#include <cstring>

#include "entrain/base/error.h"
#include "entrain/collective/reduce.h"
#include "entrain/sync/slices.h"

namespace entrain::sync {
namespace {

torch::ScalarType scalar_type(const graph::Variable& variable) {
  switch (collective::type_from(variable.dtype)) {
    case collective::Type::kFloat64:
      return torch::kFloat64;
    case collective::Type::kFloat16:
      return torch::kFloat16;
    case collective::Type::kBFloat16:
      return torch::kBFloat16;
    default:
      return torch::kFloat32;
  }
}

std::vector<int64_t> values_shape(const graph::Variable& variable, int64_t rows) {
  std::vector<int64_t> shape = variable.shape;
  shape[0] = rows;
  return shape;
}

Rows empty_rows(const graph::Variable& variable, int64_t count) {
  return {torch::empty({count}, torch::kInt64),
          torch::empty(values_shape(variable, count), scalar_type(variable))};
}

}  // namespace

Rows select_rows(const torch::Tensor& gradient, int64_t begin, int64_t end) {
  const torch::Tensor summed = gradient.coalesce();
  const torch::Tensor indices = summed.indices()[0].contiguous();
  const torch::Tensor values = summed.values().contiguous();
  const int64_t* first = indices.data_ptr<int64_t>();
  const int64_t* last = first + indices.size(0);
  const int64_t from = std::lower_bound(first, last, begin) - first;
  const int64_t to = std::lower_bound(first, last, end) - first;
  return {indices.narrow(0, from, to - from), values.narrow(0, from, to - from)};
}

Rows merge_rows(const std::vector<Rows>& parts, const graph::Variable& variable) {
  std::vector<torch::Tensor> indices, values;
  for (const Rows& part : parts) {
    indices.push_back(part.indices);
    values.push_back(part.values);
  }
  if (parts.empty()) return empty_rows(variable, 0);
  if (parts.size() == 1) return parts.front();
  const torch::Tensor summed =
      torch::sparse_coo_tensor(torch::cat(indices).unsqueeze(0), torch::cat(values), variable.shape)
          .coalesce();
  return {summed.indices()[0].contiguous(), summed.values().contiguous()};
}

torch::Tensor to_gradient(const std::vector<Rows>& parts, const graph::Variable& variable) {
  std::vector<torch::Tensor> indices, values;
  for (const Rows& part : parts) {
    indices.push_back(part.indices);
    values.push_back(part.values);
  }
  return torch::_sparse_coo_tensor_unsafe(torch::cat(indices).unsqueeze(0), torch::cat(values),
                                          variable.shape)
      ._coalesced_(true);
}

std::vector<transport::ConstBytes> wire_form(const Rows& rows) {
  return {bytes_of(rows.indices), bytes_of(rows.values)};
}

Rows from_wire(transport::ConstBytes bytes, const graph::Variable& variable) {
  const int64_t row = sizeof(int64_t) + variable.bytes() / variable.shape[0];
  const auto size = static_cast<int64_t>(bytes.size());
  if (size % row != 0) fail("{} bytes arrived for {}, whose rows take {}", size, variable.name, row);
  Rows rows = empty_rows(variable, size / row);
  if (size == 0) return rows;
  const size_t index_bytes = rows.indices.nbytes();
  std::memcpy(rows.indices.data_ptr(), bytes.data(), index_bytes);
  std::memcpy(rows.values.data_ptr(), bytes.data() + index_bytes, bytes.size() - index_bytes);
  if (rows.indices.min().item<int64_t>() < 0 || rows.indices.max().item<int64_t>() >= variable.shape[0]) {
    fail("a row outside 0..{} arrived for {}", variable.shape[0] - 1, variable.name);
  }
  return rows;
}

}  // namespace entrain::sync
