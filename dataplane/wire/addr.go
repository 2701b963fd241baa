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

// String writes the address as "10.0.0.1:4797" or "[fd00:0:…]:4797" (without
// the shortening of zeros).
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
		b = append(b, '[')
		for i := 0; i < 16; i += 2 {
			if i > 0 {
				b = append(b, ':')
			}
			b = strconv.AppendUint(b, uint64(a.IP[i])<<8|uint64(a.IP[i+1]), 16)
		}
		b = append(b, ']')
	}
	b = append(b, ':')
	return string(strconv.AppendUint(b, uint64(a.Port), 10))
}
