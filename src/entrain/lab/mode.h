// How this machine lets us make a lab.
#pragma once

#include <optional>
#include <string>

namespace entrain::lab {

enum class LabMode {
  kRoot,           // namespaces made directly
  kUserNamespace,  // namespaces inside a user namespace of our own: no privilege needed
  kUserSpace,      // no namespaces: loopback addresses, and the tcp transport shapes its own sending
};

std::string to_string(LabMode mode);

// ENTRAIN_LAB=root|user|userspace, or nothing. Throws InputError on another value.
std::optional<LabMode> mode_from_environment();

// Why `mode` cannot be used here; empty when it can. Tries it in a child process, changes nothing.
std::string why_not(LabMode mode);

// Moves this process into a user namespace of its own, as its root. Throws Error.
// The kernel refuses a process with threads: such a one runs its own command line again from the
// start, inside (same process id), and this call does not return. So call it before any effect.
void enter_user_namespace();

}  // namespace entrain::lab
