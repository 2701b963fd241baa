package lab

import (
	"errors"
	"net/netip"
	"os/exec"

	"github.com/metaroced/metaroced/bench/fabric"
)

// impairments are what the switch does to packets of every plane and direction.
func (o *Options) impairments() fabric.Impairments {
	return fabric.Impairments{
		Drop:      fabric.Chance{Probability: o.Loss},
		Mark:      fabric.Chance{Probability: o.Mark},
		Corrupt:   fabric.Chance{Probability: o.Corrupt},
		Hold:      fabric.Chance{Probability: o.Reorder},
		Duplicate: fabric.Chance{Probability: o.Duplicate},
	}
}

// openNetwork builds the network and tells the switch what to do.
func openNetwork(o *Options) (*fabric.Fabric, error) {
	f, err := fabric.Open(fabric.Options{Planes: o.Planes, MTU: o.MTU})
	if err != nil {
		return nil, err
	}
	for plane := range o.Planes {
		for _, direction := range []fabric.Direction{fabric.AToB, fabric.BToA} {
			err := errors.Join(
				f.SetImpairments(plane, direction, o.impairments()),
				f.SetRate(plane, direction, fabric.Rate{BitsPerSecond: o.PlaneRate}),
			)
			if err != nil {
				return nil, errors.Join(err, f.Close())
			}
		}
	}
	return f, nil
}

// host returns the starter of processes on a host.
func (r *run) host(host fabric.Host) starter {
	return func(command *exec.Cmd) error { return r.fabric.Start(host, command) }
}

// interfaces returns the names of every host's interfaces.
func (o *Options) interfaces() []string {
	names := make([]string, o.Planes)
	for plane := range names {
		names[plane] = fabric.Interface(plane)
	}
	return names
}

// addresses returns a host's addresses, one per plane.
func (o *Options) addresses(host fabric.Host) []netip.Addr {
	addresses := make([]netip.Addr, o.Planes)
	for plane := range addresses {
		addresses[plane] = fabric.Address(host, plane).Addr()
	}
	return addresses
}

// addSwitch takes over what the switch counted and judges it.
func (r *Result) addSwitch(counted fabric.PortCounters, asked fabric.Impairments) {
	r.Switch = Switch{
		Forwarded: counted.Forwarded, Dropped: counted.Dropped, Marked: counted.Marked, Corrupted: counted.Corrupted,
		Duplicated: counted.Duplicated, Held: counted.Held,
	}
	r.RateDropped, r.RateMarked = counted.RateDropped+counted.BlackHoled, counted.RateMarked
	r.Overflowed = counted.Overflowed
	if err := fabric.Verify(asked, counted); err != nil {
		r.Void, r.VoidReason = true, err.Error()
	}
}
