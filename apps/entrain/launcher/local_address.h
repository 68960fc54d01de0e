// Which addresses are this machine's.
#pragma once

#include <string>
#include <vector>

namespace entrain::app {

// What a host name or address stands for, as numbers, IPv4 first; empty: an unknown name.
std::vector<std::string> resolve(const std::string& address);

// Whether `address` is this machine: loopback, the address of an interface, or its own name.
bool is_local(const std::string& address);

bool is_loopback(const std::string& number);

// Our address on the way to `number`, as the host there sees it; empty: there is no way.
std::string address_towards(const std::string& number);

}  // namespace entrain::app
