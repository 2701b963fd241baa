package fabric

// Flags as for package bpf: the object is built by the clang of Debian 12, so that
// everybody's comes out byte for byte the same.
//go:generate go tool bpf2go -cc clang-14 -strip llvm-strip-14 -target bpfel,bpfeb -type chance -type port_config -type port_state -type port_counters forward switch.c -- -O2 -mcpu=v3 -Wall -Werror -isystem /usr/include/x86_64-linux-gnu -isystem /usr/include/aarch64-linux-gnu
