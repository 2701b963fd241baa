package umem

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// sealed keeps every holder of the descriptor from changing the size, under which
// a mapping of it would fault, and from adding further seals.
const sealed = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// newMemfd makes an anonymous file of the given size, a multiple of the page
// size. It is not sealed and holds no pages yet.
func newMemfd(name string, bytes int64) (*os.File, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate(name, flags|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // kernels before 6.3
		fd, err = unix.MemfdCreate(name, flags)
	}
	if err != nil {
		return nil, fmt.Errorf("metaroced: umem: create memfd %s: %w", name, err)
	}
	file := os.NewFile(uintptr(fd), name)
	if err := file.Truncate(bytes); err != nil {
		file.Close()
		return nil, fmt.Errorf("metaroced: umem: give memfd %s %s: %w", name, mebibytes(bytes), err)
	}
	return file, nil
}

// seal adds seals to a memfd.
func seal(file *os.File, seals int) error {
	if _, err := unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		return fmt.Errorf("metaroced: umem: seal memfd %s: %w", file.Name(), err)
	}
	return nil
}
