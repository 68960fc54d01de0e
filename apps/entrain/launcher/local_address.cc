#include "launcher/local_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <set>

#include "entrain/base/process.h"

namespace entrain::app {
namespace {

// "10.0.0.1"; empty for other families than IPv4 and IPv6.
std::string number_of(const sockaddr* address) {
  if (!address || (address->sa_family != AF_INET && address->sa_family != AF_INET6)) return "";
  const socklen_t size = address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  char text[NI_MAXHOST];
  return getnameinfo(address, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0 ? text : "";
}

using AddressInfo = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

AddressInfo look_up(const std::string& address, const char* port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.c_str(), port, &hints, &found) != 0) found = nullptr;
  return {found, &freeaddrinfo};
}

std::set<std::string> own_numbers() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  std::set<std::string> numbers;
  for (const ifaddrs* each = list; each; each = each->ifa_next) numbers.insert(number_of(each->ifa_addr));
  freeifaddrs(list);
  numbers.erase("");
  return numbers;
}

}  // namespace

std::vector<std::string> resolve(const std::string& address) {
  std::vector<std::string> numbers;
  const AddressInfo found = look_up(address, nullptr);
  for (const int family : {AF_INET, AF_INET6}) {
    for (const addrinfo* each = found.get(); each; each = each->ai_next) {
      if (each->ai_family == family) numbers.push_back(number_of(each->ai_addr));
    }
  }
  return numbers;
}

bool is_loopback(const std::string& number) { return number.starts_with("127.") || number == "::1"; }

bool is_local(const std::string& address) {
  if (address == "localhost") return true;  // also where no /etc/hosts says so
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) == 0 && address == name) return true;
  const auto own = own_numbers();
  return std::ranges::any_of(resolve(address), [&](const std::string& number) {
    return is_loopback(number) || own.contains(number);
  });
}

std::string address_towards(const std::string& number) {
  const AddressInfo there = look_up(number, "9");
  if (!there) return "";
  // Connecting a datagram socket sends nothing; it only chooses the way.
  const OwnedFd fd(socket(there->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  auto* generic = reinterpret_cast<sockaddr*>(&name);
  const bool found = fd.get() >= 0 && connect(fd.get(), there->ai_addr, there->ai_addrlen) == 0 &&
                     getsockname(fd.get(), generic, &size) == 0;
  return found ? number_of(generic) : "";
}

}  // namespace entrain::app
