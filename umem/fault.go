package umem

import (
	"fmt"
	"os"
	"runtime/debug"
)

// guardFault runs access and turns a memory fault inside it into an error. Memory
// that an application maps too can fault: it may have punched a hole when no page
// is left to fill it.
func guardFault(access func()) (err error) {
	before := debug.SetPanicOnFault(true)
	defer debug.SetPanicOnFault(before)
	defer func() {
		fault := recover()
		if fault == nil {
			return
		}
		if _, ok := fault.(interface{ Addr() uintptr }); !ok {
			panic(fault) // a mistake of ours, not a fault
		}
		err = fmt.Errorf("%w: %v", ErrNoMemory, fault)
	}()
	access()
	return nil
}

// zero clears mem.
func zero(mem []byte) error {
	return guardFault(func() { clear(mem) })
}

// touch makes every page of mem present by writing to it. It overwrites one byte
// per page: mem is new, or about to be cleared.
func touch(mem []byte) error {
	return guardFault(func() {
		for at := 0; at < len(mem); at += os.Getpagesize() {
			mem[at] = 0
		}
	})
}
