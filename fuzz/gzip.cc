// A compressed data set.
#include "target.h"

#include "entrain/dataset/gzip.h"

FUZZ_TARGET(text) { entrain::dataset::gunzip(text, "x.gz"); }
