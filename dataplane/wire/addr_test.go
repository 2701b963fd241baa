package wire

import (
	"math/rand/v2"
	"net/netip"
	"testing"
)

// The text is what the standard library writes, over addresses with runs of
// zeros in every place.
func TestAddrString(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		a := Addr{Port: uint16(random.Uint32())}
		for i := 0; i < 16; i += 2 {
			if random.IntN(3) == 0 {
				a.IP[i], a.IP[i+1] = byte(random.Uint32()), byte(random.Uint32())
			}
		}
		if want := netip.AddrPortFrom(netip.AddrFrom16(a.IP), a.Port).String(); a.String() != want {
			t.Fatalf("%s, want %s", a, want)
		}
	}
	a := AddrFrom4([4]byte{127, 0, 0, 1}, 4797)
	if a.String() != "127.0.0.1:4797" || !a.Is4() {
		t.Errorf("%s, Is4 %v", a, a.Is4())
	}
	if (Addr{IP: [16]byte{0xfd, 15: 1}}).Is4() {
		t.Error("an IPv6 address is taken for IPv4")
	}
}
