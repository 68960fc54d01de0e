// One shape for all that are the same job: neighbouring cells on the same ranks are one cell, and of hosts
// that are alike the first ones are used first.
#pragma once

#include "entrain/cluster/cluster.h"
#include "entrain/strategy/shape.h"

namespace entrain::tuner {

// Hosts are alike when rate, speed, memory and ranks are the same, and no links of their own were measured.
strategy::Shape canonical(const strategy::Shape& shape, const cluster::Cluster& cluster);

}  // namespace entrain::tuner
