package lab

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// clock reads CLOCK_MONOTONIC, which all processes of the machine share. Reading
// it through the time package avoids the system call that unix.ClockGettime makes.
type clock struct {
	base      time.Time
	baseNanos int64
}

func newClock() (clock, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return clock{}, fmt.Errorf("read CLOCK_MONOTONIC: %w", err)
	}
	return clock{base: time.Now(), baseNanos: t.Nano()}, nil
}

// now returns nanoseconds of CLOCK_MONOTONIC.
func (c clock) now() int64 { return c.baseNanos + int64(time.Since(c.base)) }

// at returns the CLOCK_MONOTONIC nanoseconds of a time of this process.
func (c clock) at(t time.Time) int64 { return c.baseNanos + int64(t.Sub(c.base)) }

// processCPU returns user plus system time of another process, to the nanosecond.
func processCPU(pid int) (time.Duration, error) {
	// The clock of a process's CPU time (CPUCLOCK_SCHED), composed as
	// clock_getcpuclockid(3) does.
	const cpuClockSched = 2
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid)<<3|cpuClockSched, &t); err != nil {
		return 0, fmt.Errorf("read the CPU time of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}
