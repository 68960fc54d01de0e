// entrain for programs: join a job, distribute a model, train. All of it is in api/, whose headers need
// nothing of entrain's inside.
#pragma once

#include "entrain/api/checkpoints.h"
#include "entrain/api/collectives.h"
#include "entrain/api/context.h"
#include "entrain/api/distribute.h"
#include "entrain/api/pipelined.h"
#include "entrain/api/sampler.h"
#include "entrain/api/strategies.h"
#include "entrain/api/train_apart.h"
#include "entrain/api/tune.h"
#include "entrain/base/errors.h"
