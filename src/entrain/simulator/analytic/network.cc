#include "entrain/simulator/analytic/network.h"

#include <algorithm>
#include <cmath>

#include "entrain/collective/executor.h"

namespace entrain::simulator {
namespace {

constexpr double kBurstRate = 2.5e9;  // bytes per second past a full bucket
constexpr double kNothing = 0.5;      // bytes: what rounding may leave
constexpr int kAllSegments = -1;

// One direction of a host's link: first come, first served. A shaper's bucket (a switch's buffer) that has
// filled while it was idle lets a burst pass.
struct Link {
  double free = 0;  // when it has sent all that came
  double bucket = 0;
};

// A segment on one of its hops.
struct Piece {
  int shipment;
  int segment;
  int hop;
  int stream;  // -1: both ranks are on one host
  double unsent;
  double unreceived;
};

struct Waiting {
  int priority;
  int piece;  // pieces are numbered in the order of their coming
  // The best on top of a heap.
  bool operator<(const Waiting& other) const {
    return priority != other.priority ? priority > other.priority : piece > other.piece;
  }
};

struct Stream {
  std::vector<Waiting> waiting;  // heap
  int current = -1;              // piece that has set out: what is begun is ended
  double on_links = 0;           // bytes
  int from = 0, host = 0;        // rank that sends, and its host
};

struct Event {
  enum Kind { kReady, kPost, kEnter, kCome, kTaken, kOwn, kWake };
  Kind kind;
  int index;     // kReady, kPost, kOwn: shipment; kWake: the source's token; others: piece
  int gate;      // kPost; kOwn: rank
  double bytes;  // kEnter, kCome
  double until;  // kEnter: when its last byte has left the sender
};

struct Due {
  double at;
  int number;  // events are numbered in the order of their making
  int place;   // in Run::events
  // The soonest on top of a heap.
  bool operator<(const Due& other) const { return at != other.at ? at > other.at : number > other.number; }
};

}  // namespace

// One run; kept between calls for its memory: a search makes millions of them.
struct Network::Run final : Carrier {
  const Network* network = nullptr;
  Source* source = nullptr;  // null: Shipment::ready says when all ranks have their part
  std::vector<Shipment>* shipments = nullptr;
  const std::vector<int>* workers = nullptr;
  std::vector<double>* busy = nullptr;
  double grain = 0;
  double now = 0;
  std::vector<Event> events;             // those to come, and free places
  int free = -1;                         // the first free place; its `index` is the next one
  int made = 0;                          // events so far
  std::vector<Due> due;                  // heap
  std::vector<Stream> streams;           // in the order in which they come into use
  std::vector<int> stream_of;            // by from * world + to: place in `streams`, or -1
  std::vector<size_t> used;              // places in `stream_of`, by stream
  std::vector<Link> sending, receiving;  // by host
  std::vector<double> engine;            // by rank: when it is free
  std::vector<Piece> pieces;
  std::vector<int> segments;  // by shipment: of each chunk
  std::vector<int> first;     // by shipment: its gates' place in `missing`
  std::vector<int> missing;   // by (segment, gate): hops that the gate still waits for

  double time() const override { return now; }
  void wake_at(double time, int token) override { add(time, Event::kWake, token); }
  void give(int shipment, int rank) override;

  void start();
  void step(const Event& event);
  void add(double at, Event::Kind kind, int index, int gate = 0, double bytes = 0, double until = 0) {
    int place = free;
    if (place < 0) {
      place = static_cast<int>(events.size());
      events.push_back({kind, index, gate, bytes, until});
    } else {
      free = events[static_cast<size_t>(place)].index;
      events[static_cast<size_t>(place)] = {kind, index, gate, bytes, until};
    }
    due.push_back({at, made++, place});
    std::push_heap(due.begin(), due.end());
  }
  // Of world^2 pairs few are in use.
  int stream(int from, int to) {
    const size_t pair = static_cast<size_t>(from) * engine.size() + static_cast<size_t>(to);
    if (stream_of[pair] < 0) use(pair, from);
    return stream_of[pair];
  }
  void use(size_t pair, int from);
  double segment_bytes(int shipment) const {
    const Shipment& s = (*shipments)[shipment];
    return s.bytes / (s.route->chunks * segments[shipment]);
  }
  double work(int rank, double from, double seconds);
  double pass(Link& link, double rate, double from, double bytes);
  void post(int shipment, int gate, int segment);
  void pump(int stream);
  void enter(int index, double bytes, double until);
  void come(int index, double bytes);
  void set_out(int shipment);
  void own_part(int shipment, int rank);
  double waits_of_hidden_rounds(int shipment) const;
  void open(Piece piece);
};

// A rank's engine does one thing after the other. Returns when it has done this.
double Network::Run::work(int rank, double from, double seconds) {
  const size_t host = static_cast<size_t>(network->host_of_[rank]);
  (*busy)[2 * network->hosts() + host] += seconds / network->ranks_[host];
  return engine[rank] = std::max(from, engine[rank]) + seconds;
}

// Returns when the last byte is through.
double Network::Run::pass(Link& link, double rate, double from, double bytes) {
  const double begin = std::max(from, link.free);
  const double burst = rate * network->calibration_.burst_s;
  link.bucket = std::min(burst, link.bucket + (begin - link.free) * rate);
  const double past = std::min(link.bucket, bytes);
  link.bucket -= past;
  return link.free = begin + std::max((bytes - past) / rate, bytes / kBurstRate);
}

void Network::Run::use(size_t pair, int from) {
  stream_of[pair] = static_cast<int>(used.size());
  used.push_back(pair);
  if (streams.size() < used.size()) streams.emplace_back();
  Stream& made_now = streams[used.size() - 1];
  made_now.current = -1;
  made_now.on_links = 0;
  made_now.from = from;
  made_now.host = network->host_of_[from];
}

void Network::Run::start() {
  const size_t world = network->host_of_.size(), hosts = network->hosts();
  now = 0;
  events.clear();
  free = -1;
  made = 0;
  due.clear();
  pieces.clear();
  for (const size_t pair : used) stream_of[pair] = -1;
  used.clear();
  if (stream_of.size() < world * world) stream_of.resize(world * world, -1);
  sending.resize(hosts);
  for (size_t h = 0; h < hosts; ++h) sending[h] = {0, network->rate_[h] * network->calibration_.burst_s};
  receiving = sending;
  engine.assign(world, 0.0);
  busy->assign(3 * hosts, 0.0);
  segments.clear();
  first.clear();
  missing.clear();
  for (size_t i = 0; i < shipments->size(); ++i) {
    Shipment& s = (*shipments)[i];
    const double chunk = s.bytes / s.route->chunks;
    const double segment = static_cast<double>(
        collective::segment_size(static_cast<size_t>(s.bytes), static_cast<size_t>(s.route->chunks),
                                 static_cast<size_t>(network->calibration_.least_segment)));
    segments.push_back(s.whole ? 1
                               : std::max(1, static_cast<int>(std::ceil(chunk / std::max(segment, grain)))));
    first.push_back(static_cast<int>(missing.size()));
    for (int k = 0; k < segments.back(); ++k) {
      for (const Gate& gate : s.route->gates) missing.push_back(gate.needs + (source && gate.own ? 1 : 0));
    }
    s.begun = -1;
    s.ended = s.ready;
    if (!source) add(s.ready, Event::kReady, static_cast<int>(i));
  }
}

// The gate's hops of a segment join their streams.
void Network::Run::post(int shipment, int gate_index, int segment) {
  const Shipment& s = (*shipments)[shipment];
  const Gate& gate = s.route->gates[gate_index];
  const double bytes = segment_bytes(shipment);
  const bool all = segment == kAllSegments;
  const int begin = all ? 0 : segment, end = all ? segments[shipment] : segment + 1;
  const Calibration& k = network->calibration_;
  for (int h = gate.hops; h < gate.hops + gate.hops_count; ++h) {
    const Hop& hop = s.route->hops[h];
    const double size = bytes * hop.share;
    const bool local = network->host_of_[hop.from] == network->host_of_[hop.to];
    const int way = local ? -1 : stream(hop.from, hop.to);
    for (int i = begin; i < end; ++i) {
      work(gate.rank, now, hop.messages * k.message_s + (s.whole ? 0 : size / k.engine_bytes_per_s));
      const int piece = static_cast<int>(pieces.size());
      pieces.push_back({shipment, i, h, way, size, size});
      if (local) {
        if (s.whole) work(gate.rank, now, size / k.engine_bytes_per_s);
        add(now, Event::kCome, piece, 0, size);
        continue;
      }
      auto& waiting = streams[static_cast<size_t>(way)].waiting;
      waiting.push_back({s.priority, piece});
      std::push_heap(waiting.begin(), waiting.end());
    }
    if (!local) pump(way);
  }
}

void Network::Run::pump(int stream) {
  auto& [waiting, current, on_links, from, host] = streams[static_cast<size_t>(stream)];
  while (on_links < network->calibration_.window_bytes) {
    if (current < 0) {
      if (waiting.empty()) return;
      current = waiting.front().piece;
      std::pop_heap(waiting.begin(), waiting.end());
      waiting.pop_back();
    }
    const int index = current;
    Piece& piece = pieces[index];
    const double bytes = std::min(piece.unsent, grain);
    const double begin = std::max(now, sending[host].free);
    const double end = pass(sending[host], network->rate_[host], now, bytes);
    (*busy)[host] += bytes / network->rate_[host];
    on_links += bytes;
    piece.unsent -= bytes;
    if (piece.unsent <= kNothing) current = -1;
    Shipment& s = (*shipments)[piece.shipment];
    if (s.begun < 0) s.begun = begin;
    if (s.whole) work(from, now, bytes / network->calibration_.engine_bytes_per_s);
    if (begin > now) {
      add(begin, Event::kEnter, index, 0, bytes, end);
    } else {
      enter(index, bytes, end);
    }
  }
}

// The first byte reaches the receiver's link as soon as it leaves the sender's.
void Network::Run::enter(int index, double bytes, double until) {
  const Piece& piece = pieces[index];
  const int host = network->host_of_[(*shipments)[piece.shipment].route->hops[piece.hop].to];
  const double through = pass(receiving[host], network->rate_[host], now, bytes);
  (*busy)[network->hosts() + host] += bytes / network->rate_[host];
  add(std::max(through, until), Event::kCome, index, 0, bytes);
}

// What waited for this piece goes on.
void Network::Run::open(Piece piece) {
  Shipment& s = (*shipments)[piece.shipment];
  s.ended = std::max(s.ended, now);
  if (s.whole) return source->arrived(piece.shipment);
  const Hop& hop = s.route->hops[piece.hop];
  const auto gates = static_cast<int>(s.route->gates.size());
  for (int i = hop.opens; i < hop.opens + hop.opens_count; ++i) {
    const int gate = s.route->opens[i];
    if (--missing[first[piece.shipment] + piece.segment * gates + gate] > 0) continue;
    post(piece.shipment, gate, piece.segment);
  }
}

void Network::Run::set_out(int shipment) {
  const Shipment& s = (*shipments)[shipment];
  if (s.preparing > 0) {
    for (const int worker : *workers) work(worker, now, s.preparing);
  }
  for (size_t g = 0; g < s.route->gates.size(); ++g) {
    const Gate& gate = s.route->gates[g];
    if (gate.needs > 0) continue;
    if (s.preparing > 0) {
      add(engine[gate.rank], Event::kPost, shipment, static_cast<int>(g));
    } else {
      post(shipment, static_cast<int>(g), kAllSegments);
    }
  }
}

// Of a condensed route: what its exact schedule waits for wake-ups, where neither another segment is on its
// way nor the next message posted meanwhile.
double Network::Run::waits_of_hidden_rounds(int shipment) const {
  const Route& route = *(*shipments)[shipment].route;
  const double rate = network->rate_[static_cast<size_t>(network->host_of_[route.hops[0].from])];
  const double others = (segments[shipment] - 1) * segment_bytes(shipment) / rate;
  const Calibration& k = network->calibration_;
  return route.hidden_rounds * std::max(0.0, k.latency_s - k.message_s - others);
}

void Network::Run::give(int shipment, int rank) {
  Shipment& s = (*shipments)[shipment];
  s.ready = now;
  s.ended = std::max(s.ended, now);
  if (s.preparing > 0) {
    add(work(rank, now, s.preparing), Event::kOwn, shipment, rank);
  } else {
    own_part(shipment, rank);
  }
}

// What the rank sends of its own sets out; what it adds to that of others may.
void Network::Run::own_part(int shipment, int rank) {
  const Route& route = *(*shipments)[shipment].route;
  const auto gates = static_cast<int>(route.gates.size());
  for (const int gate : route.gates_of(rank)) {
    if (route.gates[gate].needs == 0) {
      post(shipment, gate, kAllSegments);
      continue;
    }
    for (int k = 0; k < segments[shipment]; ++k) {
      if (--missing[first[shipment] + k * gates + gate] == 0) post(shipment, gate, k);
    }
  }
}

void Network::Run::come(int index, double bytes) {
  Piece& piece = pieces[index];
  Shipment& s = (*shipments)[piece.shipment];
  const Hop& hop = s.route->hops[piece.hop];
  const Calibration& k = network->calibration_;
  piece.unreceived -= bytes;
  if (s.whole) work(hop.to, now, bytes / k.engine_bytes_per_s);
  if (piece.unreceived <= kNothing) {
    const double size = segment_bytes(piece.shipment) * hop.share;
    double seconds = hop.messages * k.message_s + (s.whole ? 0 : size / k.engine_bytes_per_s);
    if (hop.reduce) seconds += size / k.reduce_bytes_per_s;
    const double taken = work(hop.to, now + k.latency_s, seconds);
    if (hop.opens_count > 0 || s.whole) {
      add(taken, Event::kTaken, index);
    } else {
      s.ended = std::max(s.ended, taken);
    }
  }
  if (piece.stream < 0) return;
  streams[static_cast<size_t>(piece.stream)].on_links -= bytes;
  pump(piece.stream);
}

void Network::Run::step(const Event& event) {
  switch (event.kind) {
    case Event::kReady:
      return set_out(event.index);
    case Event::kPost:
      return post(event.index, event.gate, kAllSegments);
    case Event::kEnter:
      return enter(event.index, event.bytes, event.until);
    case Event::kCome:
      return come(event.index, event.bytes);
    case Event::kTaken:
      return open(pieces[event.index]);
    case Event::kOwn:
      return own_part(event.index, event.gate);
    case Event::kWake:
      return source->woken(event.index);
  }
}

Network::Network(const cluster::Cluster& cluster, const Calibration& calibration)
    : calibration_(calibration), ranks_(cluster.hosts.size(), 0.0) {
  for (const auto& host : cluster.hosts) {
    rate_.push_back(host.bandwidth_gbit * 1e9 / 8 * calibration.link_efficiency);
  }
  for (int rank = 0; rank < cluster.world(); ++rank) {
    host_of_.push_back(cluster.host_of(rank));
    ranks_[host_of_.back()] += 1;
  }
}

void Network::run(std::vector<Shipment>& shipments, const std::vector<int>& workers, double grain,
                  std::vector<double>& busy) const {
  thread_local Run run;
  run.workers = &workers;
  run.source = nullptr;
  run.shipments = &shipments;
  run.busy = &busy;
  run.grain = grain;
  this->run(run);
}

void Network::run(std::vector<Shipment>& shipments, Source& source, double grain,
                  std::vector<double>& busy) const {
  thread_local Run run;
  run.workers = nullptr;
  run.source = &source;
  run.shipments = &shipments;
  run.busy = &busy;
  run.grain = grain;
  this->run(run);
}

void Network::run(Run& run) const {
  run.network = this;
  run.start();
  if (run.source) run.source->begin(run);
  while (!run.due.empty()) {
    const Due due = run.due.front();
    std::pop_heap(run.due.begin(), run.due.end());
    run.due.pop_back();
    run.now = due.at;
    Event& place = run.events[static_cast<size_t>(due.place)];
    const Event event = place;
    place.index = run.free;
    run.free = due.place;
    run.step(event);
  }
  for (size_t i = 0; i < run.shipments->size(); ++i) {
    Shipment& s = (*run.shipments)[i];
    if (s.begun < 0) s.begun = s.ready;
    s.ended += s.route->hidden_rounds > 0 ? run.waits_of_hidden_rounds(static_cast<int>(i)) : 0;
  }
}

}  // namespace entrain::simulator
