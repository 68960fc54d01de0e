// What a user gives as a shape: its text, or a file that holds it.
#pragma once

#include <string>

#include "entrain/strategy/shape.h"

namespace entrain::strategy {

// `given`: what parse_shape() reads; or a file with that on one or several lines (# begins a comment), with
// {"cells": ...} in JSON, or with a strategy that has a shape (JSON or binary). `layers`: of the model.
// Throws InputError as parse_shape(), naming the file as well.
Shape shape_from(const std::string& given, int layers);

}  // namespace entrain::strategy
