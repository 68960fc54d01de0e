#include "entrain/sync/dense.h"

#include <torch/torch.h>

#include "entrain/collective/cast.h"
#include "entrain/strategy/compression.h"
#include "entrain/sync/slices.h"

namespace entrain::sync {
Dense::Dense(const plan::Message& message, transport::Transport& transport, EventLoop& loop)
    : message_(message),
      transport_(transport),
      loop_(loop),
      program_(collective::compile(*message.schedule, transport.rank())),
      packed_(message.slices.size()) {}

collective::Buffer Dense::buffer(const std::vector<torch::Tensor>& gradients) {
  if (gradients.empty()) {
    if (!scratch_.defined()) scratch_ = torch::empty({message_.bytes()}, torch::kByte);
    return collective::Buffer({bytes_of(scratch_)});
  }
  std::vector<transport::Bytes> pieces;
  for (size_t i = 0; i < gradients.size(); ++i) {
    torch::Tensor slice = narrowed(gradients[i], message_.slices[i]);
    if (!slice.is_contiguous()) packed_[i] = slice = slice.contiguous();
    pieces.push_back(bytes_of(slice));
  }
  return collective::Buffer(pieces);
}

void Dense::feed_back(const std::vector<torch::Tensor>& gradients) {
  errors_.resize(gradients.size());
  for (size_t i = 0; i < gradients.size(); ++i) {
    const torch::Tensor values =
        packed_[i].defined() ? packed_[i] : narrowed(gradients[i], message_.slices[i]);
    if (!errors_[i].defined()) errors_[i] = torch::zeros_like(values, torch::MemoryFormat::Contiguous);
    const size_t cut = collective::feed_back(*message_.wire_type(), bytes_of(values), bytes_of(errors_[i]));
    collective::count_saturated(cut, message_.what);
  }
}

void Dense::unpack(const std::vector<torch::Tensor>& gradients) {
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (packed_[i].defined()) narrowed(gradients[i], message_.slices[i]).copy_(packed_[i]);
    packed_[i].reset();
  }
}

void Dense::start(transport::Tag tag, std::vector<torch::Tensor> gradients, Done done) {
  collective::RunOptions options;
  options.tag = tag;
  options.type = message_.type;
  options.wire = message_.wire_type();
  options.priority = message_.priority;
  options.what = message_.what;
  collective::Buffer pieces = buffer(gradients);
  if (strategy::has_error_feedback(message_.compressor)) feed_back(gradients);
  auto finished = [this, gradients = std::move(gradients), done = std::move(done)](std::exception_ptr error) {
    const torch::NoGradGuard no_grad;
    if (!error) unpack(gradients);
    done(error);
  };
  run_ = std::make_shared<collective::Run>(program_, std::move(pieces), options, transport_, loop_,
                                           std::move(finished));
  run_->start();
}

}  // namespace entrain::sync
