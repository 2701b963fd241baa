package bpf

import "fmt"

// Counters says what became of the packets the device received since Load, summed
// over all CPUs. Every packet counts in exactly one field.
type Counters struct {
	Steered         uint64 // handed to a socket's queue (which may still be full)
	PassedTruncated uint64 // ends inside its headers
	PassedMalformed uint64 // IP version or header length impossible
	PassedNotIP     uint64 // neither IPv4 nor IPv6 behind at most two VLAN tags
	PassedNotUDP    uint64 // another protocol
	PassedOptions   uint64 // IPv4 with options
	PassedFragment  uint64 // IPv4 fragment, also the first
	PassedExtension uint64 // IPv6 with extension headers, also fragments
	PassedOtherPort uint64 // UDP to another port
	PassedNoSocket  uint64 // ours, but its queue has no socket
}

// Counters reads the counters. It costs a system call for each: meant for a
// snapshot a few times a second.
func (p *Program) Counters() (Counters, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return Counters{}, ErrClosed
	}
	var c Counters
	fields := [steerVerdictVERDICT_COUNT]*uint64{
		steerVerdictVERDICT_STEERED:           &c.Steered,
		steerVerdictVERDICT_PASSED_TRUNCATED:  &c.PassedTruncated,
		steerVerdictVERDICT_PASSED_MALFORMED:  &c.PassedMalformed,
		steerVerdictVERDICT_PASSED_NOT_IP:     &c.PassedNotIP,
		steerVerdictVERDICT_PASSED_NOT_UDP:    &c.PassedNotUDP,
		steerVerdictVERDICT_PASSED_OPTIONS:    &c.PassedOptions,
		steerVerdictVERDICT_PASSED_FRAGMENT:   &c.PassedFragment,
		steerVerdictVERDICT_PASSED_EXTENSION:  &c.PassedExtension,
		steerVerdictVERDICT_PASSED_OTHER_PORT: &c.PassedOtherPort,
		steerVerdictVERDICT_PASSED_NO_SOCKET:  &c.PassedNoSocket,
	}
	var perCPU []uint64
	for verdict, field := range fields {
		if err := p.objects.Counters.Lookup(uint32(verdict), &perCPU); err != nil {
			return Counters{}, fmt.Errorf("metaroced: read XDP counter %d: %w", verdict, err)
		}
		for _, n := range perCPU {
			*field += n
		}
	}
	return c, nil
}
