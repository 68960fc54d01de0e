#include "entrain/tuner/money.h"

namespace entrain::tuner {

double price_per_hour(const cluster::Cluster& cluster) {
  double sum = 0;
  for (const cluster::Host& host : cluster.hosts) sum += host.price_per_hour;
  return sum;
}

double cost(double iterations, double seconds, double price_per_hour) {
  return iterations * seconds * price_per_hour / 3600;
}

Saving saving(double iterations, double baseline_s, double speedup, double trial_iterations,
              double price_per_hour) {
  return {cost(iterations, baseline_s, price_per_hour),
          cost(iterations, baseline_s / speedup, price_per_hour),
          cost(trial_iterations, baseline_s, price_per_hour)};
}

}  // namespace entrain::tuner
