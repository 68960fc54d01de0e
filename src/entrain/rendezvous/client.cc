#include "entrain/rendezvous/client.h"

#include <algorithm>

#include "entrain/base/error.h"
#include "entrain/net/handshake.h"
#include "entrain/rendezvous/wire.h"

namespace entrain::rendezvous {
namespace {

std::vector<net::Endpoint> decode_table(const std::string& body) {
  std::vector<net::Endpoint> table;
  for (size_t at = 0; at < body.size(); at += kEntrySize) table.push_back(decode_entry(body.data() + at));
  return table;
}

}  // namespace

std::vector<net::Endpoint> meet(const JobEnvironment& job, net::Endpoint listening, Deadline deadline) {
  const net::Endpoint server = net::parse_endpoint(job.rendezvous, "the rendezvous (ENTRAIN_RENDEZVOUS)");
  const std::string where = "the rendezvous at " + server.text();
  const net::Fd socket = net::reach(server, job.bind_address, {net::kRendezvousRank, job.rank, job.world},
                                    job.token, net::Refused::kTryAgain, deadline, where);
  // A rank that listens on every interface is reached where the rendezvous sees it.
  if (listening.address == "0.0.0.0" || listening.address == "::") {
    listening.address = net::local_endpoint(socket).address;
  }

  std::string error;
  const std::string registration = encode_entry(listening);
  if (!net::write_fully(socket, registration.data(), registration.size(), deadline, error)) {
    fail("rank {} lost {}: {}", job.rank, where, error);
  }
  std::string missing;
  int first_missing = net::kRendezvousRank;
  const size_t table_size = kEntrySize * static_cast<size_t>(job.world);
  while (true) {
    char header[kNoticeHeaderSize];
    std::string body;
    bool read = net::read_fully(socket, header, sizeof header, deadline, error);
    if (read) {
      const size_t size = net::get_u32(header + 8);
      if (size > std::max(kMaxReason, table_size)) fail("{} sent a notice of {} bytes", where, size);
      body.resize(size);
      read = net::read_fully(socket, body.data(), size, deadline, error);
    }
    if (!read && deadline.passed() && !missing.empty()) {
      throw PeerError(first_missing, fmt::format("rank {} waited at {}: {}", job.rank, where, missing));
    }
    if (!read) fail("rank {} lost {}: {}", job.rank, where, error);
    switch (static_cast<Notice>(net::get_u32(header))) {
      case Notice::kWaiting:
        missing = body;
        first_missing = static_cast<int>(net::get_u32(header + 4));
        break;
      case Notice::kTable:
        if (body.size() != table_size) fail("{} sent a table of the wrong size", where);
        return decode_table(body);
      case Notice::kFailed:
        throw PeerError(static_cast<int>(net::get_u32(header + 4)), body);
    }
  }
}

}  // namespace entrain::rendezvous
