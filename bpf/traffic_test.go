package bpf

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/metaroced/metaroced/internal/testenv"
)

// While no socket is there the kernel's own sockets get our packets, in both modes
// and with an MTU that makes packets of several buffers.
func TestKernelReceivesWhileNoSocketIsThere(t *testing.T) {
	for _, mode := range []AttachMode{Native, Generic} {
		t.Run(mode.String(), func(t *testing.T) {
			p := load(t, Config{})
			sender, receiver := testenv.NewNetNS(t), testenv.NewNetNS(t)
			to := netip.MustParseAddrPort("10.9.0.2:4797")
			veth := testenv.VethPair(t, sender, receiver, "out", "in", testenv.VethOpts{
				MTU: 9000,
				A:   testenv.VethEnd{Prefixes: []netip.Prefix{netip.MustParsePrefix("10.9.0.1/24")}},
				B:   testenv.VethEnd{Prefixes: []netip.Prefix{netip.PrefixFrom(to.Addr(), 24)}},
			})
			device{receiver, veth.IndexB}.mustAttach(t, p, mode, mode)
			out := udpSocket(t, sender, netip.MustParseAddrPort("10.9.0.1:0"))
			in := udpSocket(t, receiver, to)
			payload := make([]byte, 8000)
			if _, err := out.WriteToUDPAddrPort(payload, to); err != nil {
				t.Fatal(err)
			}
			in.SetReadDeadline(time.Now().Add(5 * time.Second))
			n, err := in.Read(make([]byte, 9000))
			if err != nil || n != len(payload) {
				t.Fatalf("received %d bytes, %v", n, err)
			}
			if c, err := p.Counters(); err != nil || c.PassedNoSocket != 1 {
				t.Errorf("counters %+v, %v", c, err)
			}
		})
	}
}

func udpSocket(t *testing.T, ns *testenv.NetNS, addr netip.AddrPort) *net.UDPConn {
	t.Helper()
	var conn *net.UDPConn
	err := ns.Do(func() (err error) {
		conn, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(addr))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}
