// A rank's place in its job. Passed in everywhere; there are no globals.
#pragma once

#include <memory>
#include <string>

namespace entrain {

namespace job {
struct Context;
}

// Movable, not copyable; outlives every handle that is made with it. One thread.
class Context {
 public:
  explicit Context(std::unique_ptr<job::Context> inner);
  Context(Context&&) noexcept;
  Context& operator=(Context&&) noexcept;
  ~Context();  // on rank 0: those who serve() are told that training is over

  int rank() const;
  int world() const;    // all ranks, those that only serve too
  bool trains() const;  // false on a rank that only serves parameters: it calls serve()
  int workers() const;  // how many ranks train
  int worker() const;   // this rank's number among them, from 0; -1 on a rank that only serves

  job::Context& inner() { return *inner_; }

 private:
  std::unique_ptr<job::Context> inner_;
};

// Joins the job that `entrain launch`, torchrun, mpirun or srun describes in this process's environment; a
// job of one rank when there is none. `cluster`: shorthand (local:4, lab:4x1gbit) or path; empty: what the
// launcher says. Throws InputError for a bad environment, Error or PeerError when ranks are missing after the
// job's timeout.
Context init(const std::string& cluster = "");

// What a rank does that only serves parameters: serves all handles of the workers until rank 0's Context is
// gone. Throws PeerError when another rank fails.
void serve(Context& context);

}  // namespace entrain
