package bpf

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// AttachMode says where in the receive path the program may run.
type AttachMode uint8

const (
	Auto    AttachMode = iota // native, and generic when the driver refuses
	Native                    // in the driver, before a socket buffer exists
	Generic                   // in the kernel's stack: works everywhere, slowly
)

// String returns the configuration's word for the mode.
func (m AttachMode) String() string {
	switch m {
	case Auto:
		return "auto"
	case Native:
		return "native"
	case Generic:
		return "generic"
	}
	return fmt.Sprintf("AttachMode(%d)", uint8(m))
}

// Attached says how a program was attached.
type Attached struct {
	Mode    AttachMode // Native or Generic
	Warning string     // why it is not native although asked for Auto; else empty
}

// ErrOtherProgram says that the device already has an XDP program, which is never
// replaced.
type ErrOtherProgram struct {
	Ifindex   int
	Interface string // name, "" when unknown
	ID        uint32 // kernel id of the other program, 0 when unknown
	Name      string // its name, "" when unknown: the kernel tells only CAP_SYS_ADMIN
}

func (e *ErrOtherProgram) Error() string {
	name := "name known to CAP_SYS_ADMIN only"
	if e.Name != "" {
		name = fmt.Sprintf("name %q", e.Name)
	}
	return fmt.Sprintf("metaroced: interface %s (index %d): another XDP program is attached (id %d, %s); "+
		"stop what attached it or choose another interface", e.Interface, e.Ifindex, e.ID, name)
}

// Attach runs the program on the device with index ifindex of the calling
// thread's network namespace. A Program attaches once. When another program is
// there the error is an *ErrOtherProgram.
//
// Attaching resets the queues of many drivers and may change their number: read
// the device's channels again afterwards.
func (p *Program) Attach(ifindex int, mode AttachMode) (Attached, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return Attached{}, ErrClosed
	}
	if p.link != nil {
		return Attached{}, fmt.Errorf("metaroced: interface index %d: the XDP program is already attached", ifindex)
	}
	if err := otherProgram(ifindex); err != nil {
		return Attached{}, err
	}
	if mode == Generic {
		return Attached{Mode: Generic}, p.attach(ifindex, Generic)
	}
	native := p.attach(ifindex, Native)
	if native == nil || mode == Native || !driverRefused(native) {
		return Attached{Mode: Native}, native
	}
	if err := p.attach(ifindex, Generic); err != nil {
		return Attached{}, errors.Join(native, err)
	}
	return Attached{Mode: Generic, Warning: "native XDP refused, running generic, which is much slower: " + native.Error()}, nil
}

// attach makes the link in exactly the given mode.
func (p *Program) attach(ifindex int, mode AttachMode) error {
	flags := link.XDPDriverMode
	if mode == Generic {
		flags = link.XDPGenericMode
	}
	l, err := link.AttachXDP(link.XDPOptions{Program: p.objects.MetarocedXdp, Interface: ifindex, Flags: flags})
	if err == nil {
		p.link = l
		return nil
	}
	if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EEXIST) {
		// Somebody was faster than we between the look and the attempt.
		if other := otherProgram(ifindex); other != nil {
			return other
		}
	}
	return fmt.Errorf("metaroced: interface index %d: attach XDP program, %v mode: %w", ifindex, mode, err)
}

// driverRefused tells refusals that generic mode can avoid from those it meets, too.
func driverRefused(err error) bool {
	for _, common := range []error{unix.EPERM, unix.ENODEV, unix.EBUSY, unix.EEXIST} {
		if errors.Is(err, common) {
			return false
		}
	}
	var other *ErrOtherProgram
	return !errors.As(err, &other)
}

// otherProgram returns an *ErrOtherProgram when the device runs an XDP program in
// any mode, and another error when the device cannot be asked.
func otherProgram(ifindex int) error {
	device, err := netlink.LinkByIndex(ifindex)
	if err != nil {
		return fmt.Errorf("metaroced: interface index %d: %w", ifindex, err)
	}
	attrs := device.Attrs()
	if attrs.Xdp == nil || !attrs.Xdp.Attached {
		return nil
	}
	return &ErrOtherProgram{
		Ifindex:   ifindex,
		Interface: attrs.Name,
		ID:        attrs.Xdp.ProgId,
		Name:      programName(attrs.Xdp.ProgId),
	}
}

// programName returns the name of a loaded program, "" when it cannot be had.
func programName(id uint32) string {
	other, err := ebpf.NewProgramFromID(ebpf.ProgramID(id))
	if err != nil {
		return ""
	}
	defer other.Close()
	info, err := other.Info()
	if err != nil {
		return ""
	}
	return info.Name
}
