package testenv_test

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/metaroced/metaroced/internal/testenv"
)

func TestNamespaceIsPrivate(t *testing.T) {
	ns := testenv.NewNetNS(t)
	names := func() (names []string, err error) {
		links, err := netlink.LinkList()
		for _, l := range links {
			names = append(names, l.Attrs().Name)
		}
		return names, err
	}
	var inside []string
	err := ns.Do(func() (err error) {
		inside, err = names()
		return err
	})
	if err != nil || len(inside) != 1 || inside[0] != "lo" {
		t.Fatalf("links inside: %v, %v; want only lo", inside, err)
	}
}

func TestDoReturnsTheError(t *testing.T) {
	ns := testenv.NewNetNS(t)
	want := errors.New("this one")
	if got := ns.Do(func() error { return want }); got != want {
		t.Fatalf("got %v, want %v", got, want)
	}
}

func TestDoSurvivesAnEndedGoroutine(t *testing.T) {
	ns := testenv.NewNetNS(t)
	err := ns.Do(func() error {
		runtime.Goexit() // what t.FailNow does
		return nil
	})
	if !errors.Is(err, testenv.ErrClosed) {
		t.Fatalf("got %v, want ErrClosed", err)
	}
	if err := ns.Do(func() error { return nil }); !errors.Is(err, testenv.ErrClosed) {
		t.Fatalf("second Do: got %v, want ErrClosed", err)
	}
}

// The namespace must be gone with the test: its inode leaves with its last user.
func TestNothingIsLeft(t *testing.T) {
	var thread int
	t.Run("user", func(t *testing.T) {
		ns := testenv.NewNetNS(t)
		if err := ns.Do(func() error { thread = unix.Gettid(); return nil }); err != nil {
			t.Fatal(err)
		}
		if thread == os.Getpid() {
			t.Fatal("the namespace occupies the main thread")
		}
	})
	deadline := time.Now().Add(5 * time.Second)
	for unix.Tgkill(os.Getpid(), thread, 0) == nil {
		if time.Now().After(deadline) {
			t.Fatalf("thread %d still lives", thread)
		}
		runtime.Gosched()
	}
}

func TestVethPairCarriesPackets(t *testing.T) {
	for _, tc := range []struct{ name, a, b string }{
		{"IPv4", "10.9.0.1/24", "10.9.0.2/24"},
		{"IPv6", "fd00:9::1/64", "fd00:9::2/64"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, b := testenv.NewNetNS(t), testenv.NewNetNS(t)
			macB := net.HardwareAddr{2, 0, 0, 0, 0, 0xb}
			prefixA, prefixB := netip.MustParsePrefix(tc.a), netip.MustParsePrefix(tc.b)
			veth := testenv.VethPair(t, a, b, "left", "right", testenv.VethOpts{
				MTU:    3498,
				Queues: 2,
				A:      testenv.VethEnd{Prefixes: []netip.Prefix{prefixA}},
				B:      testenv.VethEnd{Prefixes: []netip.Prefix{prefixB}, MAC: macB},
			})
			checkLink(t, b, veth.IndexB, macB)
			exchange(t, a, b, prefixA.Addr(), prefixB.Addr())
		})
	}
}

func checkLink(t *testing.T, ns *testenv.NetNS, index int, mac net.HardwareAddr) {
	t.Helper()
	var link netlink.Link
	err := ns.Do(func() (err error) {
		link, err = netlink.LinkByIndex(index)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	attrs := link.Attrs()
	if attrs.MTU != 3498 || attrs.NumRxQueues != 2 || attrs.NumTxQueues != 2 || attrs.HardwareAddr.String() != mac.String() {
		t.Errorf("peer has MTU %d, queues %d/%d, MAC %v", attrs.MTU, attrs.NumRxQueues, attrs.NumTxQueues, attrs.HardwareAddr)
	}
}

// exchange sends one datagram from a to b.
func exchange(t *testing.T, a, b *testenv.NetNS, addrA, addrB netip.Addr) {
	t.Helper()
	open := func(ns *testenv.NetNS, addr netip.Addr) *net.UDPConn {
		var conn *net.UDPConn
		err := ns.Do(func() (err error) {
			conn, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, 0)))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	from, to := open(a, addrA), open(b, addrB)
	target := to.LocalAddr().(*net.UDPAddr)
	if _, err := from.WriteToUDP([]byte("hello"), target); err != nil {
		t.Fatal(err)
	}
	to.SetReadDeadline(time.Now().Add(5 * time.Second))
	buf := make([]byte, 16)
	n, _, err := to.ReadFromUDP(buf)
	if err != nil || string(buf[:n]) != "hello" {
		t.Fatalf("received %q, %v", buf[:n], err)
	}
}
