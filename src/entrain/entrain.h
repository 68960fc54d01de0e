// entrain for programs: join a job, distribute a model, train.
#pragma once

#include "entrain/trainer/context.h"
#include "entrain/trainer/distributed.h"
#include "entrain/trainer/server.h"
