package wire

import "testing"

// CONFIRM has no field that could be wrong; what is left is its length.
func TestConfirmLength(t *testing.T) {
	var c Confirm
	for n := range 2 * ConfirmSize {
		if r := ParseConfirm(make([]byte, n), &c); (r == 0) != (n == ConfirmSize) {
			t.Errorf("%d bytes: %v", n, r)
		}
	}
}
