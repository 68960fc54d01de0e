// The plugin libentrain_mpi.so: everything here that calls MPI. It links Open MPI and nothing of entrain.
#include <mpi.h>

#include <stdexcept>
#include <string>

#include "entrain/transport/mpi/requests.h"

namespace entrain::transport {
namespace {

void check(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw std::runtime_error(std::string(what) + ": " + text);
}

// Where a message lies, in MPI's terms: one piece as it is, several as a type of absolute addresses.
class Layout {
 public:
  template <typename Span>
  explicit Layout(const std::vector<Span>& spans) {
    if (spans.size() == 1) {
      data_ = const_cast<std::byte*>(spans[0].data());
      count_ = static_cast<int>(spans[0].size());
      return;
    }
    std::vector<int> lengths;
    std::vector<MPI_Aint> addresses;
    for (const auto& span : spans) {
      lengths.push_back(static_cast<int>(span.size()));
      addresses.push_back(reinterpret_cast<MPI_Aint>(span.data()));
    }
    check(MPI_Type_create_hindexed(static_cast<int>(spans.size()), lengths.data(), addresses.data(), MPI_BYTE,
                                   &type_),
          "MPI_Type_create_hindexed");
    check(MPI_Type_commit(&type_), "MPI_Type_commit");
  }
  ~Layout() {
    if (type_ != MPI_BYTE) MPI_Type_free(&type_);  // MPI keeps it while a request needs it
  }
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;

  void* data() const { return data_; }
  int count() const { return count_; }
  MPI_Datatype type() const { return type_; }

 private:
  void* data_ = MPI_BOTTOM;
  int count_ = 1;
  MPI_Datatype type_ = MPI_BYTE;
};

class OpenMpi final : public Requests {
 public:
  Place start() override;
  void finish() override { MPI_Finalize(); }
  void send(int peer, int mpi_tag, const std::vector<ConstBytes>& data, Completed completed) override;
  void recv(int peer, int mpi_tag, const std::vector<Bytes>& into, Completed completed) override;
  bool poll() override;

 private:
  void add(MPI_Request request, Completed completed);

  std::vector<MPI_Request> requests_;  // MPI_REQUEST_NULL: a free place
  std::vector<Completed> completed_;   // in the same places
  std::vector<size_t> free_;
  std::vector<int> ended_;
  std::vector<MPI_Status> statuses_;
};

Requests::Place OpenMpi::start() {
  int before = 0;
  MPI_Initialized(&before);
  if (before) {
    throw std::runtime_error(
        "the mpi transport was started a second time: MPI starts only once in a process");
  }
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  Place place{};
  MPI_Comm_rank(MPI_COMM_WORLD, &place.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &place.world);
  return place;
}

void OpenMpi::send(int peer, int mpi_tag, const std::vector<ConstBytes>& data, Completed completed) {
  if (!usable()) return;
  const Layout layout(data);
  MPI_Request request;
  check(MPI_Isend(layout.data(), layout.count(), layout.type(), peer, mpi_tag, MPI_COMM_WORLD, &request),
        "MPI_Isend");
  add(request, std::move(completed));
}

void OpenMpi::recv(int peer, int mpi_tag, const std::vector<Bytes>& into, Completed completed) {
  if (!usable()) return;
  const Layout layout(into);
  MPI_Request request;
  check(MPI_Irecv(layout.data(), layout.count(), layout.type(), peer, mpi_tag, MPI_COMM_WORLD, &request),
        "MPI_Irecv");
  add(request, std::move(completed));
}

void OpenMpi::add(MPI_Request request, Completed completed) {
  if (free_.empty()) {
    free_.push_back(requests_.size());
    requests_.push_back(MPI_REQUEST_NULL);
    completed_.emplace_back();
  }
  const size_t place = free_.back();
  free_.pop_back();
  requests_[place] = request;
  completed_[place] = std::move(completed);
}

bool OpenMpi::poll() {
  if (!usable() || requests_.empty()) return false;
  ended_.resize(requests_.size());
  statuses_.resize(requests_.size());
  int count = 0;
  const int code = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, ended_.data(),
                                statuses_.data());
  if (code == MPI_ERR_IN_STATUS) {
    for (int i = 0; i < count; ++i) check(statuses_[i].MPI_ERROR, "a message was lost");
  }
  check(code, "MPI_Testsome");
  if (count == MPI_UNDEFINED || count == 0) return false;
  std::vector<Completed> calls;
  calls.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    const auto place = static_cast<size_t>(ended_[i]);
    calls.push_back(std::move(completed_[place]));
    free_.push_back(place);
  }
  for (Completed& call : calls) call();
  return true;
}

}  // namespace
}  // namespace entrain::transport

// Its name is kMpiPluginEntry.
extern "C" __attribute__((visibility("default"))) entrain::transport::Requests* entrain_mpi_requests_1() {
  return new entrain::transport::OpenMpi();
}
