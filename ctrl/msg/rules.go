package msg

import (
	"fmt"
	"net/netip"
	"unicode"
	"unicode/utf8"
)

// CheckService returns an error unless s may name a service.
func CheckService(s string) error {
	if s == "" || len(s) > MaxServiceBytes {
		return fmt.Errorf("service name of %d bytes, want 1 to %d", len(s), MaxServiceBytes)
	}
	if !printable(s) {
		return fmt.Errorf("service name %q is not UTF-8 without control characters", s)
	}
	return nil
}

func checkPrivate(p []byte) error {
	if len(p) > MaxPrivateBytes {
		return fmt.Errorf("private data of %d bytes, limit %d", len(p), MaxPrivateBytes)
	}
	return nil
}

func checkText(s string) error {
	if len(s) > MaxTextBytes {
		return fmt.Errorf("text of %d bytes, limit %d", len(s), MaxTextBytes)
	}
	if !printable(s) {
		return fmt.Errorf("text %q is not UTF-8 without control characters", s)
	}
	return nil
}

func printable(s string) bool {
	if !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if unicode.IsControl(r) {
			return false
		}
	}
	return true
}

// CleanText makes any text fit for a message: control characters and invalid
// UTF-8 become '?', and what exceeds MaxTextBytes is cut off between runes.
func CleanText(s string) string {
	out := make([]byte, 0, min(len(s), MaxTextBytes))
	for _, r := range s {
		if r == utf8.RuneError || unicode.IsControl(r) {
			r = '?'
		}
		if len(out)+utf8.RuneLen(r) > MaxTextBytes {
			break
		}
		out = utf8.AppendRune(out, r)
	}
	return string(out)
}

// CheckPeer returns an error unless a can be dialled.
func CheckPeer(a netip.Addr) error {
	switch {
	case !a.IsValid(), a.IsUnspecified():
		return fmt.Errorf("peer address is empty")
	case a.Zone() != "":
		return fmt.Errorf("peer address %v: zones are not supported", a)
	case a.IsMulticast(), a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return fmt.Errorf("peer address %v is not unicast", a)
	}
	return nil
}
