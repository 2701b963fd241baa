package bpf

// The object is built by the clang of Debian 12, so that everybody's comes out
// byte for byte the same; CI builds it again and compares. Both include
// directories hold asm/types.h of the building host; one of them exists.
//go:generate go tool bpf2go -cc clang-14 -strip llvm-strip-14 -target bpfel,bpfeb -type verdict steer steer.c -- -O2 -mcpu=v3 -Wall -Werror -isystem /usr/include/x86_64-linux-gnu -isystem /usr/include/aarch64-linux-gnu
