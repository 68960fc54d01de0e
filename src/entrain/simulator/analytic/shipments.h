// A plan's messages as the network carries them.
#pragma once

#include "entrain/plan/plan.h"
#include "entrain/simulator/analytic/network.h"
#include "entrain/simulator/analytic/routes.h"

namespace entrain::simulator {

// `ready`: when all its gradients are there.
Shipment shipment_of(const plan::Message& message, const graph::Graph& graph, const Routes& routes,
                     const Calibration& calibration, double ready);

// What comes after the last byte: PowerSGD's second factor waits for the first.
double after_arrival(const plan::Message& message, const Route& route, const Calibration& calibration);

}  // namespace entrain::simulator
