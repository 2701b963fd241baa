package wire

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The specification lists every number that this package knows, with its name
// or text, and every body's size.
func TestProtocolListsEveryValue(t *testing.T) {
	content, err := os.ReadFile(protocolFile)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	sizes := map[Type]int{CONNECT: SetupSize, ACCEPT: SetupSize}
	for typ := DATA; typ <= PROBE_ACK; typ++ {
		size, variable := sizes[typ]
		if !variable {
			size = int(rules[typ].bodyMin)
		}
		want = append(want, fmt.Sprintf("\n### %v: type %d, %d bytes", typ, uint8(typ), size))
	}
	for bit := range 9 {
		want = append(want, fmt.Sprintf("\n| %v | %d | ", Flags(1)<<bit, bit))
	}
	row := func(v uint64, name fmt.Stringer) {
		want = append(want, fmt.Sprintf("\n| %d | %v |", v, name))
	}
	for v := OpWrite; v <= OpAtomicResponse; v++ {
		row(uint64(v), v)
	}
	for v := RequestRead; v <= RequestFetchAdd; v++ {
		row(uint64(v), v)
	}
	for v := ControlCredit; v <= ControlShareResume; v++ {
		row(uint64(v), v)
	}
	for v := Reason(1); v < ReasonCount; v++ {
		row(uint64(v), v)
	}
	for v := RefuseNoService; v <= RefuseRetryCookie; v++ {
		row(uint64(v), v)
	}
	for v := ErrorUnknownKey; v <= ErrorBadMessage; v++ {
		row(uint64(v), v)
	}
	for v := CloseNormal; v <= CloseStopping; v++ {
		row(uint64(v), v)
	}
	for _, text := range want {
		if !strings.Contains(string(content), text) {
			t.Errorf("%s does not say %q", protocolFile, strings.TrimSpace(text))
		}
	}
}
