package wire

import "strconv"

// Addr is an IP address and a UDP port. IPv4 addresses are kept in their
// IPv6-mapped form, so addresses compare with ==.
type Addr struct {
	IP   [16]byte
	Port uint16
}

var mapped = [12]byte{10: 0xff, 11: 0xff}

// AddrFrom4 returns an IPv4 address and port.
func AddrFrom4(ip [4]byte, port uint16) Addr {
	a := Addr{Port: port}
	copy(a.IP[:], mapped[:])
	copy(a.IP[12:], ip[:])
	return a
}

// Is4 says whether the address is IPv4.
func (a Addr) Is4() bool { return [12]byte(a.IP[:12]) == mapped }

// isTarget says whether packets may be sent to the address on a peer's word.
// Multicast and broadcast would make this host a weapon against a network.
func (a Addr) isTarget() bool {
	if a.Port == 0 {
		return false
	}
	if a.Is4() {
		return a.IP[12] != 0 && a.IP[12] < 224
	}
	return a.IP[0] != 0xff && a.IP != [16]byte{}
}

// String writes the address as "10.0.0.1:4797" or "[fd00::1]:4797", the way RFC
// 5952 wants it.
func (a Addr) String() string {
	var b []byte
	if a.Is4() {
		for i, v := range a.IP[12:] {
			if i > 0 {
				b = append(b, '.')
			}
			b = strconv.AppendUint(b, uint64(v), 10)
		}
	} else {
		b = a.append6(append(b, '['))
		b = append(b, ']')
	}
	b = append(b, ':')
	return string(strconv.AppendUint(b, uint64(a.Port), 10))
}

// append6 appends the IPv6 address, its longest run of zero groups as "::".
func (a Addr) append6(b []byte) []byte {
	group := func(i int) uint64 { return uint64(a.IP[2*i])<<8 | uint64(a.IP[2*i+1]) }
	from, to := -1, -1 // of the run
	for i := 0; i < 8; i++ {
		j := i
		for j < 8 && group(j) == 0 {
			j++
		}
		if j-i >= 2 && j-i > to-from {
			from, to = i, j
		}
		i = max(i, j-1)
	}
	for i := 0; i < 8; i++ {
		if i == from {
			b = append(b, "::"...)
			i = to - 1
			continue
		}
		if i > 0 && i != to {
			b = append(b, ':')
		}
		b = strconv.AppendUint(b, group(i), 16)
	}
	return b
}
