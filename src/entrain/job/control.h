// The control channel: what the ranks of a job tell each other beside gradients and parameters.
//
//   order      rank 0 ─▶ servers or workers    what to do next, in order
//   gather     workers ─▶ rank 0               everyone's text
//   tell       rank 0 ─▶ workers               one text
//   exchange   workers ─▶ rank 0 ─▶ workers    everyone's text, for everyone
//
// Tags of the texts are in transport/control_tags.h. A rank that only serves takes orders only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "entrain/job/context.h"
#include "entrain/transport/control_tags.h"

namespace entrain::job {

// What rank 0 lets another rank do next. A rank takes them in the order in which they were given.
struct Order {
  enum class Kind : char {
    // To those who serve, for one handle of the workers.
    kModel = 'm',        // agree on G and S, new or changed
    kServeStep = 's',    // one step under the present S
    kCloseHandle = 'c',  // the handle is gone
    kEndServing = 'e',   // training is over
    // To workers.
    kSteps = 'n',      // make `number` steps
    kEndTrials = 'x',  // there are no more trials
    kGo = 'g',         // make the next step
    kStop = 't',       // make no more
    // To both.
    kSwitch = 'w',  // agree on another S
  };
  Kind kind;
  int64_t number = 0;  // a handle, or a count of steps
};

// Of the messages that carry the orders of a stream; see post_order().
transport::Tag tag_of_orders(int stream);

enum class To { kServers, kWorkers };

// On rank 0: to all of them but itself; elsewhere nothing. Returns when the order is sent; a rank that does
// not take it for the job's timeout is given up.
void give_order(Context& context, To to, Order order);
// The same, but does not wait, and lets nobody know of a failure: the next order does. `stream`: orders of
// different streams pass each other.
void post_order(Context& context, To to, Order order, int stream = 0);
// The next order of rank 0: waits as recv_while_alive() does. Throws PeerError.
Order take_order(Context& context, int stream = 0);

// On rank 0: training is over, serve() returns on the ranks that only serve. Elsewhere, or said before:
// nothing.
void end_serving(Context& context);

// Everyone's text at rank 0, in the order of Cluster::worker_ranks(); empty elsewhere. Throws PeerError.
std::vector<std::string> gather_from_workers(Context& context, const std::string& own, transport::Tag tag,
                                             Deadline deadline, std::string_view what);

// Rank 0's text, at every worker. Throws PeerError.
std::string tell_workers(Context& context, const std::string& text, transport::Tag tag, Deadline deadline,
                         std::string_view what);

// The next message of `peer`, waited for as long as its process is alive: one that is silent for the job's
// timeout is given up. Throws PeerError.
transport::Payload recv_while_alive(Context& context, int peer, transport::Tag tag, std::string_view what);

// Everyone's text, at every worker, in the order of Cluster::worker_ranks(). Waits as recv_while_alive()
// does.
std::vector<std::string> exchange(Context& context, const std::string& own, transport::Tag tag,
                                  std::string_view what);

// Collective over the workers, after what takes some of them longer than any operation of a step may (a test,
// a file): returns when all are done with it. Waits as recv_while_alive() does.
void await_all(Context& context, std::string_view what);

}  // namespace entrain::job
