// entrain for programs: join a job, distribute a model, train.
#pragma once

#include "entrain/job/collectives.h"
#include "entrain/job/context.h"
#include "entrain/parallel/distributed.h"
#include "entrain/parallel/server.h"
