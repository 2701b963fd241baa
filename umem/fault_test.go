package umem

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFaultIsAnError takes pages away under a mapping, which memory given to
// applications is sealed against, and expects errors in place of the signal.
func TestFaultIsAnError(t *testing.T) {
	file, err := newMemfd("test", 16384)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	mem, err := reserve(16384)
	if err != nil {
		t.Fatal(err)
	}
	defer unmap(mem)
	if err := mapFile(mem, file, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(populate(mem), touch(mem), zero(mem)); err != nil {
		t.Fatal(err)
	}
	if err := file.Truncate(4096); err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func([]byte) error{"populate": populate, "touch": touch, "zero": zero} {
		if err := call(mem); !errors.Is(err, ErrNoMemory) {
			t.Errorf("%s: %v, want ErrNoMemory", name, err)
		}
	}
}

// TestOwnMistakesStillPanic expects the fault guard to hide nothing else.
func TestOwnMistakesStillPanic(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Fatal("an index out of range became an error")
		}
	}()
	var empty []byte
	_ = guardFault(func() { empty[len(empty)] = 1 })
}
