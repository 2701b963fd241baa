package fabric

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// program is the switch in the kernel: one XDP program, its maps and its links.
type program struct {
	objects forwardObjects
	twice   []*ebpf.Map // per port; the kernel holds them, too
	links   []link.Link
}

// loadProgram loads the program and attaches it to the ports, which have
// consecutive interface indices from first on. Call it on the switch's thread:
// maps of devices take indices in the calling thread's namespace.
func loadProgram(first, ports int, udpPort uint16) (*program, error) {
	spec, err := loadForward()
	if err != nil {
		return nil, fmt.Errorf("read embedded switch program: %w", err)
	}
	if err := spec.Variables[forwardVarTransportPort].Set(udpPort); err != nil {
		return nil, fmt.Errorf("set UDP port of the switch program: %w", err)
	}
	if err := spec.Variables[forwardVarFirstIfindex].Set(uint32(first)); err != nil {
		return nil, fmt.Errorf("set first port of the switch program: %w", err)
	}
	p := &program{}
	if err := spec.LoadAndAssign(&p.objects, nil); err != nil {
		return nil, fmt.Errorf("load switch program (needs Linux 5.18, CAP_BPF and CAP_NET_ADMIN): %w", err)
	}
	inner := spec.Maps[forwardMapDoubled].InnerMap
	for port := range ports {
		if err := p.connect(uint32(port), first+port, inner); err != nil {
			return nil, errors.Join(err, p.close())
		}
	}
	return p, nil
}

// connect makes a port a target of redirection and lets packets in.
func (p *program) connect(port uint32, ifindex int, inner *ebpf.MapSpec) error {
	target := uint32(ifindex)
	if err := p.objects.Ports.Put(port, target); err != nil {
		return fmt.Errorf("switch port %d: %w", port, err)
	}
	twice, err := ebpf.NewMap(inner)
	if err != nil {
		return fmt.Errorf("switch port %d: map that doubles packets: %w", port, err)
	}
	p.twice = append(p.twice, twice)
	for i := range uint32(2) {
		if err := twice.Put(i, target); err != nil {
			return fmt.Errorf("switch port %d: map that doubles packets: %w", port, err)
		}
	}
	if err := p.objects.Doubled.Put(port, twice); err != nil {
		return fmt.Errorf("switch port %d: map that doubles packets: %w", port, err)
	}
	l, err := link.AttachXDP(link.XDPOptions{Program: p.objects.FabricSwitch, Interface: ifindex, Flags: link.XDPDriverMode})
	if err != nil {
		return fmt.Errorf("switch port %d: attach switch program: %w", port, err)
	}
	p.links = append(p.links, l)
	return nil
}

// configure changes what a port does. The program may see a mixture of the old and
// the new configuration for one packet.
func (p *program) configure(port int, c forwardPortConfig) error {
	if err := p.objects.States.Put(uint32(port), forwardPortState{}); err != nil {
		return fmt.Errorf("switch port %d: restart schedules: %w", port, err)
	}
	if err := p.objects.Configs.Put(uint32(port), c); err != nil {
		return fmt.Errorf("switch port %d: configure: %w", port, err)
	}
	return nil
}

// counters returns what a port counted since loadProgram.
func (p *program) counters(port int) (sum forwardPortCounters, err error) {
	var perCPU []forwardPortCounters
	if err := p.objects.Counters.Lookup(uint32(port), &perCPU); err != nil {
		return sum, fmt.Errorf("switch port %d: read counters: %w", port, err)
	}
	for _, c := range perCPU {
		sum.Packets += c.Packets
		sum.Bytes += c.Bytes
		sum.Forwarded += c.Forwarded
		sum.BlackHoled += c.BlackHoled
		sum.Dropped += c.Dropped
		sum.RateDropped += c.RateDropped
		sum.RateMarked += c.RateMarked
		sum.NotEct += c.NotEct
		sum.Marked += c.Marked
		sum.Corrupted += c.Corrupted
		sum.Held += c.Held
		sum.HoldMissed += c.HoldMissed
		sum.Duplicated += c.Duplicated
		sum.OtherFrames += c.OtherFrames
	}
	return sum, nil
}

func (p *program) close() error {
	var errs []error
	for _, l := range p.links {
		errs = append(errs, l.Close())
	}
	for _, m := range p.twice {
		errs = append(errs, m.Close())
	}
	return errors.Join(append(errs, p.objects.Close())...)
}
