package wire

import "testing"

func TestRefuseRefusals(t *testing.T) {
	refuseEach(t, "refuse", []damage{
		{"no reason", 8, u16(0), ReasonBadField},
		{"text too long", 10, u16(MaxRefuseText + 1), ReasonBadField},
		{"text longer than it is", 10, u16(39), ReasonBadLength},
		{"text shorter than it is", 10, u16(0), ReasonBadLength},
		{"reserved", 12, u32(1), ReasonReserved},
	})
}

func TestRefuseCookieIsBounded(t *testing.T) {
	p := decoded{header: header(REFUSE, FlagCRC), refuse: Refuse{Reason: RefuseRetryCookie, Text: make([]byte, MaxCookie+1)}}
	if _, r := decode(p.encode()); r != ReasonBadField {
		t.Errorf("a cookie nobody could send back: %v", r)
	}
}

// A newer peer's reasons reach the operator as numbers.
func TestUnknownReasonsArePassedOn(t *testing.T) {
	refuse := decoded{header: header(REFUSE, FlagCRC), refuse: Refuse{Reason: 4711}}
	if got, r := decode(refuse.encode()); r != 0 || got.refuse.Reason.String() != "unknown reason 4711" {
		t.Errorf("REFUSE: %v, %+v", r, got)
	}
	end := decoded{header: header(CLOSE, FlagCRC), close: Close{Reason: 4711}}
	if got, r := decode(end.encode()); r != 0 || got.close.Reason != 4711 {
		t.Errorf("CLOSE: %v, %+v", r, got)
	}
}

func TestPutRefuseRefusesTooLong(t *testing.T) {
	m := Refuse{Text: make([]byte, MaxRefuseText+1)}
	mustPanic(t, "text", func() { PutRefuse(make([]byte, 2*MaxRefuseText), &m) })
}
